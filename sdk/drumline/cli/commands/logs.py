"""`drumline logs`: what a container has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from drumline.cli import output
from drumline.cli.failures import USAGE, CommandError
from drumline.cli.options import NamespaceOption
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.client import Client


def logs(
    name: Annotated[str, typer.Argument()],
    container: Annotated[
        str, typer.Option("-c", "--container", help="Container; needed when there are several.")
    ] = "",
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the container ends.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="LINES", help="The last lines only.")
    ] = None,
    namespace: NamespaceOption = "default",
) -> None:
    """Show what a container has written."""

    async def run(client: Client) -> None:
        await copy_logs(client, name, namespace, container, follow=follow, tail=tail)

    with_client(run)


async def copy_logs(
    client: Client,
    name: str,
    namespace: str,
    container: str,
    *,
    follow: bool,
    tail: int | None = None,
) -> None:
    """Copy a container's output to standard output, byte for byte."""
    from drumline.model.errors import InvalidArgumentError

    pieces = client.stream_logs(
        name, namespace, container=container, follow=follow, tail_lines=tail
    )
    try:
        async for piece in pieces:
            output.out_bytes(piece)
    except InvalidArgumentError as error:
        if [violation.field for violation in error.violations] != ["container"]:
            raise
        raise CommandError(error.message, "Name one with -c.", USAGE) from error
