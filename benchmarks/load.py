"""Pods created by a process of its own, and when a watch in this one shows how far each came."""

import gc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.cluster import Cluster
from benchmarks.measured import SERVERS, measured
from benchmarks.pods import watched
from benchmarks.report import percentile
from benchmarks.worker import Worker
from benchmarks.workers.creating import pod_name

# What a simulated node takes, by the kubelet's default.
PODS_PER_NODE = 110

# Slower than any cluster that is worth measuring.
_PODS_PER_S = 50
_WORKER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """How pods are created: `pods` in all, `batch` in a call.

    By `callers` callers that each wait for an answer before the next call; or, when
    `rate` is not 0, so many pods a second whatever is answered. `compression`
    (none or gzip) is that of the calls.
    """

    pods: int
    batch: int = 1
    callers: int = 1
    rate: float = 0.0
    compression: str = "none"


async def offer(cluster: Cluster, load: Load) -> dict[str, Any]:
    """Create the pods, wait until all run, and give the figures."""
    seconds = _WORKER_SECONDS + load.pods / _PODS_PER_S
    async with watched(cluster) as (_, sightings):
        caller = await Worker.start(
            cluster, "caller", "create", cluster.user, seconds=seconds, **asdict(load)
        )
        await caller.ready(seconds)
        gc.collect()
        async with measured(cluster) as window:
            await caller.go()
            made = await caller.result(seconds)
            await sightings.until(
                lambda: len(sightings.assigned) == load.pods, seconds, "all pods to be assigned"
            )
            await sightings.until(
                lambda: len(sightings.running) == load.pods, seconds, "all pods to run"
            )
        await cluster.processes.pop("caller").end()
    calls: Sequence[Sequence[float]] = made["calls"]
    meant = [calls[number // load.batch][0] for number in range(load.pods)]
    began = min(meant)
    assigned = [sightings.assigned[pod_name(number)] for number in range(load.pods)]
    latencies = [1e3 * (seen - due) for seen, due in zip(assigned, meant, strict=True)]
    answers = [1e3 * (answered - due) for due, _, answered in calls]
    lateness = [1e3 * (sent - due) for due, sent, _ in calls]
    return {
        "create_per_s": round(load.pods / (max(call[2] for call in calls) - began), 1),
        "assigned_per_s": round(load.pods / (max(assigned) - began), 1),
        "running_per_s": round(load.pods / (max(sightings.running.values()) - began), 1),
        "assigned_s": round(max(assigned) - began, 3),
        "latency_p50_ms": round(percentile(latencies, 0.5), 1),
        "latency_p99_ms": round(percentile(latencies, 0.99), 1),
        "answer_p50_ms": round(percentile(answers, 0.5), 1),
        "answer_p99_ms": round(percentile(answers, 0.99), 1),
        "sent_late_p99_ms": round(percentile(lateness, 0.99), 1),
        "most_in_flight": made["most_in_flight"],
        "request_bytes_a_pod": round(made["request_bytes"] / load.pods, 1),
        "server_cpu_ms_a_pod": window.cpu_ms_a(load.pods, *SERVERS),
        "caller_cpu_ms_a_pod": window.cpu_ms_a(load.pods, "caller"),
        **window.figures,
    }


def require_room(nodes: int, pods: int) -> None:
    """Raise ValueError when the nodes cannot take the pods."""
    room = nodes * PODS_PER_NODE
    if pods > room:
        raise ValueError(f"--pods {pods} do not fit: {nodes} nodes take {room}; give more --nodes")
