"""What the apiserver does by itself: compact, remove ended pods, end those that fit nowhere.

Every apiserver does all of it; that another one was faster changes nothing. Nothing of
it writes to an idle store: compaction is no write, and is left out when nothing
has changed.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from drumline.api.v1 import pod_pb2
from drumline.apiserver.cache.cache import IMPATIENT, Cache
from drumline.apiserver.cache.index import CHANGED, Watcher
from drumline.apiserver.cache.objects import PodEntry
from drumline.apiserver.domain import placement, pods
from drumline.apiserver.store.committer import Committer, Step
from drumline.apiserver.store.etcd import Etcd
from drumline.apiserver.store.kinds import LEADERS
from drumline.model.errors import DrumlineError, FailedPreconditionError
from drumline.process import clock, logs
from drumline.storage.v1 import records_pb2
from google.protobuf.duration_pb2 import Duration

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long pods that have ended are kept: seconds, and how many in a namespace."""

    seconds: float
    pods: int


class EndedPods:
    """Which pods have ended, and since when this apiserver knows it.

    By its own clock, not by the time of the end: that is a node's, which may be
    wrong, and a pod that never started has none.
    """

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def expired(
        self, entries: Iterable[PodEntry], now: float, retention: Retention
    ) -> list[PodEntry]:
        """Give the ended pods that are kept no longer: those too old, and the oldest of too many.

        `now` is monotonic, in seconds.
        """
        ended = [entry for entry in entries if entry.phase == pod_pb2.PHASE_TERMINATED]
        self._seen = {entry.uid: self._seen.get(entry.uid, now) for entry in ended}
        by_namespace: dict[str, list[PodEntry]] = {}
        for entry in sorted(ended, key=lambda entry: (self._seen[entry.uid], entry.version)):
            by_namespace.setdefault(entry.namespace, []).append(entry)
        found: list[PodEntry] = []
        for pods_of_one in by_namespace.values():
            surplus = max(len(pods_of_one) - retention.pods, 0)
            found += pods_of_one[:surplus]
            found += [
                entry
                for entry in pods_of_one[surplus:]
                if now - self._seen[entry.uid] >= retention.seconds
            ]
        return found


async def remove_ended_pods(
    cache: Cache, committer: Committer, retention: Retention, interval: float
) -> None:
    """Remove ended pods, a thousand at a time, until cancelled."""
    ended = EndedPods()
    while True:
        await asyncio.sleep(interval)
        surplus = ended.expired(cache.pods.entries.values(), clock.monotonic(), retention)
        removed, failure = await _carry_out(
            committer, [pods.remove_ended(entry.key, entry.uid) for entry in surplus]
        )
        if removed:
            _log.info("ended_pods_removed", pods=removed)
        if failure is not None:
            _log.warning("ended_pods_kept", pods=len(surplus) - removed, error=failure.message)


async def _carry_out(
    committer: Committer, steps: Sequence[Step[Any]]
) -> tuple[int, DrumlineError | None]:
    """Carry out steps, a thousand at a time; give how many were, and what ended it early.

    What is left is for the next look: when too much is waiting already, there is time.
    """
    done = 0
    for start in range(0, len(steps), 1000):
        try:
            outcomes = await committer.submit(steps[start : start + 1000])
        except DrumlineError as failure:
            return done, failure
        failures = [o for o in outcomes if isinstance(o, DrumlineError)]
        done += len(outcomes) - len(failures)
        if failures:
            return done, failures[0]
    return done, None


class _Impatient(NamedTuple):
    """A pod that ends when no node fits it."""

    entry: PodEntry
    # How long after its creation, and when that is by the monotonic clock.
    after: Duration
    due: float


class ImpatientPods:
    """The pods that wait for a node, but not for ever."""

    def __init__(self) -> None:
        self._pods: dict[str, _Impatient] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def take(self, entry: PodEntry, now: float, wall: datetime) -> None:
        """Take in a pod that is new or has changed.

        Its time runs from its creation by the wall clock, but once it is known by the
        monotonic one (`now`, in seconds): a clock that is set ends no pod.
        """
        known = self._pods.get(entry.uid)
        if known is not None and known.entry.pod is entry.pod:
            self._pods[entry.uid] = known._replace(entry=entry)
            return
        record = records_pb2.PodRecord.FromString(entry.pod.value)
        after = record.spec.infeasible_after
        if known is not None and known.after == after:
            self._pods[entry.uid] = known._replace(entry=entry)
            return
        age = (wall - record.metadata.create_time.ToDatetime(UTC)).total_seconds()
        left = max(entry.infeasible_after - max(age, 0.0), 0.0)
        self._pods[entry.uid] = _Impatient(entry, after, now + left)

    def forget(self, uid: str) -> None:
        """Leave out a pod that is placed, has ended, is gone, or is to wait for ever."""
        self._pods.pop(uid, None)

    def due(self, now: float) -> list[PodEntry]:
        """Give those whose time is over and that no node fits, as their schedulers say."""
        return [pod.entry for pod in self._pods.values() if pod.due <= now and pod.entry.verdict]

    def end(self, entry: PodEntry) -> Step[bool]:
        """Give the step that ends a pod, and tells what was in its way."""
        after = self._pods[entry.uid].after
        verdict = pod_pb2.Pod.FromString(entry.verdict).verdict
        said = verdict.message or verdict.reason
        message = f"on no node {after.ToJsonString()} after its creation: {said}"
        if verdict.help:
            message += f"; what would have helped: {verdict.help}"
        return placement.end_infeasible(entry.key, entry.uid, after, message)


async def end_infeasible_pods(cache: Cache, committer: Committer, interval: float) -> None:
    """End pods that have waited too long for a node that fits them, until cancelled.

    It sleeps while no pod asks for that. The word of a scheduler that is away is old, and
    ends nothing.
    """
    while True:
        wake = asyncio.Event()
        watcher: Watcher[PodEntry] = Watcher(_is_impatient, wake)
        cache.pods.attach(watcher, [IMPATIENT])
        waiting = ImpatientPods()
        for entry in filter(_is_impatient, cache.pods.entries.values()):
            waiting.take(entry, clock.monotonic(), clock.wall())
        try:
            while True:
                await (asyncio.sleep(interval) if waiting else wake.wait())
                wake.clear()
                now, wall = clock.monotonic(), clock.wall()
                for pending in watcher.drain(len(watcher)):
                    if pending.type == CHANGED:
                        waiting.take(pending.entry, now, wall)
                    else:
                        waiting.forget(pending.entry.uid)
                due = [e for e in waiting.due(now) if cache.record((LEADERS, e.scheduler_name))]
                ended, failure = await _carry_out(committer, [waiting.end(e) for e in due])
                if ended:
                    _log.info("infeasible_pods_ended", pods=ended)
                if failure is not None:
                    left = len(due) - ended
                    _log.warning("infeasible_pods_kept", pods=left, error=failure.message)
        except FailedPreconditionError:
            # The store is another one: nothing that was known of its pods holds.
            continue
        finally:
            cache.pods.detach(watcher, [IMPATIENT])


def _is_impatient(entry: PodEntry) -> bool:
    return entry.infeasible_after > 0 and entry.waits_for_scheduler


async def compact(etcd: Etcd, cache: Cache, interval: float, keep: float) -> None:
    """Compact what is older than `keep` seconds, every `interval`, until cancelled."""
    seen: deque[tuple[float, int]] = deque([(clock.monotonic(), cache.revision)])
    compacted, epoch = 0, cache.epoch
    while True:
        await asyncio.sleep(interval)
        now = clock.monotonic()
        if epoch != cache.epoch:
            # Revisions of another history say nothing of this one.
            compacted, epoch = 0, cache.epoch
            seen.clear()
        seen.append((now, cache.revision))
        target = 0
        while seen and seen[0][0] <= now - keep:
            target = seen.popleft()[1]
        if target <= compacted:
            continue
        try:
            await etcd.compact(target)
        except DrumlineError as error:
            _log.warning("compaction_failed", error=error.message)
        else:
            compacted = target
            _log.info("store_compacted", revision=target)
