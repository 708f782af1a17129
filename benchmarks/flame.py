"""A flame graph of one process while something is measured, by py-spy.

It is drawn on request only: sampling costs the machine some of what is measured.
"""

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

_SAMPLES_A_SECOND = 200
_START_SECONDS = 10.0
# Drawing takes a while.
_END_SECONDS = 60.0


class FlameError(Exception):
    """No flame graph can be drawn; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Flame:
    """A flame graph that was asked for: of which process, and the SVG file."""

    process: str
    file: Path

    @contextlib.asynccontextmanager
    async def recording(self, pid: int) -> AsyncIterator[None]:
        """Sample the process while the block runs, then draw. Raises FlameError."""
        command = [_program(), "record", f"--pid={pid}", f"--output={self.file}"]
        sampling = await asyncio.create_subprocess_exec(
            *command,
            f"--rate={_SAMPLES_A_SECOND}",
            "--format=flamegraph",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said = await self._first_line(sampling)
            yield
            if sampling.returncode is None:
                sampling.send_signal(signal.SIGINT)
            async with asyncio.timeout(_END_SECONDS):
                rest, _ = await sampling.communicate()
            if sampling.returncode:
                raise FlameError(f"py-spy failed: {said}{rest.decode(errors='replace')}")
        finally:
            if sampling.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    sampling.kill()
                await sampling.wait()

    async def _first_line(self, sampling: asyncio.subprocess.Process) -> str:
        """Wait until it samples: then it says so."""
        assert sampling.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            return (await sampling.stdout.readline()).decode(errors="replace")


def _program() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise FlameError("--flame needs py-spy: pip install py-spy")
    return found
