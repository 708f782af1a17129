"""What is placed, what waits and until when, and what becomes of answers."""

from drumline.api.v1.pod_pb2 import TOLERATION_OPERATOR_EXISTS, Toleration
from drumline.scheduler.core import Core
from drumline.scheduler.verdicts import Judgement
from google.protobuf.message import Message

from tests.unit.scheduler.builders import (
    amounts,
    invalid,
    load,
    node,
    ok,
    placed,
    pod,
    refused,
    synced,
    taint,
    told,
    unavailable,
)


def verdicts(core: Core) -> list[tuple[str, str]]:
    """(pod, first cause) of the verdicts that are due."""
    return [(entry.name, first(judgement)) for entry, judgement in core.take_verdicts(10_000)]


def first(judgement: Judgement) -> str:
    return judgement.causes[0].cause.reason if judgement.causes else judgement.reason


def test_nothing_is_placed_before_everything_has_been_told() -> None:
    core = Core("spread", 0)
    core.apply(told(nodes=[node("n1")], pods=[pod("p")]))
    assert not core.has_work


def test_older_pods_come_first_where_not_all_have_room() -> None:
    core = synced(
        told(
            nodes=[node("n1", load(cpu=2000))],
            pods=[
                pod("c", cpu=1000, created=3),
                pod("a", cpu=1000, created=1),
                pod("impossible", cpu=9000, created=0),
                pod("b", cpu=900, created=2),
            ],
        )
    )
    assert placed(core.next_batch(10)) == [("a", "n1"), ("b", "n1")]
    assert sorted(verdicts(core)) == [
        ("c", "INSUFFICIENT_CPU"), ("impossible", "INSUFFICIENT_CPU"),
    ]  # fmt: skip


def test_a_long_line_does_not_overtake_an_older_pod_of_another_shape() -> None:
    alike = [pod(f"p{n}", cpu=100, created=2 * n) for n in range(20)]
    core = synced(told(nodes=[node("n1")], pods=[*alike, pod("other", cpu=200, created=5)]))
    assert {name for name, _ in placed(core.next_batch(4))} == {"p0", "p1", "p2", "other"}


def test_an_impossible_pod_keeps_nobody_waiting() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("impossible", cpu=9000)]))
    core.apply(told(pods=[pod("a", cpu=4000, created=1)]))
    assert placed(core.next_batch(10)) == [("a", "n1")]


def test_a_batch_is_bounded_and_the_rest_comes_next() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod(f"p{n}", created=n) for n in range(5)]))
    assert [name for name, _ in placed(core.next_batch(3))] == ["p0", "p1", "p2"]
    assert core.has_work
    assert [name for name, _ in placed(core.next_batch(3))] == ["p3", "p4"]
    assert not core.has_work


def test_equal_nodes_take_turns_from_one_round_to_the_next() -> None:
    core = synced(told(nodes=[node(f"n{n}") for n in range(3)]))
    nodes = []
    for number in range(6):
        core.apply(told(pods=[pod(f"p{number}")]))
        batch = core.next_batch(10)
        nodes += [node_name for _, node_name in placed(batch)]
        core.answer(batch, [refused("POD_NOT_FOUND")])
    assert nodes == ["n0", "n1", "n2"] * 2


def test_report_1_a_pod_in_flight_keeps_its_place() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=3000)]))
    [slow] = core.next_batch(10)
    core.apply(told(pods=[pod("b", cpu=3000)]))
    assert core.next_batch(10) == []
    core.answer([slow], [ok("n1", 2)])
    assert not core.has_work
    core.apply(told(loads={"n1": load(2, promised=amounts(3000, 0, 1))}))
    assert not core.has_work


def test_report_3_a_lost_reply_is_asked_for_again_and_then_settled() -> None:
    core = synced(told(nodes=[node("n1"), node("n2")], pods=[pod("a", cpu=3000)]))
    batch = core.next_batch(10)
    again, _ = core.answer(batch, [unavailable()])
    assert placed(again) == placed(batch)
    assert not core.has_work, "no other node is tried meanwhile"
    again, reasons = core.answer(again, [ok("n1", 2)])
    assert (again, dict(reasons)) == ([], {"OK": 1})
    assert len(core.queue) == 0


def test_a_pod_that_is_elsewhere_or_gone_leaves_the_queue_and_frees_the_node() -> None:
    for reason in ("ALREADY_ASSIGNED", "POD_NOT_FOUND", "POD_BEING_DELETED", "POD_ENDED"):
        core = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=4000)]))
        core.answer(core.next_batch(10), [refused(reason)])
        assert len(core.queue) == 0
        core.apply(told(pods=[pod("b", cpu=4000)]))
        assert placed(core.next_batch(10)) == [("b", "n1")]


def test_a_refused_pod_tries_elsewhere_at_once() -> None:
    for reason in ("DOES_NOT_FIT", "NODE_NOT_SCHEDULABLE", "NODE_NOT_FOUND"):
        core = synced(told(nodes=[node("n1"), node("n2")], pods=[pod("a", cpu=1000)]))
        batch = core.next_batch(10)
        assert placed(batch) == [("a", "n1")]
        core.answer(batch, [refused(reason)])
        assert placed(core.next_batch(10)) == [("a", "n2")]


def test_a_refused_pod_without_another_node_waits_for_the_next_load() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=1000)]))
    core.answer(core.next_batch(10), [refused("DOES_NOT_FIT")])
    assert core.next_batch(10) == []
    core.apply(told(loads={"n1": load(2, promised=amounts(4000))}))
    assert not core.has_work
    core.apply(told(loads={"n1": load(3)}))
    assert placed(core.next_batch(10)) == [("a", "n1")]


def test_what_cannot_help_by_itself_rests_until_the_sweep() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a")]))
    again, _ = core.answer(core.next_batch(10), [invalid()])
    assert again == []
    assert not core.has_work
    core.sweep()
    assert placed(core.next_batch(10)) == [("a", "n1")]


def test_a_parked_pod_is_tried_when_something_helps_and_only_then() -> None:
    helpful: list[Message] = [
        told(loads={"n1": load(2)}),
        told(nodes=[node("n3")]),
        told(nodes=[node("n2", load(2))]),
    ]
    useless: list[Message] = [
        told(loads={"n1": load(2, promised=amounts(3500))}),
        told(nodes=[node("n3", load(cpu=500))]),
        told(nodes=[node("n3", taints=[taint("t")])]),
        told(gone_nodes=[node("n1")]),
        told(pods=[pod("b", cpu=1000)]),
    ]
    for message in helpful + useless:
        core = synced(
            told(
                nodes=[
                    node("n1", load(promised=amounts(4000))),
                    node("n2", load(schedulable=False), cordoned=True),
                ],
                pods=[pod("a", cpu=1000)],
            )
        )
        assert core.next_batch(10) == []
        core.apply(message)  # type: ignore[arg-type]
        assert core.has_work == (message in helpful)
        assert bool(core.next_batch(10)) == (message in helpful)


def test_a_node_that_becomes_schedulable_helps() -> None:
    core = synced(told(nodes=[node("n1", load(schedulable=False))], pods=[pod("a")]))
    assert core.next_batch(10) == []
    core.apply(told(loads={"n1": load(2)}))
    assert placed(core.next_batch(10)) == [("a", "n1")]


def test_a_pod_that_ended_early_frees_what_was_assumed_for_it() -> None:
    core = synced(
        told(
            nodes=[node("n1")], pods=[pod("a", cpu=4000, created=1), pod("b", cpu=4000, created=2)]
        )
    )
    batch = core.next_batch(10)
    core.apply(told(loads={"n1": load(3)}, gone_pods=[pod("a")]))
    assert not core.has_work, "its answer may still say that it was committed later"
    core.answer(batch, [ok("n1", 2)])
    assert placed(core.next_batch(10)) == [("b", "n1")]


def test_report_4_one_at_a_time_on_a_node_with_room_for_one() -> None:
    core = synced(
        told(
            nodes=[node("n1", load(cpu=1000))],
            pods=[pod(f"p{n}", cpu=1000, created=n) for n in range(200)],
        )
    )
    generation, order = 1, []
    while batch := core.next_batch(1000):
        [(name, _)] = placed(batch)
        order.append(name)
        generation += 1
        core.answer(batch, [ok("n1", generation)])
        taken = load(generation, cpu=1000, promised=amounts(1000, 0, 1))
        core.apply(told(gone_pods=[pod(name)], loads={"n1": taken}))
        assert core.next_batch(1000) == []
        generation += 1
        core.apply(told(loads={"n1": load(generation, cpu=1000)}))
    assert order == [f"p{n}" for n in range(200)]


def test_report_7_a_lost_wake_up_heals_at_the_sweep() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=1000)]))
    core.answer(core.next_batch(10), [refused("DOES_NOT_FIT")])
    assert core.next_batch(10) == []
    core.sweep()
    assert placed(core.next_batch(10)) == [("a", "n1")]


def test_of_a_long_parked_line_only_as_many_are_tried_as_there_is_room_for() -> None:
    core = synced(
        told(
            nodes=[node("n1", load(promised=amounts(4000)))],
            pods=[pod(f"p{n}", cpu=1000, created=n) for n in range(10_000)],
        )
    )
    assert core.next_batch(1000) == []
    core.apply(told(loads={"n1": load(2, promised=amounts(2000))}))
    assert [name for name, _ in placed(core.next_batch(1000))] == ["p0", "p1"]
    assert not core.has_work


def test_removed_pods_are_neither_placed_nor_judged() -> None:
    core = synced(told(nodes=[node("n1", load(cpu=0))], pods=[pod("a", cpu=1), pod("b", cpu=1)]))
    assert core.next_batch(10) == []
    core.apply(told(gone_pods=[pod("a")]))
    assert verdicts(core) == [("b", "INSUFFICIENT_CPU")]
    core.apply(told(loads={"n1": load(2)}))
    assert placed(core.next_batch(10)) == [("b", "n1")]


def test_a_new_pod_of_the_same_name_is_another_pod() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a", uid="1")]))
    old = core.next_batch(10)
    core.apply(told(gone_pods=[pod("a", uid="1")], pods=[pod("a", uid="2")]))
    core.answer(old, [ok("n1", 2)])
    assert [proposal.entry.uid for proposal in core.next_batch(10)] == ["2"]


def test_a_pod_told_of_anew_while_its_first_answer_is_out_is_not_lost() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a")]))
    first_batch = core.next_batch(10)
    core.apply(told(gone_pods=[pod("a")]))
    core.apply(told(pods=[pod("a")]))
    core.answer(first_batch, [ok("n1", 2)])
    assert placed(core.next_batch(10)) == [("a", "n1")]


def test_a_pod_that_changes_while_parked_is_judged_by_what_it_is_now() -> None:
    core = synced(told(nodes=[node("n1", taints=[taint("t")])], pods=[pod("a")]))
    assert core.next_batch(10) == []
    assert verdicts(core) == [("a", "UNTOLERATED_TAINT")]
    tolerant = Toleration(key="t", operator=TOLERATION_OPERATOR_EXISTS)
    core.apply(told(pods=[pod("a", cpu=9000, tolerations=[tolerant])]))
    assert core.next_batch(10) == []
    assert verdicts(core) == [("a", "INSUFFICIENT_CPU")]
    core.apply(told(pods=[pod("a", tolerations=[tolerant])]))
    assert placed(core.next_batch(10)) == [("a", "n1")]


def test_every_parked_pod_gets_its_verdict_once() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod(f"p{n}", cpu=5000) for n in range(3)]))
    assert core.next_batch(10) == []
    assert [name for name, _ in verdicts(core)] == ["p0", "p1", "p2"]
    core.apply(told(pods=[pod("p3", cpu=5000)]))
    assert [name for name, _ in verdicts(core)] == ["p3"], "told at once, without another look"
    core.sweep()
    assert core.next_batch(10) == []
    core.review()
    assert verdicts(core) == []


def test_without_nodes_the_verdict_says_so_and_then_changes() -> None:
    core = synced(told(pods=[pod("a", cpu=5000)]))
    assert core.next_batch(10) == []
    assert verdicts(core) == [("a", "NO_NODES")]
    core.apply(told(nodes=[node("n1")]))
    assert core.next_batch(10) == []
    core.review()
    assert verdicts(core) == [("a", "INSUFFICIENT_CPU")]
    core.apply(told(nodes=[node("n2", taints=[taint("t")])]))
    core.review()
    [(_, judgement)] = core.take_verdicts(10)
    assert judgement.message.startswith("0 of 2 nodes can take it: 2 have too little cpu")


def test_a_verdict_that_did_not_arrive_is_due_again() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=5000)]))
    core.next_batch(10)
    taken = core.take_verdicts(10)
    assert verdicts(core) == []
    core.verdicts_failed(taken)
    assert verdicts(core) == [("a", "INSUFFICIENT_CPU")]


def test_a_verdict_that_is_again_what_was_told_is_not_told_again() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a", cpu=5000)]))
    core.next_batch(10)
    assert verdicts(core) == [("a", "INSUFFICIENT_CPU")]
    for its_load in (load(2, promised=amounts(1000)), load(3)):
        core.apply(told(loads={"n1": its_load}))
        core.next_batch(10)
        core.review()
        assert core.has_untold
    assert verdicts(core) == []


def test_a_pod_that_was_placed_meanwhile_gets_no_verdict() -> None:
    core = synced(told(nodes=[node("n1", load(promised=amounts(4000)))], pods=[pod("a", cpu=1)]))
    assert core.next_batch(10) == []
    assert core.has_untold
    core.apply(told(loads={"n1": load(2)}))
    assert placed(core.next_batch(10)) == [("a", "n1")]
    assert verdicts(core) == []


def test_verdicts_of_a_long_line_come_in_bounded_parts() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod(f"p{n}", cpu=9000) for n in range(2500)]))
    assert core.next_batch(10) == []
    assert [len(core.take_verdicts(1000)) for _ in range(4)] == [1000, 1000, 500, 0]


def test_pods_that_come_and_go_leave_nothing_behind() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("stays", cpu=9000)]))
    core.next_batch(10)
    for number in range(1000):
        passing = pod(f"p{number}", cpu=9000)
        core.apply(told(pods=[passing]))
        core.apply(told(gone_pods=[passing]))
    [line] = core.queue.blocked_lines()
    assert len(line.heap) < 100
    assert [name for name, _ in verdicts(core)] == ["stays"]


def test_who_stands_by_places_nothing_and_judges_nothing() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("a"), pod("huge", cpu=9000)]))
    core.decide_in("")
    assert not core.has_work
    core.apply(told(pods=[pod("b")]))
    assert not core.has_work
    assert not core.next_batch(10)
    core.decide_in("next")
    assert [proposal.entry.name for proposal in core.next_batch(10)] == ["a", "b"]


def test_a_new_session_tells_all_verdicts_again() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("huge", cpu=9000)]))
    core.decide_in("first")
    assert not core.next_batch(10)
    assert verdicts(core) == [("huge", "INSUFFICIENT_CPU")]
    core.decide_in("first")
    assert not core.has_untold, "it has the same session"
    core.decide_in("")
    core.decide_in("second")
    assert verdicts(core) == [("huge", "INSUFFICIENT_CPU")]
    core.decide_in("third")
    assert verdicts(core) == [("huge", "INSUFFICIENT_CPU")], "also without a pause between"


def test_a_new_session_tells_verdicts_of_pods_that_are_tried_again_first() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("huge", cpu=9000)]))
    assert not core.next_batch(10)
    assert verdicts(core) == [("huge", "INSUFFICIENT_CPU")]
    core.decide_in("")
    core.sweep()
    core.decide_in("next")
    assert not core.next_batch(10)
    core.review()
    assert verdicts(core) == [("huge", "INSUFFICIENT_CPU")]


def test_verdicts_that_are_due_when_the_session_ends_wait_for_the_next() -> None:
    core = synced(told(nodes=[node("n1")], pods=[pod("huge", cpu=9000)]))
    assert not core.next_batch(10)
    taken = core.take_verdicts(10)
    core.decide_in("")
    core.verdicts_failed(taken)
    assert not core.has_untold
    assert verdicts(core) == []
    core.decide_in("next")
    assert verdicts(core) == [("huge", "INSUFFICIENT_CPU")]


def test_what_a_deposed_scheduler_proposed_is_taken_back() -> None:
    core = synced(
        told(
            nodes=[node("n1")], pods=[pod("a", cpu=4000, created=1), pod("b", cpu=4000, created=2)]
        )
    )
    batch = core.next_batch(10)
    assert len(batch) == 1
    again, _ = core.answer(batch, [refused("SESSION_ENDED")])
    assert not again
    core.decide_in("")
    core.decide_in("next")
    # The room is free again, and the pod that came first is first again.
    assert [proposal.entry.name for proposal in core.next_batch(10)] == ["a"]


def test_a_pod_that_joins_later_is_told_what_would_help_now() -> None:
    full = load(cpu=4000, promised=amounts(cpu=3000))
    core = synced(told(nodes=[node("n1", full), node("n2", full)], pods=[pod("a", cpu=2000)]))
    assert not core.next_batch(10)
    ((_, first_told),) = core.take_verdicts(10)
    assert "n1 could take it as soon as 1 more cpu is free" in first_told.help
    # The sentence stays the same, as no node has more free than before; the closest differs.
    core.apply(told(loads={"n1": load(2, cpu=4000, promised=amounts(cpu=3500))}))
    core.review()
    assert not core.has_untold
    core.apply(told(pods=[pod("b", cpu=2000)]))
    ((entry, then_told),) = core.take_verdicts(10)
    assert entry.name == "b"
    assert "n2 could take it as soon as 1 more cpu is free" in then_told.help
