"""`drumline delete`: pods, nodes, namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from drumline.cli import failures, output, sources, waits
from drumline.cli.failures import NOT_FOUND, USAGE, CommandError
from drumline.cli.options import (
    AllNamespaces,
    Files,
    NamespaceOption,
    Recursive,
    Selector,
    Timeout,
    check_selector,
    kind_of,
    seconds,
)
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.api.v1.metadata_pb2 import PodReference
    from drumline.client import Client
    from drumline.model.errors import DrumlineError


def delete(
    *,
    kind: Annotated[str, typer.Argument(metavar="pod|node|namespace")] = "",
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    filename: Files = None,
    recursive: Recursive = False,
    selector: Selector = "",
    everything: Annotated[bool, typer.Option("--all", help="All pods of the namespace.")] = False,
    namespace: NamespaceOption = "default",
    all_namespaces: AllNamespaces = False,
    grace_period: Annotated[
        int | None,
        typer.Option(
            min=0, max=86_400, metavar="SECONDS", help="Instead of the pods' own grace period."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until the pods are gone.")] = True,
    timeout: Timeout = "2m",
) -> None:
    """Delete pods, nodes or namespaces.

    They are named, or pods are selected by label, or manifests tell them.

    A pod that runs is asked to end, and killed after its grace period.
    """
    _check_usage(kind, names or [], filename or [], selector, everything=everything)
    limit = seconds(timeout)
    check_selector(selector)
    pods, nodes, namespaces = _named(kind, names or [], filename or [], namespace, recursive)

    async def run(client: Client) -> int:
        if selector or everything:
            from drumline.client import reference

            where = "" if all_namespaces else namespace
            pods.extend([reference(p) async for p in client.list_pods(where, labels=selector)])
            if not pods:
                failures.note("There are no pods that match.")
        code = 0
        if pods:
            code = await _delete_pods(client, pods, grace_period, limit if wait else None)
        if nodes:
            code = _tell("node", nodes, [r.error for r in await client.delete_nodes(nodes)], code)
        if namespaces:
            results = await client.delete_namespaces(namespaces)
            code = _tell("namespace", namespaces, [r.error for r in results], code)
        return code

    code = with_client(run)
    if code:
        raise typer.Exit(code)


def _named(
    kind: str, names: Sequence[str], files: Sequence[str], namespace: str, recursive: bool
) -> tuple[list[PodReference], list[str], list[str]]:
    """Give the pods, nodes and namespaces that the command line names, or its manifests."""
    from drumline.api.v1.pod_pb2 import Pod

    if files:
        pods: list[PodReference] = []
        namespaces: list[str] = []
        for document in sources.documents(files, recursive=recursive):
            meta = document.message.metadata
            if isinstance(document.message, Pod):
                pods += _references([meta.name], meta.namespace or namespace)
            else:
                namespaces.append(meta.name)
        return pods, [], namespaces
    what = kind_of(kind)
    return (
        _references(names, namespace) if what == "pod" else [],
        list(names) if what == "node" else [],
        list(names) if what == "namespace" else [],
    )


def _check_usage(
    kind: str, names: Sequence[str], files: Sequence[str], selector: str, *, everything: bool
) -> None:
    ways = [bool(names), bool(files), bool(selector), everything]
    if sum(ways) != 1:
        raise CommandError(
            "nothing to delete" if not any(ways) else "this names objects in several ways",
            "Name them, or use one of -f, -l and --all.",
            USAGE,
        )
    if bool(kind) == bool(files):
        raise CommandError("say what to delete: pod, node or namespace; or give -f", code=USAGE)
    if (selector or everything) and kind_of(kind) != "pod":
        raise CommandError("-l and --all are for pods only", "Name the others.", USAGE)


def _references(names: Sequence[str], namespace: str) -> list[PodReference]:
    from drumline.api.v1.metadata_pb2 import PodReference

    return [PodReference(namespace=namespace, name=name) for name in dict.fromkeys(names)]


async def _delete_pods(
    client: Client, pods: Sequence[PodReference], grace: int | None, limit: float | None
) -> int:
    from drumline.api.v1.metadata_pb2 import ObjectMeta
    from drumline.cli.views import full_name
    from drumline.client import reference

    code = 0
    stopping: list[PodReference] = []
    results = await client.delete_pods(pods, grace_period_seconds=grace)
    for pod, result in zip(pods, results, strict=True):
        name = full_name(ObjectMeta(namespace=pod.namespace, name=pod.name), "pod")
        if result.error is not None:
            code = code or failures.code_of(result.error)
            failures.say(f"{name}: {result.error.message}")
        elif result.value is None:
            output.out(f"{name} deleted\n")
        else:
            stopping.append(reference(result.value))
            if limit is None:
                output.out(f"{name} is being stopped\n")
    if stopping and limit is not None:
        code = await waits.wait_and_tell(client, stopping, "deleted", limit) or code
    return code


def _tell(
    kind: str, names: Sequence[str], errors: Sequence[DrumlineError | None], code: int
) -> int:
    for name, error in zip(names, errors, strict=True):
        if error is None:
            output.out(f"{kind}/{name} deleted\n")
        else:
            found = failures.code_of(error)
            failures.say(f"{kind}/{name}: {error.message}", failures.advice_for(error))
            code = found if code in {0, NOT_FOUND} else code
    return code
