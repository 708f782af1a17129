"""How long one pod takes: alone on an idle cluster, or while others come at a steady rate."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drumline.api.v1.pod_pb2 import Pod
from drumline.api.v1.pod_service_pb2 import CreatePodsRequest, DeletePodsRequest

from benchmarks.cluster import Cluster, running
from benchmarks.flame import Flame
from benchmarks.load import Load, offer, require_room
from benchmarks.measured import measured
from benchmarks.pods import Sightings, create, real, simulated, watched
from benchmarks.report import percentile

if TYPE_CHECKING:
    from drumline.api.v1.pod_service_pb2_grpc import PodServiceAsyncStub

_POD_SECONDS = 30.0
# After one pod is gone, until the next is created.
_PAUSE_SECONDS = 0.05

_KINDS: dict[str, Callable[[str], Pod]] = {"simulated": simulated, "process": real}


async def measure(nodes: int, pods: int, flame: Flame | None) -> dict[str, Any]:
    """Start a cluster of simulated nodes and one of processes, and give the figures."""
    async with running(simulated_nodes=nodes, process_nodes=1, flame=flame) as cluster:
        async with measured(cluster) as window:
            figures = await alone(cluster, pods, *_KINDS)
        return {**figures, **window.figures}


async def measure_at_rate(
    nodes: int, rate: float, seconds: int, flame: Flame | None
) -> dict[str, Any]:
    """Start a cluster, create single pods at a steady rate, and give the figures."""
    pods = round(rate * seconds)
    require_room(nodes, pods)
    async with running(simulated_nodes=nodes, flame=flame) as cluster:
        return await offer(cluster, Load(pods, rate=rate))


async def alone(cluster: Cluster, pods: int, *kinds: str) -> dict[str, Any]:
    """Create and delete pods of each kind, one after the other; give what each came to."""
    figures: dict[str, Any] = {}
    async with watched(cluster) as (service, sightings):
        for kind in kinds:
            assigned, started = await _one_by_one(kind, pods, service, sightings)
            for what, taken in (("assigned", assigned), ("running", started)):
                figures[f"{kind}_{what}_p50_ms"] = round(percentile(taken, 0.5), 1)
                figures[f"{kind}_{what}_p99_ms"] = round(percentile(taken, 0.99), 1)
    return figures


async def _one_by_one(
    kind: str, pods: int, service: "PodServiceAsyncStub", sightings: Sightings
) -> tuple[list[float], list[float]]:
    """Give, for each pod, the milliseconds until it is assigned, and until it runs."""
    assigned, started = [], []
    for number in range(pods):
        name = f"{kind}-{number}"
        request = CreatePodsRequest(pods=[_KINDS[kind](name)])
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
