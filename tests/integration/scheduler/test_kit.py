"""The base class of schedulers, and the example that is made with it."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from drumline.api.v1 import pod_pb2
from drumline.process.tls import TlsFiles
from drumline.schedulers import Assign, ClusterView, Decision, PendingPod, Scheduler, Wait

from tests.integration.scheduler.conftest import Setting, until
from tests.support.apiservers import Api, apiservers
from tests.support.apiservers import pod as new_pod
from tests.support.calls import create, get, until_answered
from tests.support.store import EtcdServer
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
async def scheduling(setting: Setting, instance: str = "one") -> AsyncIterator[None]:
    """Run a scheduler of the kit while the block runs."""
    tls = TlsFiles.in_folder(setting.certificates, "scheduler")
    made = FirstFit("default", instance)
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
    async with scheduling(setting, "two"):
        await until(lambda: apiserver.session)
        async with scheduling(setting, "three"):
            await until(lambda: len(apiserver.subscribers) == 2)
            apiserver.depose()
            apiserver.add_pods(pod("a", cpu=1000))
            await until(lambda: "a" in apiserver.assigned)
        apiserver.add_pods(pod("b", cpu=1000))
        await until(lambda: "b" in apiserver.assigned)
    assert apiserver.sessions == 3, "each that stopped gave its session up"
    assert not apiserver.refusals


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
        example = await asyncio.create_subprocess_exec(
            sys.executable,
            EXAMPLE,
            api.settings.listen_address,
            certificates,
            "best-fit",
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
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


async def _placed(api: Api, name: str) -> None:
    async def placed() -> bool:
        return (await get(api, name)).HasField("assignment")

    await until_answered(placed)
