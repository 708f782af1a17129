"""The base class of schedulers, and the example that is made with it."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from drumline.api.v1 import pod_pb2
from drumline.process.channels import channel
from drumline.process.tls import TlsFiles
from drumline.schedulers import Assign, ClusterView, Decision, PendingPod, Scheduler, Wait
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.integration.scheduler.conftest import Setting, until
from tests.integration.scheduler.fake_apiserver import FakeApiserver
from tests.support.apiservers import Api, apiservers
from tests.support.apiservers import pod as new_pod
from tests.support.calls import create, get, until_answered
from tests.support.store import EtcdServer, free_port
from tests.unit.scheduler.builders import load, node, pod

EXAMPLE = Path(__file__).parents[3] / "examples" / "best_fit_scheduler.py"


class FirstFit(Scheduler):
    """Decides twice on each pod, which counts once."""

    def decide(self, pending: Sequence[PendingPod], cluster: ClusterView) -> Iterable[Decision]:
        for waits in pending:
            nodes = cluster.that_fit(waits)
            if nodes:
                cluster = cluster.with_pod(nodes[0].name, waits)
                yield Assign(waits, nodes[0].name)
                yield Assign(waits, "none")
            else:
                yield Wait(waits, "NO_ROOM", f"none of {len(cluster.nodes)} has room")


@contextlib.asynccontextmanager
async def scheduling(setting: Setting, scheduler: Scheduler | None = None) -> AsyncIterator[None]:
    """Run a scheduler of the kit while the block runs."""
    tls = TlsFiles.in_folder(setting.certificates, "scheduler")
    made = scheduler or FirstFit("default", "one")
    task = asyncio.create_task(made.run([f"127.0.0.1:{setting.port}"], tls))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()


async def test_pods_are_placed_and_explained(setting: Setting) -> None:
    await setting.start_apiserver()
    apiserver = setting.apiserver
    apiserver.add_nodes(node("n1", load(cpu=2000)), node("n2", load(cpu=2000)))
    async with scheduling(setting):
        apiserver.add_pods(*(pod(f"p{n}", cpu=1000, created=n) for n in range(5)))
        await until(lambda: "p4" in apiserver.verdicts)
        assert apiserver.assigned == {"p0": "n1", "p1": "n1", "p2": "n2", "p3": "n2"}
        assert [v.message for v in apiserver.verdicts["p4"]] == ["none of 2 has room"]
        apiserver.end_pod("p0")
        await until(lambda: apiserver.assigned.get("p4") == "n1")
    assert not apiserver.refusals


async def test_replies_that_are_lost_leave_nothing_undone(setting: Setting) -> None:
    await setting.start_apiserver()
    apiserver = setting.apiserver
    apiserver.add_nodes(node("n1", load(cpu=20_000)))
    apiserver.lose_replies = apiserver.fail_posts = 2
    apiserver.refuse_wrongly = 2
    async with scheduling(setting):
        apiserver.add_pods(*(pod(f"p{n}", cpu=1000) for n in range(20)))
        await until(lambda: len(apiserver.assigned) == 20)


async def test_the_kits_schedulers_stand_by_and_take_over(setting: Setting) -> None:
    await setting.start_apiserver()
    apiserver = setting.apiserver
    apiserver.add_nodes(node("n1"))
    async with scheduling(setting, FirstFit("default", "two")):
        await until(lambda: apiserver.session)
        async with scheduling(setting, FirstFit("default", "three")):
            await until(lambda: len(apiserver.subscribers) == 2)
            apiserver.depose()
            apiserver.add_pods(pod("a", cpu=1000))
            await until(lambda: "a" in apiserver.assigned)
        apiserver.add_pods(pod("b", cpu=1000))
        await until(lambda: "b" in apiserver.assigned)
    assert apiserver.sessions == 3, "each that stopped gave its session up"
    assert not apiserver.refusals


class Slow(FirstFit):
    """Takes its time over each pod; it notes how often its session was renewed until then."""

    def __init__(self, name: str, instance_id: str, apiserver: FakeApiserver) -> None:
        super().__init__(name, instance_id)
        self.apiserver = apiserver
        self.renewals: list[int] = []

    def decide(self, pending: Sequence[PendingPod], cluster: ClusterView) -> Iterable[Decision]:
        for decision in super().decide(pending, cluster):
            self.renewals.append(self.apiserver.renewals)
            time.sleep(0.02)
            yield decision


async def test_deciding_that_takes_long_is_cut_so_that_the_session_is_renewed(
    setting: Setting,
) -> None:
    await setting.start_apiserver()
    apiserver = setting.apiserver
    apiserver.add_nodes(node("n1", load(cpu=20_000)))
    slow = Slow("default", "slow", apiserver)
    async with scheduling(setting, slow):
        apiserver.add_pods(*(pod(f"p{n}", cpu=1000, created=n) for n in range(20)))
        await until(lambda: len(apiserver.assigned) == 20)
    assert slow.renewals[-1] > slow.renewals[0]
    assert len(apiserver.posts) > 1
    assert list(apiserver.assigned) == [f"p{n}" for n in range(20)]


async def test_the_kits_schedulers_post_nothing_once_their_session_has_ended(
    setting: Setting,
) -> None:
    await setting.start_apiserver()
    apiserver = setting.apiserver
    apiserver.add_nodes(node("n1"))
    async with scheduling(setting):
        apiserver.add_pods(pod("huge", cpu=9000))
        await until(lambda: "huge" in apiserver.verdicts)
        # A post that fails is repeated, but not by who was deposed meanwhile.
        apiserver.gate.clear()
        apiserver.add_pods(pod("a", cpu=1000))
        await until(lambda: apiserver.posts)
        apiserver.session = "of another"
        await until(lambda: apiserver.refused_renewals)
        apiserver.fail_posts = 1
        apiserver.gate.set()
        apiserver.add_pods(pod("b", cpu=1000), pod("larger", cpu=9500))
        apiserver.depose()
        await until(lambda: {"a", "b"} <= set(apiserver.assigned))
        await until(lambda: "larger" in apiserver.verdicts and len(apiserver.verdicts["huge"]) > 1)
    assert set(apiserver.posted_in) == {"session-1", "session-2"}


@pytest.fixture
def etcd(tmp_path: Path, certificates: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path, certificates)
    server.start()
    yield server
    server.stop()


async def test_the_example_places_its_pods_beside_the_standard_scheduler(
    setting: Setting, etcd: EtcdServer, certificates: Path
) -> None:
    async with apiservers(etcd, certificates) as (api,):
        await api.register_ready("sim-1", "sim-2", "sim-3", cpu=1000)
        await setting.start_scheduler(apiserver=(api.settings.listen_address,))
        own = TlsFiles.in_folder(certificates, "best-fit")
        address = f"127.0.0.1:{free_port()}"
        example = await asyncio.create_subprocess_exec(
            sys.executable,
            EXAMPLE,
            f"--listen-address={address}",
            f"--apiserver={api.settings.listen_address}",
            f"--tls-ca={own.ca}",
            f"--tls-certificate={own.certificate}",
            f"--tls-key={own.key}",
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await until_answered(lambda: _serves(address, certificates))
            await create(api, new_pod("standard", cpu=400))
            await _placed(api, "standard")
            for name in ("one", "two", "huge"):
                made = new_pod(name, cpu=4000 if name == "huge" else 300)
                made.spec.scheduler_name = "best-fit"
                await create(api, made)
                if name != "huge":
                    await _placed(api, name)
            standard, one, two = [await get(api, n) for n in ("standard", "one", "two")]
            # The fullest node that has room, that of the other scheduler's pod.
            assert one.assignment.node == two.assignment.node == standard.assignment.node
            assert one.assignment.scheduler == "system:scheduler:best-fit"

            async def explained() -> bool:
                huge: pod_pb2.Pod = await get(api, "huge")
                return huge.verdict.message == "none of 3 nodes has room for it"

            await until_answered(explained)
            example.terminate()
            assert await example.wait() == 0
            # It gave its session up: nobody waits for it to run out.
            assert not (await api.leader("best-fit")).session_id
        finally:
            if example.returncode is None:
                example.kill()
                await example.wait()


async def _serves(address: str, certificates: Path) -> bool:
    """Say whether a process calls itself healthy; one that cannot be reached does not."""
    async with channel(address, TlsFiles.in_folder(certificates, "admin")) as opened:
        stub: Any = health_pb2_grpc.HealthStub(opened)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def _placed(api: Api, name: str) -> None:
    async def placed() -> bool:
        return (await get(api, name)).HasField("assignment")

    await until_answered(placed)
