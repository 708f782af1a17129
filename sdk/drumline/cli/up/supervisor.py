"""Keeps the processes of a cluster running, and ends them in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence

from drumline.cli.up.components import END_SECONDS, Component
from drumline.cli.up.state import Process, Run, StateFolder
from drumline.process import clock
from drumline.process.backoff import Backoff

# A process that ran so long was well: the next start is not delayed for its sake.
_WELL_SECONDS = 30.0
# A process that ends so often before the cluster is up will not mend.
_HOPELESS_STARTS = 6
# So many ends, one soon after the other, are told; then it is said once that they go on.
_TOLD_ENDS = 3
_LARGEST_LOG_BYTES = 16 << 20


class HopelessError(Exception):
    """A process does not stay up; the message says which, and what it last said."""


class Supervisor:
    """Starts processes, starts those again that end, tells what happens."""

    def __init__(
        self, folder: StateFolder, components: Sequence[Component], tell: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._components = components
        self._tell = tell
        self._run = Run(Process.of(os.getpid()))
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self.proven = False
        """The cluster has been up: from now on processes are started again for ever."""

    async def start(self) -> None:
        """Start all; those that end are started again from now on."""
        for component in self._components:
            await self._launch(component)
            self._keepers[component.name] = asyncio.create_task(
                self._keep(component), name=f"keep-{component.name}"
            )

    async def wait(self) -> None:
        """Block until a process turns out hopeless. Raises HopelessError."""
        done, _ = await asyncio.wait(self._keepers.values(), return_when=asyncio.FIRST_COMPLETED)
        for keeper in done:
            keeper.result()

    async def end(self) -> None:
        """End all, turn by turn; what does not end in time is killed."""
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        for turn in sorted({component.end_turn for component in self._components}):
            names = [c.name for c in self._components if c.end_turn == turn]
            children = [self._children[name] for name in names if name in self._children]
            await asyncio.gather(*(_end(child) for child in children))
        self._folder.forget_run()

    async def _launch(self, component: Component) -> None:
        log = self._folder.log(component.name)
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_size > _LARGEST_LOG_BYTES:
                log.replace(log.with_suffix(".log.1"))
        with log.open("ab") as output:
            # A session of its own: a terminal's Ctrl-C is for the supervisor only.
            child = await asyncio.create_subprocess_exec(
                *component.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._children[component.name] = child
        self._run.components[component.name] = Process.of(child.pid)
        self._folder.note(self._run)

    async def _keep(self, component: Component) -> None:
        backoff = Backoff(initial=0.1, maximum=10.0)
        ends = 0
        while True:
            began = clock.monotonic()
            status = await self._children[component.name].wait()
            if clock.monotonic() - began >= _WELL_SECONDS:
                backoff.reset()
                ends = 0
            ends += 1
            how = f"signal {-status}" if status < 0 else f"status {status}"
            if not self.proven and ends >= _HOPELESS_STARTS:
                raise HopelessError(self._complaint(component, how))
            if ends <= _TOLD_ENDS:
                self._tell(f"{component.name} ended with {how}; it is started again")
            elif ends == _HOPELESS_STARTS:
                self._tell(f"{self._complaint(component, how)}; it is started again and again")
            await asyncio.sleep(backoff.next_delay())
            await self._launch(component)

    def _complaint(self, component: Component, how: str) -> str:
        words = self._last_words(component)
        return f"{component.name} does not stay up: it ended with {how}{words}"

    def _last_words(self, component: Component) -> str:
        log = self._folder.log(component.name)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        # What a process says to people is no JSON.
        plain = (line for line in reversed(lines) if line.strip() and not line.startswith("{"))
        last = next(plain, "")
        return f', saying "{last[:300]}" ({log})' if last else f" ({log})"


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(END_SECONDS):
            await child.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
