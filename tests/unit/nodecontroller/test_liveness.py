"""A node is ready once it beats, and unreachable after a whole grace of silence."""

import pytest
from drumline.nodecontroller.liveness import KnownNode
from drumline.nodecontroller.rules import Rules

from tests.unit.nodecontroller.observer import READY, UNJUDGED, UNREACHABLE, Observer


@pytest.fixture
def observer() -> Observer:
    observer = Observer()
    observer.connect()
    return observer


def test_first_beat_makes_ready_and_later_beats_write_nothing(observer: Observer) -> None:
    observer.register("a", "b")
    assert observer.take() == []
    observer.beat("a")
    assert observer.take() == [("a", "READY")]
    observer.pass_time(600, beating=["a"])
    assert [t for t in observer.take() if t[0] == "a"] == []


def test_silence_counts_only_once_the_whole_grace_has_passed(observer: Observer) -> None:
    observer.register("a")
    observer.beat("a")
    observer.take()
    observer.pass_time(39)
    assert observer.take() == []
    observer.pass_time(2)
    assert observer.take() == [("a", "UNREACHABLE")]
    observer.pass_time(600)
    assert observer.take() == []


def test_one_late_beat_is_enough(observer: Observer) -> None:
    observer.register("a")
    observer.beat("a")
    observer.pass_time(39)
    observer.beat("a")
    observer.pass_time(39)
    assert observer.take() == [("a", "READY")]
    observer.pass_time(2)
    assert observer.take() == [("a", "UNREACHABLE")]
    observer.beat("a")
    assert observer.take() == [("a", "READY")]


def test_a_node_that_registers_and_never_beats_is_unreachable(observer: Observer) -> None:
    observer.pass_time(500)
    observer.register("a")
    observer.pass_time(39)
    assert observer.take() == []
    observer.pass_time(2)
    assert observer.take() == [("a", "UNREACHABLE")]


def test_nodes_are_judged_one_by_one(observer: Observer) -> None:
    names = [f"n{i}" for i in range(50)]
    observer.register(*names)
    observer.beat(*names)
    observer.take()
    observer.pass_time(100, beating=names[:-1])
    assert observer.take() == [("n49", "UNREACHABLE")]


def test_another_node_under_an_old_name_starts_anew(observer: Observer) -> None:
    observer.register("a", uid="1")
    observer.beat("a")
    observer.pass_time(39)
    observer.register("a", uid="2")
    observer.take()
    observer.pass_time(39)
    assert observer.take() == []
    observer.beat("a")
    assert observer.take() == [("a", "READY")]


def test_a_removed_node_is_no_longer_judged(observer: Observer) -> None:
    observer.register("a")
    observer.beat("a")
    observer.take()
    observer.liveness.remove("a")
    observer.pass_time(100)
    assert observer.take() == []


def test_a_state_that_someone_else_wrote_is_put_right(observer: Observer) -> None:
    observer.register("a", "b")
    observer.beat("a")
    observer.pass_time(45, beating=["a"])
    assert observer.take() == [("a", "READY"), ("b", "UNREACHABLE")]
    observer.register("a", state=UNREACHABLE)
    observer.register("b", state=READY)
    assert observer.take() == [("a", "READY"), ("b", "UNREACHABLE")]


def test_other_changes_of_a_node_repeat_nothing_while_a_transition_is_on_its_way(
    observer: Observer,
) -> None:
    observer.register("a")
    observer.accepts = False
    observer.beat("a")
    assert observer.take() == [("a", "READY")]
    observer.register("a", state=UNJUDGED)  # a label has changed, for instance
    observer.beat("a")
    assert observer.take() == []


@pytest.mark.parametrize("beating", [True, False])
def test_a_transition_that_was_lost_is_given_out_again(observer: Observer, beating: bool) -> None:
    observer.register("a", state=UNJUDGED if beating else READY)
    observer.accepts = False
    names = ["a"] if beating else []
    observer.pass_time(50, beating=names)
    observer.take()
    observer.accepts = True
    observer.pass_time(80, beating=names)
    assert observer.take() == [("a", "READY" if beating else "UNREACHABLE")]


def test_a_transition_on_its_way_is_taken_back_when_the_node_beats(observer: Observer) -> None:
    observer.register("a", state=READY)
    observer.beat("a")
    observer.accepts = False
    observer.pass_time(45)
    assert observer.take() == [("a", "UNREACHABLE")]
    observer.beat("a")
    assert observer.take() == [("a", "READY")]


def test_the_grace_follows_the_interval_that_a_node_was_told() -> None:
    observer = Observer(Rules(grace=40, beat_interval=10, beats_per_second_bound=1))
    observer.connect()
    names = [f"n{i}" for i in range(60)]
    observer.register(*names, state=READY)
    observer.beat(*names)
    for name in names[1:]:
        observer.liveness.remove(name)
        del observer.stored[name]
    observer.pass_time(239)  # four times the minute that 60 nodes make
    assert observer.take() == []
    observer.pass_time(2)
    assert observer.take() == [("n0", "UNREACHABLE")]


def test_what_is_said_has_reason_and_length_of_the_silence(observer: Observer) -> None:
    observer.liveness.put(KnownNode("a", "1"), observer.now)
    (ready,) = observer.liveness.beat(["a"], observer.now, simulated=False).transitions
    assert (ready.reason, ready.message) == ("HEARTBEATS_COME", "its heartbeats come")
    observer.now += 1.0
    for _ in range(40):
        silent = observer.liveness.look(observer.now)
        observer.now += 1.0
    assert [(t.reason, t.message) for t in silent] == [
        ("HEARTBEATS_MISSING", "no heartbeat has come for 40 s")
    ]
