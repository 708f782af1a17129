"""Reads YAML, and so JSON, into trees that know where everything stands.

Nothing is constructed from what the text says: scalars stay text with the kind
that YAML gives them. Size, depth and what aliases stand for are bounded, so that
a small file cannot become a large one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

MAXIMUM_BYTES = 16 << 20
MAXIMUM_DEPTH = 32
MAXIMUM_NODES = 500_000

_HALF = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)

_CORE = "tag:yaml.org,2002:"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentError(Exception):
    """The text is not YAML, or more than is read; `line` and `column` count from 1."""

    def __init__(self, line: int, column: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.column = column
        self.text = text


@dataclass(slots=True)
class Scalar:
    """A single value: its text, and its kind: str, int, float, bool, null or timestamp."""

    text: str
    kind: str
    line: int
    size: int = 1


@dataclass(slots=True)
class Items:
    """A list."""

    items: "list[Node]"
    line: int
    size: int = 1


@dataclass(slots=True)
class Entries:
    """A mapping, in the order of the text; each key appears once."""

    entries: "list[tuple[Scalar, Node]]"
    line: int
    size: int = 1


Node = Scalar | Items | Entries


def parse(data: bytes) -> list[Node]:
    """Give the documents of a text, empty ones left out. Raises DocumentError."""
    if len(data) > MAXIMUM_BYTES:
        raise DocumentError(1, 1, f"the file has more than {MAXIMUM_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise DocumentError(before.count(b"\n") + 1, column, "this is not UTF-8 text") from error
    if text.lstrip()[:1] in {"{", "["}:
        # JSON may be indented with tabs, which YAML forbids; within strings it has none.
        text = _ESCAPE.sub(_joined, text.replace("\t", " "))
    try:
        return _Builder(yaml.parse(text, Loader=_LOADER)).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        said = [part for part in (error.problem, error.context) if part]
        raise DocumentError(line, column, ", ".join(said) or "this is not YAML") from error
    except yaml.YAMLError as error:
        line, column = _position_of_unprintable(text)
        raise DocumentError(line, column, "this character is not allowed in YAML") from error


@dataclass(slots=True)
class _Builder:
    """Builds trees out of the parser's events."""

    events: Iterator[Any]
    _anchors: dict[str, Node | None] = field(default_factory=dict)
    _nodes: int = 0

    def documents(self) -> list[Node]:
        found: list[Node] = []
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                node = self._node(next(self.events), 1)
                if not (isinstance(node, Scalar) and node.kind == "null"):
                    found.append(node)
        return found

    def _node(self, event: Any, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._count(event, 1)
        if depth > MAXIMUM_DEPTH:
            raise _at(event, f"this is nested deeper than {MAXIMUM_DEPTH} levels")
        line = event.start_mark.line + 1
        if event.anchor:
            # Known only when it is complete: it cannot stand for a part of itself.
            self._anchors[event.anchor] = None
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(_text(event), _kind(event), line)
        elif isinstance(event, yaml.SequenceStartEvent):
            _check_tag(event, "seq")
            node = Items([], line)
            for inner in iter(lambda: next(self.events), None):
                if isinstance(inner, yaml.SequenceEndEvent):
                    break
                item = self._node(inner, depth + 1)
                node.items.append(item)
                node.size += item.size
        else:
            _check_tag(event, "map")
            node = Entries([], line)
            self._fill(node, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _fill(self, node: Entries, depth: int) -> None:
        lines: dict[str, int] = {}
        for event in iter(lambda: next(self.events), None):
            if isinstance(event, yaml.MappingEndEvent):
                return
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise _at(event, "a key must be a string")
            if key.text in lines:
                raise _at(event, f"{key.text!r} was given before, in line {lines[key.text]}")
            lines[key.text] = key.line
            value = self._node(next(self.events), depth + 1)
            node.entries.append((key, value))
            node.size += key.size + value.size

    def _alias(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            raise _at(event, f"the alias *{event.anchor} stands for nothing that is complete")
        self._count(event, node.size)
        return node

    def _count(self, event: Any, size: int) -> None:
        self._nodes += size
        if self._nodes > MAXIMUM_NODES:
            raise _at(
                event, f"the file has more than {MAXIMUM_NODES} values, with its aliases expanded"
            )


def _at(event: Any, text: str) -> DocumentError:
    return DocumentError(event.start_mark.line + 1, event.start_mark.column + 1, text)


def _text(event: Any) -> str:
    text = str(event.value)
    if not text.isascii() and _HALF.search(text):
        raise _at(event, "this holds half a character")
    return text


def _kind(event: Any) -> str:
    if event.tag and event.tag != "!":
        _check_tag(event, "str", "int", "float", "bool", "null")
        return str(event.tag.removeprefix(_CORE))
    if not event.implicit[0]:
        return "str"
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers
    for tag, pattern in [*resolvers.get(event.value[:1], []), *resolvers.get(None, [])]:
        if pattern.match(event.value):
            return str(tag.removeprefix(_CORE))
    return "str"


def _check_tag(event: Any, *allowed: str) -> None:
    if event.tag and event.tag not in {"!", *(_CORE + name for name in allowed)}:
        raise _at(event, f"the tag {event.tag} is not supported here")


def _joined(escape: re.Match[str]) -> str:
    """Write a character that JSON escapes in two halves as it is; leave other escapes."""
    if escape[1] is None:
        return escape[0]
    return bytes.fromhex(escape[1] + escape[2]).decode("utf-16-be")


def _position_of_unprintable(text: str) -> tuple[int, int]:
    for number, line in enumerate(text.split("\n"), 1):
        found = yaml.reader.Reader.NON_PRINTABLE.search(line)
        if found:
            return number, found.start() + 1
    return 1, 1
