"""The skeleton of every process: settings, logging, signals, health, one way to shut down."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import grpc
from drumline.process import logs, rpc
from drumline.process.settings import SettingsError, load
from drumline.process.tls import TlsFiles
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio

_log = logs.get(__name__)

S = TypeVar("S")

EXIT_FAILED = 1
EXIT_USAGE = 2

# After SIGTERM a process ends within this many seconds, whatever it was doing.
SHUTDOWN_GRACE_SECONDS = 10.0


def main(
    process: str,
    settings_class: type[S],
    run: Callable[[S], Awaitable[None]],
    argv: Sequence[str] | None = None,
) -> int:
    """Run a process until SIGTERM or SIGINT; give its exit status.

    `run` blocks until it is cancelled, and owns everything that must be closed.
    The settings have a field ``log_level``.
    """
    try:
        settings = load(settings_class, process, sys.argv[1:] if argv is None else argv, os.environ)
        level = str(getattr(settings, "log_level", "info"))
        if level not in logs.LEVELS:
            raise SettingsError(f"--log-level is {level!r}, and must be one of {logs.LEVELS}")
    except SettingsError as error:
        print(f"drumline-{process}: {error}", file=sys.stderr)
        return EXIT_USAGE
    logs.configure(process, level)
    rpc.raise_file_limit()
    # What lives long is moved out of the collector's sight, and the young
    # generation is larger: most objects of a request die by reference count.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    return asyncio.run(supervise(process, run(settings)))


async def supervise(process: str, work: Awaitable[None]) -> int:
    """Await `work` until it ends, or SIGTERM or SIGINT cancels it; give the exit status."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    task = asyncio.ensure_future(work)
    stopping = asyncio.create_task(stop.wait(), name="signals")
    _log.info("process_started", pid=os.getpid())
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not task.done():
        _log.info("process_stopping")
        task.cancel()
        await asyncio.wait({task}, timeout=SHUTDOWN_GRACE_SECONDS)
    if not task.done():
        _log.error("process_did_not_stop", grace_seconds=SHUTDOWN_GRACE_SECONDS)
        os._exit(EXIT_FAILED)
    if task.cancelled():
        _log.info("process_stopped")
        return 0
    failure = task.exception()
    if failure is None:
        return 0
    for cause in _leaves(failure):
        if isinstance(cause, OSError | SettingsError):
            _log.error("process_failed", error=str(cause))
            print(f"drumline-{process}: {cause}", file=sys.stderr)
        else:
            _log.error("process_failed", exc_info=cause)
    return EXIT_FAILED


def _leaves(failure: BaseException) -> Iterable[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        for inner in failure.exceptions:
            yield from _leaves(inner)
    else:
        yield failure


class Health:
    """What the process answers to health checks: not serving until it is ready."""

    def __init__(self) -> None:
        self.servicer: Any = health_aio.HealthServicer()

    async def set_serving(self, serving: bool) -> None:
        """Say whether the process can do its work."""
        status = health_pb2.HealthCheckResponse
        await self.servicer.set("", status.SERVING if serving else status.NOT_SERVING)


@contextlib.asynccontextmanager
async def serving(
    address: str,
    tls: TlsFiles,
    handlers: Sequence[grpc.GenericRpcHandler],
    *,
    grace: float = 1.0,
) -> AsyncIterator[tuple[Health, int]]:
    """Serve `handlers` and health on HOST:PORT while the block runs; give health and the port.

    At the end no new call is taken, and those under way get `grace` seconds.
    """
    health = Health()
    await health.set_serving(False)
    server, port = rpc.server(tls, address)
    health_pb2_grpc.add_HealthServicer_to_server(health.servicer, server)
    server.add_generic_rpc_handlers(tuple(handlers))
    await server.start()
    _log.info("listening", address=address, port=port)
    try:
        yield health, port
    finally:
        await health.set_serving(False)
        await server.stop(grace)
