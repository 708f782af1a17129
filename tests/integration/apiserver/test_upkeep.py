"""What the apiserver does by itself: remove ended pods, compact; and nothing when idle."""

import asyncio
from pathlib import Path
from typing import Any

from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.model.errors import OutOfRangeError

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import (
    TERMINATED,
    create,
    first_refusal,
    following,
    make_namespaces,
    place,
    report,
    said,
    until_answered,
    usage,
    watch_pods,
)
from tests.support.history import check_sums, revision, store
from tests.support.store import EtcdServer


async def names(api: Api) -> set[str]:
    answer = await api.pods.ListPods(pods_pb2.ListPodsRequest())
    return {p.metadata.name for p in answer.pods}


async def end(api: Api, name: str, namespace: str = "default") -> None:
    made = await place(api, pod(name, namespace=namespace), "sim-1")
    said_of = said(made, "sim-1", TERMINATED)
    # By the clock of a node that is an hour behind, or has none.
    said_of.status.ClearField("finish_time")
    assert await report(api, said_of) == [""]


async def test_ended_pods_go_by_age_and_the_others_stay(etcd: EtcdServer, certs: Path) -> None:
    changes: dict[str, Any] = {"ended_pods_age": 0.5, "ended_pods_interval": 0.1}
    async with apiservers(etcd, certs, 2, **changes) as (api, _):
        await api.register_ready("sim-1")
        await place(api, pod("runs"), "sim-1")
        await create(api, pod("waits"))
        async with following(watch_pods(api)) as watch:
            await end(api, "ended")
            await watch.until(lambda w: ("ended", "REMOVED") in w.told)
        assert await names(api) == {"runs", "waits"}
        assert (await usage(api)).stored_pods == 2
    await check_sums(etcd, certs)


async def test_of_too_many_ended_pods_in_a_namespace_the_oldest_go(
    etcd: EtcdServer, certs: Path
) -> None:
    changes: dict[str, Any] = {"ended_pods_count": 2, "ended_pods_interval": 0.05}
    async with apiservers(etcd, certs, **changes) as (api,):
        await api.register_ready("sim-1")
        await make_namespaces(api, "team")
        await end(api, "kept", "team")
        for number in range(5):
            await end(api, f"p-{number}")

        async def removed() -> bool:
            return await names(api) == {"kept", "p-3", "p-4"}

        await until_answered(removed)
    await check_sums(etcd, certs)


async def test_the_store_is_compacted_and_versions_from_before_are_refused(
    etcd: EtcdServer, certs: Path
) -> None:
    changes: dict[str, Any] = {
        "compaction_interval": 0.1,
        "compaction_keep": 0.2,
        "watch_history": 1,
    }
    async with apiservers(etcd, certs, 2, **changes) as (api, other):
        (first, *_) = [(await create(api, pod(f"p-{n}")))[0] for n in range(5)]
        start = int(first.metadata.resource_version.rpartition("-")[2])

        async def compacted() -> bool:
            async with store(etcd, certs) as client:
                try:
                    await client.range(revision=start)
                except OutOfRangeError:
                    return True
            return False

        await until_answered(compacted)
        for each in (api, other):
            failure = await first_refusal(watch_pods(each, first.metadata.resource_version))
            assert failure.reason == "COMPACTED"
        await create(other, pod("after"))
        assert len(await names(other)) >= 5


async def test_an_idle_cluster_writes_nothing(etcd: EtcdServer, certs: Path) -> None:
    """E1, for the apiserver's own work: everything that it does from time to time has been done."""
    changes: dict[str, Any] = {
        "compaction_interval": 0.1, "compaction_keep": 0.1, "ended_pods_interval": 0.05,
        "bookmark_interval": 0.1,
    }  # fmt: skip
    async with apiservers(etcd, certs, 2, **changes) as (api, other):
        await api.register_ready("sim-1")
        await end(api, "ended")
        before = await revision(etcd, certs)
        async with following(watch_pods(api)), following(watch_pods(other)):
            # Each of its rounds comes by several times.
            await asyncio.sleep(0.7)
        assert await revision(etcd, certs) == before
