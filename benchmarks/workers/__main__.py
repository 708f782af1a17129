"""Runs one worker: ``python -m benchmarks.workers``, told the rest on standard input."""

import asyncio

from benchmarks.workers import beating, creating, watching
from benchmarks.workers.link import Link

_KINDS = {"create": creating.run, "watch": watching.run, "beat": beating.run}


async def _work() -> None:
    link = await Link.open()
    spec = await link.spec()
    await link.answer(await _KINDS[spec["kind"]](spec, link))


if __name__ == "__main__":
    asyncio.run(_work())
