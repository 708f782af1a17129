"""A proxy that can swallow what goes through it without closing anything."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class SilentProxy:
    """Passes bytes on until `swallow` is set; then reads and drops them."""

    def __init__(self, target_port: int) -> None:
        self.swallow = False
        self.address = ""
        self._target_port = target_port
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers += [writer, there_writer]
        for source, sink in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.create_task(self._pass(source, sink))
            self._tasks.add(task)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not self.swallow:
                    sink.write(data)
                    await sink.drain()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["SilentProxy"]:
        """Listen while the block runs."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in self._writers:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
