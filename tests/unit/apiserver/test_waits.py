"""The end of a wait, where its timeout and a change meet."""

import asyncio

from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.index import Change
from drumline.apiserver.cache.objects import PodEntry, join_pod
from drumline.apiserver.rpc import waits
from drumline.apiserver.store.kinds import Record
from drumline.process import clock
from drumline.storage.v1.records_pb2 import PodRecord


def pod() -> PodEntry:
    record = PodRecord()
    record.metadata.namespace, record.metadata.name, record.metadata.uid = "default", "web", "u"
    return join_pod("default/web", Record(record.SerializeToString(), 1), None, None, None)


async def test_a_pod_that_goes_as_the_time_runs_out_is_answered_as_gone() -> None:
    cache = Cache(None, history=1, patience=1)  # type: ignore[arg-type]
    cache.pods.commit("default/web", Change(1, None, pod(), frozenset({"pods"})))
    request = pods_pb2.WaitForPodsRequest(condition=pods_pb2.POD_CONDITION_RUNNING)
    request.pods.add(name="web")
    request.timeout.nanos = 1_000_000

    async def wait() -> bytes:
        return await anext(waits.wait(cache, request))

    def remove() -> None:
        old = cache.pods.entries["default/web"]
        cache.pods.commit("default/web", Change(2, old, None, frozenset({"pods"})))

    answer = asyncio.create_task(wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.005, remove)
    # The loop is held up until both are due, the timeout first.
    late = clock.monotonic() + 0.02
    while clock.monotonic() < late:
        pass
    (result,) = pods_pb2.WaitForPodsResponse.FromString(await answer).results
    assert result.outcome == pods_pb2.WAIT_OUTCOME_IMPOSSIBLE
