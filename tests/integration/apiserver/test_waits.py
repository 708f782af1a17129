"""C3: who waits for pods is answered by the deadline: how far they came, and what held them up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from drumline.api.v1 import pod_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.scheduling.v1 import scheduler_service_pb2 as scheduling_pb2

from tests.support.apiservers import Api, pod
from tests.support.calls import (
    RUNNING,
    TERMINATED,
    assign,
    create,
    delete,
    first_refusal,
    following,
    place,
    post_verdicts,
    ref,
    report,
    said,
)

ASSIGNED, RAN, ENDED, GONE = (
    pods_pb2.POD_CONDITION_ASSIGNED,
    pods_pb2.POD_CONDITION_RUNNING,
    pods_pb2.POD_CONDITION_TERMINATED,
    pods_pb2.POD_CONDITION_DELETED,
)


def request(
    condition: int, *pods: pod_pb2.Pod, seconds: float = 15, version: str = ""
) -> pods_pb2.WaitForPodsRequest:
    made = pods_pb2.WaitForPodsRequest(
        pods=[ref(each) for each in pods],
        condition=condition,  # type: ignore[arg-type]
        min_resource_version=version,
    )
    made.timeout.FromNanoseconds(int(seconds * 1e9))
    return made


async def outcomes(stream: Any) -> list[tuple[str, str, str]]:
    """Read a wait to its end; give name, outcome and message of each result."""
    names = pods_pb2.WaitOutcome
    return [
        (
            r.reference.name,
            names.Name(r.outcome).removeprefix("WAIT_OUTCOME_"),
            r.message,
        )
        async for message in stream
        for r in message.results
    ]


@contextlib.asynccontextmanager
async def waiting(api: Api, *arguments: Any, **more: Any) -> AsyncIterator[Any]:
    """Wait while the block runs; the wait's outcomes are the result of what is given."""
    task = asyncio.create_task(outcomes(api.pods.WaitForPods(request(*arguments, **more))))
    yield task
    await task


async def test_c3_each_result_comes_as_soon_as_it_is_known(pair: list[Api]) -> None:
    await pair[0].register_ready("sim-1")
    first, second = await create(pair[0], pod("a"), pod("b"))
    version = second.metadata.resource_version
    stream = pair[1].pods.WaitForPods(request(RAN, first, second, first, version=version))
    async with following(stream, "results") as wait:
        await assign(pair[0], (first, "sim-1"), (second, "sim-1"))
        await report(pair[0], said(first, "sim-1", RUNNING))
        await wait.until(lambda w: len(w.events) == 2)
        assert {r.pod.status.phase for r in wait.events} == {RUNNING}
        await report(pair[0], said(second, "sim-1", RUNNING))
        await wait.until(lambda w: len(w.events) == 3)
        assert wait.events[2].reference == ref(second)


async def test_c3_conditions_are_reached_in_turn(api: Api) -> None:
    await api.register_ready("sim-1")
    (made,) = await create(api, pod("web"))
    version = made.metadata.resource_version
    stages = {
        name: asyncio.create_task(
            outcomes(api.pods.WaitForPods(request(condition, made, version=version)))
        )
        for name, condition in (("a", ASSIGNED), ("r", RAN), ("t", ENDED), ("d", GONE))
    }
    reached = [("web", "REACHED", "")]
    await assign(api, (made, "sim-1"))
    assert await stages["a"] == reached
    assert not stages["r"].done()
    await report(api, said(made, "sim-1", RUNNING))
    assert await stages["r"] == reached
    assert not stages["t"].done()
    await report(api, said(made, "sim-1", TERMINATED, 2))
    assert await stages["t"] == reached
    # What ran and has ended counts as having run, whoever asks later.
    assert await outcomes(api.pods.WaitForPods(request(RAN, made))) == reached
    await delete(api, made)
    assert await stages["d"] == reached


async def test_c3_a_wait_that_runs_out_says_what_held_each_pod_up(api: Api) -> None:
    await api.register_ready("sim-1")
    plain, judged = await create(api, pod("plain"), pod("judged"))
    placed = await place(api, pod("placed"), "sim-1")
    verdicts = scheduling_pb2.PostVerdictsRequest(scheduler_name="default")
    said_of = verdicts.verdicts.add(pod=ref(judged))
    said_of.verdict.reason, said_of.verdict.message = "NO_NODE_FITS", "1 node is too small"
    await post_verdicts(api, verdicts)
    version = placed.metadata.resource_version
    for seconds in (0, 0.2):
        asked = request(RAN, plain, judged, placed, seconds=seconds, version=version)
        assert await outcomes(api.pods.WaitForPods(asked)) == [
            ("plain", "TIMED_OUT", "UNSCHEDULED, waiting for scheduler:default"),
            ("judged", "TIMED_OUT", "1 node is too small"),
            ("placed", "TIMED_OUT", "ASSIGNED, waiting for kubelet:sim-1"),
        ]


async def test_c3_what_can_never_be_is_answered_at_once(api: Api) -> None:
    await api.register_ready("sim-1")
    missing, other = pod("missing"), pod("there")
    (there, going) = await create(api, pod("there"), pod("going"))
    other.metadata.uid = "another"
    failed = await place(api, pod("failed"), "sim-1")
    never_ran = said(failed, "sim-1", TERMINATED, why="START_FAILED")
    never_ran.status.ClearField("start_time")
    never_ran.status.message = "no such program"
    await report(api, never_ran)
    assert there.metadata.uid
    async with waiting(api, RAN, missing, other, failed, going) as wait:
        await asyncio.sleep(0)
        await delete(api, going)
    gone = "the pod is not there: it was deleted, or never created"
    assert sorted(wait.result()) == [
        ("failed", "IMPOSSIBLE", "the pod ended before: START_FAILED: no such program"),
        ("going", "IMPOSSIBLE", gone),
        ("missing", "IMPOSSIBLE", gone),
        ("there", "IMPOSSIBLE", gone),
    ]
    assert await outcomes(api.pods.WaitForPods(request(GONE, missing, other))) == [
        ("missing", "REACHED", ""),
        ("there", "REACHED", ""),
    ]


async def test_c3_a_wait_that_makes_no_sense_is_refused_by_field(api: Api) -> None:
    web = pod("web")
    for condition in (0, 9):
        failure = await first_refusal(api.pods.WaitForPods(request(condition, web)))
        assert [v.field for v in failure.violations] == ["condition"]
    for seconds in (-1, 3601):
        failure = await first_refusal(api.pods.WaitForPods(request(RAN, web, seconds=seconds)))
        assert [v.field for v in failure.violations] == ["timeout"]
    failure = await first_refusal(api.pods.WaitForPods(request(RAN)))
    assert [v.field for v in failure.violations] == ["pods"]
    failure = await first_refusal(api.pods.WaitForPods(request(RAN, web, pod("NO"))))
    assert [v.field for v in failure.violations] == ["pods[1].name"]
    failure = await first_refusal(api.pods.WaitForPods(request(RAN, *[pod("NO")] * 5000)))
    assert failure.violations
