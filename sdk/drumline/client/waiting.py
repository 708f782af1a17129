"""Waits for pods, over as many streams as it takes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from drumline.api.v1.metadata_pb2 import PodReference
from drumline.api.v1.pod_service_pb2 import (
    WAIT_OUTCOME_TIMED_OUT,
    PodCondition,
    WaitForPodsRequest,
    WaitResult,
)
from drumline.client import policy
from drumline.client.connection import Connection
from drumline.model.errors import DrumlineError, UnavailableError
from drumline.process import clock
from drumline.process.backoff import Backoff
from google.protobuf.duration_pb2 import Duration

# The contract's bounds for one stream.
_MOST_PODS = 5_000
_MOST_SECONDS = 3_600.0
# The server ends the wait; the call's own deadline is a little later.
_LATER_SECONDS = 5.0

_Key = tuple[str, str, str]


async def wait(
    connection: Connection,
    pods: Sequence[PodReference],
    condition: PodCondition.ValueType,
    timeout: float,
    on_result: Callable[[WaitResult], None] | None,
) -> list[WaitResult]:
    """Wait as `PodCalls.wait_for_pods` says."""
    unique = list({_key(pod): pod for pod in pods}.values())
    parts = [unique[at : at + _MOST_PODS] for at in range(0, len(unique), _MOST_PODS)]
    waits = [_Wait(connection, part, condition, on_result) for part in parts]
    tasks = [
        asyncio.create_task(one.run(timeout), name=f"wait-for-pods-{number}")
        for number, one in enumerate(waits)
    ]
    try:
        # Not a task group: the caller is to see the error itself.
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    results = {key: result for one in waits for key, result in one.results.items()}
    return [results[_key(pod)] for pod in pods]


class _Wait:
    """The wait for as many pods as one stream may carry."""

    def __init__(
        self,
        connection: Connection,
        pods: Sequence[PodReference],
        condition: PodCondition.ValueType,
        on_result: Callable[[WaitResult], None] | None,
    ) -> None:
        self.results: dict[_Key, WaitResult] = {}
        self._connection = connection
        self._open = {_key(pod): pod for pod in pods}
        self._condition = condition
        self._on_result = on_result
        self._attached = False

    async def run(self, timeout: float) -> None:
        """Fill `results`, one for each pod."""
        deadline = clock.monotonic() + timeout
        # The first stream must stand within the time of a call.
        first = clock.monotonic() + self._connection.timeout
        backoff = Backoff(initial=0.1, maximum=5.0)
        held_up = "nothing was heard of it in time"
        while self._open:
            remaining = deadline - clock.monotonic()
            if remaining <= 0 and self._attached:
                break
            try:
                await self._attach(max(remaining, 0.0))
                backoff.reset()
                continue
            except DrumlineError as error:
                if policy.must_start_over(error):
                    self._connection.forget_written()
                elif not policy.is_temporary(error) or self._is_late(first):
                    raise
                held_up = f"the cluster could not be asked: {error.message}"
                delay = max(backoff.next_delay(), error.retry_after or 0.0)
            await asyncio.sleep(max(min(delay, deadline - clock.monotonic()), 0.0))
        for pod in list(self._open.values()):
            self._settle(WaitResult(reference=pod, outcome=WAIT_OUTCOME_TIMED_OUT, message=held_up))

    def _is_late(self, first: float) -> bool:
        return not self._attached and clock.monotonic() >= first

    async def _attach(self, remaining: float) -> None:
        """Wait on one stream; what timed out only because streams are bounded stays open."""
        seconds = min(remaining, _MOST_SECONDS)
        limit = Duration()
        limit.FromNanoseconds(int(seconds * 1e9))
        request = WaitForPodsRequest(
            pods=self._open.values(),
            condition=self._condition,
            timeout=limit,
            min_resource_version=self._connection.written,
        )
        stream = self._connection.stream(
            lambda stubs: stubs.pods.WaitForPods, request, timeout=seconds + _LATER_SECONDS
        )
        async with aclosing(stream) as messages:
            async for message in messages:
                self._attached = True
                for result in message.results:
                    cut_short = seconds < remaining and result.outcome == WAIT_OUTCOME_TIMED_OUT
                    if not cut_short:
                        self._settle(result)
        self._attached = True
        if self._open and seconds == remaining:
            raise UnavailableError("the wait ended without an answer for every pod")

    def _settle(self, result: WaitResult) -> None:
        key = _key(result.reference)
        if self._open.pop(key, None) is None:
            return
        self.results[key] = result
        if self._on_result is not None:
            self._on_result(result)


def _key(pod: PodReference) -> _Key:
    return (pod.namespace, pod.name, pod.uid)
