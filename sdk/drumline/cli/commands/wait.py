"""`drumline wait`: until pods have come as far as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from drumline.cli import waits
from drumline.cli.failures import NOT_FOUND, USAGE, CommandError
from drumline.cli.options import (
    AllNamespaces,
    NamespaceOption,
    Selector,
    Timeout,
    check_selector,
    kind_of,
    seconds,
)
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.client import Client


def wait(
    kind: Annotated[str, typer.Argument(metavar="pod")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    condition: Annotated[
        str, typer.Option("--for", metavar="assigned|running|terminated|deleted", help="How far.")
    ] = "running",
    selector: Selector = "",
    namespace: NamespaceOption = "default",
    all_namespaces: AllNamespaces = False,
    timeout: Timeout = "30s",
) -> None:
    """Wait until pods have come as far as asked.

    Ends with 0 when all are, with 4 when the time is over, with 1 when one never
    will be, with 3 when one is not there.
    """
    if kind_of(kind) != "pod":
        raise CommandError("only pods can be waited for", code=USAGE)
    if condition not in waits.WORDS:
        raise CommandError(
            f"--for is {condition!r}, and must be one of {', '.join(waits.WORDS)}", code=USAGE
        )
    if bool(names) == bool(selector):
        raise CommandError("name pods, or select them with -l", code=USAGE)
    if names and all_namespaces:
        raise CommandError("-A goes with -l only", "Name the namespace with -n.", USAGE)
    limit = seconds(timeout)
    check_selector(selector)

    async def run(client: Client) -> int:
        from drumline.api.v1.metadata_pb2 import PodReference
        from drumline.client import reference

        if names:
            pods = [PodReference(namespace=namespace, name=name) for name in names]
        else:
            where = "" if all_namespaces else namespace
            pods = [reference(pod) async for pod in client.list_pods(where, labels=selector)]
            if not pods:
                raise CommandError("there are no pods that match", code=NOT_FOUND)
        return await waits.wait_and_tell(client, pods, condition, limit)

    code = with_client(run)
    if code:
        raise typer.Exit(code)
