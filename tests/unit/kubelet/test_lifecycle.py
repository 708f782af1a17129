"""What a node does about one pod, event by event."""

import math
from collections.abc import Callable

from drumline.kubelet.lifecycle import (
    DELETED,
    Action,
    Forget,
    Life,
    Report,
    Stage,
    Start,
    Stop,
)
from drumline.kubelet.runtime import ContainerState, PodState
from hypothesis import given
from hypothesis import strategies as st

RUNNING = PodState("u1", (ContainerState("c0", "process:1", 1.0),))
ENDED = PodState("u1", (ContainerState("c0", "process:1", 1.0, 2.0, 0),), ended=True)


def running() -> Life:
    life = Life()
    life.admit()
    life.observe(RUNNING)
    return life


def test_a_pod_is_started_and_reported_at_each_step() -> None:
    life = Life()
    assert life.admit() == [Start(), Report()]
    assert life.observe(RUNNING) == [Report()]
    assert life.observe(ENDED) == [Report()]
    assert life.release(30, 0) == [Forget()]


def test_it_is_started_once() -> None:
    life = Life()
    assert life.admit() == [Start(), Report()]
    assert life.admit() == []
    assert life.refuse("REJECTED", "no") == []


def test_what_was_found_again_is_not_started() -> None:
    life = Life()
    assert life.recover(RUNNING) == [Report()]
    assert life.admit() == []
    assert life.stage is Stage.RUNNING


def test_what_was_refused_never_starts() -> None:
    life = Life()
    assert life.refuse("REJECTED", "no room") == [Report()]
    assert life.admit() == []
    assert life.stage is Stage.ENDED


def test_deletion_stops_it_within_its_grace() -> None:
    life = running()
    assert life.stop(DELETED, 5, now=100) == [Stop(5)]
    assert life.observe(ENDED) == [Report()]
    assert life.stopping == DELETED


def test_a_stop_before_the_start_ends_it() -> None:
    life = Life()
    assert life.stop(DELETED, 5, now=100) == [Report()]
    assert life.admit() == []


def test_the_deadline_only_comes_forward() -> None:
    life = running()
    assert life.stop(DELETED, 5, now=100) == [Stop(5)]
    assert life.stop(DELETED, 5, now=101) == []
    assert life.stop(DELETED, 4, now=101) == []
    assert life.stop(DELETED, 1, now=102) == [Stop(1)]


def test_what_is_no_longer_wanted_is_stopped_silently() -> None:
    life = running()
    assert life.release(5, now=100) == [Stop(5)]
    assert life.observe(ENDED) == [Forget()]


def test_what_ended_stays_ended() -> None:
    life = running()
    life.observe(ENDED)
    assert life.observe(RUNNING) == []
    assert life.stop(DELETED, 5, now=100) == []
    assert life.stage is Stage.ENDED


GRACE = st.floats(0, 100)
Event = Callable[[Life, float], list[Action]]
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.just(lambda life, _: life.admit()),
    st.just(lambda life, _: life.refuse("REJECTED", "no")),
    st.sampled_from([RUNNING, ENDED, PodState("u1")]).map(
        lambda state: lambda life, _: life.observe(state)
    ),
    st.sampled_from([RUNNING, ENDED]).map(lambda state: lambda life, _: life.recover(state)),
    GRACE.map(lambda grace: lambda life, now: life.stop(DELETED, grace, now)),
    GRACE.map(lambda grace: lambda life, now: life.release(grace, now)),
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 50)), max_size=30))
def test_whatever_happens_in_whatever_order(events: list[tuple[Event, float]]) -> None:
    life = Life()
    now = 0.0
    starts = 0
    deadline = math.inf
    for event, passed in events:
        now += passed
        ended = life.stage is Stage.ENDED
        actions = event(life, now)
        starts += actions.count(Start())
        assert starts <= 1
        for action in actions:
            if isinstance(action, Stop):
                assert now + action.grace < deadline
                deadline = now + action.grace
        if Forget() in actions:
            assert life.stage is Stage.ENDED
            assert not life.assigned
        if ended:
            assert life.stage is Stage.ENDED
            assert set(actions) <= {Forget()}
