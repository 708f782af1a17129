"""Lists in pages, all pages of a list at one revision."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.index import Index
from drumline.apiserver.cache.objects import Entry
from drumline.apiserver.rpc import common
from drumline.apiserver.store import wire
from google.protobuf.message import Message

E = TypeVar("E", bound=Entry)

# Field numbers that all list answers have in common.
_OBJECTS = 1
_RESOURCE_VERSION = 2
_NEXT_PAGE_TOKEN = 3

_PAGE_BYTES = 8 << 20
_READ_AHEAD = 1000

# Reads objects behind a key, at a revision, up to a number.
PastReader = Callable[[int, str, int], Awaitable[list[E]]]


async def page(
    cache: Cache,
    index: Index[E],
    past: PastReader[E],
    *,
    selector: Message | None,
    select: Callable[[E], bool],
    size: int,
    token: str,
    min_resource_version: str,
) -> bytes:
    """Give the bytes of a list's answer: one page of the objects that `select` picks."""
    limit = common.page_size(size)
    after = ""
    if token:
        revision, after = common.read_page_token(cache, token, selector)
        await cache.reached_by_client(revision)
    else:
        await common.at_least(cache, min_resource_version)
        revision = cache.revision
    source: AsyncIterator[E]
    if revision == cache.revision:
        source = _now(index.after(after))
    else:
        source = _then(past, revision, after)
    parts: list[bytes] = []
    length = 0
    last = ""
    more = False
    async for entry in source:
        if not select(entry):
            continue
        if len(parts) >= limit or length > _PAGE_BYTES:
            more = True
            break
        encoded = wire.message_field(_OBJECTS, index.whole(entry))
        length += len(encoded)
        parts.append(encoded)
        last = entry.key
    parts.append(wire.message_field(_RESOURCE_VERSION, cache.version(revision).encode()))
    if more:
        following = common.page_token(cache, revision, selector, last)
        parts.append(wire.message_field(_NEXT_PAGE_TOKEN, following.encode()))
    return b"".join(parts)


async def _now(entries: Iterable[E]) -> AsyncIterator[E]:
    for entry in entries:
        yield entry


async def _then(past: PastReader[E], revision: int, after: str) -> AsyncIterator[E]:
    while True:
        entries = await past(revision, after, _READ_AHEAD)
        for entry in entries:
            yield entry
        if len(entries) < _READ_AHEAD:
            return
        after = entries[-1].key
