"""The kubelet's process."""

import asyncio
import contextlib
import os
import socket
import sys

from drumline.kubelet.agent import Agent
from drumline.kubelet.beats import Beats
from drumline.kubelet.connection import Connection
from drumline.kubelet.declaration import registrations
from drumline.kubelet.pod_table import PodTable
from drumline.kubelet.process_runtime import ProcessRuntime
from drumline.kubelet.reporter import Reporter
from drumline.kubelet.runtime import Runtime
from drumline.kubelet.server import KubeletService
from drumline.kubelet.settings import Settings
from drumline.kubelet.simulated_runtime import SimulatedRuntime
from drumline.kubelet.v1 import kubelet_service_pb2
from drumline.model import resources
from drumline.process import clock, rpc
from drumline.process import run as process
from drumline.process.channels import Endpoints

_SERVICE = kubelet_service_pb2.DESCRIPTOR.services_by_name["KubeletService"]

# Pods that are ended together with this process get so long at most.
_EXIT_GRACE_SECONDS = 5.0
_EXIT_SECONDS = 8.0
# Hosts to listen on that say nothing of where to connect to.
_EVERYWHERE = ("", "0.0.0.0", "[::]")  # noqa: S104


async def run(settings: Settings) -> None:
    """Carry the nodes, until cancelled."""
    nodes = settings.nodes
    declared = registrations(settings)
    allocatable = {r.name: resources.from_proto(r.info.allocatable) for r in declared}
    runtime = make_runtime(settings)
    apiserver = Endpoints(settings.apiserver, settings.tls)
    nodecontroller = Endpoints(settings.nodecontroller, settings.tls)
    reporter = Reporter(apiserver)
    agent = Agent(
        PodTable(allocatable, runtime),
        runtime,
        reporter,
        nodes,
        keep_count=settings.keep_ended_pods * len(nodes),
        keep_age=settings.keep_ended_pods_seconds,
    )
    handlers = [rpc.handlers(_SERVICE, KubeletService(agent, runtime))]
    await agent.recover()
    try:
        async with process.serving(settings.listen_address, settings.tls, handlers) as serving:
            health, port = serving
            for registration in declared:
                registration.info.address = advertised(settings, port)
            connection = Connection(apiserver, agent, declared, health.set_serving)
            beats = Beats(nodecontroller, nodes, connection.forgotten)
            async with asyncio.TaskGroup() as group:
                group.create_task(runtime.run(), name="runtime")
                group.create_task(agent.run(), name="agent")
                group.create_task(reporter.run(), name="reporter")
                group.create_task(connection.run(), name="connection")
                group.create_task(beats.run(), name="beats")
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    # The tasks of the group still run: they stop and report the pods.
                    if settings.stop_pods_at_exit:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(_EXIT_SECONDS):
                                await agent.stop_all(_EXIT_GRACE_SECONDS)
                    raise
    finally:
        await apiserver.close()
        await nodecontroller.close()


def make_runtime(settings: Settings) -> Runtime:
    """Make the runtime that the settings name."""
    if settings.runtime == "simulated":
        return SimulatedRuntime(clock.monotonic, lambda: clock.wall().timestamp())
    return ProcessRuntime(settings.state_dir, os.environ)


def advertised(settings: Settings, port: int) -> str:
    """Give where the apiserver reaches this process."""
    host = settings.listen_address.rpartition(":")[0]
    if host in _EVERYWHERE:
        host = socket.gethostname()
    return settings.advertise_address or f"{host}:{port}"


def main() -> int:
    """Run the process; give its exit status."""
    return process.main("kubelet", Settings, run)


if __name__ == "__main__":
    sys.exit(main())
