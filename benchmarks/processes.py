"""Processes that a benchmark starts: their output, what they use, and their end."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_END_SECONDS = 15.0
_TAIL_LINES = 15
# Of one line that a process writes to its standard output.
_LINE_BYTES = 1 << 28


def environment(**more: str) -> dict[str, str]:
    """Give this process's environment without settings of Drumline, and with `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DRUMLINE_")}
    return {**kept, **more}


class ProcessEndedError(Exception):
    """A process ended that should have gone on; the message holds the end of its output."""


class Process:
    """One process of a cluster, its output in a file."""

    def __init__(self, name: str, started: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.started = started
        self._log = log
        self._counters = psutil.Process(started.pid)

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        log: Path,
        settings: Mapping[str, str],
        *,
        talks: bool = False,
    ) -> "Process":
        """Start it, with `settings` in its environment; one that `talks` has pipes."""
        with log.open("ab") as output:
            started = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE if talks else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if talks else output,
                stderr=output,
                env=environment(**settings),
                limit=_LINE_BYTES,
                # Ctrl-C is for the benchmark, which then ends its processes in order.
                start_new_session=True,
            )
        return cls(name, started, log)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self.started.pid

    def cpu_seconds(self) -> float:
        """Processor time that it has used since its start, its own and the system's for it."""
        self.check()
        times = self._counters.cpu_times()
        return float(times.user + times.system)

    def rss_mb(self) -> float:
        """Memory that it has resident, in megabytes."""
        self.check()
        return float(self._counters.memory_info().rss) / 1e6

    def check(self) -> None:
        """Raise ProcessEndedError unless it runs."""
        status = self.started.returncode
        if status is not None:
            lines = self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
            said = "\n".join(lines)
            raise ProcessEndedError(
                f"{self.name} ended with status {status}; it said last:\n{said}"
            )

    async def kill(self) -> None:
        """End it as a crash would."""
        self.started.kill()
        await self.started.wait()

    async def end(self) -> None:
        """Ask it to end; kill it when it does not."""
        if self.started.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.started.terminate()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.started.wait(), _END_SECONDS)
        finally:
            # Also when this is cancelled: nothing outlives the benchmark.
            if self.started.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self.started.kill()
                await self.started.wait()
