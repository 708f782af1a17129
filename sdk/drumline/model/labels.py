"""Labels: what selectors match, how people write selectors, what is in effect on a node.

The truth table of one requirement on the label ``a``, by what the label is (a
selector holds when all its requirements do):

=========================  =======  =====  ===  ===
requirement                missing  empty  "x"  "y"
=========================  =======  =====  ===  ===
``a=x``, ``a in (x)``      no       no     yes  no
``a=``                     no       yes    no   no
``a in (x,y)``             no       no     yes  yes
``a in (,x)``              no       yes    yes  no
``a!=x``, ``a notin (x)``  yes      yes    no   yes
``a!=``                    yes      no     yes  yes
``a notin (x,y)``          yes      yes    no   no
``a notin (,x)``           yes      no     no   yes
``a``                      no       yes    yes  yes
``!a``                     yes      no     no   no
=========================  =======  =====  ===  ===

``a in ()`` and ``a notin ()`` are refused: the one would match nothing, the other
everything. In a list an empty item is the empty value: ``a in (,x)``.
"""

import re
from collections.abc import Mapping

from drumline.api.v1.metadata_pb2 import (
    LABEL_OPERATOR_EXISTS,
    LABEL_OPERATOR_IN,
    LABEL_OPERATOR_NOT_EXISTS,
    LABEL_OPERATOR_NOT_IN,
    LabelRequirement,
    LabelSelector,
)
from drumline.api.v1.node_pb2 import Node, Taint
from drumline.model import names


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether the labels fulfil every requirement, by the table above.

    A requirement with an operator that is not known here matches nothing.
    """
    for requirement in selector.requirements:
        operator = requirement.operator
        value = labels.get(requirement.key)
        if operator == LABEL_OPERATOR_IN:
            if value is None or value not in requirement.values:
                return False
        elif operator == LABEL_OPERATOR_NOT_IN:
            if value is not None and value in requirement.values:
                return False
        elif operator == LABEL_OPERATOR_EXISTS:
            if value is None:
                return False
        elif operator != LABEL_OPERATOR_NOT_EXISTS or value is not None:
            return False
    return True


def parse_selector(text: str) -> LabelSelector:
    """Give the selector that a text means: ``a=b,c!=d,e in (f,g),h notin (i),j,!k``.

    Blank text matches everything. Raises ValueError with the position (counted
    from 1) and what was expected there.
    """
    return _Parser(text).selector()


def format_selector(selector: LabelSelector) -> str:
    """Write a selector so that `parse_selector` gives it back."""
    return ",".join(_written(requirement) for requirement in selector.requirements)


def _written(requirement: LabelRequirement) -> str:
    key, values = requirement.key, requirement.values
    if requirement.operator == LABEL_OPERATOR_EXISTS:
        return key
    if requirement.operator == LABEL_OPERATOR_NOT_EXISTS:
        return f"!{key}"
    is_in = requirement.operator == LABEL_OPERATOR_IN
    if len(values) == 1:
        return f"{key}{'=' if is_in else '!='}{values[0]}"
    return f"{key} {'in' if is_in else 'notin'} ({','.join(values)})"


class _Parser:
    """Reads a selector from left to right."""

    _SPACE = re.compile(r"\s*")
    _WORD = re.compile(r"[-A-Za-z0-9_./]*")
    _OPERATOR = re.compile(r"==|=|!=|(?:notin|in)(?![-A-Za-z0-9_./])")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def selector(self) -> LabelSelector:
        selector = LabelSelector()
        self._take(self._SPACE)
        if self._at == len(self._text):
            return selector
        while True:
            self._requirement(selector.requirements.add())
            if self._at == len(self._text):
                return selector
            if not self._takes(","):
                raise self._error("',' or the end")

    def _requirement(self, requirement: LabelRequirement) -> None:
        negated = self._takes("!")
        start = self._at
        key = self._take(self._WORD)
        if not names.LABEL_KEY.fullmatch(key):
            raise self._error("a label's key, such as app or example.com/app", start)
        requirement.key = key
        operator = "" if negated else self._take(self._OPERATOR)
        if operator in {"in", "notin"}:
            requirement.operator = LABEL_OPERATOR_IN if operator == "in" else LABEL_OPERATOR_NOT_IN
            self._values(requirement)
        elif operator:
            requirement.operator = LABEL_OPERATOR_NOT_IN if operator == "!=" else LABEL_OPERATOR_IN
            requirement.values.append(self._value())
        else:
            requirement.operator = LABEL_OPERATOR_NOT_EXISTS if negated else LABEL_OPERATOR_EXISTS

    def _values(self, requirement: LabelRequirement) -> None:
        if not self._takes("("):
            raise self._error("'(' and a list of values")
        start = self._at
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        if not self._takes(")"):
            raise self._error("',' or ')'")
        if values == [""]:
            raise self._error("at least one value (for the empty value alone write KEY=)", start)
        requirement.values.extend(values)

    def _value(self) -> str:
        start = self._at
        value = self._take(self._WORD)
        if not names.LABEL_VALUE.fullmatch(value):
            raise self._error("a label's value", start)
        return value

    def _takes(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        self._take(self._SPACE)
        return True

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        if pattern is not self._SPACE:
            self._take(self._SPACE)
        return match.group()

    def _error(self, expected: str, at: int | None = None) -> ValueError:
        at = self._at if at is None else at
        rest = self._text[at : at + 24]
        there = f"not {rest!r}" if rest else "not the end"
        return ValueError(f"at position {at + 1} of the selector: expected {expected}, {there}")


def effective_labels(node: Node) -> dict[str, str]:
    """Labels of a node by which pods select: its own, overlaid with the admins'."""
    return {**node.info.labels, **node.metadata.labels}


def effective_taints(node: Node) -> list[Taint]:
    """Taints of a node: its own, then the admins', each once."""
    taints = list(node.info.taints)
    taints.extend(taint for taint in node.spec.taints if taint not in taints)
    return taints
