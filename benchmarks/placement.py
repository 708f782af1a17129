"""Many pods at once onto simulated nodes: how fast they are stored and assigned."""

from typing import Any

from benchmarks.cluster import running
from benchmarks.flame import Flame
from benchmarks.load import Load, offer, require_room


async def measure(
    nodes: int, pods: int, batch: int, callers: int, flame: Flame | None
) -> dict[str, Any]:
    """Start a cluster, create the pods, `batch` at a time, and give the figures."""
    require_room(nodes, pods)
    async with running(simulated_nodes=nodes, flame=flame) as cluster:
        return await offer(cluster, Load(pods, batch, callers))
