"""The vectors over all nodes say of each node what the one fit rule says of it."""

from collections import Counter

from drumline.api.v1.node_pb2 import (
    NODE_STATE_READY,
    NODE_STATE_UNREACHABLE,
    NODE_STATE_UNSPECIFIED,
    Node,
    NodeLoad,
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
    Toleration,
)
from drumline.api.v1.resources_pb2 import Resources
from drumline.model import fit, resources
from drumline.scheduler import verdicts
from drumline.scheduler.model import ClusterModel
from drumline.scheduler.shapes import Shape
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = st.sampled_from(["zone", "disk", "example.com/pool"])
VALUES = st.sampled_from(["", "a", "b"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
NAMED = st.sampled_from(["example.com/gpu", "example.com/fpga", "licence"])
# Few values, so that amounts often meet exactly; the greatest allowed is among them.
AMOUNT = st.sampled_from([0, 1, 999, 1000, 1001, 10**15])
EFFECTS = st.sampled_from([TAINT_EFFECT_NO_SCHEDULE, TAINT_EFFECT_UNSPECIFIED])
OPERATORS = st.sampled_from(
    [TOLERATION_OPERATOR_UNSPECIFIED, TOLERATION_OPERATOR_EQUAL, TOLERATION_OPERATOR_EXISTS]
)

taints = st.builds(Taint, key=KEYS, value=VALUES, effect=st.just(TAINT_EFFECT_NO_SCHEDULE))
tolerations = st.builds(
    Toleration, key=KEYS | st.just(""), operator=OPERATORS, value=VALUES, effect=EFFECTS
)
amounts = st.builds(
    Resources,
    cpu_millicores=AMOUNT,
    memory_bytes=AMOUNT,
    pods=st.integers(0, 2),
    named_thousandths=st.dictionaries(NAMED, AMOUNT, max_size=3),
)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    node = Node()
    node.metadata.labels.update(draw(LABELS))
    node.spec.unschedulable = draw(st.booleans())
    node.spec.taints.extend(draw(st.lists(taints, max_size=2)))
    node.info.labels.update(draw(LABELS))
    node.info.taints.extend(draw(st.lists(taints, max_size=2)))
    node.info.runs_images = draw(st.booleans())
    node.status.state = draw(
        st.sampled_from([NODE_STATE_READY, NODE_STATE_UNREACHABLE, NODE_STATE_UNSPECIFIED])
    )
    ready = node.status.state == NODE_STATE_READY and not node.spec.unschedulable
    node.load.CopyFrom(
        NodeLoad(allocatable=draw(amounts), promised=draw(amounts), schedulable=ready, generation=1)
    )
    return node


@st.composite
def specs(draw: st.DrawFn) -> PodSpec:
    spec = PodSpec()
    for number in range(draw(st.integers(1, 2))):
        container = Container(name=f"c{number}", image=draw(st.sampled_from(["", "busybox"])))
        container.resources.requests.CopyFrom(draw(amounts))
        container.resources.requests.pods = 0
        spec.containers.append(container)
    spec.node_selector.update(draw(LABELS))
    spec.tolerations.extend(draw(st.lists(tolerations, max_size=3)))
    return spec


def named(node: Node, number: int) -> Node:
    """The node under a name of its own."""
    copy = Node()
    copy.CopyFrom(node)
    copy.metadata.name, copy.metadata.uid = f"node-{number}", f"uid-{number}"
    return copy


def scalar_causes(spec: PodSpec, node: Node) -> list[fit.Cause]:
    free = resources.subtract(
        resources.from_proto(node.load.allocatable), resources.from_proto(node.load.promised)
    )
    return fit.pod_on_node(spec, node, free)


def assert_same(model: ClusterModel, spec: PodSpec, cluster: dict[str, Node]) -> None:
    shape = Shape.of(spec)
    scalar = {name: scalar_causes(spec, node) for name, node in cluster.items()}
    fits = model.fits(shape)
    assert {name for name in cluster if fits[model.row(name).index]} == {  # type: ignore[union-attr]
        name for name, causes in scalar.items() if not causes
    }
    judgement = verdicts.judge(model, shape)
    if judgement is None:
        assert any(not causes for causes in scalar.values())
        return
    expected = Counter(cause for causes in scalar.values() for cause in set(causes))
    assert {counted.cause: counted.nodes for counted in judgement.causes} == dict(expected)
    assert all(counted.cause in scalar[counted.example] for counted in judgement.causes)
    assert judgement.nodes == len(cluster)


@settings(max_examples=200, deadline=None)
@given(st.lists(nodes(), min_size=1, max_size=6), st.lists(specs(), min_size=1, max_size=3))
def test_vector_and_scalar_agree(cluster: list[Node], pods: list[PodSpec]) -> None:
    model = ClusterModel()
    known = {f"node-{number}": named(node, number) for number, node in enumerate(cluster)}
    for node in known.values():
        model.set_node(node)
    for spec in pods:
        assert_same(model, spec, known)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(nodes(), min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), nodes() | st.none()), max_size=6),
    specs(),
)
def test_they_still_agree_after_changes(
    cluster: list[Node], changes: list[tuple[int, Node | None]], spec: PodSpec
) -> None:
    model = ClusterModel()
    known = {f"node-{number}": named(node, number) for number, node in enumerate(cluster)}
    for node in known.values():
        model.set_node(node)
    assert_same(model, spec, known)
    for generation, (number, change) in enumerate(changes, start=2):
        name = f"node-{number}"
        if change is None:
            known.pop(name, None)
            model.remove_node(name)
        else:
            known[name] = named(change, number)
            known[name].load.generation = generation
            model.set_node(known[name])
    if known:
        assert_same(model, spec, known)
