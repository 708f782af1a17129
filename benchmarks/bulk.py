"""Does bulk pay? Pods in bulk against single calls side by side, plain and compressed."""

from typing import Any

from benchmarks.cluster import running
from benchmarks.flame import Flame
from benchmarks.load import Load, offer, require_room


async def measure(
    nodes: int, pods: int, batch: int, callers: int, rate: float, flame: Flame | None
) -> dict[str, Any]:
    """Offer the same pods in four ways, each to a cluster of its own, and give the figures.

    As fast as it goes: bulk by one caller, singles by `callers`. Or `rate` pods a
    second both ways, as bulks or singles, whatever is answered.
    """
    require_room(nodes, pods)
    figures = {}
    for compression in ("none", "gzip"):
        for way, size, many in (("bulk", batch, 1), ("single", 1, callers)):
            load = Load(pods, size, many, rate, compression)
            async with running(simulated_nodes=nodes, flame=flame) as cluster:
                figures[f"{way}_{compression}"] = await offer(cluster, load)
    return figures
