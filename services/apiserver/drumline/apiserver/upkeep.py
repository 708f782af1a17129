"""What the apiserver does by itself from time to time: compact, and remove ended pods.

Every apiserver does both; that another one was faster changes nothing. Nothing of
it writes to an idle store: compaction is no write, and is left out when nothing
has changed.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from drumline.api.v1 import pod_pb2
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.objects import PodEntry
from drumline.apiserver.domain import pods
from drumline.apiserver.store.committer import Committer
from drumline.apiserver.store.etcd import Etcd
from drumline.model.errors import DrumlineError
from drumline.process import clock, logs

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
        for start in range(0, len(surplus), 1000):
            steps = [pods.remove_ended(e.key, e.uid) for e in surplus[start : start + 1000]]
            try:
                outcomes = await committer.submit(steps)
            except DrumlineError as failure:
                # Too much is waiting already; there is time.
                _log.warning("ended_pods_kept", pods=len(steps), error=failure.message)
                break
            failures = [o for o in outcomes if isinstance(o, DrumlineError)]
            _log.info("ended_pods_removed", pods=len(outcomes) - len(failures))
            if failures:
                _log.warning("ended_pods_kept", pods=len(failures), error=failures[0].message)
                break


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
