"""PodService.WaitForPods: each pod's result as soon as it is known, all by the timeout."""

import asyncio
from collections.abc import AsyncIterator

from drumline.api.v1 import metadata_pb2, pod_pb2, pod_service_pb2
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.index import Watcher
from drumline.apiserver.cache.objects import PodEntry
from drumline.apiserver.domain.pods import pod_key
from drumline.model import validation
from drumline.model.errors import Violation
from drumline.model.names import DEFAULT_NAMESPACE
from drumline.process import clock

_DEFAULT_SECONDS = 30.0
_MAX_SECONDS = 3600.0
_RESULTS_A_MESSAGE = 500

_REACHED = pod_service_pb2.WAIT_OUTCOME_REACHED
_TIMED_OUT = pod_service_pb2.WAIT_OUTCOME_TIMED_OUT
_IMPOSSIBLE = pod_service_pb2.WAIT_OUTCOME_IMPOSSIBLE


def violations(request: pod_service_pb2.WaitForPodsRequest) -> list[Violation]:
    """Check a request."""
    found: list[Violation] = []
    for index, reference in enumerate(request.pods):
        found += validation.pod_reference(reference, f"pods[{index}]")
    known = set(pod_service_pb2.PodCondition.values()) - {pod_service_pb2.POD_CONDITION_UNSPECIFIED}
    if request.condition not in known:
        found.append(Violation("condition", "is required, and must be one that is known"))
    if not 0 <= _seconds(request) <= _MAX_SECONDS:
        found.append(Violation("timeout", f"must be from 0 to {_MAX_SECONDS:.0f} seconds"))
    return found


def _seconds(request: pod_service_pb2.WaitForPodsRequest) -> float:
    if not request.HasField("timeout"):
        return _DEFAULT_SECONDS
    return request.timeout.seconds + request.timeout.nanos / 1e9


def judge(
    entry: PodEntry | None, uid: str, condition: "pod_service_pb2.PodCondition.ValueType"
) -> tuple["pod_service_pb2.WaitOutcome.ValueType", str] | None:
    """Say how the wait for a pod has ended, with a sentence; None while it has not."""
    gone = entry is None or uid not in {"", entry.uid}
    if condition == pod_service_pb2.POD_CONDITION_DELETED:
        return (_REACHED, "") if gone else None
    if gone or entry is None:
        return _IMPOSSIBLE, "the pod is not there: it was deleted, or never created"
    if _has_reached(entry, condition):
        return _REACHED, ""
    if entry.phase == pod_pb2.PHASE_TERMINATED:
        return _IMPOSSIBLE, f"the pod ended before: {_status(entry)}"
    return None


def _has_reached(entry: PodEntry, condition: "pod_service_pb2.PodCondition.ValueType") -> bool:
    if condition == pod_service_pb2.POD_CONDITION_ASSIGNED:
        return entry.node != ""
    ended = entry.phase == pod_pb2.PHASE_TERMINATED
    if condition == pod_service_pb2.POD_CONDITION_RUNNING:
        return entry.phase == pod_pb2.PHASE_RUNNING or (ended and _has_run(entry))
    return ended


def _has_run(entry: PodEntry) -> bool:
    return _pod(entry).status.HasField("start_time")


def _pod(entry: PodEntry) -> pod_pb2.Pod:
    return pod_pb2.Pod.FromString(entry.encode())


def _status(entry: PodEntry) -> str:
    status = _pod(entry).status
    return f"{status.reason}: {status.message}" if status.message else status.reason


def holdup(entry: PodEntry) -> str:
    """Say in a sentence what a pod waits for."""
    pod = _pod(entry)
    if pod.HasField("verdict"):
        return pod.verdict.message
    status = pod.status
    waiting = f"waiting for {status.waiting_on}" if status.waiting_on else ""
    return ", ".join(part for part in (status.reason, status.message, waiting) if part)


async def wait(cache: Cache, request: pod_service_pb2.WaitForPodsRequest) -> AsyncIterator[bytes]:
    """Give the bytes of the answer's messages."""
    deadline = clock.monotonic() + _seconds(request)
    waiting: dict[str, list[metadata_pb2.PodReference]] = {}
    for reference in request.pods:
        key = pod_key(reference.namespace or DEFAULT_NAMESPACE, reference.name)
        waiting.setdefault(key, []).append(reference)
    wake = asyncio.Event()
    watcher: Watcher[PodEntry] = Watcher(lambda entry: entry.key in waiting, wake)
    cache.pods.attach(watcher)
    try:
        changed = list(waiting)
        while True:
            for message in _known(cache, waiting, changed, request.condition):
                yield message
            if not waiting:
                return
            try:
                async with asyncio.timeout(deadline - clock.monotonic()):
                    await wake.wait()
            except TimeoutError:
                # What has just changed may be all that was waited for.
                for message in _known(cache, waiting, list(waiting), request.condition):
                    yield message
                for message in _timed_out(cache, waiting):
                    yield message
                return
            wake.clear()
            changed = [p.entry.key for p in watcher.drain(len(watcher))]
    finally:
        cache.pods.detach(watcher)


def _known(
    cache: Cache,
    waiting: dict[str, list[metadata_pb2.PodReference]],
    changed: list[str],
    condition: "pod_service_pb2.PodCondition.ValueType",
) -> list[bytes]:
    results = []
    for key in changed:
        entry = cache.pods.entries.get(key)
        for reference in list(waiting.get(key, ())):
            judged = judge(entry, reference.uid, condition)
            if judged is not None:
                waiting[key].remove(reference)
                results.append(_result(cache, reference, entry, *judged))
        if key in waiting and not waiting[key]:
            del waiting[key]
    return _messages(results)


def _timed_out(cache: Cache, waiting: dict[str, list[metadata_pb2.PodReference]]) -> list[bytes]:
    results = []
    for key, references in waiting.items():
        entry = cache.pods.entries[key]
        message = holdup(entry)
        results += [_result(cache, r, entry, _TIMED_OUT, message) for r in references]
    return _messages(results)


def _result(
    cache: Cache,
    reference: metadata_pb2.PodReference,
    entry: PodEntry | None,
    outcome: "pod_service_pb2.WaitOutcome.ValueType",
    message: str,
) -> pod_service_pb2.WaitResult:
    result = pod_service_pb2.WaitResult(reference=reference, outcome=outcome, message=message)
    if entry is not None and reference.uid in ("", entry.uid):
        result.pod.MergeFromString(cache.pods.whole(entry))
    return result


def _messages(results: list[pod_service_pb2.WaitResult]) -> list[bytes]:
    return [
        pod_service_pb2.WaitForPodsResponse(
            results=results[start : start + _RESULTS_A_MESSAGE]
        ).SerializeToString()
        for start in range(0, len(results), _RESULTS_A_MESSAGE)
    ]
