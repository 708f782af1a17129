"""The client against a whole cluster."""

import asyncio

from drumline.api.v1.pod_pb2 import PHASE_PENDING, Pod
from drumline.client import reference

from tests.support.user_cluster import UserCluster


def unplaceable(name: str) -> Pod:
    made = Pod()
    made.metadata.name = name
    made.metadata.labels["test"] = "own-writes"
    made.spec.node_selector["there-is"] = "no-such-node"
    made.spec.containers.add(name="main", command=["true"])
    return made


async def test_s9_what_was_written_is_read_at_once(cluster: UserCluster) -> None:
    async with cluster.client() as client:
        for number in range(20):
            names = {f"own-{number}-{part}" for part in range(5)}
            made = await asyncio.gather(*(client.create_pod(unplaceable(name)) for name in names))
            listed = [pod async for pod in client.list_pods(labels="test=own-writes")]
            assert {pod.metadata.name for pod in listed} == names
            assert {pod.status.phase for pod in listed} == {PHASE_PENDING}
            await client.delete_pods(map(reference, made))
            assert [pod async for pod in client.list_pods(labels="test=own-writes")] == []
