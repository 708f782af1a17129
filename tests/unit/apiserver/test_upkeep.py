"""Which ended pods are kept no longer, and which pods end because no node fits them."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from drumline.api.v1 import pod_pb2
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.objects import PodEntry
from drumline.apiserver.store.kinds import Record
from drumline.apiserver.upkeep import EndedPods, ImpatientPods, Retention, remove_ended_pods
from drumline.model.errors import UnavailableError
from drumline.storage.v1.records_pb2 import PodRecord


def ended(name: str, version: int = 1, namespace: str = "default") -> PodEntry:
    made = PodEntry(
        f"{namespace}/{name}", f"uid-{name}", namespace, {}, "default", False, Record(b"", version)
    )
    made.phase, made.version = pod_pb2.PHASE_TERMINATED, version
    return made


def names(found: list[PodEntry]) -> list[str]:
    return [entry.key for entry in found]


def test_pods_go_when_they_have_been_seen_ended_for_long_enough() -> None:
    pods, keep = EndedPods(), Retention(seconds=60, pods=10)
    assert not pods.expired([ended("a")], 1000.0, keep)
    assert not pods.expired([ended("a"), ended("b")], 1059.9, keep)
    assert names(pods.expired([ended("a"), ended("b")], 1060.0, keep)) == ["default/a"]
    assert names(pods.expired([ended("b")], 1119.9, keep)) == ["default/b"]


def test_of_too_many_in_a_namespace_the_oldest_go() -> None:
    pods, keep = EndedPods(), Retention(seconds=60, pods=2)
    entries = [ended(f"p{number}", 10 - number) for number in range(4)]
    entries += [ended("other", namespace="team"), ended("another", namespace="team")]
    assert names(pods.expired(entries, 0.0, keep)) == ["default/p3", "default/p2"]


def test_pods_that_have_not_ended_stay() -> None:
    running = ended("a")
    running.phase = pod_pb2.PHASE_RUNNING
    pods, none = EndedPods(), Retention(seconds=0, pods=0)
    assert not pods.expired([running], 0.0, none)
    assert names(pods.expired([running, ended("b")], 0.0, none)) == ["default/b"]


async def test_an_apiserver_with_too_much_to_do_goes_on_and_removes_them_later() -> None:
    cache = Cache(None, history=1, patience=1)  # type: ignore[arg-type]
    cache.pods.entries["default/a"] = ended("a")
    calls = asyncio.Event()

    class Committer:
        tries = 0

        async def submit(self, steps: list[Any]) -> list[Any]:
            self.tries += 1
            if self.tries == 1:
                raise UnavailableError("too many changes are waiting")
            calls.set()
            return steps

    upkeep = asyncio.create_task(
        remove_ended_pods(cache, Committer(), Retention(0, 0), 0.001)  # type: ignore[arg-type]
    )
    await asyncio.wait_for(calls.wait(), 10)
    upkeep.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upkeep


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def impatient(name: str, seconds: int, *, judged: bool = True) -> PodEntry:
    record = PodRecord()
    record.metadata.create_time.FromDatetime(NOON)
    record.spec.infeasible_after.seconds = seconds
    stored = Record(record.SerializeToString(), 1)
    made = PodEntry(f"default/{name}", f"uid-{name}", "default", {}, "default", False, stored)
    made.infeasible_after = float(seconds)
    made.verdict = (
        pod_pb2.Pod(verdict=pod_pb2.Verdict(reason="NO")).SerializeToString() if judged else b""
    )
    return made


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_pod_may_end_when_its_time_is_over_and_its_scheduler_says_that_none_fits() -> None:
    pods = ImpatientPods()
    pods.take(impatient("a", 30), 1000.0, after(10))
    pods.take(impatient("b", 30, judged=False), 1000.0, after(10))
    assert not pods.due(1019.9)
    assert names(pods.due(1020.0)) == ["default/a"]
    pods.take(impatient("b", 30), 1021.0, after(31))
    assert names(pods.due(1021.0)) == ["default/a", "default/b"]
    pods.forget("uid-a")
    pods.forget("uid-a")
    assert names(pods.due(1021.0)) == ["default/b"]


def test_a_clock_that_is_set_ends_no_pod_early_and_keeps_none_for_longer_than_its_time() -> None:
    pods = ImpatientPods()
    pods.take(impatient("a", 30), 1000.0, after(0))
    # Said again, while the wall clock was set by an hour.
    pods.take(impatient("a", 30), 1001.0, after(3601))
    assert not pods.due(1029.9)
    assert pods.due(1030.0)
    # Made by another apiserver, whose clock is ahead.
    pods.take(impatient("b", 30), 1000.0, after(-500))
    assert "default/b" not in names(pods.due(1029.9))
    assert "default/b" in names(pods.due(1030.0))


def test_another_time_counts_from_the_pods_creation_too() -> None:
    pods = ImpatientPods()
    first = impatient("a", 30)
    pods.take(first, 1000.0, after(0))
    pods.take(impatient("a", 60), 1010.0, after(10))
    assert not pods.due(1059.9)
    assert pods.due(1060.0)
    # Any other change leaves the time as it was.
    pods.take(replace(impatient("a", 60), labels={"a": "b"}), 1055.0, after(9999))
    assert not pods.due(1059.9)
    pods.take(impatient("a", 5), 1055.0, after(55))
    assert pods.due(1055.0)
