"""Reads: pages, read-your-writes, another history of the store."""

import asyncio
from collections import deque

import pytest
from drumline.api.v1.pod_pb2 import Pod
from drumline.client import Client, policy
from drumline.client.results import batches
from drumline.model.errors import FailedPreconditionError
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fake_api import FakePods


def pod(name: str) -> Pod:
    made = Pod()
    made.metadata.name = name
    return made


async def test_a_list_is_read_page_by_page(pods: FakePods, client: Client) -> None:
    for number in range(7):
        pods.put(f"pod-{number}")
    found = [item.metadata.name async for item in client.list_pods(page_size=3)]
    assert found == [f"pod-{number}" for number in range(7)]
    assert len(pods.requests["ListPods"]) == 3


async def test_s9_reads_are_not_older_than_own_writes(pods: FakePods, client: Client) -> None:
    await asyncio.gather(*(client.create_pod(pod(f"pod-{n}")) for n in range(5)))
    await client.get_pod("pod-1")
    assert pods.requests["GetPod"][-1].min_resource_version == pods.version
    assert [item async for item in client.list_pods()]
    assert pods.requests["ListPods"][-1].min_resource_version == pods.version


async def test_s9_a_delete_counts_as_a_write(pods: FakePods, client: Client) -> None:
    pods.put("web")
    await client.delete_pod("web")
    assert [item async for item in client.list_pods()] == []
    assert pods.requests["ListPods"][-1].min_resource_version == pods.version


async def test_a_store_that_was_replaced_is_read_as_it_is(pods: FakePods, client: Client) -> None:
    await client.create_pod(pod("web"))
    pods.scripts["GetPod"] = deque(
        [FailedPreconditionError("another history", reason="EPOCH_CHANGED")]
    )
    assert (await client.get_pod("web")).metadata.name == "web"
    assert [r.min_resource_version for r in pods.requests["GetPod"]][-1] == ""


@pytest.mark.parametrize(
    ("first", "second", "newest"),
    [
        ("", "e-1", "e-1"),
        ("e-1", "", "e-1"),
        ("e-9", "e-10", "e-10"),
        ("e-10", "e-9", "e-10"),
        ("old-10", "new-9", "new-9"),
        ("strange", "e-9", "e-9"),
        ("e-9", "strange", "strange"),
    ],
)
def test_of_two_versions_of_one_history_the_newer_counts(
    first: str, second: str, newest: str
) -> None:
    assert policy.newest_version(first, second) == newest


@given(st.lists(st.integers(0, 50)), st.integers(1, 5), st.integers(1, 100))
def test_many_items_are_cut_into_requests_within_bounds(
    sizes: list[int], most_items: int, most_bytes: int
) -> None:
    parts = batches(sizes, most_items, most_bytes)
    assert [size for part in parts for size in sizes[part]] == sizes
    for part in parts:
        inside = sizes[part]
        assert 1 <= len(inside) <= most_items
        assert len(inside) == 1 or sum(inside) <= most_bytes
