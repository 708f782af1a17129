"""Watches: complete, in order, nothing twice, through breaks and restarts of the listing."""

import itertools
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from drumline.api.v1.metadata_pb2 import (
    EVENT_TYPE_CHANGED,
    EVENT_TYPE_REMOVED,
    WATCH_MARK_SYNCED,
    WATCH_MARK_UNSPECIFIED,
)
from drumline.api.v1.pod_pb2 import Pod
from drumline.client import Changed, Client, Event, Removed, Synced
from drumline.client.events import Tracker
from drumline.model.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
    UnavailableError,
)
from drumline.process.tls import TlsFiles
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fake_api import FakePods


def pod(name: str, uid: str, version: int = 1) -> Pod:
    made = Pod()
    made.metadata.name = name
    made.metadata.namespace = "default"
    made.metadata.uid = uid
    made.metadata.resource_version = f"e-{version}"
    return made


def told(events: list[Event[Pod]]) -> list[str]:
    """Write events in short: +name, -name, =."""
    signs = {Changed: "+", Removed: "-"}
    return [
        "=" if isinstance(event, Synced) else signs[type(event)] + event.object.metadata.name
        for event in events
    ]


async def next_events(events: AsyncIterator[Event[Pod]], count: int) -> list[str]:
    return told([await anext(events) for _ in range(count)])


async def test_a_watch_tells_what_there_is_then_what_changes(
    pods: FakePods, client: Client
) -> None:
    pods.put("a")
    async with aclosing(client.watch_pods()) as events:
        assert await next_events(events, 2) == ["+a", "="]
        pods.put("b")
        pods.remove("a")
        assert await next_events(events, 2) == ["+b", "-a"]


async def test_a_broken_stream_is_resumed_where_it_broke(pods: FakePods, client: Client) -> None:
    pods.put("a")
    # Established, a, synced; then it breaks, again and again.
    pods.scripts["WatchPods"] = deque([("break", 3), ("break", 1), ("break", 1), None])
    async with aclosing(client.watch_pods()) as events:
        assert await next_events(events, 2) == ["+a", "="]
        pods.put("a", color="red")
        pods.put("b")
        assert await next_events(events, 2) == ["+a", "+b"]
    versions = [request.resource_version for request in pods.requests["WatchPods"]]
    assert versions == ["", "e-2", "e-2", "e-2"]


@pytest.mark.parametrize(
    "error",
    [
        OutOfRangeError("compacted"),
        FailedPreconditionError("another history", reason="EPOCH_CHANGED"),
    ],
)
async def test_s8_after_a_relist_what_vanished_is_told_once(
    pods: FakePods, client: Client, error: Exception
) -> None:
    for name in ("a", "b", "c"):
        pods.put(name)
    # The second stream lists, and breaks before the end of its list.
    pods.scripts["WatchPods"] = deque([("break", 5), error, ("break", 2), None])
    async with aclosing(client.watch_pods()) as events:
        assert await next_events(events, 4) == ["+a", "+b", "+c", "="]
        pods.stored.pop(("default", "b"))
        pods.put("d")
        assert await next_events(events, 2) == ["+d", "-b"]
        pods.put("e")
        assert await next_events(events, 1) == ["+e"]


async def test_a_refused_watch_raises_its_refusal(pods: FakePods, client: Client) -> None:
    pods.scripts["WatchPods"] = deque([InvalidArgumentError("bad selector")])
    with pytest.raises(InvalidArgumentError, match="bad selector"):
        await anext(client.watch_pods())


async def test_a_bad_selector_is_refused_before_anything_is_sent(
    pods: FakePods, client: Client
) -> None:
    with pytest.raises(InvalidArgumentError, match="position"):
        client.watch_pods(labels="a in ()")
    assert not pods.requests


async def test_a_first_watch_of_an_unreachable_cluster_fails(
    closed_address: str, tls: tuple[TlsFiles, TlsFiles]
) -> None:
    async with Client([closed_address], tls[1], timeout=0.3) as client:
        with pytest.raises(UnavailableError):
            await anext(client.watch_pods())


async def test_a_watch_gives_up_when_its_patience_ends(pods: FakePods, client: Client) -> None:
    pods.put("a")
    pods.scripts["WatchPods"] = deque([("break", 3), *[UnavailableError("away")] * 50])
    async with aclosing(client.watch_pods(patience=0.2)) as events:
        assert await next_events(events, 2) == ["+a", "="]
        with pytest.raises(UnavailableError, match="away"):
            await anext(events)


def test_a_pod_made_again_under_its_name_is_another_pod() -> None:
    tracker: Tracker[Pod] = Tracker()
    tracker.begin()
    tracker.take([(EVENT_TYPE_CHANGED, pod("a", "old"))], "e-1", WATCH_MARK_SYNCED)
    tracker.start_over()
    tracker.begin()
    events = tracker.take([(EVENT_TYPE_CHANGED, pod("a", "new", 9))], "e-9", WATCH_MARK_SYNCED)
    assert told(events) == ["-a", "+a"]
    assert isinstance(events[0], Removed)
    assert events[0].object.metadata.uid == "old"
    # The removal of the old one, late, is not told again.
    late = tracker.take([(EVENT_TYPE_REMOVED, pod("a", "old"))], "e-10", WATCH_MARK_UNSPECIFIED)
    assert late == []


class Follower:
    """Mirrors what a watch tells, and checks that it never tells what is known."""

    def __init__(self) -> None:
        self.tracker: Tracker[Pod] = Tracker()
        self.mirror: dict[str, str] = {}

    def take(self, *changes: tuple[int, Pod], mark: int = WATCH_MARK_UNSPECIFIED) -> None:
        for event in self.tracker.take(changes, "e-1" if mark else "", mark):
            if isinstance(event, Changed):
                meta = event.object.metadata
                assert self.mirror.get(meta.name) != meta.uid
                self.mirror[meta.name] = meta.uid
            elif isinstance(event, Removed):
                assert self.mirror.pop(event.object.metadata.name) == event.object.metadata.uid

    def list(self, there: dict[str, str], *, ends: bool) -> None:
        self.tracker.start_over()
        self.tracker.begin()
        for name, uid in sorted(there.items()):
            self.take((EVENT_TYPE_CHANGED, pod(name, uid)))
        if ends:
            self.take(mark=WATCH_MARK_SYNCED)


NAMES = st.sampled_from("abcd")


@given(
    st.lists(
        st.tuples(
            st.sets(NAMES).map(sorted),  # what is there when it lists
            st.booleans(),  # whether the listing comes to its end
            st.lists(NAMES),  # what is made, or removed where it is there, afterwards
        ),
        max_size=6,
    )
)
def test_s8_a_follower_always_knows_what_is_there(
    rounds: list[tuple[list[str], bool, list[str]]],
) -> None:
    follower = Follower()
    uids = (f"uid-{number}" for number in itertools.count())
    there: dict[str, str] = {}
    for names, ends, changes in rounds:
        there = {name: there.get(name) or next(uids) for name in names}
        follower.list(there, ends=ends)
        if not ends:
            continue
        assert follower.mirror == there
        for name in changes:
            if name in there:
                follower.take((EVENT_TYPE_REMOVED, pod(name, there.pop(name))))
            else:
                there[name] = next(uids)
                follower.take((EVENT_TYPE_CHANGED, pod(name, there[name])))
            assert follower.mirror == there
