"""A whole cluster of processes for one measurement, as users have it.

The processes are those of `drumline up`, started by the same commands with the same
default settings and certificates, etcd among them. They are not started again when
they end: then the measurement fails. Everything lies in one folder that is gone
afterwards, and everything that was started is ended, by its process id.
"""

import asyncio
import contextlib
import dataclasses
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from drumline.api.v1.node_pb2 import NODE_STATE_READY, Node
from drumline.cli.up import certificates, components, etcd
from drumline.cli.up.cluster import make_certificates
from drumline.cli.up.components import Component
from drumline.cli.up.state import Plan, StateFolder
from drumline.client import Client
from drumline.model.errors import DrumlineError
from drumline.process.tls import TlsFiles

from benchmarks.etcd_metrics import etcd_puts
from benchmarks.flame import Flame
from benchmarks.processes import Process

# One process simulates so many nodes at most.
NODES_A_SIMULATOR = 5000

_START_SECONDS = 60.0
# For each node, beside those.
_NODE_SECONDS = 0.02
# etcd's counter has to stand still for so long before anything is measured.
_QUIET_SECONDS = 1.0


@dataclass
class Cluster:
    """A cluster that runs."""

    folder: StateFolder
    plan: Plan
    settings: Mapping[str, str]
    flame: Flame | None = None
    processes: dict[str, Process] = field(default_factory=dict)
    commands: dict[str, Sequence[str]] = field(default_factory=dict)

    @property
    def user(self) -> TlsFiles:
        """The certificate of the cluster's user."""
        return TlsFiles.in_folder(self.folder.tls, certificates.USER)

    @property
    def address(self) -> str:
        """Where the apiserver serves, HOST:PORT."""
        return self.plan.address("apiserver")

    @property
    def etcd_user(self) -> TlsFiles:
        """The certificate that etcd serves: an apiserver's."""
        return TlsFiles.in_folder(self.folder.etcd_tls, "apiserver")

    def check(self) -> None:
        """Raise ProcessEndedError unless all processes run."""
        for process in self.processes.values():
            process.check()

    def cpu_seconds(self) -> dict[str, float]:
        """Give the processor time that each process has used, with the driver's: this one's."""
        used = {name: process.cpu_seconds() for name, process in self.processes.items()}
        return {**used, "driver": time.process_time()}

    def rss_mb(self) -> dict[str, float]:
        """Give the resident memory of each process, in megabytes."""
        return {name: process.rss_mb() for name, process in self.processes.items()}

    async def etcd_puts(self) -> int:
        """Give how many keys etcd has put since its start."""
        return await etcd_puts(self.plan.address("etcd"), self.etcd_user)

    async def until_quiet(self) -> None:
        """Wait until nothing is written any more."""
        before, now = -1, 0
        try:
            async with asyncio.timeout(_START_SECONDS):
                while (now := await self.etcd_puts()) != before:
                    before = now
                    await asyncio.sleep(_QUIET_SECONDS)
        except TimeoutError:
            raise TimeoutError(
                f"waited {_START_SECONDS:.0f} s for the cluster to write nothing; it has put"
                f" {now - before} keys in the last {_QUIET_SECONDS:.0f} s"
            ) from None

    async def until_ready(self, nodes: int) -> None:
        """Wait until so many nodes take pods."""

        async def ready() -> bool:
            async with Client([self.address], self.user, timeout=30.0) as client:
                listed = [node async for node in client.list_nodes()]
            return len(listed) == nodes and all(_takes_pods(node) for node in listed)

        seconds = _START_SECONDS + nodes * _NODE_SECONDS
        # A look at many nodes costs the processes that make them ready.
        pause = max(0.1, nodes / 2000)
        try:
            async with asyncio.timeout(seconds):
                while not await self._holds(ready):  # noqa: ASYNC110 - others' processes
                    await asyncio.sleep(pause)
        except TimeoutError:
            raise TimeoutError(f"waited {seconds:.0f} s for {nodes} nodes to be ready") from None

    async def start(self, name: str, command: Sequence[str]) -> None:
        """Start a process."""
        self.commands[name] = command
        self.processes[name] = await Process.start(
            name, command, self.folder.log(name), self.settings
        )

    async def start_again(self, name: str) -> None:
        """Start a process that was killed, by the same command."""
        await self.start(name, self.commands[name])

    async def end(self, names: Sequence[str]) -> None:
        """End processes, all at once."""
        ending = [self.processes[name].end() for name in names if name in self.processes]
        await asyncio.gather(*ending)

    async def _holds(self, holds: Callable[[], Awaitable[bool]]) -> bool:
        self.check()
        with contextlib.suppress(DrumlineError):
            return await holds()
        return False


@contextlib.asynccontextmanager
async def running(
    *,
    simulated_nodes: int = 0,
    process_nodes: int = 0,
    settings: Mapping[str, str] = MappingProxyType({}),
    flame: Flame | None = None,
    store_only: bool = False,
) -> AsyncIterator[Cluster]:
    """Run a cluster while the block runs; all nodes are ready, and nothing is being written.

    `settings` are environment variables for its processes: none but where a benchmark
    says so. `store_only` leaves everything out but etcd.
    """
    with tempfile.TemporaryDirectory(prefix="drumline-benchmark-") as name:
        folder = StateFolder(Path(name) / "state")
        folder.prepare()
        plan = folder.plan(process_nodes, min(simulated_nodes, NODES_A_SIMULATOR))
        cluster = Cluster(folder, plan, settings, flame)
        make_certificates(folder, cluster.plan)
        parts = _parts(cluster, simulated_nodes)
        if store_only:
            parts = [part for part in parts if part.name == "etcd"]
        try:
            for part in parts:
                await cluster.start(part.name, part.command)
            if not store_only:
                await cluster.until_ready(process_nodes + simulated_nodes)
                await cluster.until_quiet()
            yield cluster
        except TimeoutError:
            # That a process has ended says more than what was waited for in vain.
            cluster.check()
            raise
        finally:
            own = [part.name for part in parts]
            # Those that a benchmark has added use the others.
            await cluster.end([name for name in cluster.processes if name not in own])
            for turn in range(max(part.end_turn for part in parts) + 1):
                await cluster.end([part.name for part in parts if part.end_turn == turn])


def _parts(cluster: Cluster, simulated_nodes: int) -> list[Component]:
    """Give the processes; more nodes than a simulator takes have several."""
    plan, folder = cluster.plan, cluster.folder
    parts = components.components(plan, folder, etcd.command(etcd.find(""), plan, folder))
    left, number = simulated_nodes - plan.simulated_nodes, 2
    while left > 0:
        share = min(left, NODES_A_SIMULATOR)
        more = components.components(dataclasses.replace(plan, simulated_nodes=share), folder, [])
        name = f"simulator-{number}"
        command = [*more[-1].command, f"--node-name-prefix=sim-{number}"]
        parts.append(dataclasses.replace(more[-1], name=name, command=command))
        left, number = left - share, number + 1
    return parts


def _takes_pods(node: Node) -> bool:
    return node.status.state == NODE_STATE_READY and node.load.schedulable
