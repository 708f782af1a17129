"""Ends what a cluster could not end itself, because it was killed: processes, then pods."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from drumline.cli.up.components import END_SECONDS
from drumline.cli.up.state import Process, Run, StateFolder
from drumline.process import clock

# Kubelets mark the processes of pods with it, in their environment.
_MARK = b"DRUMLINE_POD_UID="
_PAUSE_SECONDS = 0.02


def end_processes(run: Run) -> int:
    """End the components that still live, nodes first and etcd last; give their number."""
    turns = ({"scheduler", "nodecontroller"}, {"apiserver"}, {"etcd"})
    later = set().union(*turns)
    ended = 0
    for turn in ({name for name in run.components if name not in later}, *turns):
        living = [p for name, p in run.components.items() if name in turn and p.lives]
        ended += len(living)
        _signal(living, signal.SIGTERM)
        if not wait_for_end(living, END_SECONDS):
            _signal(living, signal.SIGKILL)
            wait_for_end(living, END_SECONDS)
    return ended


def end_pods(folder: StateFolder) -> int:
    """Kill every process of the cluster's pods that is left; give their number."""
    ended = 0
    # What is being killed may still be starting others: look again until none is left.
    for _ in range(10):
        left = [Process.of(pid) for pid in _pod_processes(folder)]
        if not left:
            break
        ended += len(left)
        _signal(left, signal.SIGKILL)
        wait_for_end(left, END_SECONDS)
    return ended


def wait_for_end(processes: Iterable[Process], seconds: float) -> bool:
    """Wait until none of them lives; say whether that came about in time."""
    listed = list(processes)
    deadline = clock.monotonic() + seconds
    while any(process.lives for process in listed):
        if clock.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def _pod_processes(folder: StateFolder) -> list[int]:
    """Find processes that carry the mark of a pod of this folder, or supervise one."""
    pods = [path for path in folder.nodes.glob("*/pods/*") if path.is_dir()]
    if not pods:
        return []
    marks = {_MARK + path.name.encode() for path in pods}
    folders = {str(path).encode() for path in pods}
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                environment = (entry / "environ").read_bytes().split(b"\0")
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if not marks.isdisjoint(environment) or not folders.isdisjoint(words):
                    found.append(int(entry.name))
    return found


def _signal(processes: Iterable[Process], number: int) -> None:
    for process in processes:
        if process.lives:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
