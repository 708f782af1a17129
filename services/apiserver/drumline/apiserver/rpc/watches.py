"""Watches: the watch stands, what is there, then what changes, many events a message."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from drumline.api.v1 import metadata_pb2
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.index import CHANGED, Index, Pending, Watcher
from drumline.apiserver.cache.objects import Entry
from drumline.apiserver.cache.versions import revision_of
from drumline.apiserver.store import wire

E = TypeVar("E", bound=Entry)

# Field numbers that all watches of one kind of object have in common.
EVENTS = 1
_RESOURCE_VERSION = 2

_EVENTS_A_MESSAGE = 500
# A stream that is not read holds one message, and there may be thousands of them.
_MESSAGE_BYTES = 64 << 10


def batches(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join encoded fields to messages of about 64 KiB, each when it is asked for."""
    batch: list[bytes] = []
    length = 0
    for part in parts:
        batch.append(part)
        length += len(part)
        if length >= _MESSAGE_BYTES:
            yield b"".join(batch)
            batch, length = [], 0
    if batch:
        yield b"".join(batch)


def events(index: Index[E], taken: Iterable[Pending[E]], field: int = EVENTS) -> Iterator[bytes]:
    """Encode events as fields of a watch's message."""
    return (wire.message_field(field, index.event(pending)) for pending in taken)


def initial(index: Index[E], entries: Iterable[E], field: int = EVENTS) -> Iterator[bytes]:
    """Encode the objects that a watch begins with."""
    nothing: frozenset[str] = frozenset()
    return events(index, (Pending(CHANGED, e, e.version, nothing) for e in entries), field)


async def resume_point(cache: Cache, resource_version: str) -> int | None:
    """Give the revision that a watch goes on from; None for a watch afresh."""
    if not resource_version:
        return None
    revision = revision_of(resource_version, cache.epoch, "resource_version")
    await cache.reached_by_client(revision)
    return revision


@dataclass(frozen=True, slots=True)
class Contract:
    """How a contract's watch messages look beside their events."""

    # Number of the field that holds the mark.
    mark_field: int = 3
    # Whether messages carry versions to resume from.
    versions: bool = True


WITH_VERSIONS = Contract()
WITHOUT_VERSIONS = Contract(mark_field=2, versions=False)


class Watch(Generic[E]):
    """One watch of one kind of objects, as bytes of its contract's messages."""

    def __init__(
        self,
        cache: Cache,
        index: Index[E],
        select: Callable[[E], bool],
        *,
        routes: Iterable[Hashable] = (),
        ignore: frozenset[str] = frozenset(),
        contract: Contract = WITH_VERSIONS,
        bookmark_seconds: float,
    ) -> None:
        self._cache = cache
        self._index = index
        self._select = select
        self._routes = tuple(routes)
        self._contract = contract
        self._bookmark_seconds = bookmark_seconds
        self._wake = asyncio.Event()
        self._watcher = Watcher(select, self._wake, ignore)
        # The revision that the reader has been told to be complete up to.
        self._told = 0

    async def messages(self, after: int | None = None) -> AsyncIterator[bytes]:
        """Give the messages, without end; `after` resumes, without it all objects come first."""
        self._index.attach(self._watcher, self._routes, after=after)
        try:
            there = []
            if after is None:
                there = [e for e in self._index.entries.values() if self._select(e)]
            self._told = self._cache.revision
            yield self._mark(metadata_pb2.WATCH_MARK_ESTABLISHED)
            if after is None:
                told = self._version()
                for message in batches(initial(self._index, there)):
                    yield message
                there.clear()
                yield told + self._mark(metadata_pb2.WATCH_MARK_SYNCED)
            while True:
                try:
                    async with asyncio.timeout(self._bookmark_seconds):
                        await self._wake.wait()
                except TimeoutError:
                    for message in self._bookmark():
                        yield message
                else:
                    self._wake.clear()
                    for message in self._changes():
                        yield message
        finally:
            self._index.detach(self._watcher, self._routes)

    def _changes(self) -> Iterator[bytes]:
        # Drained as it is sent: what changes again meanwhile is sent once.
        while taken := self._watcher.drain(_EVENTS_A_MESSAGE):
            done = not self._watcher
            self._told = self._cache.revision if done else taken[-1].revision
            told = self._version()
            last = b""
            for message in batches(events(self._index, taken)):
                if last:
                    yield last
                last = message
            yield last + told

    def _bookmark(self) -> Iterator[bytes]:
        if self._contract.versions and self._told != self._cache.revision and not self._watcher:
            self._told = self._cache.revision
            yield self._version() + self._mark(metadata_pb2.WATCH_MARK_BOOKMARK)

    def _mark(self, mark: "metadata_pb2.WatchMark.ValueType") -> bytes:
        return wire.number_field(self._contract.mark_field, mark)

    def _version(self) -> bytes:
        if not self._contract.versions:
            return b""
        return wire.message_field(_RESOURCE_VERSION, self._cache.version(self._told).encode())
