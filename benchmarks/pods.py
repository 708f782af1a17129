"""Pods to measure with, and a watch that notes when each has come how far."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
from drumline.api.v1.metadata_pb2 import EVENT_TYPE_REMOVED, WATCH_MARK_SYNCED
from drumline.api.v1.pod_pb2 import (
    PHASE_PENDING,
    PHASE_RUNNING,
    TOLERATION_OPERATOR_EXISTS,
    Pod,
)
from drumline.api.v1.pod_service_pb2 import (
    CreatePodsRequest,
    WatchPodsRequest,
    WatchPodsResponse,
)
from drumline.api.v1.pod_service_pb2_grpc import PodServiceStub
from drumline.model.names import LABEL_SIMULATED
from drumline.process.channels import channel

from benchmarks.cluster import Cluster

if TYPE_CHECKING:
    from drumline.api.v1.pod_service_pb2_grpc import PodServiceAsyncStub

_LIST_SECONDS = 60.0


def simulated(name: str) -> Pod:
    """Make a pod for simulated nodes; it runs until it is deleted."""
    pod = _pod(name)
    pod.spec.node_selector[LABEL_SIMULATED] = "true"
    pod.spec.tolerations.add(key=LABEL_SIMULATED, operator=TOLERATION_OPERATOR_EXISTS)
    return pod


def real(name: str) -> Pod:
    """Make a pod for nodes that run processes; it runs until it is deleted."""
    return _pod(name)


def _pod(name: str) -> Pod:
    pod = Pod()
    pod.metadata.name = name
    pod.metadata.labels["app"] = "benchmark"
    pod.spec.termination_grace_period_seconds = 0
    container = pod.spec.containers.add(name="main", command=["sleep", "3600"])
    container.resources.requests.cpu_millicores = 10
    container.resources.requests.memory_bytes = 16 << 20
    return pod


@dataclass
class Sightings:
    """When the watch first showed each pod assigned, running and gone; in seconds."""

    assigned: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, message: WatchPodsResponse, now: float) -> None:
        """Note what a message shows."""
        for event in message.events:
            pod = event.pod
            name = pod.metadata.name
            if event.type == EVENT_TYPE_REMOVED:
                self.gone[name] = now
                continue
            if pod.assignment.node:
                self.assigned.setdefault(name, now)
            if pod.status.phase == PHASE_RUNNING:
                self.running.setdefault(name, now)
            elif pod.status.phase != PHASE_PENDING and name not in self.running:
                self.ended[name] = f"{pod.status.reason}: {pod.status.message}"
        self._changed.set()

    async def until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until `holds`. Raises TimeoutError, and RuntimeError when a pod failed."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    if self.ended:
                        name, why = next(iter(self.ended.items()))
                        raise RuntimeError(f"pod {name} ended before it ran: {why}")
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(
                f"waited {seconds:.0f} s for {what}: "
                f"{len(self.assigned)} assigned, {len(self.running)} running"
            ) from None


@contextlib.asynccontextmanager
async def watched(cluster: Cluster) -> AsyncIterator[tuple["PodServiceAsyncStub", Sightings]]:
    """Give the pods' service, and what a watch over all pods sees while the block runs.

    Both are bare stubs of the public contract, so that the driver costs little: it
    shares the machine with what it measures.
    """
    sightings, ready = Sightings(), asyncio.Event()
    async with channel(cluster.address, cluster.user) as opened:
        service = PodServiceStub(opened)
        watching = asyncio.create_task(_watch(service, sightings, ready), name="watch")
        try:
            try:
                async with asyncio.timeout(_LIST_SECONDS):
                    await ready.wait()
            except TimeoutError:
                raise TimeoutError(
                    f"waited {_LIST_SECONDS:.0f} s for a watch's first list of pods"
                ) from None
            yield service, sightings
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def create(
    service: "PodServiceAsyncStub",
    request: CreatePodsRequest,
    seconds: float,
    compression: grpc.Compression = grpc.Compression.NoCompression,
) -> None:
    """Create pods. Raises RuntimeError when one is refused."""
    answer = await service.CreatePods(request, timeout=seconds, compression=compression)
    for result in answer.results:
        if result.status.code:
            raise RuntimeError(f"a pod was refused: {result.status.message}")


async def _watch(
    service: "PodServiceAsyncStub", sightings: Sightings, ready: asyncio.Event
) -> None:
    call = service.WatchPods(WatchPodsRequest())
    while True:
        message = await call.read()
        if not isinstance(message, WatchPodsResponse):
            raise ConnectionError("the apiserver ended the watch of pods")
        sightings.take(message, time.perf_counter())
        if message.mark == WATCH_MARK_SYNCED:
            ready.set()
