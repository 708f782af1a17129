"""Watches of everything while it changes: does each show all of it, and how soon."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drumline.api.v1.metadata_pb2 import PodReference
from drumline.api.v1.pod_pb2 import Pod
from drumline.api.v1.pod_service_pb2 import (
    CreatePodsRequest,
    DeletePodsRequest,
    UpdatePodsRequest,
)
from drumline.api.v1.pod_service_pb2_grpc import PodServiceStub
from drumline.process.channels import channel

from benchmarks import changes
from benchmarks.changes import ANNOTATION, CREATE, DELETE, Tick
from benchmarks.cluster import running
from benchmarks.flame import Flame
from benchmarks.measured import SERVERS, measured
from benchmarks.pods import real
from benchmarks.report import percentile
from benchmarks.worker import Worker

if TYPE_CHECKING:
    from drumline.api.v1.pod_service_pb2_grpc import PodServiceAsyncStub

_CALL_SECONDS = 60.0
# No scheduler answers to it, so that pods change only as the benchmark says.
_NOBODY = "nobody"
# Changes come in so many calls a second, or in fewer where that is less than one a call.
_CALLS_PER_S = 40


async def measure(
    rate: int, watchers: int, pods: int, seconds: int, flame: Flame | None
) -> dict[str, Any]:
    """Start a cluster, change pods `rate` times a second, and give the figures."""
    a_call = max(1, rate // _CALLS_PER_S)
    groups = changes.groups(pods, a_call)
    count = seconds * rate // a_call
    made = list(changes.ticks(groups, count, a_call))
    async with running(flame=flame) as cluster, channel(cluster.address, cluster.user) as opened:
        service = PodServiceStub(opened)
        for names in groups:
            await _call(service, Tick(0, CREATE, names))
        watching = await Worker.start(cluster, "watchers", "watch", cluster.user, watchers=watchers)
        await watching.ready(_CALL_SECONDS)
        await cluster.until_quiet()
        async with measured(cluster) as window:
            await watching.go()
            await _change(service, made, rate / a_call)
            await watching.stop()
            seen = await watching.result(2 * _CALL_SECONDS)
    verdicts = [changes.judge(made, each["shown"], each["removed"]) for each in seen]
    lags = [1e3 * lag for verdict in verdicts for lag in verdict.lags]
    began, ended = made[0].due, max(tick.answered for tick in made)
    done = sum(len(tick.names) for tick in made)
    return {
        "changes": done,
        "changes_per_s": round(done / (ended - began), 1),
        "lost": sum(verdict.lost for verdict in verdicts),
        "disordered": sum(verdict.disordered for verdict in verdicts),
        "skipped": sum(verdict.skipped for verdict in verdicts),
        "lag_p50_ms": round(percentile(lags, 0.5), 1),
        "lag_p99_ms": round(percentile(lags, 0.99), 1),
        "lag_max_ms": round(max(lags), 1),
        "answer_p50_ms": _p_ms([tick.answered - tick.due for tick in made], 0.5),
        "answer_p99_ms": _p_ms([tick.answered - tick.due for tick in made], 0.99),
        "sent_late_p99_ms": _p_ms([tick.sent - tick.due for tick in made], 0.99),
        "server_cpu_ms_a_change": window.cpu_ms_a(done, *SERVERS),
        **window.figures,
    }


async def _change(service: "PodServiceAsyncStub", made: Sequence[Tick], calls_per_s: float) -> None:
    """Send each call at its time, whether or not those before are answered.

    But for those of the same pods: they are sent one after the other.
    """
    last: dict[str, asyncio.Task[None]] = {}
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for tick in made:
            tick.due = began + tick.number / calls_per_s
            await asyncio.sleep(max(0.0, tick.due - time.perf_counter()))
            first = tick.names[0]
            last[first] = group.create_task(_after(last.get(first), service, tick))


async def _after(
    before: "asyncio.Task[None] | None", service: "PodServiceAsyncStub", tick: Tick
) -> None:
    if before is not None:
        await before
    tick.sent = time.perf_counter()
    await _call(service, tick)
    tick.answered = time.perf_counter()


async def _call(service: "PodServiceAsyncStub", tick: Tick) -> None:
    results: Any
    if tick.kind == CREATE:
        pods = [_pod(name, tick.number) for name in tick.names]
        create = CreatePodsRequest(pods=pods)
        results = (await service.CreatePods(create, timeout=_CALL_SECONDS)).results
    elif tick.kind == DELETE:
        delete = DeletePodsRequest(pods=[PodReference(name=name) for name in tick.names])
        results = (await service.DeletePods(delete, timeout=_CALL_SECONDS)).results
    else:
        update = UpdatePodsRequest()
        for name in tick.names:
            one = update.updates.add()
            one.pod.metadata.name = name
            one.pod.metadata.annotations[ANNOTATION] = str(tick.number)
            one.update_mask.paths.append("metadata.annotations")
        results = (await service.UpdatePods(update, timeout=_CALL_SECONDS)).results
    for result in results:
        if result.status.code:
            raise RuntimeError(f"a change was refused: {result.status.message}")


def _pod(name: str, number: int) -> Pod:
    pod = real(name)
    pod.spec.scheduler_name = _NOBODY
    pod.metadata.annotations[ANNOTATION] = str(number)
    return pod


def _p_ms(seconds: Sequence[float], share: float) -> float:
    return round(1e3 * percentile(seconds, share), 1)
