"""Which reports go out when."""

import pytest
from drumline.kubelet.report_queue import ReportQueue


def test_the_newest_state_of_a_pod_is_one_report() -> None:
    queue = ReportQueue(hold=1)
    queue.put("a")
    queue.put("b")
    queue.put("a")
    assert queue.take(0, 10) == ["a", "b"]
    assert queue.take(0, 10) == []
    assert queue.wait(0) is None


def test_the_start_of_a_pod_is_held_back_and_overtaken_by_what_follows() -> None:
    queue = ReportQueue(hold=0.5)
    queue.hold("a", now=10)
    queue.hold("b", now=10.2)
    queue.hold("a", now=10.4)
    assert queue.wait(10.4) == pytest.approx(0.1)
    assert queue.take(10.4, 10) == []
    queue.put("b")
    assert queue.take(10.4, 10) == ["b"]
    assert queue.take(10.5, 10) == ["a"]


def test_holding_does_not_delay_what_is_due() -> None:
    queue = ReportQueue(hold=0.5)
    queue.put("a")
    queue.hold("a", now=0)
    assert queue.take(0, 10) == ["a"]
    assert queue.wait(0) is None


def test_batches_are_bounded() -> None:
    queue = ReportQueue(hold=1)
    for uid in "abc":
        queue.put(uid)
    assert queue.take(0, 2) == ["a", "b"]
    assert queue.wait(0) == 0
    assert queue.take(0, 2) == ["c"]


def test_what_was_dropped_is_not_reported() -> None:
    queue = ReportQueue(hold=1)
    queue.put("a")
    queue.hold("b", now=0)
    queue.drop("a")
    queue.drop("b")
    assert queue.take(5, 10) == []
    assert queue.wait(5) is None
