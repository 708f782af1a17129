"""Pods, processes and waiting, for the tests of this folder."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from drumline.api.v1.pod_pb2 import Pod


async def until(condition: Callable[[], Any], seconds: float = 15.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the conditions are of many kinds
            await asyncio.sleep(0.01)


def make_pod(
    *commands: Sequence[str], node: str = "n1", grace: int = 30, cpu: int = 0, name: str = ""
) -> Pod:
    """Make a pod with a container for each command, named c0, c1, …; assigned to the node."""
    pod = Pod()
    pod.metadata.uid = str(uuid.uuid4())
    pod.metadata.name = name or f"pod-{pod.metadata.uid[:8]}"
    pod.metadata.namespace = "default"
    pod.spec.termination_grace_period_seconds = grace
    pod.assignment.pod_uid = pod.metadata.uid
    pod.assignment.attempt = 1
    pod.assignment.node = node
    for number, command in enumerate(commands):
        container = pod.spec.containers.add(name=f"c{number}", command=command)
        container.resources.requests.cpu_millicores = cpu
    return pod


def shell(script: str) -> list[str]:
    """Give the command that runs a script."""
    return ["/bin/sh", "-c", script]


def processes_of(pod: Pod) -> set[int]:
    """Give the pids of all living processes that carry the pod's mark, but its supervisor."""
    mark = f"DRUMLINE_POD_UID={pod.metadata.uid}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                marks = (entry / "environ").read_bytes().split(b"\0")
                supervisor = b"supervisor.pyc" in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark in marks and not supervisor and alive(int(entry.name)):
                found.add(int(entry.name))
    return found


def program_of(runtime_id: str) -> list[bytes]:
    """Give the program and arguments of the process that a runtime names."""
    pid = int(runtime_id.removeprefix("process:"))
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]


def alive(pid: int) -> bool:
    """Whether a process of this number lives."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in {b"Z", b"X"}


def pid_in(path: Path) -> int | None:
    """Read a pid that a script has written; None until it has."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
