"""What a watch tells, and the pure part of following one through breaks and restarts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from drumline.api.v1.metadata_pb2 import (
    EVENT_TYPE_CHANGED,
    EVENT_TYPE_REMOVED,
    WATCH_MARK_SYNCED,
    ObjectMeta,
)


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_Object)


@dataclass(frozen=True)
class Changed(Generic[T]):
    """The object is among those watched: new, changed, or there from the start."""

    object: T


@dataclass(frozen=True)
class Removed(Generic[T]):
    """The object was deleted, or no longer matches; this is its last known state."""

    object: T


@dataclass(frozen=True, slots=True)
class Synced:
    """All objects that matched at the start have been told. Comes once."""


Event = Changed[T] | Removed[T] | Synced


class Tracker(Generic[T]):
    """Turns the messages of one stream after another into one gapless sequence of events.

    It remembers the last state of every object, so that after a restart of the
    listing nothing is told twice and what vanished meanwhile is told once.
    Objects are kept by name: one of the same name but another uid is another
    object, and the removal of the old one is told first.
    """

    def __init__(self) -> None:
        self.version = ""
        """Where the next stream resumes; empty: it lists from the start."""
        self._known: dict[tuple[str, str], T] = {}
        self._listed: set[tuple[str, str]] = set()
        self._synced = False

    def begin(self) -> None:
        """A new stream is opened, from `version`."""
        self._listed.clear()

    def start_over(self) -> None:
        """`version` is of no more use: the next stream lists."""
        self.version = ""

    def take(self, changes: Iterable[tuple[int, T]], version: str, mark: int) -> list[Event[T]]:
        """Take one message: its (EventType, object) pairs, its version and its mark."""
        events: list[Event[T]] = []
        for kind, item in changes:
            if kind == EVENT_TYPE_CHANGED:
                events += self._changed(item)
            elif kind == EVENT_TYPE_REMOVED:
                events += self._removed(item)
        if mark == WATCH_MARK_SYNCED:
            events += self._end_of_listing()
        if version:
            self.version = version
        return events

    def _changed(self, item: T) -> list[Event[T]]:
        key = (item.metadata.namespace, item.metadata.name)
        before = self._known.get(key)
        self._listed.add(key)
        if before == item:
            return []
        self._known[key] = item
        if before is not None and before.metadata.uid != item.metadata.uid:
            return [Removed(before), Changed(item)]
        return [Changed(item)]

    def _removed(self, item: T) -> list[Event[T]]:
        key = (item.metadata.namespace, item.metadata.name)
        before = self._known.get(key)
        if before is not None and before.metadata.uid != item.metadata.uid:
            return []  # the removal of the older one was told when the newer one appeared
        self._known.pop(key, None)
        self._listed.discard(key)
        return [Removed(item)]

    def _end_of_listing(self) -> list[Event[T]]:
        vanished = [key for key in self._known if key not in self._listed]
        events: list[Event[T]] = [Removed(self._known.pop(key)) for key in vanished]
        if not self._synced:
            self._synced = True
            events.append(Synced())
        return events
