"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import typer
from drumline.cli.failures import USAGE, CommandError

NamespaceOption: TypeAlias = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace.")
]
AllNamespaces: TypeAlias = Annotated[
    bool, typer.Option("-A", "--all-namespaces", help="In every namespace.")
]
Selector: TypeAlias = Annotated[
    str,
    typer.Option(
        "-l",
        "--selector",
        metavar="SELECTOR",
        help="Those with these labels: app=web,tier!=db,zone in (a,b),gpu,!old.",
    ),
]
Files: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-f", "--filename", metavar="PATH", help="Manifest, folder of manifests, or - for input."
    ),
]
Recursive: TypeAlias = Annotated[
    bool, typer.Option("-R", "--recursive", help="Read the sub-folders of folders too.")
]
Timeout: TypeAlias = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="How long at most: 500ms, 30s, 5m, 1h.")
]

Kind = Literal["pod", "node", "namespace"]

_KINDS: dict[str, Kind] = {
    "pod": "pod", "pods": "pod", "po": "pod",
    "node": "node", "nodes": "node", "no": "node",
    "namespace": "namespace", "namespaces": "namespace", "ns": "namespace",
}  # fmt: skip


def kind_of(word: str) -> Kind:
    """Give the kind of object that a word means. Raises CommandError."""
    kind = _KINDS.get(word.lower())
    if kind is None:
        raise CommandError(
            f"{word!r} is no kind of object", "There are pods, nodes and namespaces.", USAGE
        )
    return kind


def seconds(text: str, option: str = "--timeout") -> float:
    """Give the seconds that an option means. Raises CommandError."""
    from drumline.model.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}", code=USAGE) from error


def check_selector(text: str) -> str:
    """Give the selector back when it can be read. Raises CommandError."""
    from drumline.model.labels import parse_selector

    try:
        parse_selector(text)
    except ValueError as error:
        raise CommandError(f"-l: {error}", code=USAGE) from error
    return text
