"""What is said of a pod that fits nowhere."""

from dataclasses import dataclass

from drumline.api.v1.node_pb2 import NODE_STATE_UNREACHABLE, Node, NodeLoad
from drumline.api.v1.pod_pb2 import TOLERATION_OPERATOR_EXISTS, PodSpec, Toleration
from drumline.apiserver.rpc.verdicts import check
from drumline.model import fit, resources
from drumline.model.fit import Cause
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
        "a change of the pod, or other nodes: none could take it as it is, even ready and empty;"
        " large, which comes closest, could if it asked for at most 8 cpu, not 9"
    )


def test_what_would_help_names_each_thing_that_lasts_and_none_that_passes() -> None:
    model = ClusterModel()
    full = load(cpu=4000, memory=GIB, pods=0, promised=amounts(cpu=4000))
    model.set_node(node("n1", full, taints=[taint("own", "x")], cordoned=True))
    asks = pod("p", cpu=1000, memory=2 * GIB, image="i", selector={"zone": "a"},
               named={"gpu": 500})  # fmt: skip
    permanent, _, said = helped(model, Shape.of(asks.spec))
    assert permanent
    assert said.partition(" could if ")[2] == (
        "it named no image, and if it did not select zone=a, or the node had that label, and if it"
        " tolerated the taint own=x:NO_SCHEDULE, and if it asked for at most 1Gi memory, not 2Gi,"
        " and 2 more"
    )
    model.set_node(node("n2", load(pods=0)))
    assert helped(model, Shape.of(pod("p", named={"gpu": 500}).spec))[2].endswith(
        "; n2, which comes closest, could if the node took more pods, and if it asked for no gpu"
    )


def test_what_is_waited_for_is_enough_when_it_has_come() -> None:
    model = ClusterModel()
    used = amounts(memory=3 * GIB + 1, pods=1)
    made = node("n1", load(memory=4 * GIB, pods=1, promised=used), cordoned=True)
    made.status.state = NODE_STATE_UNREACHABLE
    model.set_node(made)
    said = (
        "n1 could take it as soon as it is ready, and it is uncordoned, and 1.1Gi more memory is"
        " free, and one of its pods is gone"
    )
    assert helped(model, Shape.of(pod("p", memory=2 * GIB).spec)) == (False, "n1", said)


def test_of_the_node_that_comes_closest_it_is_said_who_can_change_it_there() -> None:
    model = ClusterModel()
    model.set_node(node("large", load(cpu=8000, promised=amounts(cpu=8000)), taints=[taint("t")]))
    model.set_node(node("small", load(cpu=2000)))
    judgement = judge(model, Shape.of(pod("p", cpu=4000).spec))
    assert judgement is not None
    verdict = judgement.to_proto()
    assert [(c.reason, c.decided_by) for c in verdict.causes] == [
        ("INSUFFICIENT_CPU", "pods"), ("UNTOLERATED_TAINT", "user"),
    ]  # fmt: skip
    assert verdict.nearest.node == "small"
    assert [(c.reason, c.decided_by) for c in verdict.nearest.missing] == [
        ("INSUFFICIENT_CPU", "nodes")
    ]


def test_the_longest_verdict_is_one_that_the_apiserver_takes() -> None:
    longest = "x" * 253 + "/" + "k" * 63
    model = ClusterModel()
    taints = [taint(f"{longest[:-2]}{number:02}", "v" * 63) for number in range(32)]
    made = node("n" * 253, load(cpu=1000), taints=taints)
    made.info.taints.extend(taint(f"{longest[:-3]}{number:03}", "v" * 63) for number in range(32))
    model.set_node(made)
    keys = [f"{longest[:-2]}{number:02}" for number in range(64)]
    never = pod("p", cpu=2000, image="i", selector=dict.fromkeys(keys[:32], "v" * 63))
    waits = pod("p", named=dict.fromkeys(keys, 2000),
                tolerations=[Toleration(operator=TOLERATION_OPERATOR_EXISTS)])  # fmt: skip
    names = waits.spec.containers[0].resources.requests.named_thousandths
    model.set_node(node("m" * 253, load(named=dict(names), promised=amounts(named=dict(names)))))
    for asks in (never, waits):
        judgement = judge(model, Shape.of(asks.spec))
        assert judgement is not None
        assert not check(judgement.to_proto(), "verdict")


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


ZONES = ("a", "b")


@st.composite
def nodes_of_all_kinds(draw: st.DrawFn) -> tuple[Node, bool]:
    """Make a node, and say whether it is held back."""
    has = amounts(
        1000 * draw(st.integers(0, 4)),
        GIB * draw(st.integers(0, 4)),
        draw(st.integers(0, 2)),
        {"gpu": 1000 * draw(st.integers(0, 2))},
    )
    share = draw(st.sampled_from([0, 1, 2]))
    promised = amounts(
        has.cpu_millicores * share // 2,
        has.memory_bytes * share // 2,
        draw(st.integers(0, has.pods)),
        {"gpu": has.named_thousandths["gpu"] * draw(st.integers(0, 1))},
    )
    cordoned = draw(st.booleans())
    its_load = NodeLoad(allocatable=has, promised=promised, schedulable=not cordoned, generation=1)
    made = node(
        "",
        its_load,
        labels={"zone": draw(st.sampled_from(ZONES))},
        cordoned=cordoned,
        runs_images=draw(st.booleans()),
        taints=[taint(key) for key in draw(st.sets(st.sampled_from(["t", "u"])))],
    )
    return made, draw(st.booleans())


@st.composite
def pods_of_all_kinds(draw: st.DrawFn) -> PodSpec:
    gpu = draw(st.integers(0, 2))
    tolerated = draw(st.sets(st.sampled_from(["t", "u"])))
    return pod(
        "p",
        cpu=1000 * draw(st.integers(0, 5)),
        memory=GIB * draw(st.integers(0, 5)),
        named={"gpu": 1000 * gpu} if gpu else {},
        image=draw(st.sampled_from(["", "i"])),
        selector={"zone": draw(st.sampled_from(ZONES))} if draw(st.booleans()) else {},
        tolerations=[Toleration(key=k, operator=TOLERATION_OPERATOR_EXISTS) for k in tolerated],
    ).spec


@dataclass
class Seen:
    """One node and one pod, by the one fit rule."""

    name: str
    causes: list[Cause]
    able: bool
    too_small_for: set[Cause]
    share: float


def seen(name: str, spec: PodSpec, made: Node) -> Seen:
    asked, whole = resources.pod_request(spec), resources.from_proto(made.load.allocatable)
    free = resources.subtract(whole, resources.from_proto(made.load.promised))
    too_small_for = set(fit.resource_causes(asked, whole))
    able = not fit.static_causes(spec, made) and not too_small_for
    share = sum(1 - lack.free / lack.asked for lack in resources.shortfalls(asked, free))
    return Seen(name, fit.pod_on_node(spec, made, free), able, too_small_for, share)


@given(st.lists(nodes_of_all_kinds(), min_size=1, max_size=6), pods_of_all_kinds())
def test_a_verdict_is_what_the_one_fit_rule_says_of_each_node(
    cluster: list[tuple[Node, bool]], spec: PodSpec
) -> None:
    model, shape = ClusterModel(), Shape.of(spec)
    each: list[Seen] = []
    held = set()
    for number, (made, is_held) in enumerate(cluster):
        made.metadata.name, made.metadata.uid = f"n{number}", f"uid-{number}"
        model.set_node(made)
        each.append(seen(made.metadata.name, spec, made))
        if is_held:
            (assumption,) = model.assume(shape, [number])
            model.cancel(assumption, refused_by_node=True)
            held.add(made.metadata.name)
    judgement = judge(model, shape)
    if any(not it.causes and it.name not in held for it in each):
        assert judgement is None
        return
    assert judgement is not None
    with_cause = {cause: [it for it in each if cause in it.causes] for it in each
                  for cause in it.causes}  # fmt: skip
    assert {c.cause: (c.nodes, c.example) for c in judgement.causes} == {
        cause: (len(those), those[0].name) for cause, those in with_cause.items()
    }
    for counted in judgement.causes:
        if counted.cause.reason.startswith("INSUFFICIENT"):
            ever = all(counted.cause in it.too_small_for for it in with_cause[counted.cause])
            assert counted.decided_by == ("nodes" if ever else "pods")
    assert judgement.permanent == (not any(it.able for it in each))
    assert judgement.nearest is not None
    (closest,) = (it for it in each if it.name == judgement.nearest.node)
    assert [c.cause for c in judgement.nearest.missing] == closest.causes
    assert {c.cause for c in judgement.nearest.missing if c.decided_by == "nodes"} - {
        Cause(fit.IMAGES_NOT_SUPPORTED, "the node cannot run images")
    } == closest.too_small_for
    ranks = [(not it.able, len(it.causes), round(it.share, 9)) for it in each]
    assert ranks[each.index(closest)] == min(ranks)
    assert closest.name in judgement.help
