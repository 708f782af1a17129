"""What is said of a pod that fits nowhere."""

from drumline.api.v1.node_pb2 import NODE_STATE_UNREACHABLE
from drumline.api.v1.pod_pb2 import TOLERATION_OPERATOR_EXISTS, Toleration
from drumline.model import fit, resources
from drumline.scheduler.model import ClusterModel
from drumline.scheduler.shapes import Shape
from drumline.scheduler.verdicts import judge
from hypothesis import given
from hypothesis import strategies as st

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


def helped(model: ClusterModel, shape: Shape) -> tuple[bool, str, str]:
    judgement = judge(model, shape)
    assert judgement is not None
    verdict = judgement.to_proto()
    return verdict.permanent, verdict.nearest.node, verdict.help


def test_what_is_short_for_a_while_is_told_from_what_no_node_has() -> None:
    model = ClusterModel()
    model.set_node(node("small", load(cpu=2000)))
    model.set_node(node("large", load(cpu=8000, promised=amounts(cpu=6500))))
    assert helped(model, Shape.of(pod("p", cpu=4000).spec)) == (
        False, "large", "large could take it as soon as 2500m more cpu is free",
    )  # fmt: skip
    model.set_load("large", load(2, cpu=8000))
    permanent, nearest, said = helped(model, Shape.of(pod("p", cpu=9000).spec))
    assert (permanent, nearest) == (True, "large")
    assert said == (
        "no node could take it even empty and ready: large comes closest, and needs more cpu than"
        " it has, or a pod that asks for less"
    )


def test_each_cause_says_who_can_change_it() -> None:
    model = ClusterModel()
    full = load(cpu=4000, promised=amounts(cpu=4000))
    model.set_node(node("n1", full, taints=[taint("own")]))
    model.set_node(node("n2", load(memory=GIB, schedulable=False), cordoned=True))
    shape = Shape.of(pod("p", cpu=1000, memory=2 * GIB, selector={"zone": "a"}).spec)
    judgement = judge(model, shape)
    assert judgement is not None
    assert {c.reason: c.decided_by for c in judgement.to_proto().causes} == {
        "NODE_SELECTOR_MISMATCH": "user",
        "UNTOLERATED_TAINT": "user",
        "NODE_CORDONED": "admin",
        "INSUFFICIENT_CPU": "pods",
        "INSUFFICIENT_MEMORY": "nodes",
    }


def test_a_change_of_what_comes_closest_alone_is_no_other_judgement() -> None:
    model = ClusterModel()
    for name, used in (("n1", 3000), ("n2", 2000), ("n3", 1500)):
        model.set_node(node(name, load(cpu=4000, promised=amounts(cpu=used))))
    shape = Shape.of(pod("p", cpu=3000).spec)
    before = judge(model, shape)
    model.set_load("n1", load(2, cpu=4000, promised=amounts(cpu=1500)))
    after = judge(model, shape)
    assert before is not None
    assert after is not None
    assert (before.nearest and before.nearest.node, after.nearest and after.nearest.node) == (
        "n3", "n1",
    )  # fmt: skip
    assert before == after


clusters = st.lists(
    st.tuples(
        st.integers(0, 8),  # cpu that it has, in thousands
        st.integers(0, 8),  # of it promised
        st.booleans(),  # cordoned
        st.booleans(),  # tainted
        st.sampled_from(["a", "b"]),  # zone
    ),
    min_size=1,
    max_size=6,
)


@given(clusters, st.integers(1, 9), st.none() | st.sampled_from(["a", "b"]))
def test_permanent_and_nearest_are_what_the_one_fit_rule_says(
    cluster: list[tuple[int, int, bool, bool, str]], cpu: int, zone: str | None
) -> None:
    spec = pod("p", cpu=1000 * cpu, selector={"zone": zone} if zone else {}).spec
    model = ClusterModel()
    missing, shares, ever = [], [], []
    for number, (has, promised, cordoned, tainted, where) in enumerate(cluster):
        made = node(
            f"n{number}",
            load(cpu=1000 * has, promised=amounts(cpu=1000 * min(promised, has))),
            labels={"zone": where},
            cordoned=cordoned,
            taints=[taint("t")] if tainted else [],
        )
        model.set_node(made)
        free = resources.Amounts(1000 * (has - min(promised, has)), 1 << 60, 100, ())
        whole = resources.Amounts(1000 * has, 1 << 60, 100, ())
        missing.append(fit.pod_on_node(spec, made, free))
        shares.append(max(0.0, 1 - free.cpu_millicores / (1000 * cpu)))
        asked = resources.pod_request(spec)
        ever.append(not fit.static_causes(spec, made) and not fit.resource_causes(asked, whole))
    judgement = judge(model, Shape.of(spec))
    if not all(missing):
        assert judgement is None
        return
    assert judgement is not None
    assert judgement.permanent == (not any(ever))
    assert judgement.nearest is not None
    place = int(judgement.nearest.node.removeprefix("n"))
    assert {c.cause for c in judgement.nearest.missing} == set(missing[place])
    ranks = [
        (not able, len(causes), round(share, 9))
        for able, causes, share in zip(ever, missing, shares, strict=True)
    ]
    assert ranks[place] == min(ranks)
