"""The etcd client: aetcd's generated stubs over channels of our own.

Every failure leaves as a `drumline.model.errors` type: UnavailableError when etcd
cannot be reached or does not answer in time (a transaction may have happened all
the same), OutOfRangeError for a revision that is compacted.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc
from aetcd.rpc import rpc_pb2 as pb
from aetcd.rpc import rpc_pb2_grpc as pb_grpc
from drumline.model.errors import (
    DrumlineError,
    InternalError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnavailableError,
)
from drumline.process import rpc
from drumline.process.tls import TlsFiles

# The whole keyspace, as a range: from the least key to the end.
_FIRST_KEY = b"\0"
_NO_END = b"\0"

# Keys of one answer; fewer when they are so large that it is more than a message.
_PAGE = 10_000

# In lower case: etcd and gRPC begin their sentences differently.
_TOO_LARGE = (
    "request is too large",
    "too many operations in txn request",
    "received message larger than max",
)


class KeyValue(NamedTuple):
    """A key with its value; a deleted key has none."""

    key: bytes
    value: bytes | None
    revision: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a range held at one revision."""

    revision: int
    items: list[KeyValue]
    more: bool


# What a watch has to catch up with comes in one message, however much it is: etcd
# can cut it into fragments, but takes quadratic time for that (minutes for the
# history of 50,000 pods).
_OPTIONS = (("grpc.max_receive_message_length", -1),)


class TooLargeError(InternalError):
    """A transaction is over etcd's limits, or an answer over those of a message."""

    default_reason = "TRANSACTION_TOO_LARGE"


class Etcd:
    """One etcd cluster, behind a list of addresses."""

    def __init__(self, addresses: Sequence[str], tls: TlsFiles, timeout: float) -> None:
        self._endpoints = rpc.Endpoints(addresses, tls, _OPTIONS)
        self._timeout = timeout
        # The call of transactions, which are many, and the channel that it is for.
        self._txn: Any = None
        self._txn_channel: grpc.aio.Channel | None = None

    async def close(self) -> None:
        """Close the connection."""
        await self._endpoints.close()

    async def range(
        self, first: bytes = _FIRST_KEY, end: bytes = _NO_END, *, revision: int = 0, limit: int = 0
    ) -> Snapshot:
        """Read the keys from `first` up to, without, `end`; at `revision`, or linearizably now."""
        request = pb.RangeRequest(key=first, range_end=end, revision=revision, limit=limit)
        async with self._channel() as channel:
            response = await pb_grpc.KVStub(channel).Range(request, timeout=self._timeout)
        items = [KeyValue(kv.key, kv.value, kv.mod_revision) for kv in response.kvs]
        return Snapshot(revision or response.header.revision, items, response.more)

    async def read(
        self, first: bytes = _FIRST_KEY, end: bytes = _NO_END, *, revision: int = 0, limit: int = 0
    ) -> Snapshot:
        """Read as `range` does, all at one revision, in as many answers as it takes."""
        items: list[KeyValue] = []
        page = _PAGE
        while True:
            asked = min(page, limit - len(items)) if limit else page
            try:
                found = await self.range(first, end, revision=revision, limit=asked)
            except TooLargeError:
                if page == 1:
                    raise
                page = max(page // 8, 1)
                continue
            items += found.items
            if not found.more or len(items) == limit:
                return Snapshot(found.revision, items, found.more)
            first, revision = found.items[-1].key + b"\0", found.revision

    async def current_revision(self) -> int:
        """Give a revision that nothing acknowledged before this call is newer than."""
        request = pb.RangeRequest(key=_FIRST_KEY, count_only=True)
        async with self._channel() as channel:
            response = await pb_grpc.KVStub(channel).Range(request, timeout=self._timeout)
        return int(response.header.revision)

    async def txn(self, request: bytes) -> Any:
        """Carry out a transaction, an encoded `rpc_pb2.TxnRequest`; give etcd's answer."""
        async with self._channel() as channel:
            if self._txn_channel is not channel:
                self._txn_channel = channel
                self._txn = channel.unary_unary(
                    "/etcdserverpb.KV/Txn", response_deserializer=pb.TxnResponse.FromString
                )
            return await self._txn(request, timeout=self._timeout)

    async def grant_lease(self, seconds: int) -> int:
        """Make a lease that ends `seconds` after it was last kept alive; give its id."""
        async with self._channel() as channel:
            response = await pb_grpc.LeaseStub(channel).LeaseGrant(
                pb.LeaseGrantRequest(TTL=seconds), timeout=self._timeout
            )
        return int(response.ID)

    async def keep_lease(self, lease: int) -> bool:
        """Keep a lease alive, which is no write; False when it has ended."""
        async with self._channel() as channel:
            call = pb_grpc.LeaseStub(channel).LeaseKeepAlive(timeout=self._timeout)
            try:
                await call.write(pb.LeaseKeepAliveRequest(ID=lease))
                response = await call.read()
            finally:
                call.cancel()
        if response is grpc.aio.EOF:
            raise _unavailable("it did not keep a lease alive")
        return bool(response.TTL > 0)

    async def revoke_lease(self, lease: int) -> None:
        """End a lease, and remove what is tied to it; nothing happens when it has ended."""
        with contextlib.suppress(NotFoundError):
            async with self._channel() as channel:
                await pb_grpc.LeaseStub(channel).LeaseRevoke(
                    pb.LeaseRevokeRequest(ID=lease), timeout=self._timeout
                )

    async def version(self) -> str:
        """Give the version of the member that answers."""
        async with self._channel() as channel:
            response = await pb_grpc.MaintenanceStub(channel).Status(
                pb.StatusRequest(), timeout=self._timeout
            )
        return str(response.version)

    async def compact(self, revision: int) -> None:
        """Forget what keys held before `revision`; nothing happens when that is done already."""
        try:
            async with self._channel() as channel:
                await pb_grpc.KVStub(channel).Compact(
                    pb.CompactionRequest(revision=revision), timeout=self._timeout
                )
        except OutOfRangeError:
            pass

    async def watch(self, start_revision: int) -> AsyncIterator[tuple[int, list[KeyValue]]]:
        """Follow the whole keyspace: yield each revision from `start_revision` on, whole, in order.

        The first item is ``(0, [])``, once the watch stands. Ends only by an error.
        """
        create = pb.WatchCreateRequest(
            key=_FIRST_KEY, range_end=_NO_END, start_revision=start_revision
        )
        async with self._channel() as channel:
            call = pb_grpc.WatchStub(channel).Watch()
            try:
                response = await self._watching(channel, call, create)
                while response is not grpc.aio.EOF:
                    if response.compact_revision:
                        raise OutOfRangeError(
                            f"revision {start_revision} is compacted; the oldest kept is"
                            f" {response.compact_revision}"
                        )
                    if response.canceled:
                        raise UnavailableError(f"etcd ended the watch: {response.cancel_reason}")
                    if response.created:
                        yield 0, []
                    for revision, items in _by_revision(response.events):
                        yield revision, items
                    response = await call.read()
            finally:
                call.cancel()
        raise UnavailableError("etcd closed the watch", retry_after=1.0)

    async def _watching(self, channel: grpc.aio.Channel, call: Any, create: Any) -> Any:
        """Ask for a watch; give the first answer."""
        try:
            # Without a bound this would hang for good where the channel is closed
            # before the call has begun.
            async with asyncio.timeout(self._timeout):
                await call.write(pb.WatchRequest(create_request=create))
                return await call.read()
        except TimeoutError:
            await self._endpoints.rotate(channel)
            raise _unavailable("it did not confirm a watch in time") from None

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """Give the channel in use; errors leave as ours, and a member that is away is left."""
        channel = self._endpoints.channel()
        try:
            yield channel
        except grpc.aio.AioRpcError as error:
            failure = _failure(error)
            if isinstance(failure, UnavailableError):
                await self._endpoints.rotate(channel)
            raise failure from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Another call has found the member away, and closed the channel.
            raise _unavailable("the connection was given up") from None


def _by_revision(events: Sequence[Any]) -> list[tuple[int, list[KeyValue]]]:
    groups: list[tuple[int, list[KeyValue]]] = []
    for event in events:
        kv = event.kv
        revision = kv.mod_revision
        if not groups or groups[-1][0] != revision:
            groups.append((revision, []))
        # Type 1 is a deletion.
        groups[-1][1].append(KeyValue(kv.key, None if event.type else kv.value, revision))
    return groups


def _failure(error: grpc.aio.AioRpcError) -> DrumlineError:
    code, said = error.code(), error.details() or ""
    if code is grpc.StatusCode.OUT_OF_RANGE:
        return OutOfRangeError(f"etcd: {said}")
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFoundError(f"etcd: {said}")
    if any(text in said.lower() for text in _TOO_LARGE):
        return TooLargeError(f"etcd: {said}")
    if "database space exceeded" in said:
        return ResourceExhaustedError(
            "etcd is full and takes no writes; compact and defragment it, or raise its quota,"
            " then disarm its alarm",
            reason="STORE_FULL",
        )
    if code in {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
    }:
        return _unavailable(said or code.name)
    return InternalError(f"etcd: {code.name} {said}")


def _unavailable(why: str) -> UnavailableError:
    return UnavailableError(
        f"etcd does not answer ({why}); the call can be tried again",
        reason="STORE_UNAVAILABLE",
        retry_after=1.0,
    )
