"""Growth: the same measurements on larger and larger clusters, and what they grow by."""

from collections.abc import Sequence
from typing import Any

from benchmarks.cluster import running
from benchmarks.flame import Flame
from benchmarks.latency import alone
from benchmarks.load import Load, offer, require_room

Size = tuple[int, int]
"""Nodes and pods."""

SIZES: tuple[Size, ...] = ((1000, 10_000), (5000, 50_000), (10_000, 100_000))

# Created one at a time when all others run.
_ALONE = 50


async def measure(sizes: Sequence[Size], batch: int, flame: Flame | None) -> dict[str, Any]:
    """Measure each size on a cluster of its own; give the figures by ``NODESxPODS``.

    ``cpu_ratio`` is the servers' processor time for a pod over that of the first size.
    """
    figures: dict[str, dict[str, Any]] = {}
    for nodes, pods in sizes:
        found = await _one(nodes, pods, batch, flame)
        first = next(iter(figures.values()), found)
        ratio = found["server_cpu_ms_a_pod"] / first["server_cpu_ms_a_pod"]
        figures[f"{nodes}x{pods}"] = {"cpu_ratio": round(ratio, 2), **found}
    return figures


def parse(text: str) -> tuple[Size, ...]:
    """Read ``NODES:PODS,NODES:PODS``. Raises ValueError."""
    found = []
    for part in text.split(","):
        nodes, _, pods = part.partition(":")
        size = int(nodes), int(pods)
        if not 1 <= size[0] <= 20_000 or size[1] < 1:
            raise ValueError(f"{part} is not within 1 to 20,000 nodes, and 1 pod or more")
        require_room(*size)
        found.append(size)
    return tuple(found)


async def _one(nodes: int, pods: int, batch: int, flame: Flame | None) -> dict[str, Any]:
    require_room(nodes, pods + 1)
    async with running(simulated_nodes=nodes, flame=flame) as cluster:
        placed = await offer(cluster, Load(pods, batch))
        await cluster.until_quiet()
        singles = await alone(cluster, _ALONE, "simulated")
        memory = {name: round(value, 1) for name, value in cluster.rss_mb().items()}
        return {**placed, **singles, "rss_at_rest_mb": memory}
