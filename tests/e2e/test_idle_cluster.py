"""A cluster in which nothing happens writes nothing."""

import asyncio
import os

from benchmarks.cluster import running

NODES = 100
# A minute of beats every ten seconds is six beats of each node; here are more of
# them, in less time. `make soak` waits the whole minute, with default settings.
FULL_LENGTH = "FULL_LENGTH" in os.environ
SECONDS = 60.0 if FULL_LENGTH else 5.0
SETTINGS = {
    "DRUMLINE_NODECONTROLLER_BEAT_INTERVAL": "0.25",
    "DRUMLINE_NODECONTROLLER_GRACE": "2",
}


async def test_e1_with_100_idle_nodes_etcds_put_counter_does_not_move() -> None:
    settings = {} if FULL_LENGTH else SETTINGS
    async with running(simulated_nodes=NODES, settings=settings) as cluster:
        before, used = await cluster.etcd_puts(), cluster.cpu_seconds()["nodecontroller"]
        assert before > NODES
        # No condition to wait for: that nothing happens for this long is the test.
        await asyncio.sleep(SECONDS)
        assert await cluster.etcd_puts() == before
        assert cluster.cpu_seconds()["nodecontroller"] > used, "no beat came at all"
