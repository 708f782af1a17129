"""Which pods have something to report, and when: the newest state of each, a batch at a time.

A pod is in the queue at most once; what is said of it is read when it is sent, so
that states that follow each other quickly become one report. A pod that has only
begun to start is held back for a while: most of them run before anyone asks.
Times are seconds of any clock that only goes forward, passed in.
"""

from itertools import islice


class ReportQueue:
    """The queue. `hold` is how long, in seconds, the start of a pod is held back."""

    def __init__(self, hold: float) -> None:
        self._hold = hold
        self._ready: dict[str, None] = {}
        # In the order of their times, since all are held equally long.
        self._held: dict[str, float] = {}

    def put(self, uid: str) -> None:
        """Report it with the next batch."""
        self._held.pop(uid, None)
        self._ready[uid] = None

    def hold(self, uid: str, now: float) -> None:
        """Report it unless something better is to be said soon."""
        if uid not in self._ready and uid not in self._held:
            self._held[uid] = now + self._hold

    def drop(self, uid: str) -> None:
        """There is nothing to report of it any more."""
        self._ready.pop(uid, None)
        self._held.pop(uid, None)

    def wait(self, now: float) -> float | None:
        """Give the seconds until there is a batch; None when nothing is queued."""
        if self._ready:
            return 0.0
        for due in self._held.values():
            return max(0.0, due - now)
        return None

    def take(self, now: float, limit: int) -> list[str]:
        """Take a batch out, the oldest first."""
        while self._held and self._held[first := next(iter(self._held))] <= now:
            self.put(first)
        batch = list(islice(self._ready, limit))
        for uid in batch:
            del self._ready[uid]
        return batch
