"""The nodecontroller's process."""

import asyncio
import sys

from drumline.node.v1 import heartbeat_service_pb2
from drumline.nodecontroller.liveness import Liveness
from drumline.nodecontroller.reporter import Reporter
from drumline.nodecontroller.service import HeartbeatService
from drumline.nodecontroller.settings import Settings
from drumline.nodecontroller.watcher import Watcher
from drumline.process import clock, rpc
from drumline.process import run as process
from drumline.process.channels import Endpoints
from drumline.process.settings import SettingsError

_HEARTBEATS = heartbeat_service_pb2.DESCRIPTOR.services_by_name["HeartbeatService"]


async def run(settings: Settings) -> None:
    """Hear nodes and report on them, until cancelled. Raises SettingsError."""
    if not settings.apiserver:
        raise SettingsError("--apiserver is empty, and must name at least one HOST:PORT")
    liveness = Liveness(settings.rules)
    reporter = Reporter()
    service = HeartbeatService(liveness, reporter.add)
    endpoints = Endpoints(settings.apiserver, settings.tls)
    handlers = [rpc.handlers(_HEARTBEATS, service)]
    try:
        async with process.serving(settings.listen_address, settings.tls, handlers) as (health, _):
            watcher = Watcher(endpoints, settings.instance, liveness, reporter, health.set_serving)
            async with asyncio.TaskGroup() as group:
                group.create_task(watcher.run(), name="watcher")
                group.create_task(reporter.run(), name="reporter")
                group.create_task(look(liveness, reporter), name="deadlines")
    finally:
        await endpoints.close()


async def look(liveness: Liveness, reporter: Reporter) -> None:
    """Look at the deadlines at even times, until cancelled."""
    while True:
        reporter.add(liveness.look(clock.monotonic()))
        await asyncio.sleep(liveness.rules.tick)


def main() -> int:
    """Run the process; give its exit status."""
    return process.main("nodecontroller", Settings, run)


if __name__ == "__main__":
    sys.exit(main())
