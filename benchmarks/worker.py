"""Processes of the benchmark's own beside the one that measures, and how it talks to them.

A worker makes the load, or takes what it causes, so that neither costs the measuring
process time. It is told what to do in one line of JSON, says that it is ready, is told
to go (and, where it does not end by itself, to stop), and answers in one line of JSON.
The other side is `benchmarks.workers`.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from drumline.process.tls import TlsFiles

from benchmarks.cluster import Cluster
from benchmarks.processes import Process

_ROOT = Path(__file__).resolve().parents[1]


class Worker:
    """One worker, as the process that measures sees it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(
        cls, cluster: Cluster, name: str, kind: str, tls: TlsFiles, **spec: Any
    ) -> "Worker":
        """Start a worker of a kind; it counts among the cluster's processes, by `name`."""
        process = await Process.start(
            name,
            [sys.executable, "-m", "benchmarks.workers"],
            cluster.folder.log(name),
            {"PYTHONPATH": str(_ROOT)},
            talks=True,
        )
        cluster.processes[name] = process
        worker = cls(process)
        files = [str(tls.ca), str(tls.certificate), str(tls.key)]
        address = cluster.address
        await worker._say(json.dumps({"kind": kind, "tls": files, "apiserver": address, **spec}))
        return worker

    async def ready(self, seconds: float) -> None:
        """Wait until it can go."""
        await self._hear(seconds, "to be ready")

    async def go(self) -> None:
        """Let it begin."""
        await self._say("go")

    async def stop(self) -> None:
        """Let it come to an end, and answer."""
        await self._say("stop")

    async def result(self, seconds: float) -> Any:
        """Give its answer."""
        return json.loads(await self._hear(seconds, "to answer"))

    async def _say(self, line: str) -> None:
        assert self._process.started.stdin is not None
        self._process.started.stdin.write(line.encode() + b"\n")
        await self._process.started.stdin.drain()

    async def _hear(self, seconds: float, what: str) -> str:
        assert self._process.started.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.started.stdout.readline()
                if not line:
                    await self._process.started.wait()
        except TimeoutError:
            name = self._process.name
            raise TimeoutError(f"waited {seconds:.0f} s for the {name} {what}") from None
        self._process.check()
        return line.decode()
