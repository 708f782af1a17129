"""Runs a command's coroutine against the cluster of the context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

from drumline.cli import failures

if TYPE_CHECKING:
    from drumline.client import Client

T = TypeVar("T")

# A restart of the control plane is bridged; a cluster that is not there is told soon.
_CONNECT_SECONDS = 3.0


def with_client(work: Callable[[Client], Coroutine[object, object, T]]) -> T:
    """Open a client, run `work` with it, give its result.

    Raises CommandError for whatever the cluster or the connection refuses.
    """
    from drumline.client import Client
    from drumline.model.errors import DrumlineError

    async def run() -> T:
        async with Client.from_context(connect_timeout=_CONNECT_SECONDS) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except DrumlineError as error:
        raise failures.from_error(error) from error
