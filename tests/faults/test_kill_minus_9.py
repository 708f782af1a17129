"""Kill -9 of each process while pods run: the cluster goes on, pods keep their processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from drumline.api.v1.pod_pb2 import PHASE_RUNNING, Pod
from drumline.api.v1.pod_service_pb2 import (
    POD_CONDITION_DELETED,
    POD_CONDITION_RUNNING,
    POD_CONDITION_TERMINATED,
    WAIT_OUTCOME_REACHED,
)
from drumline.client import Changed, Client, Event, reference

from tests.support.user_cluster import UserCluster


def pod(name: str, script: str) -> Pod:
    made = Pod()
    made.metadata.name = name
    made.spec.containers.add(name="main", command=["sh", "-c", script])
    return made


async def running(client: Client, made: Pod) -> Pod:
    """Store a pod and wait until it runs."""
    stored = await client.create_pod(made)
    (result,) = await client.wait_for_pods([reference(stored)], POD_CONDITION_RUNNING)
    assert result.outcome == WAIT_OUTCOME_REACHED, result.message
    return result.pod


@pytest.mark.parametrize("name", ["apiserver", "scheduler", "nodecontroller", "etcd", "node"])
async def test_l4_the_cluster_goes_on_and_pods_keep_their_processes(
    cluster: UserCluster, name: str
) -> None:
    async with cluster.client() as client:
        stays = await running(client, pod(f"stays-{name}", "sleep 1000"))
        victim = stays.assignment.node if name == "node" else name
        await asyncio.to_thread(cluster.kill, victim)
        # Whatever was killed, a new pod runs to its end.
        ends = await client.create_pod(pod(f"ends-{name}", "exit 7"), timeout=30.0)
        (result,) = await client.wait_for_pods(
            [reference(ends)], POD_CONDITION_TERMINATED, timeout=60.0
        )
        assert result.outcome == WAIT_OUTCOME_REACHED, result.message
        assert result.pod.status.containers[0].exit_code == 7
        now = await client.get_pod(stays.metadata.name)
        assert now.status.phase == PHASE_RUNNING
        (before,), (after,) = stays.status.containers, now.status.containers
        assert after.runtime_id == before.runtime_id
        assert after.start_time == before.start_time
        await client.delete_pods([reference(stays), reference(ends)], grace_period_seconds=0)


async def test_l4_an_exit_while_the_kubelet_is_away_is_known_afterwards(
    cluster: UserCluster,
) -> None:
    async with cluster.client() as client:
        stays = await running(client, pod("exits", "sleep 0.5; exit 5"))
        await asyncio.to_thread(cluster.kill, stays.assignment.node)
        (result,) = await client.wait_for_pods(
            [reference(stays)], POD_CONDITION_TERMINATED, timeout=60.0
        )
        assert result.pod.status.containers[0].exit_code == 5
        await client.delete_pod("exits")


async def test_s8_a_watch_and_a_wait_go_on_over_a_killed_apiserver(cluster: UserCluster) -> None:
    async with cluster.client() as client, aclosing(client.watch_pods("default")) as events:
        before = await running(client, pod("before", "sleep 1000"))
        waiting = asyncio.create_task(
            client.wait_for_pods([reference(before)], POD_CONDITION_DELETED, timeout=60.0)
        )
        await next_of(events, "before")
        await asyncio.to_thread(cluster.kill, "apiserver")
        after = await client.create_pod(pod("after", "exit 0"), timeout=30.0)
        told = await next_of(events, "after")
        assert set(told) <= {"before", "after"}
        await client.delete_pods(map(reference, (before, after)), grace_period_seconds=0)
        (result,) = await waiting
        assert result.outcome == WAIT_OUTCOME_REACHED, result.message


async def next_of(events: AsyncIterator[Event[Pod]], name: str) -> list[str]:
    """Read events until one is of this pod; give the names of all that were told."""
    names = []
    async for event in events:
        if isinstance(event, Changed):
            names.append(event.object.metadata.name)
            if names[-1] == name:
                break
    return names
