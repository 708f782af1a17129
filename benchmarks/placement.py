"""Many pods at once onto simulated nodes: how fast they are stored and assigned."""

import gc
import time
from collections.abc import Sequence
from typing import Any

from drumline.api.v1.pod_pb2 import Pod
from drumline.api.v1.pod_service_pb2 import CreatePodsRequest

from benchmarks.cluster import Cluster, running
from benchmarks.pods import create, simulated, watched
from benchmarks.report import percentile

# What a simulated node takes, by the kubelet's default.
PODS_PER_NODE = 110


async def measure(nodes: int, pods: int, batch: int) -> dict[str, Any]:
    """Start a cluster, create the pods, `batch` at a time, and give the figures."""
    async with running(simulated_nodes=nodes) as cluster:
        return await _place(cluster, [simulated(f"pod-{n}") for n in range(pods)], batch)


async def _place(cluster: Cluster, pods: Sequence[Pod], batch: int) -> dict[str, Any]:
    seconds = 60 + len(pods) / 50
    batches = [pods[start : start + batch] for start in range(0, len(pods), batch)]
    requests = [CreatePodsRequest(pods=some) for some in batches]
    created: dict[str, float] = {}
    async with watched(cluster) as (pods_service, sightings):
        gc.collect()
        puts, cpu = await cluster.etcd_puts(), cluster.cpu_seconds()
        began = time.perf_counter()
        for some, request in zip(batches, requests, strict=True):
            sent = time.perf_counter()
            created.update((pod.metadata.name, sent) for pod in some)
            await create(pods_service, request, seconds)
        stored = time.perf_counter()
        await sightings.until(
            lambda: len(sightings.assigned) == len(pods), seconds, "all pods to be assigned"
        )
        await sightings.until(
            lambda: len(sightings.running) == len(pods), seconds, "all pods to run"
        )
        used = cluster.cpu_seconds()
        memory = cluster.rss_mb()
        written = await cluster.etcd_puts() - puts
    cluster.check()
    last_assigned = max(sightings.assigned.values())
    latencies = [1e3 * (sightings.assigned[name] - sent) for name, sent in created.items()]
    return {
        "create_per_s": round(len(pods) / (stored - began), 1),
        "assigned_per_s": round(len(pods) / (last_assigned - began), 1),
        "running_per_s": round(len(pods) / (max(sightings.running.values()) - began), 1),
        "assigned_s": round(last_assigned - began, 3),
        "latency_p50_ms": round(percentile(latencies, 0.5), 1),
        "latency_p99_ms": round(percentile(latencies, 0.99), 1),
        "cpu_s": {name: round(used[name] - cpu[name], 2) for name in used},
        "rss_mb": {name: round(value, 1) for name, value in memory.items()},
        "etcd_puts": written,
    }
