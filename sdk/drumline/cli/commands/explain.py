"""`drumline explain`: what a pod waits for, who decides, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from drumline.cli import output
from drumline.cli.failures import USAGE, CommandError
from drumline.cli.options import NamespaceOption
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.api.v1.pod_pb2 import Pod
    from drumline.client import Client


def explain(
    name: Annotated[str, typer.Argument(metavar="POD")],
    form: Annotated[
        str, typer.Option("-o", "--output", metavar="json|yaml", help="In a form for programs.")
    ] = "",
    namespace: NamespaceOption = "default",
) -> None:
    """Say what a pod waits for, who decides, and what would help."""
    if form not in {"", "json", "yaml"}:
        raise CommandError(f"-o is {form!r}, and must be json or yaml", code=USAGE)

    async def read(client: Client) -> Pod:
        return await client.get_pod(name.removeprefix("pod/"), namespace)

    pod = with_client(read)
    if not form:
        output.out(explain_pod(pod))
        return
    from drumline.cli import render

    output.out(render.document_as(form, explanation(pod)))


def explain_pod(pod: Pod) -> str:
    """Explain a pod: a table of causes where there are some, and sentences."""
    from drumline.cli import views

    table = views.causes_table(pod) + "\n" if pod.verdict.causes and views.is_judged(pod) else ""
    return table + "".join(f"{sentence}\n" for sentence in sentences(pod))


def explanation(pod: Pod) -> dict[str, Any]:
    """Explain a pod to programs: how far it is, what it waits for, why, and the sentences."""
    from drumline.cli import render, views

    status = pod.status
    document: dict[str, Any] = {
        "pod": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "phase": views.phase_word(status.phase),
        "reason": status.reason,
        "waitingOn": status.waiting_on,
        "sentences": sentences(pod),
    }
    if views.is_judged(pod):
        document["verdict"] = render.to_document(pod)["verdict"]
    return document


def sentences(pod: Pod) -> list[str]:
    """Say what a pod waits for, who decides, and what would help."""
    from drumline.api.v1.pod_pb2 import PHASE_PENDING, PHASE_RUNNING
    from drumline.cli import views

    status = pod.status
    named = views.full_name(pod.metadata, "pod")
    said = f" ({status.message})" if status.message else ""
    if status.phase not in (PHASE_PENDING, PHASE_RUNNING):
        return [
            f"{named} has ended, {status.reason}{said}; it waits for nothing.",
            "To run it again, delete it and create it anew.",
        ]
    if pod.metadata.HasField("delete_time"):
        by = status.waiting_on or f"kubelet:{pod.assignment.node}"
        return [f"{named} is being deleted: {by} is to end it."]
    if status.phase == PHASE_RUNNING:
        return [f"{named} runs on {pod.assignment.node}; it waits for nothing."]
    if pod.HasField("assignment") and not pod.assignment.released:
        placed = f"{named} is placed on {pod.assignment.node} and is not running yet"
        return [f"{placed}, {status.reason}{said}: {status.waiting_on} decides."]
    if not pod.HasField("verdict"):
        return [
            f"{named} waits for {status.waiting_on}, which has not judged it yet.",
            "When that lasts, see whether such a scheduler is there: drumline status.",
        ]
    return _why_on_no_node(pod, named)


def _why_on_no_node(pod: Pod, named: str) -> list[str]:
    from drumline.cli import views

    verdict = pod.verdict
    lasting = "cannot be placed" if verdict.permanent else "waits to be placed"
    found = [f"{named} {lasting}: {verdict.message or verdict.reason}."]
    if verdict.help:
        found.append(f"What would help: {verdict.help}.")
    found.append(f"{pod.status.waiting_on} decides, and tries again when something changes.")
    if pod.spec.HasField("infeasible_after"):
        found.append(f"If none takes it, it ends as INFEASIBLE {views.patience(pod)}.")
    return found
