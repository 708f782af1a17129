"""What is said of a pod that fits nowhere."""

from drumline.api.v1.node_pb2 import NODE_STATE_UNREACHABLE
from drumline.api.v1.pod_pb2 import TOLERATION_OPERATOR_EXISTS, Toleration
from drumline.scheduler.model import ClusterModel
from drumline.scheduler.shapes import Shape
from drumline.scheduler.verdicts import judge

from tests.unit.scheduler.builders import GIB, amounts, load, node, pod, taint


def message(model: ClusterModel, shape: Shape) -> str:
    judgement = judge(model, shape)
    assert judgement is not None
    return judgement.message


def test_the_sentence_counts_each_cause_and_says_how_near_it_came() -> None:
    model = ClusterModel()
    for number in range(100):
        simulated = taint("drumline.dev/simulated", "true")
        model.set_node(node(f"sim-{number}", load(cpu=64_000), taints=[simulated]))
    for number, cpu in enumerate((8000, 4000, 7500)):
        model.set_node(node(f"node-{number}", load(cpu=cpu)))
    judgement = judge(model, Shape.of(pod("p", cpu=64_000).spec))
    assert judgement is not None
    assert judgement.message == (
        "0 of 103 nodes can take it: 100 have a taint that it does not tolerate "
        "(drumline.dev/simulated=true:NO_SCHEDULE), 3 have too little cpu (asks 64, most free 8)"
    )
    verdict = judgement.to_proto()
    assert (verdict.reason, verdict.nodes) == ("NO_NODE_FITS", 103)
    assert [(c.reason, c.message, c.nodes, c.example_node) for c in verdict.causes] == [
        ("UNTOLERATED_TAINT", "taint drumline.dev/simulated=true:NO_SCHEDULE", 100, "sim-0"),
        ("INSUFFICIENT_CPU", "less than 64 cpu is free", 3, "node-0"),
    ]


def test_without_nodes_it_says_so() -> None:
    judgement = judge(ClusterModel(), Shape.of(pod("p").spec))
    assert judgement is not None
    verdict = judgement.to_proto()
    assert (verdict.reason, verdict.nodes, len(verdict.causes)) == ("NO_NODES", 0, 0)
    assert verdict.message == "there are no nodes: none has registered yet"


def test_a_pod_that_fits_somewhere_gets_none() -> None:
    model = ClusterModel()
    model.set_node(node("n1"))
    assert judge(model, Shape.of(pod("p").spec)) is None


def test_every_cause_has_words_of_its_own() -> None:
    model = ClusterModel()
    unheard = node("n1", load(schedulable=False), labels={"zone": "a"}, runs_images=True)
    unheard.status.state = NODE_STATE_UNREACHABLE
    cordoned = node("n2", load(schedulable=False), labels={"zone": "a"}, runs_images=True,
                    cordoned=True)  # fmt: skip
    model.set_node(unheard)
    model.set_node(cordoned)
    model.set_node(node("n3", load(named={"gpu": 500}), labels={"zone": "b"}))
    full = load(memory=2 * GIB, pods=1, promised=amounts(memory=GIB + 1, pods=1))
    model.set_node(node("n4", full, labels={"zone": "a"}, runs_images=True))
    asks = pod("p", memory=GIB, named={"gpu": 1500}, image="busybox", selector={"zone": "a"})
    assert message(model, Shape.of(asks.spec)) == (
        "0 of 4 nodes can take it: "
        "4 have too little gpu (asks 1.5, most free 0.5), "
        "1 is not ready (the node is not heard), "
        "1 is cordoned, "
        "1 cannot run the image that it names, "
        "1 has not the label that it selects (zone is not 'a'), "
        "1 has too little memory (asks 1Gi, most free 1023.9Mi), "
        "1 has no room for another pod"
    )


def test_a_node_that_its_load_closes_first_is_counted() -> None:
    model = ClusterModel()
    model.set_node(node("n1"))
    model.set_load("n1", load(2, schedulable=False))
    assert message(model, Shape.of(pod("p").spec)) == (
        "0 of 1 node can take it: 1 is not ready (the node accepts no pods at present)"
    )


def test_a_node_that_is_held_back_is_told_of() -> None:
    model = ClusterModel()
    model.set_node(node("n1", load(cpu=500)))
    model.set_node(node("n2"))
    shape = Shape.of(pod("p", cpu=1000).spec)
    [assumption] = model.assume(shape, [1])
    model.cancel(assumption, refused_by_node=True)
    assert message(model, shape) == (
        "0 of 2 nodes can take it: 1 has too little cpu (asks 1, most free 500m), "
        "1 has just turned it down and will be asked again"
    )


def test_a_node_promised_more_than_it_has_now_has_nothing_free() -> None:
    model = ClusterModel()
    model.set_node(node("n1", load(cpu=1000, promised=amounts(cpu=3000))))
    assert message(model, Shape.of(pod("p", cpu=1).spec)) == (
        "0 of 1 node can take it: 1 has too little cpu (asks 1m, most free 0)"
    )


def test_causes_are_bounded_when_every_node_has_its_own() -> None:
    model = ClusterModel()
    for number in range(200):
        model.set_node(node(f"n{number}", taints=[taint(f"own-{number}")]))
    judgement = judge(model, Shape.of(pod("p").spec))
    assert judgement is not None
    assert len(judgement.to_proto().causes) == 32
    assert judgement.message.endswith(", and 192 causes more")
    tolerant = Toleration(operator=TOLERATION_OPERATOR_EXISTS)
    assert judge(model, Shape.of(pod("p", tolerations=[tolerant]).spec)) is None
