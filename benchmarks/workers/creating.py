"""A worker that creates pods: as fast as so many callers can, or at a steady rate.

At a rate each call has the time at which it is meant to be sent, whatever became of
those before, and everything is counted from that time: what comes late because this
process is late is in the figures, not left out of them.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import grpc
from drumline.api.v1.pod_service_pb2 import CreatePodsRequest
from drumline.api.v1.pod_service_pb2_grpc import PodServiceStub
from drumline.process.channels import channel

from benchmarks.pods import create, simulated
from benchmarks.workers.link import Link, Spec, tls_of

if TYPE_CHECKING:
    from drumline.api.v1.pod_service_pb2_grpc import PodServiceAsyncStub

_COMPRESSIONS = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}


def pod_name(number: int) -> str:
    """Give the name of the pod with this number, from 0."""
    return f"pod-{number}"


async def run(spec: Spec, link: Link) -> dict[str, Any]:
    """Create `pods` pods, `batch` in a call, by `callers` callers or `rate` pods a second."""
    batch, pods = spec["batch"], spec["pods"]
    requests = [
        CreatePodsRequest(
            pods=[simulated(pod_name(n)) for n in range(first, min(first + batch, pods))]
        )
        for first in range(0, pods, batch)
    ]
    async with channel(spec["apiserver"], tls_of(spec)) as opened:
        async with asyncio.timeout(30):
            await opened.channel_ready()
        calls = _Calls(PodServiceStub(opened), _COMPRESSIONS[spec["compression"]], spec["seconds"])
        gc.collect()
        gc.freeze()
        await link.ready()
        if spec["rate"]:
            await calls.at_rate(requests, spec["rate"] / batch)
        else:
            await calls.by_callers(iter(enumerate(requests)), spec["callers"])
    return {
        "calls": [calls.times[number] for number in range(len(requests))],
        "most_in_flight": calls.most_in_flight,
        "request_bytes": sum(request.ByteSize() for request in requests),
    }


class _Calls:
    """Sends calls; notes for each when it was meant to be sent, was sent, and was answered."""

    def __init__(
        self, service: "PodServiceAsyncStub", compression: grpc.Compression, seconds: float
    ) -> None:
        self.times: dict[int, tuple[float, float, float]] = {}
        self.most_in_flight = 0
        self._in_flight = 0
        self._service = service
        self._compression = compression
        self._seconds = seconds

    async def by_callers(
        self, requests: Iterator[tuple[int, CreatePodsRequest]], callers: int
    ) -> None:
        """Each caller sends its next call when its last one is answered."""

        async def caller() -> None:
            for number, request in requests:
                await self._send(number, request, time.perf_counter())

        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(caller())

    async def at_rate(self, requests: list[CreatePodsRequest], calls_per_s: float) -> None:
        """Send each call at its time, whether or not those before are answered."""
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number, request in enumerate(requests):
                due = began + number / calls_per_s
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(self._send(number, request, due))

    async def _send(self, number: int, request: CreatePodsRequest, due: float) -> None:
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        sent = time.perf_counter()
        await create(self._service, request, self._seconds, self._compression)
        self.times[number] = (due, sent, time.perf_counter())
        self._in_flight -= 1
