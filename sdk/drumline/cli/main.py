"""The command `drumline`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from drumline.cli import failures
from drumline.cli.commands import (
    apply,
    certs,
    cordon,
    delete,
    describe,
    explain,
    get,
    health,
    logs,
    run,
    status,
    up,
    version,
    wait,
)

app = typer.Typer(
    name="drumline",
    help="Run pods on a cluster: bring one up, give it pods, look at them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_COMMANDS: dict[str, Callable[..., None]] = {
    "up": up.up,
    "down": up.down,
    "status": status.status,
    "apply": apply.apply,
    "run": run.run,
    "get": get.get,
    "describe": describe.describe,
    "explain": explain.explain,
    "logs": logs.logs,
    "delete": delete.delete,
    "wait": wait.wait,
    "cordon": cordon.cordon,
    "uncordon": cordon.uncordon,
    "version": version.version,
    "health": health.health,
}
for name, command in _COMMANDS.items():
    app.command(name)(command)
app.add_typer(certs.app, name="certs")


@app.callback()
def _global_options(
    context: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Context file: the cluster's addresses and the user's certificate. "
            "Otherwise DRUMLINE_CONTEXT names it, or it is ~/.config/drumline/context.toml.",
        ),
    ] = "",
) -> None:
    if context:
        os.environ["DRUMLINE_CONTEXT"] = context


def main() -> None:
    """Run the command line; failures become a sentence and an exit code."""
    try:
        app()
    except failures.CommandError as error:
        failures.say(error.text, error.advice)
        sys.exit(error.code)
    except KeyboardInterrupt:
        sys.exit(failures.INTERRUPTED)
