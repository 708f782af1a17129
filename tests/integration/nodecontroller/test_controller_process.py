"""The controller as a process of its own: stopped, resumed, killed, replaced, cut off."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
from drumline.process.channels import channel
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.integration.nodecontroller.conftest import GRACE, Setting, until
from tests.integration.nodecontroller.kubelets import Beater, beating, line
from tests.integration.nodecontroller.silent_proxy import SilentProxy

NAMES = ["n0", "n1", "n2"]


@contextlib.asynccontextmanager
async def process(parts: Setting) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the controller's command; kill it at the end."""
    settings = parts.settings
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "drumline.nodecontroller.main"),
        *("--listen-address", settings.listen_address),
        *("--apiserver", settings.apiserver[0]),
        *("--tls-ca", str(settings.tls_ca)),
        *("--tls-certificate", str(settings.tls_certificate)),
        *("--tls-key", str(settings.tls_key)),
        *("--grace", str(settings.grace)),
        *("--beat-interval", str(settings.beat_interval)),
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


def kubelets(parts: Setting) -> list[Beater]:
    return [Beater(parts.address, parts.certificates(name), [name]) for name in NAMES]


async def heard_again(beaters: list[Beater], times: int = 15) -> None:
    """Wait until each has been answered some more times."""
    aims = [(beater, beater.acknowledged + times) for beater in beaters]
    await until(lambda: all(beater.acknowledged >= aim for beater, aim in aims))


async def test_s6_a_process_that_was_stopped_accuses_nobody(parts: Setting) -> None:
    parts.apiserver.add(*NAMES)
    await parts.start_apiserver()
    beaters = kubelets(parts)
    async with process(parts) as controller, beating(*beaters):
        await until(lambda: set(parts.apiserver.states().values()) == {"READY"})
        controller.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2 * GRACE)
        controller.send_signal(signal.SIGCONT)
        await heard_again(beaters)
        assert len(parts.apiserver.posted()) == 3


async def test_e2_a_controller_that_replaces_a_killed_one_writes_nothing(parts: Setting) -> None:
    parts.apiserver.add(*NAMES)
    await parts.start_apiserver()
    beaters = kubelets(parts)
    async with beating(*beaters):
        async with process(parts):
            await until(lambda: set(parts.apiserver.states().values()) == {"READY"})
        await asyncio.sleep(2 * GRACE)
        async with process(parts):
            await heard_again(beaters)
        assert len(parts.apiserver.posted()) == 3


async def test_a_half_open_connection_costs_no_verdict_when_the_node_dials_again(
    running: Setting,
) -> None:
    running.apiserver.add("n0")
    proxy = SilentProxy(int(running.address.rpartition(":")[2]))
    tls = running.certificates("n0")
    async with proxy.serving(), line(proxy.address, tls) as first:
        await first.beat("n0")
        await until(lambda: running.apiserver.states()["n0"] == "READY")
        proxy.swallow = True
        beater = Beater(running.address, tls, ["n0"])
        async with beating(beater):
            await heard_again([beater])
            assert running.apiserver.posted() == [("n0", "READY")]


async def test_health_says_whether_the_nodes_are_known(parts: Setting) -> None:
    async with process(parts) as controller:
        async with channel(parts.address, parts.certificates("admin")) as opened:
            health: Any = health_pb2_grpc.HealthStub(opened)

            async def status() -> int:
                try:
                    answer = await health.Check(health_pb2.HealthCheckRequest())
                except grpc.aio.AioRpcError:
                    return -1
                return int(answer.status)

            async def reached(wanted: int) -> None:
                async with asyncio.timeout(20):
                    while await status() != wanted:  # noqa: ASYNC110 - another process's
                        await asyncio.sleep(0.05)

            await reached(health_pb2.HealthCheckResponse.NOT_SERVING)
            serving = await parts.start_apiserver()
            await reached(health_pb2.HealthCheckResponse.SERVING)
            await serving.aclose()
            await reached(health_pb2.HealthCheckResponse.NOT_SERVING)
        controller.terminate()
        assert await asyncio.wait_for(controller.wait(), 15) == 0
