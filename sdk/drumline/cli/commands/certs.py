"""`drumline certs`: certificates for clusters that `drumline up` does not start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from drumline.cli import output
from drumline.cli.failures import USAGE, CommandError

# Those of deploy/compose.yaml.
_NODES = ("node-1", "node-2", "node-3")

app = typer.Typer(help="Make certificates for a cluster's processes.", no_args_is_help=True)


@app.callback()
def _certs() -> None:
    """Keep `create` a sub-command."""


@app.command("create")
def create(
    folder: Annotated[Path, typer.Option("--dir", help="Folder for certificates and keys.")],
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Name or address to serve on; repeatable."),
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Node, for its kubelet; repeatable.")
    ] = None,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Scheduler beside the standard one: scheduler-NAME; repeatable."
        ),
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Apiserver: write a context file too; repeatable."),
    ] = None,
) -> None:
    """Make a CA, and a certificate for each process, for the user admin and for each node.

    All are good for localhost, for the service names of deploy/compose.yaml (etcd,
    apiserver, …), for the node's name and for every --host. Without --node the nodes
    are node-1, node-2 and node-3. What the folder has and is still valid stays.
    """
    from drumline.cli.up import certificates
    from drumline.model.names import NAME
    from drumline.process import clock

    nodes = list(dict.fromkeys(node or _NODES))
    for option, names in (("node", nodes), ("scheduler", scheduler or [])):
        for name in names:
            if not NAME.fullmatch(name):
                raise CommandError(f"--{option} is {name!r}, and must be a name", code=USAGE)
    made = certificates.ensure(
        folder, nodes, clock.wall(), hosts=host or [], schedulers=scheduler or []
    )
    for name in made:
        output.out(f"{folder / name}.crt\n")
    if address:
        from drumline.client import context
        from drumline.process.tls import TlsFiles

        path = folder / "context.toml"
        tls = TlsFiles.in_folder(folder, certificates.USER)
        context.save(path, context.Context(tuple(address), tls))
        output.out(f"{path}\n")
