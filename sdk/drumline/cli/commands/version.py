"""`drumline version`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from drumline.cli import output
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.client import Client


def version(
    client_only: Annotated[
        bool, typer.Option("--client", help="Of this command only; ask no cluster.")
    ] = False,
) -> None:
    """Tell versions, and who you are to the cluster."""
    from drumline.process.version import VERSION

    output.out(f"Command:    {VERSION}\n")
    if client_only:
        return

    async def run(client: Client) -> str:
        answer = await client.version()
        groups = f" (groups: {', '.join(answer.groups)})" if answer.groups else ""
        return output.facts(
            [
                ("Apiserver", answer.version),
                ("etcd", answer.etcd_version),
                ("You", f"{answer.identity}{groups}"),
                ("Gang", f"at most {answer.largest_atomic_assignment} pods at once"),
            ]
        )

    output.out(with_client(run))
