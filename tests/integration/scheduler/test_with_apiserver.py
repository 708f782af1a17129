"""The scheduler with the real apiserver and a real etcd."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from drumline.api.v1 import metadata_pb2, node_service_pb2, pod_pb2, pod_service_pb2
from drumline.node.v1 import node_agent_service_pb2
from drumline.process.tls import TlsFiles

from tests.integration.scheduler.conftest import Setting
from tests.support.apiservers import Api, apiservers, pod
from tests.support.store import EtcdServer


@pytest.fixture
def etcd(tmp_path: Path, certificates: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path, certificates)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def api(etcd: EtcdServer, certificates: Path) -> AsyncIterator[Api]:
    async with apiservers(etcd, certificates, session_seconds=2) as (one,):
        yield one


async def create(api: Api, *pods: pod_pb2.Pod) -> None:
    answer = await api.pods.CreatePods(pod_service_pb2.CreatePodsRequest(pods=pods))
    assert not any(result.status.code for result in answer.results)


async def pods_once(api: Api, condition: object, seconds: float = 60.0) -> list[pod_pb2.Pod]:
    """Give all pods, as soon as a condition holds of them."""
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while True:
            listed = await api.pods.ListPods(pod_service_pb2.ListPodsRequest(page_size=1000))
            if condition(listed.pods):
                return list(listed.pods)
            await asyncio.sleep(0.02)


def assigned(pods: list[pod_pb2.Pod]) -> Counter[str]:
    return Counter(p.assignment.node for p in pods if p.HasField("assignment"))


async def end(api: Api, ended: pod_pb2.Pod) -> None:
    status = pod_pb2.PodStatus(
        phase=pod_pb2.PHASE_TERMINATED, reason="COMPLETED", attempt=1, report_sequence=1
    )
    reference = metadata_pb2.PodReference(name=ended.metadata.name, uid=ended.metadata.uid)
    answer = await api.agent().ReportPodStatuses(
        node_agent_service_pb2.ReportPodStatusesRequest(
            reports=[
                node_agent_service_pb2.PodStatusReport(
                    pod=reference, node=ended.assignment.node, status=status
                )
            ]
        )
    )
    assert answer.results[0].code == 0, answer


async def test_pods_are_spread_explained_and_placed_when_room_is_made(
    setting: Setting, api: Api
) -> None:
    await api.register_ready("n1", "n2", cpu=2000)
    await setting.start_scheduler(apiserver=(api.settings.listen_address,))
    tolerant = pod_pb2.Toleration(operator=pod_pb2.TOLERATION_OPERATOR_EXISTS)
    first, second = pod("a", cpu=1500), pod("b", cpu=1500)
    late, picky = pod("c", cpu=1000), pod("d", cpu=100)
    for made in (first, second, late, picky):
        made.spec.tolerations.append(tolerant)
    picky.spec.node_selector["zone"] = "a"
    await create(api, first, second)
    pods = await pods_once(api, lambda pods: assigned(pods).total() == 2)
    assert assigned(pods) == {"n1": 1, "n2": 1}

    await create(api, late, picky)
    pods = await pods_once(api, lambda pods: sum(p.HasField("verdict") for p in pods) == 2)
    said = {p.metadata.name: p.verdict.message for p in pods}
    assert said["c"] == ("0 of 2 nodes can take it: 2 have too little cpu (asks 1, most free 500m)")
    assert said["d"] == (
        "0 of 2 nodes can take it: 2 have not the label that it selects (zone is not 'a')"
    )

    await end(api, pods[0])
    pods = await pods_once(api, lambda pods: "c" in {
        p.metadata.name for p in pods if p.HasField("assignment")
    })  # fmt: skip
    assert not next(p for p in pods if p.metadata.name == "c").HasField("verdict")


async def test_s1_two_schedulers_through_two_apiservers_fill_the_nodes_exactly(
    setting: Setting, etcd: EtcdServer, certificates: Path
) -> None:
    """Each of a scheduler name of its own, so that both decide."""
    own = TlsFiles.in_folder(certificates, "scheduler-other")
    other = {
        "scheduler_name": "other",
        "tls_certificate": own.certificate,
        "tls_key": own.key,
    }
    async with apiservers(etcd, certificates, 2) as (one, two):
        await one.register_ready(*(f"n{n}" for n in range(10)), cpu=4000)
        await setting.start_scheduler(apiserver=(one.settings.listen_address,))
        await setting.start_scheduler(apiserver=(two.settings.listen_address,), **other)
        for first in range(0, 200, 20):
            some = [pod(f"p{n}", cpu=1000) for n in range(first, first + 20)]
            for made in some[::2]:
                made.spec.scheduler_name = "other"
            await create(one, *some)
        pods = await pods_once(two, lambda pods: assigned(pods).total() == 40)
        assert set(assigned(pods).values()) == {4}
        # Each apiserver knows the verdicts of the scheduler that is connected to it.
        for api, name in ((one, "default"), (two, "other")):
            await pods_once(
                api,
                lambda pods, name=name: all(
                    p.HasField("verdict") or p.HasField("assignment")
                    for p in pods
                    if p.spec.scheduler_name == name
                ),
            )
        nodes = await two.nodes.ListNodes(node_service_pb2.ListNodesRequest())
        assert {n.load.promised.cpu_millicores for n in nodes.nodes} == {4000}


async def test_l4_a_scheduler_that_is_replaced_leaves_nothing_undone(
    setting: Setting, api: Api
) -> None:
    await api.register_ready("n1", "n2", cpu=100_000)
    stop = await setting.start_scheduler(apiserver=(api.settings.listen_address,))
    await create(api, *(pod(f"p{n}") for n in range(100)))
    await stop()
    await create(api, *(pod(f"q{n}") for n in range(100)))
    await setting.start_scheduler(apiserver=(api.settings.listen_address,))
    pods = await pods_once(api, lambda pods: assigned(pods).total() == 200)
    assert set(assigned(pods).values()) == {100}
