"""A stream that nobody reads costs the apiserver little, however much there is to tell."""

from drumline.api.v1 import metadata_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2

from tests.support.apiservers import Api, pod
from tests.support.calls import SYNCED, create

LARGE = 20_000
MOST = 64 << 10


async def test_a5_a_watch_tells_large_objects_in_small_messages(api: Api) -> None:
    large = [pod(f"there-{i}") for i in range(40)] + [pod(f"new-{i}") for i in range(40)]
    for one in large:
        one.metadata.annotations["note"] = "x" * LARGE
    await create(api, *large[:40])
    watch = api.pods.WatchPods(pods_pb2.WatchPodsRequest())
    names: set[str] = set()
    mark = metadata_pb2.WATCH_MARK_UNSPECIFIED
    while mark != SYNCED:
        mark = await _read(watch, names)
    assert len(names) == 40
    await create(api, *large[40:])
    while len(names) < 80:
        await _read(watch, names)
    watch.cancel()


async def _read(watch: object, names: set[str]) -> metadata_pb2.WatchMark.ValueType:
    message: pods_pb2.WatchPodsResponse = await watch.read()  # type: ignore[attr-defined]
    # The event that fills a message is whole.
    assert message.ByteSize() < MOST + 2 * LARGE
    names.update(event.pod.metadata.name for event in message.events)
    return message.mark
