"""`drumline explain`: what a pod waits for, who decides, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from drumline.cli import output
from drumline.cli.options import NamespaceOption
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.api.v1.pod_pb2 import Pod
    from drumline.client import Client


def explain(
    name: Annotated[str, typer.Argument(metavar="POD")],
    namespace: NamespaceOption = "default",
) -> None:
    """Say what a pod waits for, who decides, and what would help."""

    async def read(client: Client) -> Pod:
        return await client.get_pod(name.removeprefix("pod/"), namespace)

    output.out(explain_pod(with_client(read)))


def explain_pod(pod: Pod) -> str:
    """Explain a pod: a table of causes where there are some, and a sentence."""
    from drumline.api.v1.pod_pb2 import PHASE_PENDING, PHASE_RUNNING
    from drumline.cli import views

    status, verdict = pod.status, pod.verdict
    named = views.full_name(pod.metadata, "pod")
    said = f" ({status.message})" if status.message else ""
    if status.phase == PHASE_RUNNING:
        return f"{named} runs on {pod.assignment.node}; it waits for nothing.\n"
    if status.phase != PHASE_PENDING:
        return f"{named} has ended, {status.reason}{said}, and will not run again.\n"
    if pod.metadata.HasField("delete_time"):
        return f"{named} is being deleted: {status.waiting_on} is to end it.\n"
    if pod.HasField("assignment") and not pod.assignment.released:
        return (
            f"{named} is placed on {pod.assignment.node} and is not running yet, "
            f"{status.reason}{said}: {status.waiting_on} decides.\n"
        )
    if not pod.HasField("verdict"):
        return (
            f"{named} waits for {status.waiting_on}, which has not judged it yet; when that lasts,"
            " see whether such a scheduler is there (drumline status).\n"
        )
    text = views.causes_table(pod) + "\n" if verdict.causes else ""
    lasting = "cannot be placed" if verdict.permanent else "waits to be placed"
    text += f"{named} {lasting}: {verdict.message}.\n"
    if verdict.help:
        text += f"What would help: {verdict.help}.\n"
    return text + f"{status.waiting_on} decides, and tries again when something changes.\n"
