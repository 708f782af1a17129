"""Heartbeats of many nodes: how many a nodecontroller takes, and what each costs."""

import asyncio
from typing import Any

from drumline.process.tls import TlsFiles

from benchmarks.cluster import running
from benchmarks.flame import Flame
from benchmarks.measured import measured
from benchmarks.worker import Worker

_CONNECT_SECONDS = 30.0
# For each node, beside those.
_NODE_SECONDS = 0.02


async def measure(
    nodes: int, interval: float, seconds: int, flame: Flame | None, *, multiplex: bool
) -> dict[str, Any]:
    """Start a cluster, let nodes beat that a process of its own simulates, give the figures."""
    settings = {
        "DRUMLINE_NODECONTROLLER_BEAT_INTERVAL": str(interval),
        # What is asked for is not to be held back: the most that is taken is measured.
        "DRUMLINE_NODECONTROLLER_BEATS_PER_SECOND_BOUND": str(max(1000.0, 2 * nodes / interval)),
    }
    patience = _CONNECT_SECONDS + nodes * _NODE_SECONDS
    async with running(settings=settings, flame=flame) as cluster:
        empty = cluster.processes["nodecontroller"].rss_mb()
        beating = await Worker.start(
            cluster,
            "nodes",
            "beat",
            TlsFiles.in_folder(cluster.folder.tls, "simulator"),
            nodecontroller=cluster.plan.address("nodecontroller"),
            nodes=nodes,
            multiplex=multiplex,
        )
        await beating.ready(patience)
        await cluster.until_ready(nodes)
        await cluster.until_quiet()
        await beating.go()
        await beating.ready(patience)
        async with measured(cluster) as window:
            await beating.go()
            await asyncio.sleep(seconds)
            await beating.stop()
            heard = await beating.result(patience)
    beats = heard["beats"]
    if not beats:
        raise RuntimeError(f"no node has beaten within {seconds} s: give more --seconds")
    memory = window.figures["rss_mb"]["nodecontroller"] - empty
    return {
        "offered_beats_per_s": round(nodes / interval, 1),
        "beats_per_s": round(beats / heard["seconds"], 1),
        "answer_p50_ms": round(heard["answer_p50_ms"], 1),
        "answer_p99_ms": round(heard["answer_p99_ms"], 1),
        "cpu_us_a_beat": round(1e3 * window.cpu_ms_a(beats, "nodecontroller"), 1),
        "memory_kb_a_node": round(1e3 * memory / nodes, 1),
        **window.figures,
    }
