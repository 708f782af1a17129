"""Finds and kills what a killed supervisor left behind.

Its tree can no longer be told by parents: orphans went to init. They are told by
the mark in their environment, or by the session or process group that the
supervisor gave them. These functions block; call them from a thread.
"""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from drumline.kubelet.pod_files import MARK_UID

_PAUSE = 0.01
_TRIES = 500


def kill(uid: str, leaders: Mapping[int, int]) -> int:
    """Kill every process of the pod until none is left; give how many there were.

    `leaders` are as in `SupervisorState`. Gives up after some seconds on what does
    not die (a process in uninterruptible sleep).
    """
    seen: set[int] = set()
    for _ in range(_TRIES):
        found = find(uid, leaders)
        if not found:
            break
        for pid in found:
            seen.add(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    return len(seen)


def find(uid: str, leaders: Mapping[int, int]) -> list[int]:
    """Give the pids of the pod's living processes."""
    mark = f"{MARK_UID}={uid}".encode()
    groups: dict[int, set[int]] = {}
    started: dict[int, int] = {}
    marked = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        pid = int(entry.name)
        try:
            fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
            started[pid] = int(fields[19])
            if fields[0] in {b"Z", b"X"}:
                continue
            groups[pid] = {int(fields[2]), int(fields[3])}
            if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                marked.append(pid)
        except (OSError, ValueError, IndexError):
            continue
    # While a group has members its number is not given to a new process: where
    # another process has the number, the group is another's.
    ours = {pid for pid, ticks in leaders.items() if started.get(pid, ticks) == ticks}
    return sorted({*marked, *(pid for pid, numbers in groups.items() if numbers & ours)})
