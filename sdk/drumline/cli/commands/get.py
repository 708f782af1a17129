"""`drumline get`: tables of pods, nodes and namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from drumline.cli import failures, output
from drumline.cli.failures import NOT_FOUND, USAGE, CommandError
from drumline.cli.options import (
    AllNamespaces,
    Kind,
    NamespaceOption,
    Selector,
    check_selector,
    kind_of,
)
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.client import Client

# For so many seconds a watch bridges a cluster that does not answer.
_PATIENCE_SECONDS = 60.0


def get(
    kind: Annotated[str, typer.Argument(metavar="pods|nodes|namespaces")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    form: Annotated[
        str,
        typer.Option("-o", "--output", metavar="wide|json|yaml|name", help="More, or other forms."),
    ] = "",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Go on with what changes.")] = False,
    selector: Selector = "",
    namespace: NamespaceOption = "default",
    all_namespaces: AllNamespaces = False,
    phase: Annotated[
        list[str] | None,
        typer.Option(metavar="pending|running|terminated", help="Pods in this phase; repeatable."),
    ] = None,
) -> None:
    """List pods, nodes or namespaces."""
    if form not in {"", "wide", "json", "yaml", "name"}:
        raise CommandError(f"-o is {form!r}, and must be wide, json, yaml or name", code=USAGE)
    getter = _Getter(
        kind_of(kind),
        names or [],
        form,
        check_selector(selector),
        "" if all_namespaces else namespace,
        _phases(phase or []),
    )
    if watch and getter.kind == "namespace":
        raise CommandError("namespaces cannot be watched", "Leave -w out.", USAGE)
    missing = with_client(getter.watch if watch else getter.show_all)
    if missing:
        raise typer.Exit(NOT_FOUND)


def _phases(words: Sequence[str]) -> list[Any]:
    if not words:
        return []
    from drumline.cli.views import PHASES

    for word in words:
        if word.lower() not in PHASES:
            raise CommandError(
                f"--phase is {word!r}, and must be pending, running or terminated", code=USAGE
            )
    return [PHASES[word.lower()] for word in words]


class _Getter:
    """What was asked for, and how it is shown."""

    def __init__(
        self,
        kind: Kind,
        names: Sequence[str],
        form: str,
        selector: str,
        namespace: str,
        phases: list[Any],
    ) -> None:
        self.kind = kind
        self._names = names
        self._form = form
        self._selector = selector
        self._namespace = namespace
        self._phases = phases
        self._table: output.Table | None = None

    async def show_all(self, client: Client) -> int:
        """Show what there is; give the number of names that are not there."""
        found: list[Any] = []
        missing = 0
        if self._names:
            found, missing = await self._by_name(client)
        else:
            async for item in self._all(client):
                found.append(item)
        if self._form in {"json", "yaml"}:
            from drumline.cli import render

            single = len(self._names) == 1 and len(found) == 1
            output.out(
                render.as_yaml(found)
                if self._form == "yaml"
                else render.as_json(found, single=single)
            )
        elif found:
            output.out(self._lines(found))
        elif not missing:
            where = f" in namespace {self._namespace}" if self._is_in_namespace() else ""
            which = " that match" if self._selector or self._phases else ""
            failures.note(f"There are no {self.kind}s{where}{which}.")
        return missing

    async def _by_name(self, client: Client) -> tuple[list[Any], int]:
        from drumline.model.errors import NotFoundError

        found: list[Any] = []
        missing = 0
        for name in self._names:
            try:
                if self.kind == "pod":
                    found.append(await client.get_pod(name, self._namespace or "default"))
                elif self.kind == "node":
                    found.append(await client.get_node(name))
                else:
                    found.append(await client.get_namespace(name))
            except NotFoundError as error:
                failures.say(error.message)
                missing += 1
        return found, missing

    def _all(self, client: Client) -> AsyncIterator[Any]:
        if self.kind == "pod":
            return client.list_pods(self._namespace, labels=self._selector, phases=self._phases)
        if self.kind == "node":
            return client.list_nodes(labels=self._selector)
        return client.list_namespaces()

    async def watch(self, client: Client) -> int:
        """Show what there is, then every change, until interrupted."""
        from drumline.client import Changed, Removed

        events: Any = (
            client.watch_pods(
                self._namespace,
                labels=self._selector,
                phases=self._phases,
                patience=_PATIENCE_SECONDS,
            )
            if self.kind == "pod"
            else client.watch_nodes(labels=self._selector, patience=_PATIENCE_SECONDS)
        )
        first: list[Any] | None = []
        async with aclosing(events):
            async for event in events:
                if not isinstance(event, Changed | Removed):
                    if first:
                        self._show(first, removed=False)
                    first = None
                elif self._names and event.object.metadata.name not in self._names:
                    continue
                elif first is not None and isinstance(event, Changed):
                    first.append(event.object)
                else:
                    self._show([event.object], removed=isinstance(event, Removed))
        return 0

    def _show(self, items: list[Any], *, removed: bool) -> None:
        if self._form in {"json", "yaml"}:
            import json

            from drumline.cli import render

            for item in items:
                document = render.to_document(item)
                output.out(
                    "---\n" + render.as_yaml([item])
                    if self._form == "yaml"
                    else json.dumps(document, ensure_ascii=False) + "\n"
                )
        else:
            output.out(self._lines(items, removed=removed))

    def _lines(self, items: list[Any], *, removed: bool = False) -> str:
        from drumline.cli import views
        from drumline.process import clock

        if self._form == "name":
            return "".join(f"{views.full_name(item.metadata, self.kind)}\n" for item in items)
        wide = self._form == "wide"
        now = clock.wall()
        headings: tuple[str, ...]
        if self.kind == "pod":
            headings = views.POD_WIDE_HEADINGS if wide else views.POD_HEADINGS
            rows = [views.pod_row(item, now, wide=wide) for item in items]
        elif self.kind == "node":
            headings = views.NODE_WIDE_HEADINGS if wide else views.NODE_HEADINGS
            rows = [views.node_row(item, now, wide=wide) for item in items]
        else:
            headings = views.NAMESPACE_HEADINGS
            rows = [views.namespace_row(item, now) for item in items]
        if removed:
            for row in rows:
                row[1] = "Deleted"
        if self.kind == "pod" and not self._namespace:
            headings = ("NAMESPACE", *headings)
            rows = [[item.metadata.namespace, *row] for item, row in zip(items, rows, strict=True)]
        if self._table is None:
            self._table = output.Table(headings)
        return self._table.text(rows)

    def _is_in_namespace(self) -> bool:
        return self.kind == "pod" and bool(self._namespace)
