"""What a stretch of time cost: processor time, memory and puts, each process by itself."""

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.cluster import Cluster
from benchmarks.flame import FlameError

SERVERS = ("etcd", "apiserver", "scheduler", "nodecontroller")


@dataclass
class Window:
    """A stretch of time; its figures are there when it is over."""

    began: float
    """By time.perf_counter, in seconds, which on one machine is the same in all processes."""
    figures: dict[str, Any] = field(default_factory=dict)

    def cpu_ms_a(self, count: int, *processes: str) -> float:
        """Give the processor time of `processes` together for each of `count`, in ms."""
        cpu: dict[str, float] = self.figures["cpu_s"]
        used = sum(cpu.get(name, 0.0) for name in processes)
        return round(1e3 * used / count, 3)


@contextlib.asynccontextmanager
async def measured(cluster: Cluster) -> AsyncIterator[Window]:
    """Measure what the block costs the cluster, and draw the flame graph if one is asked for.

    ``others_cpu`` is what was not the benchmark's: cores that everything else on the
    machine kept busy meanwhile. It should be near 0.
    """
    async with _flame(cluster):
        puts, cpu, busy = await cluster.etcd_puts(), cluster.cpu_seconds(), _busy_seconds()
        window = Window(time.perf_counter())
        yield window
        seconds = time.perf_counter() - window.began
        used = {name: now - cpu.get(name, 0.0) for name, now in cluster.cpu_seconds().items()}
        others = _busy_seconds() - busy - sum(used.values())
        window.figures = {
            "measured_s": round(seconds, 3),
            "cpu_s": {name: round(value, 2) for name, value in used.items()},
            "rss_mb": {name: round(value, 1) for name, value in cluster.rss_mb().items()},
            "etcd_puts": await cluster.etcd_puts() - puts,
            "others_cpu": round(max(others, 0.0) / seconds, 2),
        }
    cluster.check()


@contextlib.asynccontextmanager
async def _flame(cluster: Cluster) -> AsyncIterator[None]:
    flame = cluster.flame
    if flame is None:
        yield
        return
    if flame.process not in cluster.processes:
        raise FlameError(f"--flame-process {flame.process}: this benchmark has none")
    async with flame.recording(cluster.processes[flame.process].pid):
        yield


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)
