"""One pod at a time on an idle cluster: how long until it is assigned, and until it runs."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drumline.api.v1.pod_pb2 import Pod
from drumline.api.v1.pod_service_pb2 import CreatePodsRequest, DeletePodsRequest

from benchmarks.cluster import running
from benchmarks.pods import Sightings, create, real, simulated, watched
from benchmarks.report import percentile

if TYPE_CHECKING:
    from drumline.api.v1.pod_service_pb2_grpc import PodServiceAsyncStub

_POD_SECONDS = 30.0
# After one pod is gone, until the next is created.
_PAUSE_SECONDS = 0.05


async def measure(nodes: int, pods: int) -> dict[str, Any]:
    """Start a cluster of simulated nodes and one of processes, and give the figures."""
    figures: dict[str, Any] = {}
    async with (
        running(simulated_nodes=nodes, process_nodes=1) as cluster,
        watched(cluster) as (service, sightings),
    ):
        for kind, make in (("simulated", simulated), ("process", real)):
            assigned, started = await _one_by_one(kind, make, pods, service, sightings)
            for what, taken in (("assigned", assigned), ("running", started)):
                figures[f"{kind}_{what}_p50_ms"] = round(percentile(taken, 0.5), 1)
                figures[f"{kind}_{what}_p99_ms"] = round(percentile(taken, 0.99), 1)
        cluster.check()
    return figures


async def _one_by_one(
    kind: str,
    make: Callable[[str], Pod],
    pods: int,
    service: "PodServiceAsyncStub",
    sightings: Sightings,
) -> tuple[list[float], list[float]]:
    """Give, for each pod, the milliseconds until it is assigned, and until it runs."""
    assigned, started = [], []
    for number in range(pods):
        name = f"{kind}-{number}"
        request = CreatePodsRequest(pods=[make(name)])
        began = time.perf_counter()
        await create(service, request, _POD_SECONDS)
        await sightings.until(lambda n=name: n in sightings.running, _POD_SECONDS, f"{name} to run")  # type: ignore[misc]
        assigned.append(1e3 * (sightings.assigned[name] - began))
        started.append(1e3 * (sightings.running[name] - began))
        delete = DeletePodsRequest()
        delete.pods.add(name=name)
        await service.DeletePods(delete, timeout=_POD_SECONDS)
        await sightings.until(lambda n=name: n in sightings.gone, _POD_SECONDS, f"{name} to go")  # type: ignore[misc]
        await asyncio.sleep(_PAUSE_SECONDS)
    return assigned, started
