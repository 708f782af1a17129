"""A worker that watches all pods, several times over, and notes what it is shown and when."""

import asyncio
import contextlib
import gc
import time
from typing import Any

import grpc
from drumline.api.v1.metadata_pb2 import EVENT_TYPE_REMOVED, WATCH_MARK_SYNCED
from drumline.api.v1.pod_service_pb2 import WatchPodsRequest, WatchPodsResponse
from drumline.api.v1.pod_service_pb2_grpc import PodServiceStub
from drumline.process.channels import channel

from benchmarks.changes import ANNOTATION
from benchmarks.workers.link import Link, Spec, tls_of

# What has not come after so long without any event does not come.
_SILENCE_SECONDS = 2.0
_END_SECONDS = 60.0


async def run(spec: Spec, link: Link) -> list[dict[str, Any]]:
    """Watch until told to stop, and then until nothing more comes; give what each was shown."""
    watchers = [_Watcher() for _ in range(spec["watchers"])]
    async with contextlib.AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(channel(spec["apiserver"], tls_of(spec)))
            for _ in watchers
        ]
        # A watch ends only by an error, and the group with it.
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(watcher.run(opened), name="watch")
                for watcher, opened in zip(watchers, channels, strict=True)
            ]
            await _until_told(watchers, link)
            for task in tasks:
                task.cancel()
    return [{"shown": watcher.shown, "removed": watcher.removed} for watcher in watchers]


async def _until_told(watchers: "list[_Watcher]", link: Link) -> None:
    for watcher in watchers:
        await watcher.synced.wait()
    gc.collect()
    gc.freeze()
    await link.ready()
    await link.stopped()
    async with asyncio.timeout(_END_SECONDS):
        while _silence(watchers) < _SILENCE_SECONDS:  # noqa: ASYNC110 - nothing tells of silence
            await asyncio.sleep(_SILENCE_SECONDS / 4)


def _silence(watchers: "list[_Watcher]") -> float:
    return time.perf_counter() - max(watcher.last for watcher in watchers)


class _Watcher:
    """One watch; times are by time.perf_counter, in seconds."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()
        self.shown: list[tuple[str, int, float]] = []
        self.removed: list[tuple[str, float]] = []
        self.last = 0.0

    async def run(self, opened: grpc.aio.Channel) -> None:
        """Note everything after the first list, in the order in which it comes."""
        call = PodServiceStub(opened).WatchPods(WatchPodsRequest())
        while True:
            message = await call.read()
            if not isinstance(message, WatchPodsResponse):
                raise ConnectionError("the apiserver ended a watch of pods")
            now = time.perf_counter()
            if message.events and self.synced.is_set():
                self._note(message, now)
            if message.mark == WATCH_MARK_SYNCED:
                self.synced.set()

    def _note(self, message: WatchPodsResponse, now: float) -> None:
        self.last = now
        for event in message.events:
            metadata = event.pod.metadata
            if event.type == EVENT_TYPE_REMOVED:
                self.removed.append((metadata.name, now))
            else:
                self.shown.append((metadata.name, int(metadata.annotations[ANNOTATION]), now))
