"""Selectors follow one written truth table; a missing label is not an empty one."""

import re

import pytest
from drumline.api.v1.metadata_pb2 import (
    LABEL_OPERATOR_EXISTS,
    LABEL_OPERATOR_IN,
    LABEL_OPERATOR_NOT_EXISTS,
    LABEL_OPERATOR_NOT_IN,
    LABEL_OPERATOR_UNSPECIFIED,
    LabelOperator,
    LabelRequirement,
    LabelSelector,
)
from drumline.api.v1.node_pb2 import Node, NodeInfo, NodeSpec, Taint
from drumline.api.v1.pod_pb2 import TAINT_EFFECT_NO_SCHEDULE
from drumline.model.labels import (
    effective_labels,
    effective_taints,
    format_selector,
    matches,
    parse_selector,
)
from hypothesis import given
from hypothesis import strategies as st

IN, NOT_IN = LABEL_OPERATOR_IN, LABEL_OPERATOR_NOT_IN
EXISTS, NOT_EXISTS = LABEL_OPERATOR_EXISTS, LABEL_OPERATOR_NOT_EXISTS

TABLE = [
    # selector, then whether it matches: label missing, empty, "x", "y"
    ("a=x", (False, False, True, False)),
    ("a==x", (False, False, True, False)),
    ("a in (x)", (False, False, True, False)),
    ("a=", (False, True, False, False)),
    ("a!=x", (True, True, False, True)),
    ("a notin (x)", (True, True, False, True)),
    ("a!=", (True, False, True, True)),
    ("a in (x,y)", (False, False, True, True)),
    ("a notin (x,y)", (True, True, False, False)),
    ("a in (,x)", (False, True, True, False)),
    ("a notin (,x)", (True, False, False, True)),
    ("a", (False, True, True, True)),
    ("!a", (True, False, False, False)),
    ("", (True, True, True, True)),
    ("a,a!=x", (False, True, False, True)),
    ("a,!a", (False, False, False, False)),
    ("b", (False, False, False, False)),
    ("!b,a=x", (False, False, True, False)),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_the_truth_table_holds(text: str, expected: tuple[bool, ...]) -> None:
    selector = parse_selector(text)
    columns: list[dict[str, str]] = [{}, {"a": ""}, {"a": "x"}, {"a": "y"}]
    assert tuple(matches(selector, labels) for labels in columns) == expected


@pytest.mark.parametrize("operator", [LABEL_OPERATOR_UNSPECIFIED, LabelOperator.ValueType(77)])
def test_an_unknown_operator_matches_nothing(operator: LabelOperator.ValueType) -> None:
    selector = LabelSelector(requirements=[LabelRequirement(key="a", operator=operator)])
    assert not matches(selector, {})
    assert not matches(selector, {"a": "x"})


def test_labels_of_a_message_can_be_matched_without_changing_it() -> None:
    node = Node(info=NodeInfo(labels={"a": "x"}))
    before = node.SerializeToString(deterministic=True)
    assert matches(parse_selector("a=x,!b"), node.info.labels)
    assert node.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", IN, ["b"])]),
        (" a = b ", [("a", IN, ["b"])]),
        ("a in(b , c)", [("a", IN, ["b", "c"])]),
        ("a notin ( b )", [("a", NOT_IN, ["b"])]),
        ("! a", [("a", NOT_EXISTS, [])]),
        ("in", [("in", EXISTS, [])]),
        ("in in (in)", [("in", IN, ["in"])]),
        ("notin=x", [("notin", IN, ["x"])]),
        ("index", [("index", EXISTS, [])]),
        ("example.com/app!=v1.2_3-4", [("example.com/app", NOT_IN, ["v1.2_3-4"])]),
        ("a=,b", [("a", IN, [""]), ("b", EXISTS, [])]),
        ("  ", []),
    ],
)
def test_the_grammar_is_kubectls(text: str, expected: list[tuple[str, int, list[str]]]) -> None:
    found = [(r.key, r.operator, list(r.values)) for r in parse_selector(text).requirements]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("a in ()", 7, "at least one value"),
        ("a notin ( )", 11, "at least one value"),
        ("a in", 5, "'(' and a list of values"),
        ("a in x", 6, "'(' and a list of values"),
        ("a in (x", 8, "',' or ')'"),
        ("a in (x y)", 9, "',' or ')'"),
        ("a,", 3, "a label's key"),
        (",a", 1, "a label's key"),
        ("=x", 1, "a label's key"),
        ("!", 2, "a label's key"),
        ("-a", 1, "a label's key"),
        ("a/b/c", 1, "a label's key"),
        ("!a=b", 3, "',' or the end"),
        ("a b", 3, "',' or the end"),
        ("a>1", 2, "',' or the end"),
        ("a=b=c", 4, "',' or the end"),
        ("a=-b", 3, "a label's value"),
        ("a=b,c=" + "x" * 64, 7, "a label's value"),
        ("a in (b,c/d)", 9, "a label's value"),
        ("a=é", 3, "',' or the end"),
    ],
)
def test_a_refusal_names_position_and_expectation(text: str, position: int, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)) as refusal:
        parse_selector(text)
    assert f"at position {position} of the selector: expected {expected}" in str(refusal.value)


def test_a_hostile_selector_is_refused_shortly() -> None:
    with pytest.raises(ValueError, match="at position 1 ") as refusal:
        parse_selector("a" * 1_000_000)
    assert len(str(refusal.value)) < 200


keys = st.from_regex(
    r"([a-z]{1,3}\.[a-z]{1,3}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,3}[A-Za-z0-9])?", fullmatch=True
)
values = st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,3}[A-Za-z0-9])?)?", fullmatch=True)
requirements = st.one_of(
    st.builds(
        LabelRequirement,
        key=keys,
        operator=st.sampled_from([IN, NOT_IN]),
        values=st.lists(values, min_size=1, max_size=4).map(
            lambda found: found if found.count("") < len(found) or len(found) == 1 else [""]
        ),
    ),
    st.builds(LabelRequirement, key=keys, operator=st.sampled_from([EXISTS, NOT_EXISTS])),
)
selectors = st.builds(LabelSelector, requirements=st.lists(requirements, max_size=5))


@given(selectors)
def test_a_selector_that_is_written_is_read_back(selector: LabelSelector) -> None:
    assert parse_selector(format_selector(selector)) == selector


@given(st.lists(values, min_size=1, max_size=4), st.dictionaries(st.just("a"), values))
def test_not_in_is_the_opposite_of_in(chosen: list[str], labels: dict[str, str]) -> None:
    inside, outside = (
        LabelSelector(requirements=[LabelRequirement(key="a", operator=o, values=chosen)])
        for o in (IN, NOT_IN)
    )
    assert matches(inside, labels) != matches(outside, labels)


@given(st.text("ab!=,() inot", max_size=12) | st.text(max_size=30))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        selector = parse_selector(text)
    except ValueError:
        return
    assert parse_selector(format_selector(selector)) == selector


def test_an_admins_label_wins_over_the_nodes_own() -> None:
    node = Node(info=NodeInfo(labels={"zone": "a", "arch": "x"}))
    node.metadata.labels.update({"zone": "b", "rack": "7"})
    assert effective_labels(node) == {"zone": "b", "arch": "x", "rack": "7"}


def test_taints_of_node_and_admin_are_joined_each_once() -> None:
    def taint(key: str) -> Taint:
        return Taint(key=key, value="v", effect=TAINT_EFFECT_NO_SCHEDULE)

    node = Node(
        info=NodeInfo(taints=[taint("a"), taint("b")]),
        spec=NodeSpec(taints=[taint("b"), taint("c")]),
    )
    assert [found.key for found in effective_taints(node)] == ["a", "b", "c"]
    assert len(node.info.taints) == 2
