"""`drumline run`: one pod with one container, made from the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from drumline.cli import failures, output
from drumline.cli.commands.logs import copy_logs
from drumline.cli.failures import FAILED, TIMED_OUT, USAGE, CommandError
from drumline.cli.options import NamespaceOption, Timeout, seconds
from drumline.cli.progress import Progress
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.api.v1.pod_pb2 import Pod
    from drumline.client import Client


def run(
    *,
    name: Annotated[str, typer.Argument()],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND [ARG]...")] = None,
    image: Annotated[str, typer.Option(help="Image; without one it runs on the host.")] = "",
    cpu: Annotated[str, typer.Option(metavar="AMOUNT", help="Processor time: 500m, 2.")] = "",
    memory: Annotated[str, typer.Option(metavar="AMOUNT", help="Memory: 64Mi, 1Gi.")] = "",
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Variable; repeatable.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Label; repeatable.")
    ] = None,
    namespace: NamespaceOption = "default",
    follow: Annotated[
        bool, typer.Option("--follow", help="Show its output and wait for its end.")
    ] = False,
    remove: Annotated[bool, typer.Option("--rm", help="With --follow: delete it then.")] = False,
    timeout: Timeout = "1m",
) -> None:
    """Run a command as a pod.

    With --follow it ends as the pod does: with 0 when its command did, else with 1.
    --timeout bounds the wait for its start.
    """
    if not command and not image:
        raise CommandError(
            "no command to run", f"Write it after two hyphens: drumline run {name} -- date", USAGE
        )
    if remove and not follow:
        raise CommandError("--rm needs --follow", code=USAGE)
    pod = _pod(name, namespace, command or [], image)
    _fill_requests(pod, cpu, memory)
    for key, value in _pairs("--env", env or []):
        pod.spec.containers[0].env.add(name=key, value=value)
    pod.metadata.labels.update(dict(_pairs("--label", label or [])))
    _check(pod)
    limit = seconds(timeout)

    async def work(client: Client) -> int:
        made = await client.create_pod(pod)
        if not follow:
            from drumline.cli.views import full_name

            output.out(f"{full_name(made.metadata, 'pod')} created\n")
            return 0
        return await _follow(client, made, limit, remove=remove)

    code = with_client(work)
    if code:
        raise typer.Exit(code)


def _pod(name: str, namespace: str, command: Sequence[str], image: str) -> Pod:
    from drumline.api.v1.pod_pb2 import Pod

    pod = Pod()
    pod.metadata.name = name
    pod.metadata.namespace = namespace
    container = pod.spec.containers.add(name="main", image=image)
    # An image's own program is given arguments, as Kubernetes does.
    (container.args if image else container.command).extend(command)
    return pod


def _fill_requests(pod: Pod, cpu: str, memory: str) -> None:
    from drumline.model.quantity import parse_quantity

    requests = pod.spec.containers[0].resources.requests
    settings: list[tuple[str, str, bool, Callable[[int], None]]] = [
        ("--cpu", cpu, True, lambda amount: setattr(requests, "cpu_millicores", amount)),
        ("--memory", memory, False, lambda amount: setattr(requests, "memory_bytes", amount)),
    ]
    for option, text, thousandths, accept in settings:
        if text:
            try:
                accept(parse_quantity(text, thousandths=thousandths))
            except ValueError as error:
                raise CommandError(f"{option}: {error}", code=USAGE) from error


def _check(pod: Pod) -> None:
    from drumline.model.validation import pod_to_create

    violations = pod_to_create(pod, "")
    if violations:
        listed = (f"{it.field.removeprefix('.')}: {it.description}" for it in violations)
        raise CommandError("; ".join(listed), code=USAGE)


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        key, sign, value = text.partition("=")
        if not key or not sign:
            raise CommandError(f"{option} is {text!r}, and must be NAME=VALUE", code=USAGE)
        found.append((key, value))
    return found


async def _follow(client: Client, pod: Pod, limit: float, *, remove: bool) -> int:
    from drumline.api.v1.pod_service_pb2 import (
        POD_CONDITION_RUNNING,
        POD_CONDITION_TERMINATED,
        WAIT_OUTCOME_TIMED_OUT,
    )
    from drumline.cli.views import exit_words, full_name, pod_status, succeeded
    from drumline.client import reference

    meta = pod.metadata
    name = full_name(meta, "pod")
    with Progress(f"Waiting for {name} to run"):
        (started,) = await client.wait_for_pods(
            [reference(pod)], POD_CONDITION_RUNNING, timeout=limit
        )
    if started.outcome == WAIT_OUTCOME_TIMED_OUT:
        failures.say(
            f"{name} does not run yet: {started.message}",
            f"It stays. `drumline describe pod {meta.name} -n {meta.namespace}` tells more.",
        )
        return TIMED_OUT
    if started.HasField("pod") and started.pod.status.HasField("start_time"):
        await copy_logs(client, meta.name, meta.namespace, "", follow=True)
    (ended,) = await client.wait_for_pods([reference(pod)], POD_CONDITION_TERMINATED, timeout=limit)
    if remove:
        await client.delete_pods([reference(pod)])
    if succeeded(ended.pod):
        return 0
    ways = [exit_words(container) for container in ended.pod.status.containers]
    why = ended.pod.status.message or ended.message
    failures.say(
        f"{name}: {pod_status(ended.pod)}: {why}" + (f" [{', '.join(ways)}]" if ways else "")
    )
    return FAILED
