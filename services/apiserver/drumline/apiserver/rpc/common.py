"""What the services share: bounds of requests, results, pages."""

import base64
import binascii
import secrets
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.index import Index
from drumline.apiserver.cache.versions import revision_of
from drumline.apiserver.store import wire
from drumline.apiserver.store.committer import Committed, Committer, Step
from drumline.model.errors import (
    DrumlineError,
    InvalidArgumentError,
    UnavailableError,
    Violation,
    to_status,
)
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

T = TypeVar("T")

MAX_ITEMS = 5000
_DEFAULT_PAGE = 500
_RESULT_BYTES = 16 << 20

# Field numbers that the list and result messages of all kinds have in common.
RESULTS = 1
_RESOURCE_VERSION = 2
RESULT_STATUS = 1
RESULT_OBJECT = 2

OK_STATUS = wire.message_field(RESULT_STATUS, b"")


def check_request(request: Message, items: Sequence[object], field: str) -> None:
    """Raise InvalidArgumentError for a number of items, or for fields, that cannot be."""
    if not items:
        raise InvalidArgumentError.of([Violation(field, "at least one is required")])
    if len(items) > MAX_ITEMS:
        raise InvalidArgumentError.of(
            [Violation(field, f"at most {MAX_ITEMS} at once, not {len(items)}")]
        )
    check_known_fields(request)


def check_known_fields(request: Message) -> None:
    """Raise InvalidArgumentError when the request has fields that this release does not know."""
    size = request.ByteSize()
    request.DiscardUnknownFields()
    if request.ByteSize() != size:
        raise InvalidArgumentError.of(
            [
                Violation(
                    "",
                    "the request has fields that this apiserver does not know;"
                    " it would ignore them: use a client of its version",
                )
            ]
        )


def checked(violations: Sequence[Violation]) -> None:
    """Raise InvalidArgumentError if there are violations."""
    if violations:
        raise InvalidArgumentError.of(violations)


def new_uid() -> str:
    """Give an identity that no other object has: 128 random bits."""
    return secrets.token_hex(16)


async def carry_out(
    committer: Committer, plans: Sequence[Step[T] | DrumlineError]
) -> list[Committed[T] | DrumlineError]:
    """Carry out the steps among `plans`; what is refused already stays refused.

    Raises UnavailableError when the store was away for all of them: then the whole
    request should be sent again.
    """
    steps = [plan for plan in plans if not isinstance(plan, DrumlineError)]
    outcomes = await committer.submit(steps)
    away = [outcome for outcome in outcomes if isinstance(outcome, UnavailableError)]
    if away and len(away) == len(outcomes):
        raise away[0]
    given = iter(outcomes)
    return [plan if isinstance(plan, DrumlineError) else next(given) for plan in plans]


def plan(make: Callable[..., Step[T]], *arguments: Any) -> Step[T] | DrumlineError:
    """Make a step, or give the error that says why there is none."""
    try:
        return make(*arguments)
    except DrumlineError as error:
        return error


def result(outcome: bytes | DrumlineError | None) -> bytes:
    """Encode an item's result: with an object's bytes, without one, or refused."""
    if isinstance(outcome, DrumlineError):
        status = to_status(outcome).SerializeToString()
        return wire.message_field(RESULTS, wire.message_field(RESULT_STATUS, status))
    if outcome is None:
        return wire.message_field(RESULTS, OK_STATUS)
    return wire.message_field(RESULTS, OK_STATUS + wire.message_field(RESULT_OBJECT, outcome))


async def results(
    cache: Cache,
    index: Index[Any],
    keys: Sequence[str],
    outcomes: Sequence[Committed[Any] | DrumlineError],
    is_gone: Callable[[Any], bool] = lambda _: False,
) -> bytes:
    """Encode the result of each item, with the object under its key as it is now.

    `is_gone` says of what a step gave whether its object is no longer there. Behind
    16 MiB of objects the others are left out.
    """
    await cache.reached(newest_revision(outcomes))
    parts = []
    room = _RESULT_BYTES
    for key, outcome in zip(keys, outcomes, strict=True):
        if isinstance(outcome, DrumlineError):
            parts.append(result(outcome))
            continue
        entry = None if is_gone(outcome.value) else index.entries.get(key)
        whole = None if entry is None or room < 0 else index.whole(entry)
        room -= len(whole or b"")
        parts.append(result(whole))
    return b"".join(parts)


def holds_at(cache: Cache, outcomes: Sequence[Committed[Any] | DrumlineError]) -> bytes:
    """Encode the version at which all that was committed holds; nothing when nothing was."""
    revision = newest_revision(outcomes)
    if not revision:
        return b""
    return wire.message_field(_RESOURCE_VERSION, cache.version(revision).encode())


def statuses(outcomes: Sequence[Committed[Any] | DrumlineError]) -> list[Status]:
    """Give each outcome as a status."""
    return [to_status(o) if isinstance(o, DrumlineError) else Status() for o in outcomes]


def newest_revision(outcomes: Sequence[Committed[Any] | DrumlineError]) -> int:
    """Give the newest revision at which any of them was committed; 0 if none was."""
    return max((o.revision for o in outcomes if isinstance(o, Committed)), default=0)


async def at_least(cache: Cache, resource_version: str) -> None:
    """Wait until the cache is no older than a version that a client named."""
    if resource_version:
        field = "min_resource_version"
        await cache.reached_by_client(revision_of(resource_version, cache.epoch, field))


def page_size(asked: int) -> int:
    """Give the number of objects of a page. Raises InvalidArgumentError."""
    if not 0 <= asked <= MAX_ITEMS:
        raise InvalidArgumentError.of(
            [Violation("page_size", f"must be from 0 to {MAX_ITEMS}, not {asked}")]
        )
    return asked or _DEFAULT_PAGE


def page_token(cache: Cache, revision: int, selector: Message | None, key: str) -> str:
    """Make the token for the page behind `key` of a list at `revision`."""
    named = cache.version(revision)
    text = f"{named}|{_fingerprint(selector, named, key)}|{key}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def read_page_token(cache: Cache, token: str, selector: Message | None) -> tuple[int, str]:
    """Give a token's revision and key. Raises InvalidArgumentError, FailedPreconditionError."""
    try:
        text = base64.b64decode(token, altchars=b"-_", validate=True).decode()
        named, fingerprint, key = text.split("|", 2)
    except (binascii.Error, UnicodeDecodeError, ValueError):
        fingerprint = named = key = ""
    if fingerprint != _fingerprint(selector, named, key):
        raise InvalidArgumentError.of(
            [Violation("page_token", "is not one that a list with this selector has answered")]
        )
    return revision_of(named, cache.epoch, "page_token"), key


def _fingerprint(selector: Message | None, named: str, key: str) -> str:
    """Give what tells a token that was damaged, or is of another list."""
    content = b"" if selector is None else selector.SerializeToString(deterministic=True)
    return f"{zlib.crc32(f'{named}|{key}|'.encode() + content):08x}"
