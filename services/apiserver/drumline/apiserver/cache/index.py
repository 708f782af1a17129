"""The objects of one kind, their recent changes, and who watches them."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from drumline.api.v1 import metadata_pb2
from drumline.apiserver.cache.objects import Entry, version_part
from drumline.apiserver.cache.versions import version
from drumline.apiserver.store import wire
from drumline.model.errors import DrumlineError, OutOfRangeError

E = TypeVar("E", bound=Entry)

CHANGED = metadata_pb2.EVENT_TYPE_CHANGED
REMOVED = metadata_pb2.EVENT_TYPE_REMOVED

# Field numbers of PodEvent and NodeEvent, which are alike.
_EVENT_TYPE = 1
_EVENT_OBJECT = 2


class Change(NamedTuple, Generic[E]):
    """An object became another: one that is new was None, one that is gone is None."""

    revision: int
    old: E | None
    new: E | None
    # Prefixes of the records that changed.
    parts: frozenset[str]


class Pending(NamedTuple, Generic[E]):
    """What a watcher is to be told of one object: its newest state, or that it left."""

    type: "metadata_pb2.EventType.ValueType"
    entry: E
    revision: int
    parts: frozenset[str]


class Watcher(Generic[E]):
    """Follows the objects that `select` picks; holds one entry an object until it is drained."""

    def __init__(
        self,
        select: Callable[[E], bool],
        wake: asyncio.Event,
        ignore: frozenset[str] = frozenset(),
    ) -> None:
        self._select = select
        self._wake = wake
        # Records whose changes alone are of no interest.
        self._ignore = ignore
        self._queue: dict[str, Pending[E]] = {}
        self.failure: DrumlineError | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, change: Change[E]) -> None:
        """Take note of a change, if it concerns the watcher."""
        old, new = change.old, change.new
        if old is not None and new is not None and change.parts <= self._ignore:
            return
        pending: Pending[E]
        if new is not None and self._select(new):
            uid, parts = new.uid, change.parts
            queued = self._queue.pop(uid, None)
            if queued is not None:
                parts |= queued.parts
            pending = Pending(CHANGED, new, change.revision, parts)
        elif old is not None and (old.uid in self._queue or self._select(old)):
            uid = old.uid
            self._queue.pop(uid, None)
            if new is None:
                last: E = replace(old, version=change.revision, whole=b"")  # type: ignore[type-var]
            else:
                last = new
            pending = Pending(REMOVED, last, change.revision, change.parts)
        else:
            return
        self._queue[uid] = pending
        self._wake.set()

    def fail(self, failure: DrumlineError) -> None:
        """End the watch with an error."""
        self.failure = failure
        self._wake.set()

    def drain(self, limit: int) -> list[Pending[E]]:
        """Take the oldest changes: about `limit`, and all of the last one's revision.

        Raises the watcher's failure.
        """
        if self.failure is not None:
            raise self.failure
        queue = self._queue
        if len(queue) <= limit:
            taken = list(queue.values())
            queue.clear()
            return taken
        taken = []
        for pending in queue.values():
            if len(taken) >= limit and pending.revision != taken[-1].revision:
                break
            taken.append(pending)
        for pending in taken:
            del queue[pending.entry.uid]
        return taken


class Index(Generic[E]):
    """The objects of one kind.

    `routes` gives the groups that an object is in; a watcher that names routes
    hears of those groups only, which keeps a change from being offered to every
    kubelet's watch.
    """

    def __init__(self, history: int, routes: Callable[[E], Sequence[Hashable]]) -> None:
        self.entries: dict[str, E] = {}
        self.epoch = ""
        # Changes after this revision are all in the history.
        self.floor = 0
        self._limit = history
        self._history: list[Change[E]] = []
        self._routes = routes
        self._everything: set[Watcher[E]] = set()
        self._routed: dict[Hashable, set[Watcher[E]]] = {}
        self._sorted: list[str] | None = None

    def reset(self, epoch: str, floor: int) -> None:
        """Start a history: nothing before `floor` can be resumed from."""
        self.epoch, self.floor = epoch, floor
        self._history.clear()
        for entry in self.entries.values():
            entry.whole = b""

    def keys(self) -> list[str]:
        """Give the keys in order."""
        if self._sorted is None:
            self._sorted = sorted(self.entries)
        return self._sorted

    def after(self, key: str) -> Iterable[E]:
        """Give the objects behind `key`, in order of their keys."""
        keys = self.keys()
        for position in range(bisect_right(keys, key), len(keys)):
            yield self.entries[keys[position]]

    def whole(self, entry: E) -> bytes:
        """Give an object's bytes, its version included; encoded once."""
        if not entry.whole:
            entry.whole = entry.encode() + version_part(version(self.epoch, entry.version))
        return entry.whole

    def event(self, pending: Pending[E]) -> bytes:
        """Give the bytes of an event (PodEvent, NodeEvent)."""
        return wire.number_field(_EVENT_TYPE, pending.type) + wire.message_field(
            _EVENT_OBJECT, self.whole(pending.entry)
        )

    def commit(self, key: str, change: Change[E]) -> None:
        """Take over a change, keep it, and tell the watchers."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.uid != new.uid:
            self.commit(key, Change(change.revision, old, None, change.parts))
            old, change = None, Change(change.revision, None, new, change.parts)
        if new is None:
            del self.entries[key]
        else:
            self.entries[key] = new
        if old is None or new is None:
            self._sorted = None
        self._remember(change)
        for watcher in self._everything:
            watcher.offer(change)
        if self._routed:
            concerned: set[Watcher[E]] = set()
            for entry in (old, new):
                if entry is not None:
                    for route in self._routes(entry):
                        concerned.update(self._routed.get(route, ()))
            for watcher in concerned:
                watcher.offer(change)

    def _remember(self, change: Change[E]) -> None:
        if change.revision <= self.floor:
            return
        history = self._history
        history.append(change)
        if len(history) > 2 * self._limit:
            cut = len(history) - self._limit
            self.floor = history[cut - 1].revision
            # A revision is kept whole or not at all.
            while cut < len(history) and history[cut].revision == self.floor:
                cut += 1
            del history[:cut]

    def attach(
        self, watcher: Watcher[E], routes: Iterable[Hashable] = (), *, after: int | None = None
    ) -> None:
        """Let a watcher hear of changes from now on, and of those after the revision `after`.

        Raises OutOfRangeError when those are no longer known.
        """
        if after is not None:
            if after < self.floor:
                raise OutOfRangeError(
                    "the changes since that version are no longer kept; list again and watch"
                    " from there"
                )
            start = bisect_right(self._history, after, key=lambda change: change.revision)
            for change in self._history[start:]:
                watcher.offer(change)
        named = list(routes)
        if not named:
            self._everything.add(watcher)
        for route in named:
            self._routed.setdefault(route, set()).add(watcher)

    def detach(self, watcher: Watcher[E], routes: Iterable[Hashable] = ()) -> None:
        """Let a watcher hear nothing more."""
        self._everything.discard(watcher)
        for route in routes:
            group = self._routed.get(route)
            if group is not None:
                group.discard(watcher)
                if not group:
                    del self._routed[route]

    def fail_watchers(self, failure: DrumlineError) -> None:
        """End every watch with an error."""
        groups: list[Any] = [self._everything, *self._routed.values()]
        for watcher in {w for group in groups for w in group}:
            watcher.fail(failure)
