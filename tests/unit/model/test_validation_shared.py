"""Names, labels, selectors and references follow one rule wherever they stand."""

import pytest
from drumline.api.v1.metadata_pb2 import (
    LABEL_OPERATOR_EXISTS,
    LABEL_OPERATOR_IN,
    LABEL_OPERATOR_NOT_IN,
    LabelOperator,
    LabelSelector,
    PodReference,
)
from drumline.api.v1.namespace_service_pb2 import Namespace
from drumline.api.v1.resources_pb2 import Resources
from drumline.model import validation
from drumline.model.errors import Violation
from drumline.model.labels import parse_selector
from hypothesis import given
from hypothesis import strategies as st


def fields(violations: list[Violation]) -> list[str]:
    return [violation.field for violation in violations]


@pytest.mark.parametrize("value", ["a", "0", "a-b", "a--b", "x" * 63])
def test_a_good_name_is_taken(value: str) -> None:
    assert validation.name(value, "name", dots=False) == []
    assert validation.name(value, "name") == []


@pytest.mark.parametrize(
    "key", ["a", "A_b.c-D", "x" * 63, "example.com/a", ".".join(["x" * 50] * 4) + "/a"]
)
def test_a_good_key_is_taken(key: str) -> None:
    assert validation.labels_map({key: "v"}, "labels") == []


@pytest.mark.parametrize("prefix", [".".join(["x" * 63] * 4), "x" * 64])
def test_a_prefix_is_a_dns_name(prefix: str) -> None:
    assert len(validation.labels_map({f"{prefix}/a": "v"}, "labels")) == 1


@pytest.mark.parametrize("name", ["cpu", "memory", "pods"])
def test_a_resource_with_its_own_field_is_not_a_named_one(name: str) -> None:
    message = Resources(named_thousandths={name: 1})
    assert fields(validation.resources(message, "r")) == [f"r.named_thousandths['{name}']"]


def test_a_namespace_is_checked() -> None:
    good = Namespace()
    good.metadata.name = "team-a"
    good.metadata.labels["team"] = "a"
    assert validation.namespace_to_create(good, "namespaces[0]") == []
    bad = Namespace()
    bad.metadata.name = "team.a"
    bad.metadata.namespace = "x"
    bad.metadata.uid = "u"
    bad.metadata.labels["-"] = ""
    bad.usage.stored_pods = 1
    assert fields(validation.namespace_to_create(bad, "namespaces[0]")) == [
        "namespaces[0].metadata.name",
        "namespaces[0].metadata.namespace",
        "namespaces[0].metadata.labels['-']",
        "namespaces[0].metadata.uid",
        "namespaces[0].usage",
    ]


def test_a_reference_needs_a_name_only() -> None:
    assert validation.pod_reference(PodReference(name="a.b"), "r") == []
    assert validation.pod_reference(PodReference(namespace="n", name="a", uid="u"), "r") == []
    assert fields(validation.pod_reference(PodReference(name="a", uid="u" * 129), "r")) == ["r.uid"]


@pytest.mark.parametrize("text", ["", "a=b,c!=,d in (e,f),g notin (h),i,!j"])
def test_a_selector_that_people_can_write_is_taken(text: str) -> None:
    assert validation.label_selector(parse_selector(text), "s") == []


@pytest.mark.parametrize(
    ("key", "operator", "values", "field"),
    [
        ("", LABEL_OPERATOR_EXISTS, [], "key"),
        ("a b", LABEL_OPERATOR_EXISTS, [], "key"),
        ("a", 0, [], "operator"),
        ("a", 9, ["x"], "operator"),
        ("a", LABEL_OPERATOR_IN, [], "values"),
        ("a", LABEL_OPERATOR_NOT_IN, [], "values"),
        ("a", LABEL_OPERATOR_EXISTS, ["x"], "values"),
        ("a", LABEL_OPERATOR_IN, ["x"] * 257, "values"),
        ("a", LABEL_OPERATOR_IN, ["x", "y z"], "values[1]"),
    ],
)
def test_a_bad_requirement_is_refused_by_its_path(
    key: str, operator: LabelOperator.ValueType, values: list[str], field: str
) -> None:
    selector = LabelSelector()
    selector.requirements.add(key="good", operator=LABEL_OPERATOR_EXISTS)
    selector.requirements.add(key=key, operator=operator, values=values)
    found = fields(validation.label_selector(selector, "selector.labels"))
    assert found == [f"selector.labels.requirements[1].{field}"]


def test_too_many_requirements_are_refused() -> None:
    selector = parse_selector(",".join(["a"] * 33))
    assert fields(validation.label_selector(selector, "s")) == ["s.requirements"]


@given(st.text(max_size=70), st.booleans())
def test_a_name_is_taken_exactly_when_it_follows_the_rule(value: str, dots: bool) -> None:
    inner = set("abcdefghijklmnopqrstuvwxyz0123456789")
    good = (
        0 < len(value) <= 63
        and set(value) <= inner | {"-"} | ({"."} if dots else set())
        and value[0] in inner
        and value[-1] in inner
    )
    assert (not validation.name(value, "name", dots)) == good
