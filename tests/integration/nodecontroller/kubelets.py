"""Nodes that beat, as kubelets do."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import grpc
from drumline.model.errors import from_rpc_error
from drumline.node.v1.heartbeat_service_pb2 import BeatRequest, BeatResponse
from drumline.node.v1.heartbeat_service_pb2_grpc import HeartbeatServiceStub
from drumline.process.channels import channel
from drumline.process.tls import TlsFiles


class Line:
    """One stream of beats."""

    def __init__(self, opened: grpc.aio.Channel) -> None:
        self._call = HeartbeatServiceStub(opened).Beat()
        self._sequence = 0

    async def beat(self, *nodes: str, sequence: int | None = None) -> BeatResponse:
        """Send a beat and give its answer. Raises what the server answered instead."""
        self._sequence = self._sequence + 1 if sequence is None else sequence
        try:
            await self._call.write(BeatRequest(nodes=nodes, sequence=self._sequence))
            answer = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.InvalidStateError:
            # Written to a stream that the server has ended.
            answer = grpc.aio.EOF
        if isinstance(answer, BeatResponse):
            assert answer.acknowledged_sequence == self._sequence
            return answer
        with contextlib.suppress(grpc.aio.AioRpcError):
            await self._call.read()
        raise AssertionError(f"the stream ended: {await self._call.code()}")


@contextlib.asynccontextmanager
async def line(address: str, tls: TlsFiles) -> AsyncIterator[Line]:
    """Open a stream of beats to a controller."""
    async with channel(address, tls) as opened:
        yield Line(opened)


@dataclasses.dataclass
class Beater:
    """Beats for nodes as often as it is told, over new streams when one fails."""

    address: str
    tls: TlsFiles
    nodes: list[str]
    acknowledged: int = 0
    unknown: list[str] = dataclasses.field(default_factory=list)

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await self._beat()
            await asyncio.sleep(0.05)

    async def _beat(self) -> None:
        async with channel(self.address, self.tls) as opened:
            call = HeartbeatServiceStub(opened).Beat()
            sequence = 0
            while True:
                sequence += 1
                await call.write(BeatRequest(nodes=self.nodes, sequence=sequence))
                answer = await call.read()
                if not isinstance(answer, BeatResponse):
                    return
                self.acknowledged += 1
                self.unknown = list(answer.unknown_nodes)
                await asyncio.sleep(answer.next_interval.ToNanoseconds() / 1e9)


@contextlib.asynccontextmanager
async def beating(*beaters: Beater) -> AsyncIterator[None]:
    """Let them beat while the block runs."""
    tasks = [asyncio.create_task(beater.run()) for beater in beaters]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
