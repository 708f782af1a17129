"""What the process runtime keeps on disk, so that a restarted kubelet finds its pods again.

Under the kubelet's state folder::

    changes                     FIFO: supervisors write the uid of a pod that changed
    supervisor.pyc              the supervisor, compiled once for a fast start
    pods/UID/pod.pb             the Pod, as it was assigned
    pods/UID/spec               what its supervisor is to run
    pods/UID/state.json         how far it has come, written by the supervisor
    pods/UID/stop               when it must have ended
    pods/UID/supervisor.log     what the supervisor complained of
    pods/UID/logs/NAME.log      what container NAME wrote
    pods/UID/work/              where containers without a working directory run

Functions here block; call them from a thread.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumline.api.v1.pod_pb2 import Container, Pod
from drumline.kubelet.runtime import ContainerState, PodState
from drumline.kubelet.supervisor import SPEC, STATE, STOP
from drumline.model.names import DEFAULT_GRACE_SECONDS

CHANGES = "changes"
POD = "pod.pb"
MARK_UID = "DRUMLINE_POD_UID"
MARK_CONTAINER = "DRUMLINE_CONTAINER"

_UID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,62}")
_REMOVED = ".removed-"
# Of the kubelet's own environment containers see only these.
_PASSED_ON = ("PATH", "LANG", "TZ")


class CorruptFileError(Exception):
    """A file of a pod cannot be used; the message says which, and why."""


class PodFolder:
    """The files of one pod."""

    def __init__(self, state_dir: Path, uid: str) -> None:
        self.uid = uid
        self.path = state_dir / "pods" / uid

    def log(self, container: str) -> Path:
        """Where the container's output is."""
        return self.path / "logs" / f"{container}.log"

    def prepare(self, pod: Pod, environ: Mapping[str, str]) -> None:
        """Write everything that a supervisor needs. Raises OSError, ValueError."""
        spec = encode_spec(pod, environ)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / "logs").mkdir(exist_ok=True)
        (self.path / "work").mkdir(exist_ok=True)
        _replace(self.path / SPEC, spec)
        _replace(self.path / POD, pod.SerializeToString())

    def read_pod(self) -> Pod | None:
        """Give the pod; None when it was never written whole. Raises CorruptFileError."""
        try:
            pod = Pod.FromString((self.path / POD).read_bytes())
        except FileNotFoundError:
            return None
        except Exception as error:
            raise CorruptFileError(f"{self.path / POD} cannot be read: {error}") from error
        if pod.metadata.uid != self.uid:
            raise CorruptFileError(f"{self.path / POD} is of another pod")
        return pod

    def read_state(self) -> "SupervisorState | None":
        """Give what the supervisor says; None before it said anything. Raises CorruptFileError."""
        try:
            return parse_state(self.uid, json.loads((self.path / STATE).read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"{self.path / STATE} cannot be read: {error}") from error

    def write_deadline(self, deadline: float) -> None:
        """Say when the pod must have ended (CLOCK_BOOTTIME, seconds); never later than before."""
        with contextlib.suppress(OSError, ValueError):
            deadline = min(deadline, float((self.path / STOP).read_text()))
        _replace(self.path / STOP, repr(deadline).encode())

    def last_complaint(self) -> str:
        """Give the last line that the supervisor complained with."""
        try:
            lines = (self.path / "supervisor.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1][:500] if lines else ""

    def remove(self) -> None:
        """Delete everything; half of it is never taken for a pod."""
        away = self.path.with_name(_REMOVED + self.uid)
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(away)
        shutil.rmtree(away, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class SupervisorState:
    """What ``state.json`` says: who the supervisor is, and how its pod is.

    `leaders` are the pids that lead a session or a process group, the supervisor's
    own among them, each with its start time in clock ticks.
    """

    boot_id: str
    pid: int
    leaders: dict[int, int]
    pod: PodState


def folders(state_dir: Path) -> list[PodFolder]:
    """Give the folders of all pods; what was about to be removed is removed."""
    root = state_dir / "pods"
    root.mkdir(parents=True, exist_ok=True)
    found = []
    for entry in sorted(root.iterdir()):
        if entry.name.startswith(_REMOVED):
            shutil.rmtree(entry, ignore_errors=True)
        elif _UID.fullmatch(entry.name) and entry.is_dir():
            found.append(PodFolder(state_dir, entry.name))
    return found


def is_uid(uid: str) -> bool:
    """Whether the uid can name a folder."""
    return _UID.fullmatch(uid) is not None


def encode_spec(pod: Pod, environ: Mapping[str, str]) -> bytes:
    """Give what `drumline.kubelet.supervisor` reads. Raises ValueError for what it cannot hold."""
    spec = pod.spec
    given = spec.HasField("termination_grace_period_seconds")
    grace = spec.termination_grace_period_seconds if given else DEFAULT_GRACE_SECONDS
    pairs = [("uid", pod.metadata.uid), ("notify", f"../../{CHANGES}"), ("grace", str(grace))]
    for container in spec.containers:
        if not _NAME.fullmatch(container.name):
            raise ValueError(f"{container.name!r} cannot be the name of a container")
        if not (container.command or container.args):
            raise ValueError(f"container {container.name} has no command")
        pairs += [
            ("container", container.name),
            ("log", f"logs/{container.name}.log"),
            ("directory", container.working_dir or "work"),
            *(("argument", word) for word in (*container.command, *container.args)),
            *(
                ("environment", f"{name}={value}")
                for name, value in environment(pod, container, environ).items()
            ),
        ]
    if any("\0" in value for _, value in pairs):
        raise ValueError("a NUL character cannot be passed to a program")
    return b"".join(key.encode() + b"\0" + value.encode() + b"\0" for key, value in pairs)


def environment(pod: Pod, container: Container, environ: Mapping[str, str]) -> dict[str, str]:
    """Give what the container's program finds in its environment.

    The last two tell whose a process is; the kubelet finds by them what a killed
    supervisor left behind.
    """
    given = {name: environ[name] for name in _PASSED_ON if name in environ}
    given["DRUMLINE_POD_NAME"] = pod.metadata.name
    given["DRUMLINE_POD_NAMESPACE"] = pod.metadata.namespace
    given["DRUMLINE_NODE_NAME"] = pod.assignment.node
    given |= {variable.name: variable.value for variable in container.env}
    given[MARK_UID] = pod.metadata.uid
    given[MARK_CONTAINER] = container.name
    return given


def parse_state(uid: str, state: Any) -> SupervisorState:
    """Read ``state.json``. Raises KeyError, TypeError, ValueError when it is something else."""
    if state["uid"] != uid:
        raise ValueError("it is of another pod")
    containers = tuple(
        ContainerState(
            name=str(c["name"]),
            runtime_id=f"process:{int(c['pid'])}",
            start_time=float(c["start_time"]),
            finish_time=None if c["finish_time"] is None else float(c["finish_time"]),
            exit_code=None if c["exit_code"] is None else int(c["exit_code"]),
            signal=int(c["signal"]),
        )
        for c in state["containers"]
    )
    problem = str(state["error"]).encode("utf-8", "replace").decode()[:1000]
    pid = int(state["pid"])
    return SupervisorState(
        boot_id=str(state["boot_id"]),
        pid=pid,
        leaders={int(c["pid"]): int(c["start_ticks"]) for c in (*state["containers"], state)},
        pod=PodState(
            uid,
            containers,
            ended=bool(state["done"]),
            start_problem=problem,
            killed=int(state["killed"]),
        ),
    )


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    # Its owner's alone: environments hold secrets.
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    temporary.replace(path)
