"""etcd goes and comes back (field report 25): typed refusals, and nothing to mend afterwards."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from drumline.api.v1 import cluster_service_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.model.errors import DrumlineError, UnavailableError
from drumline.node.v1 import node_agent_service_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import (
    create,
    delete,
    eventually,
    first_refusal,
    following,
    get,
    refusal,
    until_answered,
    usage,
    watch_pods,
)
from tests.support.store import EtcdServer, free_port

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@contextlib.contextmanager
def standing_still(etcd: EtcdServer) -> Iterator[None]:
    """Stop etcd with its connections open while the block runs."""
    assert etcd.process is not None
    etcd.process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{etcd.process.pid}/task")
    try:
        # The signal comes to each of its threads in that thread's own time.
        while any(
            (task / "stat").read_text().rpartition(") ")[2][0] != "T" for task in tasks.iterdir()
        ):
            os.sched_yield()
        yield
    finally:
        etcd.process.send_signal(signal.SIGCONT)


async def health(api: Api, wanted: int) -> None:
    """Wait for a health."""
    stub: Any = health_pb2_grpc.HealthStub(api.channel())

    async def said() -> bool:
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        return bool(answer.status == wanted)

    await until_answered(said)


async def refused_create(api: Api, name: str) -> DrumlineError:
    """Try to create a pod; give why the call failed."""
    request = pods_pb2.CreatePodsRequest(pods=[pod(name, request_id=name)])
    return await refusal(api.pods.CreatePods(request))


async def created(api: Api, name: str) -> None:
    """Create a pod, however long the store takes to come back."""
    await eventually(lambda: create(api, pod(name, request_id=name)))


async def test_everything_resumes_by_itself_when_etcd_was_killed(
    api: Api, etcd: EtcdServer
) -> None:
    before, gone = await create(api, pod("before"), pod("gone"))
    async with following(watch_pods(api)) as watch:
        await watch.until(lambda w: w.synced)
        await health(api, SERVING)
        etcd.stop()
        failure = await refused_create(api, "meanwhile")
        assert isinstance(failure, UnavailableError)
        assert (failure.reason, failure.retry_after) == ("STORE_UNAVAILABLE", 1.0)

        # What is known can be read on; health says that no more can be done.
        await health(api, NOT_SERVING)
        assert (await get(api, "before")).metadata.uid == before.metadata.uid
        assert len((await api.pods.ListPods(pods_pb2.ListPodsRequest())).pods) == 2
        # A kubelet must not be told what may be old.
        asked = node_agent_service_pb2.WatchAssignedPodsRequest(nodes=["sim-1"])
        old = await first_refusal(api.agent().WatchAssignedPods(asked))
        assert isinstance(old, UnavailableError)

        etcd.start()
        await created(api, "after")
        await delete(api, gone)
        await watch.until(lambda w: w.told[-2:] == [("after", "CHANGED"), ("gone", "REMOVED")])
        assert len(watch.told) == 4
        await health(api, SERVING)


async def test_everything_resumes_when_etcd_stood_still_under_load(
    etcd: EtcdServer, certs: Path
) -> None:
    """Calls under way end with UNAVAILABLE; neither the watch nor the commits stay dead."""
    async with (
        apiservers(etcd, certs, etcd_timeout=0.3) as (api,),
        following(watch_pods(api)) as watch,
    ):
        await watch.until(lambda w: w.synced)
        unknown = watch.version.partition("-")[0] + "-999999"
        with standing_still(etcd):
            reads = [
                refusal(api.pods.ListPods(pods_pb2.ListPodsRequest(min_resource_version=unknown)))
                for _ in range(3)
            ]
            writes = [refused_create(api, f"lost-{n}") for n in range(3)]
            for failure in await asyncio.gather(*reads, *writes):
                assert isinstance(failure, UnavailableError), failure
        await created(api, "after")
        await watch.until(lambda w: ("after", "CHANGED") in w.told)


async def test_a_write_whose_answer_was_lost_can_be_repeated(etcd: EtcdServer, certs: Path) -> None:
    async with apiservers(etcd, certs, etcd_timeout=0.3) as (api,):
        with standing_still(etcd):
            assert isinstance(await refused_create(api, "web"), UnavailableError)
        await created(api, "web")
        (first,) = await create(api, pod("web", request_id="web"))
        (again,) = await create(api, pod("web", request_id="web"))
        assert first.metadata.uid == again.metadata.uid
        assert (await usage(api)).stored_pods == 1


async def test_without_etcd_the_apiserver_says_that_it_starts_and_becomes_ready_later(
    certs: Path, tmp_path: Path
) -> None:
    etcd = EtcdServer(tmp_path, certs)
    request = cluster_service_pb2.GetVersionRequest()
    async with apiservers(etcd, certs, started=False) as (api,):
        starting = asyncio.create_task(api.start())
        failure = await refusal(api.cluster.GetVersion(request, wait_for_ready=True))
        assert isinstance(failure, UnavailableError)
        assert (failure.reason, failure.retry_after) == ("STARTING", 1.0)
        await health(api, NOT_SERVING)
        etcd.start()
        try:
            await starting
            await eventually(lambda: create(api, pod("web")))
            await health(api, SERVING)
        finally:
            etcd.stop()


async def test_a_member_of_etcd_that_is_away_is_passed_over(etcd: EtcdServer, certs: Path) -> None:
    """Several addresses, names among them."""
    named = etcd.address.replace("127.0.0.1", "localhost")
    members = (f"127.0.0.1:{free_port()}", f"localhost:{free_port()}", named)
    async with apiservers(etcd, certs, started=False) as (api,):
        api.settings = replace(api.settings, etcd=members)
        await api.start()
        async with following(watch_pods(api)) as watch:
            await create(api, pod("web"))
            await watch.until(lambda w: ("web", "CHANGED") in w.told)


async def test_apiservers_that_start_at_once_on_a_new_store_agree(
    etcd: EtcdServer, certs: Path
) -> None:
    async with apiservers(etcd, certs, 3, started=False) as made:
        await asyncio.gather(*(api.start() for api in made))
        (first,) = await create(made[0], pod("web"))
        for api in made:
            assert await get(api, "web", version=first.metadata.resource_version) == first
