"""One rule table says whether a pod fits a node, and names every cause."""

import pytest
from drumline.api.v1.node_pb2 import (
    NODE_STATE_READY,
    NODE_STATE_UNREACHABLE,
    NODE_STATE_UNSPECIFIED,
    Node,
    NodeInfo,
    Taint,
)
from drumline.api.v1.pod_pb2 import (
    TAINT_EFFECT_NO_SCHEDULE,
    TAINT_EFFECT_UNSPECIFIED,
    TOLERATION_OPERATOR_EQUAL,
    TOLERATION_OPERATOR_EXISTS,
    TOLERATION_OPERATOR_UNSPECIFIED,
    Container,
    PodSpec,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from drumline.model import fit
from drumline.model.resources import Amounts, shortfalls
from hypothesis import given
from hypothesis import strategies as st

EQUAL, EXISTS = TOLERATION_OPERATOR_EQUAL, TOLERATION_OPERATOR_EXISTS
LEFT_OUT = TOLERATION_OPERATOR_UNSPECIFIED
NO_SCHEDULE, ANY = TAINT_EFFECT_NO_SCHEDULE, TAINT_EFFECT_UNSPECIFIED
PLENTY = Amounts(64_000, 2**40, 110, (("example.com/gpu", 8000),))


def ready_node() -> Node:
    node = Node()
    node.status.state = NODE_STATE_READY
    node.info.runs_images = True
    node.info.labels["zone"] = "a"
    return node


def small_pod() -> PodSpec:
    spec = PodSpec(containers=[Container(name="main", command=["true"])])
    requests = spec.containers[0].resources.requests
    requests.cpu_millicores = 1500
    requests.memory_bytes = 64 * 2**20
    requests.named_thousandths["example.com/gpu"] = 2500
    return spec


def test_a_pod_that_nothing_keeps_off_fits() -> None:
    assert fit.pod_on_node(small_pod(), ready_node(), PLENTY) == []


def test_every_cause_is_named_in_the_order_of_the_table() -> None:
    node = ready_node()
    node.status.state = NODE_STATE_UNREACHABLE
    node.spec.unschedulable = True
    node.info.runs_images = False
    node.info.taints.add(key="own", value="yes", effect=NO_SCHEDULE)
    node.spec.taints.add(key="admins", effect=NO_SCHEDULE)
    spec = small_pod()
    spec.containers[0].image = "busybox"
    spec.node_selector.update({"zone": "b", "disk": ""})
    assert fit.pod_on_node(spec, node, Amounts()) == [
        ("NODE_NOT_READY", "the node is not heard"),
        ("NODE_CORDONED", "the node is cordoned"),
        ("IMAGES_NOT_SUPPORTED", "the node cannot run images"),
        ("NODE_SELECTOR_MISMATCH", "the node's label disk is not ''"),
        ("NODE_SELECTOR_MISMATCH", "the node's label zone is not 'b'"),
        ("UNTOLERATED_TAINT", "taint own=yes:NO_SCHEDULE"),
        ("UNTOLERATED_TAINT", "taint admins:NO_SCHEDULE"),
        ("INSUFFICIENT_CPU", "less than 1500m cpu is free"),
        ("INSUFFICIENT_MEMORY", "less than 64Mi of memory is free"),
        ("INSUFFICIENT_PODS", "the node has its full number of pods"),
        ("INSUFFICIENT_RESOURCE", "less than 2.5 example.com/gpu is free"),
    ]


@pytest.mark.parametrize(
    ("state", "reasons"),
    [
        (NODE_STATE_READY, []),
        (NODE_STATE_UNREACHABLE, ["NODE_NOT_READY"]),
        (NODE_STATE_UNSPECIFIED, ["NODE_NOT_READY"]),
    ],
)
def test_only_a_node_that_is_judged_ready_takes_pods(state: int, reasons: list[str]) -> None:
    node = ready_node()
    node.status.state = state  # type: ignore[assignment]
    assert [cause.reason for cause in fit.pod_on_node(small_pod(), node, PLENTY)] == reasons


@pytest.mark.parametrize(
    ("images", "runs_images", "fits"),
    [
        ([""], False, True),
        ([""], True, True),
        (["a"], True, True),
        (["a"], False, False),
        (["", "a"], False, False),
    ],
)
def test_images_go_only_where_they_run(images: list[str], runs_images: bool, fits: bool) -> None:
    node = ready_node()
    node.info.runs_images = runs_images
    spec = PodSpec(containers=[Container(image=image) for image in images])
    assert fit.names_image(spec) == any(images)
    assert (not fit.static_causes(spec, node)) == fits


def test_a_node_selector_asks_for_the_labels_in_effect() -> None:
    node = ready_node()
    spec = small_pod()
    spec.node_selector["zone"] = "a"
    assert fit.static_causes(spec, node) == []
    node.metadata.labels["zone"] = "b"
    assert [cause.reason for cause in fit.static_causes(spec, node)] == ["NODE_SELECTOR_MISMATCH"]


@pytest.mark.parametrize(
    ("key", "operator", "value", "effect", "tolerated"),
    [
        ("k", EQUAL, "v", NO_SCHEDULE, True),
        ("k", EQUAL, "v", ANY, True),
        ("k", LEFT_OUT, "v", ANY, True),
        ("k", EQUAL, "w", ANY, False),
        ("k", EQUAL, "", ANY, False),
        ("x", EQUAL, "v", ANY, False),
        ("k", EXISTS, "", ANY, True),
        ("k", EXISTS, "", NO_SCHEDULE, True),
        ("x", EXISTS, "", ANY, False),
        ("", EXISTS, "", ANY, True),
        ("", EXISTS, "", NO_SCHEDULE, True),
        ("", EQUAL, "v", ANY, False),
        ("k", EXISTS, "", 9, False),
        ("k", 9, "v", ANY, False),
    ],
)
def test_a_taint_is_tolerated_by_key_value_and_effect(
    key: str,
    operator: TolerationOperator.ValueType,
    value: str,
    effect: TaintEffect.ValueType,
    tolerated: bool,
) -> None:
    taint = Taint(key="k", value="v", effect=NO_SCHEDULE)
    toleration = Toleration(key=key, operator=operator, value=value, effect=effect)
    assert fit.tolerates([toleration], taint) == tolerated
    assert fit.tolerates([Toleration(key="other", operator=EXISTS), toleration], taint) == tolerated
    assert not fit.tolerates([], taint)


def test_every_taint_must_be_tolerated() -> None:
    node = ready_node()
    for key in ("a", "b"):
        node.info.taints.add(key=key, effect=NO_SCHEDULE)
    spec = small_pod()
    spec.tolerations.add(key="a", operator=EXISTS)
    assert fit.static_causes(spec, node) == [("UNTOLERATED_TAINT", "taint b:NO_SCHEDULE")]


def test_a_taint_of_a_later_release_is_still_named() -> None:
    taint = Taint(key="k", effect=TaintEffect.ValueType(9))
    assert fit.describe_taint(taint) == "k:9"


amounts = st.builds(
    Amounts,
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.dictionaries(st.sampled_from(["g", "h"]), st.integers(1, 3)).map(
        lambda named: tuple(sorted(named.items()))
    ),
)


@given(amounts, amounts)
def test_resources_are_refused_exactly_where_they_fall_short(asked: Amounts, free: Amounts) -> None:
    causes = fit.resource_causes(asked, free)
    assert len(causes) == len(shortfalls(asked, free))
    assert {cause.reason for cause in causes} <= set(fit.REASONS)


specs = st.builds(
    PodSpec,
    containers=st.lists(st.builds(Container, image=st.sampled_from(["", "i"])), max_size=2),
    node_selector=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
    tolerations=st.lists(
        st.builds(
            Toleration,
            key=st.sampled_from(["", "a", "b"]),
            operator=st.sampled_from([LEFT_OUT, EQUAL, EXISTS]),
            value=st.sampled_from(["", "x"]),
        ),
        max_size=2,
    ),
    scheduler_name=st.sampled_from(["", "other"]),
)
nodes = st.builds(
    lambda runs_images, own, taints: Node(
        info=NodeInfo(runs_images=runs_images, labels=own, taints=taints)
    ),
    st.booleans(),
    st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
    st.lists(
        st.builds(
            Taint,
            key=st.sampled_from("ab"),
            value=st.sampled_from(["", "x"]),
            effect=st.just(NO_SCHEDULE),
        ),
        max_size=2,
    ),
)


@given(specs, specs, nodes)
def test_pods_of_one_shape_are_judged_alike_on_every_node(
    one: PodSpec, other: PodSpec, node: Node
) -> None:
    hash(fit.static_shape(one))
    if fit.static_shape(one) == fit.static_shape(other):
        assert fit.static_causes(one, node) == fit.static_causes(other, node)
    twin = PodSpec.FromString(one.SerializeToString())
    twin.termination_grace_period_seconds = 7
    assert fit.static_shape(one) == fit.static_shape(twin)
