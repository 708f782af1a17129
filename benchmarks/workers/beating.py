"""A worker whose nodes beat: each over a connection of its own, or all over one."""

import asyncio
import contextlib
import gc
import random
import time
from collections.abc import Sequence
from typing import Any

import grpc
from drumline.kubelet.declaration import registrations
from drumline.kubelet.settings import Settings
from drumline.node.v1.heartbeat_service_pb2 import BeatRequest, BeatResponse
from drumline.node.v1.heartbeat_service_pb2_grpc import HeartbeatServiceStub
from drumline.node.v1.node_agent_service_pb2 import RegisterNodesRequest
from drumline.node.v1.node_agent_service_pb2_grpc import NodeAgentServiceStub
from drumline.process.channels import channel
from drumline.process.rpc import raise_file_limit

from benchmarks.report import percentile
from benchmarks.workers.link import Link, Spec, tls_of

# Handshakes under way at once.
_CONNECTING = 20
_BEAT_SECONDS = 60.0
# Between two beats of a node while others still connect.
_CALM_SECONDS = 10.0
# At full speed before anything is counted.
_WARM_SECONDS = 2.0


async def run(spec: Spec, link: Link) -> dict[str, Any]:
    """Register `nodes` nodes and beat for them until told to stop; give what came of it."""
    raise_file_limit()
    tls = tls_of(spec)
    names = await _register(spec)
    groups = [names] if spec["multiplex"] else [[name] for name in names]
    beats = _Beats()
    connecting = asyncio.Semaphore(_CONNECTING)
    async with contextlib.AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(channel(spec["nodecontroller"], tls)) for _ in groups
        ]
        # A stream ends only by an error, and the group with it.
        async with asyncio.TaskGroup() as working:
            tasks = [
                working.create_task(beats.run(opened, group, connecting), name="beats")
                for group, opened in zip(groups, channels, strict=True)
            ]
            seconds = await _until_told(beats, len(groups), link)
            for task in tasks:
                task.cancel()
    return {
        "beats": beats.answered,
        "seconds": seconds,
        "answer_p50_ms": 1e3 * percentile(beats.answers, 0.5),
        "answer_p99_ms": 1e3 * percentile(beats.answers, 0.99),
    }


async def _register(spec: Spec) -> list[str]:
    declared = registrations(Settings(runtime="simulated", simulated_nodes=spec["nodes"]))
    for registration in declared:
        # Nobody is to reach it.
        registration.info.address = "127.0.0.1:1"
    async with channel(spec["apiserver"], tls_of(spec)) as opened:
        answer = await NodeAgentServiceStub(opened).RegisterNodes(
            RegisterNodesRequest(nodes=declared), timeout=_BEAT_SECONDS
        )
    for result in answer.results:
        if result.status.code:
            raise RuntimeError(f"a node was refused: {result.status.message}")
    return [registration.name for registration in declared]


async def _until_told(beats: "_Beats", streams: int, link: Link) -> float:
    """Count from the second word to go to the word to stop; give the seconds between."""
    while beats.connected < streams:  # noqa: ASYNC110 - seldom, and not measured
        await asyncio.sleep(0.05)
    gc.collect()
    gc.freeze()
    await link.ready()
    beats.fast.set()
    await asyncio.sleep(_WARM_SECONDS)
    await link.ready()
    began = time.perf_counter()
    beats.counting = True
    await link.stopped()
    beats.counting = False
    return time.perf_counter() - began


class _Beats:
    """Beats of all nodes: how many were answered, and after how many seconds each."""

    def __init__(self) -> None:
        self.connected = 0
        self.fast = asyncio.Event()
        """Set when all are connected: until then nodes beat seldom."""
        self.counting = False
        self.answered = 0
        self.answers: list[float] = []

    async def run(
        self, opened: grpc.aio.Channel, nodes: Sequence[str], connecting: asyncio.Semaphore
    ) -> None:
        """Beat as a kubelet does: whenever the interval of the last answer has passed."""
        async with connecting:
            await opened.channel_ready()
            call = HeartbeatServiceStub(opened).Beat()
            interval = await self._beat(call, nodes, 1)
        self.connected += 1
        sequence = 1
        while True:
            if self.fast.is_set():
                await asyncio.sleep(interval)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.fast.wait(), _CALM_SECONDS * random.uniform(0.5, 1))
            sequence += 1
            interval = await self._beat(call, nodes, sequence)

    async def _beat(self, call: Any, nodes: Sequence[str], sequence: int) -> float:
        sent = time.perf_counter()
        async with asyncio.timeout(_BEAT_SECONDS):
            await call.write(BeatRequest(nodes=nodes, sequence=sequence))
            answer = await call.read()
        if not isinstance(answer, BeatResponse):
            raise ConnectionError("the nodecontroller ended a stream")
        if self.counting:
            self.answered += len(nodes)
            self.answers.append(time.perf_counter() - sent)
        return answer.next_interval.ToNanoseconds() / 1e9
