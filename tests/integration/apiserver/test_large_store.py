"""Field report 27: what is stored is more than any one message holds."""

import asyncio
from dataclasses import replace
from pathlib import Path

from aetcd.rpc import rpc_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.apiserver.store.etcd import Etcd
from drumline.process.channels import MAX_MESSAGE_BYTES
from drumline.process.tls import TlsFiles

from tests.support.apiservers import apiservers, pod
from tests.support.calls import create, following, get, usage, watch_pods
from tests.support.store import EtcdServer

HEAVY = 60_000


async def test_a_store_of_more_than_a_message_is_read_listed_and_followed(
    etcd: EtcdServer, certs: Path
) -> None:
    count = MAX_MESSAGE_BYTES // HEAVY + 50
    heavy = {"heavy": "x" * HEAVY}
    names = [f"p-{n:04}" for n in range(count)]
    async with apiservers(etcd, certs) as (api,):
        for start in range(0, count, 400):
            some = names[start : start + 400]
            await create(api, *(pod(name, annotations=heavy) for name in some))
        first = await api.pods.ListPods(pods_pb2.ListPodsRequest(page_size=5000))
        assert 0 < len(first.pods) < count
        version = (await get(api, names[0])).metadata.resource_version

        # One that starts now reads all that there is, or all that has happened.
        for history in (1, 10_000):
            await api.stop()
            api.settings = replace(api.settings, watch_history=history)
            await api.start()
            assert (await usage(api)).stored_pods == count
        async with following(watch_pods(api, version)) as watch:
            await watch.until(lambda w: len(w.events) >= count - 400)
        seen, answer = list(first.pods), first
        # A change in between: the rest of the pages is of the past, read from the store.
        await create(api, pod("between"))
        while answer.next_page_token:
            answer = await api.pods.ListPods(
                pods_pb2.ListPodsRequest(page_size=5000, page_token=answer.next_page_token)
            )
            seen += answer.pods
        assert [p.metadata.name for p in seen] == names


async def test_a_long_history_is_caught_up_with(etcd: EtcdServer, certs: Path) -> None:
    """Many small changes in few revisions, as bulk calls make them.

    etcd can cut such an answer into fragments, in time that grows with its square.
    """
    store = Etcd([etcd.address], TlsFiles.in_folder(certs, "apiserver"), 10.0)
    async with apiservers(etcd, certs) as (api,):
        await create(api, pod("before"))
        await api.stop()
        for turn in range(25):
            puts = [
                rpc_pb2.RequestOp(
                    request_put=rpc_pb2.PutRequest(
                        key=f"other/{turn}-{n}".encode(), value=bytes(60)
                    )
                )
                for n in range(6000)
            ]
            await store.txn(rpc_pb2.TxnRequest(success=puts).SerializeToString())
        await store.close()
        async with asyncio.timeout(20):
            await api.start()
        assert (await get(api, "before")).metadata.name == "before"
