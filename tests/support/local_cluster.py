"""A cluster as a user has it on one machine: `drumline up --detach`, in a folder of the test."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

COMMAND = Path(sys.executable).parent / "drumline"
SECONDS = 60.0


def eventually(look: Callable[[], T | None], what: str, seconds: float = SECONDS) -> T:
    """Look until something is there; fail with what was waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds:.0f} s for {what}")


@dataclass
class LocalCluster:
    """One that runs."""

    state: Path
    environment: dict[str, str]

    def run(self, *words: str, check: bool = True) -> str:
        """Run a command; give what it says on standard output."""
        done = subprocess.run(
            [COMMAND, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def pod(self, name: str) -> dict[str, Any]:
        """Give a pod, as `get -o json` writes it; empty when it is not there."""
        said = self.run("get", "pod", name, "-o", "json", check=False)
        found: dict[str, Any] = json.loads(said) if said else {}
        return found

    def pids(self) -> dict[str, int]:
        """Give the process id of each component, by its name."""
        noted = json.loads((self.state / "run.json").read_text())
        return {name: process["pid"] for name, process in noted["components"].items()}

    def kill(self, component: str, number: int) -> None:
        """Send a signal to a component, and wait until another process has its place."""
        before = self.pids()[component]
        os.kill(before, number)
        eventually(lambda: self.pids().get(component, before) != before, f"another {component}")


@contextmanager
def local_cluster(folder: Path, *flags: str, **settings: str) -> Iterator[LocalCluster]:
    """Bring a cluster up, with `settings` in its environment, and down again with its state."""
    state = folder / "state"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DRUMLINE_")}
    environment = kept | {"HOME": str(folder), "DRUMLINE_STATE_DIR": str(state)} | settings
    cluster = LocalCluster(state, environment)
    cluster.run("up", "--detach", *flags)
    try:
        yield cluster
    finally:
        cluster.run("down", check=False)
