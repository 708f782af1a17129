"""S6: an observer that could not hear accuses nobody, and judges afresh afterwards."""

import pytest
from drumline.nodecontroller.rules import Rules
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.nodecontroller.observer import READY, UNREACHABLE, Observer

FIFTY = [f"n{i}" for i in range(50)]


@pytest.fixture
def observer() -> Observer:
    observer = Observer()
    observer.connect()
    observer.register(*FIFTY, state=READY)
    observer.beat(*FIFTY)
    observer.pass_time(30, beating=FIFTY)
    assert observer.take() == []
    return observer


def test_s6_back_from_the_dead_a_controller_marks_nobody(observer: Observer) -> None:
    observer.now += 600
    observer.restart()
    observer.pass_time(30)
    assert observer.take() == []
    observer.pass_time(60, beating=FIFTY)
    assert observer.take() == []


def test_s6_back_from_the_dead_a_controller_marks_those_that_stay_silent(
    observer: Observer,
) -> None:
    observer.now += 600
    observer.restart()
    observer.pass_time(41, beating=FIFTY[:30])
    assert sorted(observer.take()) == sorted((name, "UNREACHABLE") for name in FIFTY[30:])


def test_e2_a_new_controller_writes_nothing_when_nothing_has_changed(observer: Observer) -> None:
    observer.register("gone", state=UNREACHABLE)
    observer.restart()
    observer.pass_time(300, beating=FIFTY)
    assert observer.take() == []


@pytest.mark.parametrize("pause", [6, 39, 41, 600])
def test_s6_a_paused_controller_gives_every_node_its_whole_grace(
    observer: Observer, pause: float
) -> None:
    observer.pass_time(30)
    observer.sleep(pause)
    observer.pass_time(38)
    assert observer.take() == []
    observer.pass_time(3)
    assert len(observer.take()) == 50


def test_s6_a_controller_cut_off_from_the_apiserver_judges_nothing(observer: Observer) -> None:
    observer.liveness.lose_sight()
    observer.pass_time(600)
    assert observer.take() == []
    observer.connect()
    observer.pass_time(39)
    assert observer.take() == []
    observer.pass_time(2)
    assert len(observer.take()) == 50


def test_beats_count_while_the_apiserver_is_away(observer: Observer) -> None:
    observer.register("late", state=UNREACHABLE)
    observer.liveness.lose_sight()
    observer.pass_time(600, beating=[*FIFTY, "late"])
    assert observer.take() == []
    observer.connect()
    assert observer.take() == [("late", "READY")]


def test_nodes_of_a_first_list_are_judged_by_the_beats_that_came_before_it() -> None:
    observer = Observer()
    assert observer.beat("a", "b").unknown == []
    observer.now += 2
    observer.register("a", "b", "c")
    assert observer.take() == []
    observer.connect()
    assert observer.take() == [("a", "READY"), ("b", "READY")]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("pass"), st.integers(1, 60)),
            st.tuples(st.just("sleep"), st.integers(1, 200)),
            st.tuples(st.just("blind"), st.integers(1, 200)),
            st.tuples(st.just("restart"), st.integers(1, 200)),
            st.tuples(st.just("beat"), st.integers(0, 2)),
        ),
        max_size=30,
    )
)
def test_s6_nobody_is_accused_who_was_listened_to_for_less_than_the_grace(
    steps: list[tuple[str, int]],
) -> None:
    names = ["n0", "n1", "n2"]
    observer = Observer(Rules())
    observer.connect()
    observer.register(*names, state=READY)
    listened = dict.fromkeys(names, observer.now)
    for step, amount in steps:
        if step == "pass":
            for _ in range(amount):
                observer.pass_time(1)
                for name, state in observer.take():
                    assert state == "READY" or observer.now - listened[name] >= 40
        elif step == "beat":
            observer.beat(names[amount])
            listened[names[amount]] = observer.now
        else:
            if step == "sleep":
                observer.sleep(amount)
            elif step == "restart":
                observer.now += amount
                observer.restart()
            else:
                observer.liveness.lose_sight()
                observer.pass_time(amount)
                observer.connect()
            # Pauses shorter than an eighth of the grace do not count as blindness.
            if step != "sleep" or amount > 5:
                listened = dict.fromkeys(names, observer.now)
        assert all(
            state == "READY" or observer.now - listened[name] >= 40
            for name, state in observer.take()
        )
