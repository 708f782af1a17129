"""What nodes and admins say is checked as a whole, by field path."""

import pytest
from drumline.api.v1.node_pb2 import Node, NodeInfo, NodeSpec
from drumline.api.v1.pod_pb2 import (
    TAINT_EFFECT_NO_SCHEDULE,
)
from drumline.model import validation
from drumline.model.errors import Violation


def fields(violations: list[Violation]) -> list[str]:
    return [violation.field for violation in violations]


def good_info() -> NodeInfo:
    info = NodeInfo(runtime="process", address="127.0.0.1:7443", kubelet_version="0.1.0")
    for amounts in (info.capacity, info.allocatable):
        amounts.cpu_millicores, amounts.memory_bytes, amounts.pods = 2000, 2**30, 110
        amounts.named_thousandths["example.com/gpu"] = 1000
    info.labels["zone"] = "a"
    info.taints.add(key="k", value="v", effect=TAINT_EFFECT_NO_SCHEDULE)
    return info


@pytest.mark.parametrize(
    "address", ["", "localhost:1", "node-1.example.com:65535", "10.0.0.1:80", "[::1]:7443"]
)
def test_a_good_registration_is_taken(address: str) -> None:
    info = good_info()
    info.address = address
    assert validation.node_info(info, "nodes[0].info") == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runtime", ""),
        ("runtime", "docker"),
        ("address", "localhost"),
        ("address", ":80"),
        ("address", "a:0"),
        ("address", "a:65536"),
        ("address", "::1:80"),
        ("address", "http://a:80"),
        ("address", "a:80\n"),
        ("kubelet_version", "v" * 129),
        ("platform", "p" * 513),
    ],
)
def test_a_bad_registration_is_refused_by_its_path(field: str, value: str) -> None:
    info = good_info()
    setattr(info, field, value)
    assert fields(validation.node_info(info, "nodes[0].info")) == [f"nodes[0].info.{field}"]


def test_a_node_cannot_give_more_than_it_has() -> None:
    info = good_info()
    info.allocatable.cpu_millicores = 2001
    (violation,) = validation.node_info(info, "i")
    assert violation == Violation(
        "i.allocatable", "has 2001 of cpu, more than the capacity of 2000"
    )


def test_labels_taints_and_amounts_of_a_registration_are_checked() -> None:
    info = good_info()
    info.capacity.memory_bytes = -1
    info.labels["-"] = ""
    info.taints.add(key="", value="-")
    assert fields(validation.node_info(info, "i")) == [
        "i.capacity.memory_bytes",
        "i.labels['-']",
        "i.taints[1].key",
        "i.taints[1].value",
        "i.taints[1].effect",
    ]


def test_what_an_admin_sets_on_a_node_is_checked() -> None:
    node = Node()
    node.metadata.labels["-"] = ""
    node.metadata.annotations["-"] = ""
    node.spec.taints.add(key="k")
    assert fields(validation.node_desired(node, "updates[0].node")) == [
        "updates[0].node.metadata.labels['-']",
        "updates[0].node.metadata.annotations['-']",
        "updates[0].node.spec.taints[0].effect",
    ]
    many = NodeSpec()
    for _ in range(33):
        many.taints.add(key="k", effect=TAINT_EFFECT_NO_SCHEDULE)
    assert fields(validation.node_spec(many, "spec")) == ["spec.taints"]
    assert validation.node_spec(NodeSpec(unschedulable=True), "spec") == []
