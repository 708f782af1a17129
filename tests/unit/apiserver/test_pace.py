"""When a transaction waits for more steps."""

from drumline.apiserver.store.pace import Pace


def under_load(calls: int = 5) -> Pace:
    """Give the pace after a while of transactions with the steps of several calls each."""
    pace = Pace()
    for _ in range(100):
        pace.begin(now=10.0, worked=1.0, calls=calls)
    return pace


def test_calls_that_come_one_at_a_time_never_wait_however_busy_the_process_is() -> None:
    pace = under_load(calls=1)
    assert pace.wait(now=10.001, worked=1.001, steps=1) == 0


def test_two_calls_that_come_together_once_do_not_hold_up_the_next() -> None:
    pace = under_load(calls=1)
    pace.begin(now=10.0, worked=1.0, calls=2)
    assert pace.wait(now=10.001, worked=1.001, steps=1) == 0


def test_a_busy_process_rests_for_as_long_as_it_has_worked() -> None:
    pace = under_load()
    assert round(pace.wait(now=10.003, worked=1.002, steps=3), 9) == 0.001
    assert pace.wait(now=10.004, worked=1.002, steps=3) == 0


def test_an_idle_process_waits_for_nothing() -> None:
    pace = under_load()
    assert pace.wait(now=10.001, worked=1.0002, steps=3) == 0


def test_nothing_waits_longer_than_8_milliseconds_after_the_last_began() -> None:
    pace = under_load()
    assert round(pace.wait(now=10.002, worked=1.5, steps=3), 9) == 0.006
    assert pace.wait(now=10.008, worked=1.5, steps=3) == 0


def test_many_steps_do_not_wait_for_more() -> None:
    pace = under_load()
    assert pace.wait(now=10.001, worked=1.001, steps=100) == 0
