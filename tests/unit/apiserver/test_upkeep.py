"""Which ended pods are kept no longer."""

import asyncio
from typing import Any

import pytest
from drumline.api.v1 import pod_pb2
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.objects import PodEntry
from drumline.apiserver.store.kinds import Record
from drumline.apiserver.upkeep import EndedPods, Retention, remove_ended_pods
from drumline.model.errors import UnavailableError


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
