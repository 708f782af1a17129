"""The process that watches over a detached cluster: it tells its parent until the cluster is up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import traceback
from typing import NoReturn

from drumline.cli.failures import CommandError
from drumline.cli.up import cluster
from drumline.cli.up.state import StateFolder
from drumline.process import clock


def supervise(folder: StateFolder, wishes: cluster.Wishes, pipe: int) -> NoReturn:
    """Run the cluster to its end, then end this process, a fork, without its parent's clean-up."""
    status = 1
    try:
        _leave_terminal(folder)
        try:
            asyncio.run(cluster.run(folder, wishes, lambda it: _tell(pipe, it.kind, it.text)))
            status = 0
        except CommandError as error:
            _tell(pipe, "failed", error.text, error.advice)
    except BaseException:
        # The log is the last to hear of it: nothing must run the parent's clean-up here.
        traceback.print_exc()
    finally:
        os._exit(status)


def _leave_terminal(folder: StateFolder) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(folder.log("up"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)


def _tell(pipe: int, kind: str, text: str, advice: str = "") -> None:
    # A disk that is full is no reason to leave the cluster unwatched.
    with contextlib.suppress(OSError):
        print(f"{clock.wall():%Y-%m-%d %H:%M:%S} {kind}: {text} {advice}".rstrip(), flush=True)
    # The parent is gone once the cluster is up. Nothing is buffered: what it did not
    # read would be written again, and fail, at the end.
    with contextlib.suppress(OSError):
        os.write(pipe, f"{json.dumps([kind, text, advice])}\n".encode())
