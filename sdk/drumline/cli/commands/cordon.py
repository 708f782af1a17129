"""`drumline cordon` and `drumline uncordon`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from drumline.cli import failures, output
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.client import Client

Names = Annotated[list[str], typer.Argument(metavar="NODE...")]


def cordon(names: Names) -> None:
    """Keep new pods off nodes; those that are there stay."""
    _set(names, unschedulable=True)


def uncordon(names: Names) -> None:
    """Let pods onto nodes again."""
    _set(names, unschedulable=False)


def _set(names: Sequence[str], *, unschedulable: bool) -> None:
    async def run(client: Client) -> int:
        from drumline.model.errors import DrumlineError

        code = 0
        for name in names:
            try:
                await (client.cordon if unschedulable else client.uncordon)(name)
                output.out(f"node/{name} {'cordoned' if unschedulable else 'uncordoned'}\n")
            except DrumlineError as error:
                failures.say(f"node/{name}: {error.message}", failures.advice_for(error))
                code = failures.code_of(error)
        return code

    code = with_client(run)
    if code:
        raise typer.Exit(code)
