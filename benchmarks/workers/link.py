"""A worker's side of the pipe to the process that measures."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drumline.process.tls import TlsFiles

Spec = Mapping[str, Any]


class Link:
    """Hears from the process that measures, and answers it."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    @classmethod
    async def open(cls) -> "Link":
        """Take over standard input."""
        reader = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        return cls(reader)

    async def spec(self) -> Spec:
        """Give what there is to do."""
        found: Spec = json.loads(await self._line())
        return found

    async def ready(self) -> None:
        """Say that all is prepared, and wait for the word to go."""
        _say("ready")
        await self._expect("go")

    async def stopped(self) -> None:
        """Wait for the word to stop."""
        await self._expect("stop")

    async def answer(self, result: Any) -> None:
        """Give the result, and wait to be ended."""
        _say(json.dumps(result))
        await self._reader.read()

    async def _expect(self, word: str) -> None:
        heard = await self._line()
        if heard != word:
            raise ValueError(f'heard "{heard}" instead of "{word}"')

    async def _line(self) -> str:
        line = await self._reader.readline()
        if not line:
            # Whoever started this is gone: nothing is left to be done.
            raise EOFError("the process that measures is gone")
        return line.decode().strip()


def tls_of(spec: Spec) -> TlsFiles:
    """Give the certificate to work with."""
    ca, certificate, key = (Path(file) for file in spec["tls"])
    return TlsFiles(ca, certificate, key)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
