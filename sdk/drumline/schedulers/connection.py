"""One subscription after another, until the process is stopped."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from drumline.model.errors import DrumlineError
from drumline.process import logs
from drumline.process.backoff import Backoff
from drumline.process.channels import Endpoints
from drumline.schedulers.session import Session
from drumline.scheduling.v1.scheduler_service_pb2_grpc import SchedulerServiceStub

if TYPE_CHECKING:
    from drumline.scheduling.v1.scheduler_service_pb2_grpc import SchedulerServiceAsyncStub

_log = logs.get(__name__)

Synced = Callable[[], Awaitable[None]]
# Serves one subscription, to its end by an error; awaits what it is given once it is synced.
Serve = Callable[["SchedulerServiceAsyncStub", Synced], Coroutine[Any, Any, None]]


async def stay_subscribed(
    endpoints: Endpoints,
    session: Session,
    serve: Serve,
    set_serving: Callable[[bool], Awaitable[None]],
) -> None:
    """Serve one subscription after another until cancelled, and then give the session up.

    `set_serving` is told when everything is known, and when it is no longer.
    """
    backoff = Backoff(initial=0.1, maximum=5.0)

    async def synced() -> None:
        backoff.reset()
        await set_serving(True)

    try:
        while True:
            try:
                await _to_its_end(serve(SchedulerServiceStub(endpoints.channel()), synced))
            except* DrumlineError as group:
                error = _first(group)
                _log.warning(
                    "subscription_lost",
                    apiserver=endpoints.address,
                    reason=error.reason,
                    error=error.message,
                )
            await set_serving(False)
            await endpoints.rotate()
            await asyncio.sleep(backoff.next_delay())
    finally:
        await session.end(SchedulerServiceStub(endpoints.channel()))


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work in a task of its own.

    A task group that fails while its task is cancelled forgets the cancellation;
    so the task that is cancelled must not be the one that holds the group.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    task.result()


def _first(group: BaseExceptionGroup[DrumlineError]) -> DrumlineError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
