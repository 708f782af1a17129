"""An apiserver with many pods: its memory, and how long it is away when it is killed."""

import asyncio
import time
from typing import Any

from drumline.api.v1.pod_service_pb2 import CreatePodsRequest, ListPodsRequest
from drumline.api.v1.pod_service_pb2_grpc import PodServiceStub
from drumline.process.channels import channel

from benchmarks.answers import until_answered, until_listening
from benchmarks.cluster import Cluster, running
from benchmarks.flame import Flame
from benchmarks.load import Load, offer, require_room
from benchmarks.measured import measured
from benchmarks.pods import create, simulated, watched

_SECONDS = 120.0
_PAGE = 5000


async def measure(nodes: int, pods: int, batch: int, flame: Flame | None) -> dict[str, Any]:
    """Start a cluster, create the pods, and give the figures of the rest."""
    require_room(nodes, pods + 1)
    async with running(simulated_nodes=nodes) as cluster:
        await offer(cluster, Load(pods, batch))
        await cluster.until_quiet()
        cluster.flame = flame
        return await again(cluster, pods)


async def again(cluster: Cluster, pods: int) -> dict[str, Any]:
    """Kill the apiserver and start it again, which all of its clients see; give the figures.

    Raises RuntimeError when what it lists afterwards is not what was there.
    """
    before = cluster.processes["apiserver"].rss_mb()
    killed = time.perf_counter()
    await cluster.processes["apiserver"].kill()
    await cluster.start_again("apiserver")
    started = time.perf_counter()
    async with measured(cluster) as window:
        async with channel(cluster.address, cluster.user) as opened:
            service = PodServiceStub(opened)
            try:
                async with asyncio.timeout(_SECONDS):
                    await until_listening(cluster.plan.ports["apiserver"])
                    await until_answered(lambda: service.ListPods(ListPodsRequest(), timeout=30.0))
            except TimeoutError:
                raise TimeoutError(
                    f"waited {_SECONDS:.0f} s for the apiserver to list pods after its restart"
                ) from None
            answered = time.perf_counter()
            listed = await _count(service)
        async with watched(cluster) as (service, sightings):
            await create(service, CreatePodsRequest(pods=[simulated("afterwards")]), _SECONDS)
            await sightings.until(
                lambda: "afterwards" in sightings.running, _SECONDS, "a pod created since to run"
            )
            running_again = sightings.running["afterwards"]
    if listed != pods:
        raise RuntimeError(f"{listed} pods are listed after the restart, {pods} were there")
    return {
        "apiserver_rss_mb": round(before, 1),
        "apiserver_rss_after_restart_mb": round(cluster.processes["apiserver"].rss_mb(), 1),
        "ready_s": round(answered - started, 2),
        "away_s": round(answered - killed, 2),
        "new_pod_runs_s": round(running_again - killed, 2),
        "restart": window.figures,
    }


async def _count(service: Any) -> int:
    count, token = 0, ""
    while True:
        request = ListPodsRequest(page_size=_PAGE, page_token=token)
        page = await service.ListPods(request, timeout=30.0)
        count += len(page.pods)
        token = page.next_page_token
        if not token:
            return count
