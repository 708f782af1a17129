"""Waits for pods: an answer for each, by the end of the timeout, through broken streams."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from drumline.api.v1.metadata_pb2 import PodReference
from drumline.api.v1.pod_service_pb2 import (
    POD_CONDITION_RUNNING,
    WAIT_OUTCOME_IMPOSSIBLE,
    WAIT_OUTCOME_REACHED,
    WAIT_OUTCOME_TIMED_OUT,
    WaitOutcome,
    WaitResult,
)
from drumline.client import Client
from drumline.model.errors import InvalidArgumentError, UnavailableError

from tests.support.fake_api import FakePods

A, B = PodReference(namespace="default", name="a"), PodReference(namespace="default", name="b")


def answering(**outcomes: WaitOutcome.ValueType) -> Callable[[Any], list[WaitResult]]:
    """Answer for those of the request's pods that are named, in the order given."""

    def answer(request: Any) -> list[WaitResult]:
        asked = {pod.name: pod for pod in request.pods}
        return [
            WaitResult(reference=asked[name], outcome=outcome)
            for name, outcome in outcomes.items()
            if name in asked
        ]

    return answer


async def test_results_come_in_the_order_asked_and_are_told_as_they_come(
    pods: FakePods, client: Client
) -> None:
    pods.scripts["WaitForPods"] = deque(
        [answering(b=WAIT_OUTCOME_IMPOSSIBLE, a=WAIT_OUTCOME_REACHED)]
    )
    seen: list[str] = []
    results = await client.wait_for_pods(
        [A, B, A],
        POD_CONDITION_RUNNING,
        on_result=lambda result: seen.append(result.reference.name),
    )
    assert [r.outcome for r in results] == [
        WAIT_OUTCOME_REACHED,
        WAIT_OUTCOME_IMPOSSIBLE,
        WAIT_OUTCOME_REACHED,
    ]
    assert seen == ["b", "a"]


async def test_after_a_broken_stream_only_the_open_ones_are_waited_for(
    pods: FakePods, client: Client
) -> None:
    pods.scripts["WaitForPods"] = deque(
        [answering(a=WAIT_OUTCOME_REACHED), answering(b=WAIT_OUTCOME_REACHED)]
    )
    results = await client.wait_for_pods([A, B], POD_CONDITION_RUNNING)
    assert [r.outcome for r in results] == [WAIT_OUTCOME_REACHED] * 2
    second = pods.requests["WaitForPods"][1]
    assert [pod.name for pod in second.pods] == ["b"]
    first = pods.requests["WaitForPods"][0]
    assert second.timeout.ToNanoseconds() < first.timeout.ToNanoseconds()


async def test_c3_a_cluster_that_went_away_is_told_at_the_end_of_the_timeout(
    pods: FakePods, client: Client
) -> None:
    pods.scripts["WaitForPods"] = deque(
        [answering(a=WAIT_OUTCOME_REACHED), *[UnavailableError("etcd is away")] * 50]
    )
    one, other = await client.wait_for_pods([A, B], POD_CONDITION_RUNNING, timeout=0.5)
    assert one.outcome == WAIT_OUTCOME_REACHED
    assert other.outcome == WAIT_OUTCOME_TIMED_OUT
    assert "etcd is away" in other.message


async def test_a_refused_wait_raises_its_refusal(pods: FakePods, client: Client) -> None:
    pods.scripts["WaitForPods"] = deque([InvalidArgumentError("no such condition")])
    with pytest.raises(InvalidArgumentError, match="no such condition"):
        await client.wait_for_pods([A], POD_CONDITION_RUNNING)


async def test_a_wait_beyond_an_hour_goes_on_with_another_stream(
    pods: FakePods, client: Client
) -> None:
    pods.scripts["WaitForPods"] = deque(
        [answering(a=WAIT_OUTCOME_TIMED_OUT), answering(a=WAIT_OUTCOME_REACHED)]
    )
    (result,) = await client.wait_for_pods([A], POD_CONDITION_RUNNING, timeout=5000.0)
    assert result.outcome == WAIT_OUTCOME_REACHED
    assert pods.requests["WaitForPods"][0].timeout.seconds == 3600


async def test_logs_come_as_they_were_written(pods: FakePods, client: Client) -> None:
    pods.scripts["StreamLogs"] = deque([lambda _request: [b"half a ", b"line\n\xff"]])
    pieces = [piece async for piece in client.stream_logs("web", tail_lines=0)]
    assert pieces == [b"half a ", b"line\n\xff"]
    (request,) = pods.requests["StreamLogs"]
    assert request.HasField("tail_lines")
