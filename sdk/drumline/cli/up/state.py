"""The state folder of a local cluster: its paths, its ports, and which processes are its own.

::

    lock            held by the supervisor while it lives
    plan.json       ports, and how many nodes: chosen once, remembered
    run.json        the supervisor's process and its components', while they run
    context.toml    for DRUMLINE_CONTEXT
    tls/            certificates; tls/etcd/ has an authority of its own
    etcd/           etcd's data
    nodes/NAME/     a kubelet's state
    logs/NAME.log   what each process says
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from drumline.cli.failures import CommandError

VARIABLE = "DRUMLINE_STATE_DIR"

# Below the range from which the system takes ports for outgoing connections, so
# that a remembered port is seldom taken when the cluster comes up again.
_PORTS = range(20_000, 30_000)
_PORT_NAMES = ("apiserver", "nodecontroller", "scheduler", "etcd", "etcd-peer")


def default_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Give the state folder that is used when none is named."""
    named = environ.get(VARIABLE)
    if named:
        return Path(named)
    state = environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "drumline" / "default"


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the cluster; `started` tells it from a later one with the same number."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """Take note of a process that lives."""
        return cls(pid, _start_ticks(pid) or 0)

    @property
    def lives(self) -> bool:
        """Whether it is still there."""
        return _start_ticks(self.pid) == self.started


@dataclass(slots=True)
class Plan:
    """What is chosen once: ports by name, process nodes, simulated nodes."""

    ports: dict[str, int]
    nodes: int
    simulated_nodes: int

    @property
    def node_names(self) -> list[str]:
        """Names of the process nodes."""
        return [f"node-{number}" for number in range(1, self.nodes + 1)]

    @property
    def all_node_names(self) -> list[str]:
        """Names of all nodes, the simulated ones as the simulator numbers them."""
        width = max(4, len(str(self.simulated_nodes)))
        simulated = range(1, self.simulated_nodes + 1)
        return [*self.node_names, *(f"sim-{number:0{width}}" for number in simulated)]

    def address(self, name: str) -> str:
        """Give where a process listens."""
        return f"127.0.0.1:{self.ports[name]}"


@dataclass(slots=True)
class Run:
    """The processes of a cluster that runs, or ran and was not ended."""

    supervisor: Process
    components: dict[str, Process] = field(default_factory=dict)


class StateFolder:
    """Reads and writes the folder. Failures of the file system are raised as they are."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.tls = self.path / "tls"
        self.etcd_tls = self.tls / "etcd"
        self.etcd_data = self.path / "etcd"
        self.nodes = self.path / "nodes"
        self.logs = self.path / "logs"
        self.context = self.path / "context.toml"
        self._lock: int | None = None

    def prepare(self) -> None:
        """Make the folder, for its owner only."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.tls, self.nodes, self.logs):
            folder.mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> bool:
        """Take the lock, for as long as this process lives; say whether it was free."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def unlock(self) -> None:
        """Let the lock go."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_locked(self) -> bool:
        """Whether a supervisor lives."""
        if not (self.path / "lock").exists():
            return False
        if self.lock():
            self.unlock()
            return False
        return True

    def plan(self, nodes: int | None, simulated_nodes: int | None) -> Plan:
        """Give the plan: what is asked for, else what is remembered; remember it.

        A remembered port that something else has taken is chosen anew.
        """
        before = _read(self.path / "plan.json")
        ports = before.get("ports", {})
        chosen: dict[str, int] = {}
        for name in _PORT_NAMES:
            port = ports.get(name)
            usable = isinstance(port, int) and port not in chosen.values() and _is_free(port)
            chosen[name] = port if usable else _free_port(chosen.values())
        plan = Plan(
            chosen,
            before.get("nodes", 1) if nodes is None else nodes,
            before.get("simulated_nodes", 0) if simulated_nodes is None else simulated_nodes,
        )
        _write(self.path / "plan.json", asdict(plan))
        return plan

    def run(self) -> Run | None:
        """Give the processes noted last; None when all of them were ended in order."""
        noted = _read(self.path / "run.json")
        if not noted:
            return None
        return Run(
            Process(**noted["supervisor"]),
            {name: Process(**values) for name, values in noted["components"].items()},
        )

    def note(self, run: Run) -> None:
        """Note the processes."""
        _write(self.path / "run.json", asdict(run))

    def forget_run(self) -> None:
        """All processes were ended."""
        (self.path / "run.json").unlink(missing_ok=True)

    def log(self, name: str) -> Path:
        """Give the file that a process writes to."""
        return self.logs / f"{name}.log"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise CommandError(
            f"{path} is damaged: {error}", "Remove it, or the cluster: drumline down --delete."
        ) from error
    return found if isinstance(found, dict) else {}


def _write(path: Path, value: dict[str, Any]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    temporary.replace(path)


def _start_ticks(pid: int) -> int | None:
    """Give when a process started, in ticks since boot; None when it is gone or a zombie."""
    try:
        # The name of the program, in parentheses, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _free_port(taken: Any) -> int:
    for port in random.sample(_PORTS, 200):
        if port not in taken and _is_free(port):
            return port
    raise CommandError(f"no free port was found from {_PORTS.start} to {_PORTS.stop - 1}")
