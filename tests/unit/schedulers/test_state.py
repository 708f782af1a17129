"""What the base class of schedulers keeps: nodes, pods, and what is decided and not told yet."""

from drumline.api.v1.metadata_pb2 import WATCH_MARK_SYNCED
from drumline.schedulers import Assign, PendingPod, Wait
from drumline.schedulers.state import State
from drumline.scheduling.v1.scheduler_service_pb2 import SubscribeResponse

from tests.unit.scheduler.builders import amounts, load, node, ok, pod, refused, taint, told


def synced(*messages: SubscribeResponse) -> State:
    state = State()
    for message in messages:
        state.apply(message)
    state.apply(SubscribeResponse(mark=WATCH_MARK_SYNCED))
    assert state.synced
    return state


def names(pods: list[PendingPod]) -> list[str]:
    return [waits.pod.metadata.name for waits in pods]


def free_cpu(state: State, name: str = "n1") -> int:
    found = state.cluster().node(name)
    assert found is not None
    return found.free.cpu_millicores


def decided(state: State, name: str = "n1") -> Assign:
    """Decide that the first pod that waits goes to a node."""
    decision = Assign(state.pending(0.0)[0], name)
    state.decide(decision)
    return decision


def test_pods_wait_in_the_order_of_their_creation() -> None:
    state = synced(told(pods=[pod("b", created=2), pod("a", created=1)]))
    state.apply(told(pods=[pod("c", created=3)], gone_pods=[pod("b")]))
    assert names(state.pending(0.0)) == ["a", "c"]


def test_what_is_decided_counts_until_a_load_contains_it_and_once() -> None:
    state = synced(told(nodes=[node("n1", load(cpu=4000))], pods=[pod("a", cpu=1000)]))
    decision = decided(state)
    assert free_cpu(state) == 3000
    assert not state.pending(0.0)
    assert not state.answer(decision, ok("n1", 2), 0.0)
    assert free_cpu(state) == 3000
    state.apply(told(loads={"n1": load(2, cpu=4000, promised=amounts(cpu=1000))}))
    assert free_cpu(state) == 3000
    # An older load changes nothing.
    state.apply(told(loads={"n1": load(1, cpu=4000)}))
    assert free_cpu(state) == 3000


def test_a_load_that_comes_before_the_answer_is_not_counted_twice() -> None:
    state = synced(told(nodes=[node("n1", load(cpu=4000))], pods=[pod("a", cpu=1000)]))
    decision = decided(state)
    state.apply(told(loads={"n1": load(2, cpu=4000, promised=amounts(cpu=1000))}))
    state.answer(decision, ok("n1", 2), 0.0)
    assert free_cpu(state) == 3000


def test_a_pod_that_was_refused_rests_longer_each_time() -> None:
    state = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=1000)]))
    now = 10.0
    for rest in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0):
        (waits,) = state.pending(now)
        decision = Assign(waits, "n1")
        state.decide(decision)
        assert state.answer(decision, refused("DOES_NOT_FIT"), now) == "DOES_NOT_FIT"
        assert free_cpu(state) == 4000
        assert not state.pending(now)
        left = state.next_end_of_rest(now)
        assert left is not None
        assert round(left, 6) == rest
        now += rest


def test_a_pod_that_is_gone_or_elsewhere_is_forgotten() -> None:
    for reason in ("POD_NOT_FOUND", "ALREADY_ASSIGNED"):
        state = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=1000)]))
        state.answer(decided(state), refused(reason), 0.0)
        assert not state.pending(100.0)
        assert free_cpu(state) == 4000


def test_who_was_deposed_takes_back_what_was_decided() -> None:
    state = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=1000)]))
    state.answer(decided(state), refused("SESSION_ENDED"), 0.0)
    assert names(state.pending(0.0)) == ["a"]
    state.withdraw([decided(state)])
    assert names(state.pending(0.0)) == ["a"]
    assert free_cpu(state) == 4000


def test_the_same_is_said_of_a_pod_once() -> None:
    state = synced(told(pods=[pod("a")]))
    (waits,) = state.pending(0.0)
    said = Wait(waits, "NO_ROOM", "no room")
    assert state.news([said]) == [said]
    assert not state.news([said])
    other = Wait(waits, "NO_ROOM", "less room")
    assert state.news([other]) == [other]
    state.tell_all_again()
    assert state.news([other]) == [other]


def test_pods_that_a_round_left_out_come_first_in_the_next() -> None:
    state = synced(told(pods=[pod(name, created=n) for n, name in enumerate("abcd")]))
    state.went_through(state.pending(0.0)[:2])
    state.apply(told(pods=[pod("early", created=-1)]))
    assert names(state.pending(0.0)) == ["c", "d", "early", "a", "b"]
    state.went_through(state.pending(0.0)[:3])
    assert names(state.pending(0.0)) == ["a", "b", "early", "c", "d"]
    state.went_through(state.pending(0.0))
    assert names(state.pending(0.0)) == ["early", "a", "b", "c", "d"]


def test_no_pod_is_left_out_for_ever_beside_a_stream_of_others() -> None:
    state = synced(told(pods=[pod("old", created=1), pod("older", created=0)]))
    state.went_through(state.pending(0.0)[:1])
    for number in range(10):
        state.apply(told(pods=[pod(f"p{number}", created=number - 20)]))
        first = state.pending(0.0)[:1]
        state.went_through(first)
        if names(first) == ["older"]:
            return
    raise AssertionError("the pods that came later were always first")


def test_a_pod_that_goes_while_its_refusal_is_under_way_leaves_nothing() -> None:
    state = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=1000)]))
    decision = decided(state)
    state.apply(told(gone_pods=[pod("a")]))
    assert state.answer(decision, refused("DOES_NOT_FIT"), 0.0) == "DOES_NOT_FIT"
    assert state.next_end_of_rest(0.0) is None
    assert not state.pending(100.0)
    assert free_cpu(state) == 4000


def test_a_node_of_another_uid_has_nothing_of_what_was_decided_before() -> None:
    for answered_first in (True, False):
        state = synced(told(nodes=[node("n1", load(7))], pods=[pod("a", cpu=1000)]))
        decision = decided(state)
        if answered_first:
            state.answer(decision, ok("n1", 8), 0.0)
            assert free_cpu(state) == 3000
        state.apply(told(gone_nodes=[node("n1")]))
        state.apply(told(nodes=[node("n1", load(1), uid="other")]))
        if not answered_first:
            state.answer(decision, ok("n1", 8), 0.0)
        assert free_cpu(state) == 4000


def test_a_view_tells_which_nodes_fit_and_why_others_do_not() -> None:
    state = synced(
        told(
            nodes=[
                node("full", load(cpu=1000, promised=amounts(cpu=900))),
                node("tainted", taints=[taint("t")]),
                node("closed", load(schedulable=False)),
                node("free"),
            ],
            pods=[pod("a", cpu=1000)],
        )
    )
    (waits,) = state.pending(0.0)
    cluster = state.cluster()
    assert [there.name for there in cluster.that_fit(waits)] == ["free"]
    causes = {there.name: [c.reason for c in there.why_not(waits)] for there in cluster.nodes}
    assert causes == {
        "full": ["INSUFFICIENT_CPU"],
        "tainted": ["UNTOLERATED_TAINT"],
        "closed": ["NODE_NOT_READY"],
        "free": [],
    }
    for _ in range(4):
        cluster = cluster.with_pod("free", waits)
    assert not cluster.that_fit(waits)
    assert state.cluster().that_fit(waits), "the view that was given does not change"


def test_a_node_of_another_uid_begins_anew() -> None:
    state = synced(told(nodes=[node("n1", load(7, cpu=1000))]))
    state.apply(told(nodes=[node("n1", load(1, cpu=2000), uid="other")]))
    assert free_cpu(state) == 2000
