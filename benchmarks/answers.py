"""Waits for a first answer: of an apiserver that starts, or starts again."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc

# How often it is tried; figures are that much too long at most.
_PAUSE_SECONDS = 0.01


async def until_listening(port: int) -> None:
    """Wait until something listens on a port of this host."""
    while not await _listens(port):  # noqa: ASYNC110 - another process's
        await asyncio.sleep(_PAUSE_SECONDS)


async def until_answered(call: Callable[[], Awaitable[object]]) -> None:
    """Make a call again and again until it is answered."""
    while True:
        try:
            await call()
        except grpc.aio.AioRpcError:
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
