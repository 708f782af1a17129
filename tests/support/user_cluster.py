"""Clusters of `drumline up`, for tests that use them as users do."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from drumline.cli.up.state import Process, Run, StateFolder
from drumline.client import Client

T = TypeVar("T")

COMMAND = Path(sys.executable).parent / "drumline"


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class UserCluster:
    """A cluster with a state folder and a context of its own."""

    folder: Path

    @property
    def state(self) -> StateFolder:
        """Its state folder."""
        return StateFolder(self.folder / "state")

    @property
    def context(self) -> Path:
        """Its context file."""
        return self.folder / "context.toml"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its commands."""
        return {
            **os.environ,
            "DRUMLINE_STATE_DIR": str(self.state.path),
            "DRUMLINE_CONTEXT": str(self.context),
        }

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command."""
        return subprocess.Popen(
            [COMMAND, *words],
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, given: str = "") -> Done:
        """Run a command to its end; never with a traceback."""
        child = self.start(*words)
        out, err = child.communicate(given, timeout=100)
        assert "Traceback" not in err
        return Done(child.returncode, out, err)

    def ok(self, *words: str, given: str = "") -> str:
        """Run a command that must succeed; give what it wrote."""
        done = self.run(*words, given=given)
        assert done.code == 0, done.out + done.err
        return done.out

    def client(self) -> Client:
        """Make a client."""
        return Client.from_context(self.context)

    def processes(self) -> Run:
        """Its processes."""
        noted = self.state.run()
        assert noted is not None
        return noted

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, and wait until another one has its place."""
        before = self.processes().components[name]
        os.kill(before.pid, signal.SIGKILL)
        until(lambda: self.processes().components[name] != before and not before.lives)

    def living(self) -> list[str]:
        """Give the names of its processes that live."""
        noted = self.state.run()
        if noted is None:
            return []
        named: dict[str, Process] = {"supervisor": noted.supervisor, **noted.components}
        return [name for name, process in named.items() if process.lives]


def until(condition: Callable[[], T], seconds: float = 60.0) -> T:
    """Wait until a condition gives something true, and give that."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it has not come about in time"
        time.sleep(0.02)


def processes_with(text: str) -> list[int]:
    """Find the shells with this text in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes()
                if line.startswith(b"sh\0") and text.encode() in line:
                    found.append(int(entry.name))
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserCluster]:
    """A cluster of two process nodes and twenty simulated ones, for a module's tests."""
    made = UserCluster(tmp_path_factory.mktemp("cluster"))
    made.ok("up", "--detach", "--nodes", "2", "--simulated-nodes", "20")
    yield made
    made.ok("down", "--delete")
