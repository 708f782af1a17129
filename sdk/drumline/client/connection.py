"""Connections to the apiservers, and how a call survives the loss of one.

One channel an address, opened when first needed and kept. All calls go to one
address until it fails; then all go to the next.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

import grpc
from drumline.api.v1.cluster_service_pb2 import GetVersionRequest
from drumline.api.v1.cluster_service_pb2_grpc import ClusterServiceStub
from drumline.api.v1.namespace_service_pb2_grpc import NamespaceServiceStub
from drumline.api.v1.node_service_pb2_grpc import NodeServiceStub
from drumline.api.v1.pod_service_pb2_grpc import PodServiceStub
from drumline.client import policy
from drumline.client.events import Event, T, Tracker
from drumline.model.errors import DeadlineExceededError, DrumlineError, UnavailableError
from drumline.process import clock
from drumline.process.backoff import Backoff
from drumline.process.channels import channel
from drumline.process.tls import TlsFiles

Request = TypeVar("Request")
Response = TypeVar("Response")

_NOT_THERE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

# With another address to go to, no try may use up all the time that is left.
_SHARE_OF_A_TRY = 0.5


class Stubs:
    """One apiserver: its channel and the services on it."""

    def __init__(self, address: str, tls: TlsFiles) -> None:
        self.address = address
        self.channel = channel(address, tls)
        self.pods = PodServiceStub(self.channel)
        self.nodes = NodeServiceStub(self.channel)
        self.namespaces = NamespaceServiceStub(self.channel)
        self.cluster = ClusterServiceStub(self.channel)

    async def connects(self, seconds: float) -> bool:
        """Connect; say whether that came about within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                state = self.channel.get_state(try_to_connect=True)
                while state is not grpc.ChannelConnectivity.READY:
                    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        return False
                    await self.channel.wait_for_state_change(state)
                    state = self.channel.get_state(try_to_connect=True)
        except TimeoutError:
            return False
        return True


class Connection:
    """All the apiservers of a cluster, as one."""

    def __init__(
        self, addresses: Sequence[str], tls: TlsFiles, timeout: float, connect_timeout: float
    ) -> None:
        if not addresses:
            raise ValueError("a client needs the address of at least one apiserver")
        self.timeout = timeout
        self._connect_timeout = connect_timeout
        self._addresses = tuple(addresses)
        self._tls = tls
        self._turn = 0
        self._stubs: dict[str, Stubs] = {}
        self._written = ""

    async def close(self) -> None:
        """Close the channels; calls under way end."""
        for stubs in self._stubs.values():
            await stubs.channel.close()
        self._stubs.clear()

    @property
    def written(self) -> str:
        """The newest version that own writes were answered with: reads must not be older."""
        return self._written

    def wrote(self, version: str) -> None:
        """Take note of the version of an own write."""
        self._written = policy.newest_version(self._written, version)

    def forget_written(self) -> None:
        """The store was replaced: earlier versions are of no more use."""
        self._written = ""

    async def unary(
        self,
        method: "Callable[[Stubs], grpc.aio.UnaryUnaryMultiCallable[Request, Response]]",
        request: Request,
        *,
        repeatable: bool,
        timeout: float | None = None,
    ) -> Response:
        """Call, by the policy that `drumline.client.Client` describes."""
        deadline = clock.monotonic() + (self.timeout if timeout is None else timeout)
        backoff = Backoff(initial=0.05, maximum=2.0)
        while True:
            stubs = await self.connected(deadline)
            remaining = max(deadline - clock.monotonic(), 0.01)
            share = _SHARE_OF_A_TRY if repeatable and len(self._addresses) > 1 else 1.0
            try:
                return await method(stubs)(request, timeout=remaining * share)
            except grpc.aio.AioRpcError as error:
                failure = policy.error_of(error)
            self._note_failure(stubs, failure)
            delay = policy.wait_before_retry(
                failure, repeatable=repeatable, delay=backoff.next_delay()
            )
            if delay is None or clock.monotonic() + delay >= deadline:
                raise failure
            await asyncio.sleep(delay)

    async def follow(
        self,
        method: "Callable[[Stubs], grpc.aio.UnaryStreamMultiCallable[Request, Response]]",
        request: Callable[[str], Request],
        changes: Callable[[Response], tuple[list[tuple[int, T]], str, int]],
        patience: float | None,
    ) -> AsyncGenerator[Event[T], None]:
        """Follow a watch through broken streams, by the policy of `drumline.client.Client`."""
        tracker: Tracker[T] = Tracker()
        backoff = Backoff(initial=0.1, maximum=5.0)
        # The first stream must stand within the time of a call.
        give_up: float | None = clock.monotonic() + self.timeout
        while True:
            tracker.begin()
            failure: DrumlineError = UnavailableError("the apiserver ended the watch")
            try:
                async with aclosing(self.stream(method, request(tracker.version))) as messages:
                    async for message in messages:
                        give_up = None
                        backoff.reset()
                        for event in tracker.take(*changes(message)):
                            yield event
            except DrumlineError as error:
                failure = error
            now = clock.monotonic()
            if give_up is None and patience is not None:
                give_up = now + patience
            if policy.must_start_over(failure):
                tracker.start_over()
            elif not policy.is_temporary(failure):
                raise failure
            delay = max(backoff.next_delay(), failure.retry_after or 0.0)
            if give_up is not None and now + delay >= give_up:
                raise failure
            await asyncio.sleep(delay)

    async def stream(
        self,
        method: "Callable[[Stubs], grpc.aio.UnaryStreamMultiCallable[Request, Response]]",
        request: Request,
        *,
        timeout: float | None = None,
    ) -> AsyncGenerator[Response, None]:
        """Give the messages of one stream; raises DrumlineError when it breaks off."""
        stubs = await self.connected(clock.monotonic() + self.timeout)
        call = method(stubs)(request, timeout=timeout)
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            failure = policy.error_of(error)
            self._note_failure(stubs, failure)
            raise failure from error
        finally:
            call.cancel()

    async def connected(self, deadline: float) -> Stubs:
        """Give an apiserver that is connected, the one in use if it can be.

        Nothing has been sent yet when this fails, so it is tried at every address
        again and again, for every kind of call. Raises UnavailableError.
        """
        deadline = min(deadline, clock.monotonic() + self._connect_timeout)
        backoff = Backoff(initial=0.05, maximum=1.0)
        while True:
            for _ in self._addresses:
                stubs = self._current()
                seconds = deadline - clock.monotonic()
                if len(self._addresses) > 1:
                    seconds *= _SHARE_OF_A_TRY
                if seconds > 0 and await stubs.connects(seconds):
                    return stubs
                self._leave(stubs)
            delay = backoff.next_delay()
            if clock.monotonic() + delay >= deadline:
                return await self._last_try()
            await asyncio.sleep(delay)

    async def _last_try(self) -> Stubs:
        """Ask once more on a channel that does not connect: gRPC tells why with the call only."""
        stubs = self._current()
        try:
            await stubs.cluster.GetVersion(GetVersionRequest(), timeout=0.5)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _NOT_THERE:
                return stubs
            why = policy.connection_trouble(error.details() or "")
            others = len(self._addresses) - 1
            more = f", nor at {others} other address{'es' if others > 1 else ''}" if others else ""
            raise UnavailableError(
                f"the cluster cannot be reached at {stubs.address}{more}: {why}",
                reason="UNREACHABLE",
                metadata={"address": stubs.address},
            ) from error
        return stubs

    def _current(self) -> Stubs:
        address = self._addresses[self._turn % len(self._addresses)]
        if address not in self._stubs:
            self._stubs[address] = Stubs(address, self._tls)
        return self._stubs[address]

    def _leave(self, stubs: Stubs) -> None:
        """Go on to the next address, unless another call has done so already."""
        if self._current() is stubs:
            self._turn += 1

    def _note_failure(self, stubs: Stubs, failure: DrumlineError) -> None:
        if isinstance(failure, UnavailableError | DeadlineExceededError):
            self._leave(stubs)
