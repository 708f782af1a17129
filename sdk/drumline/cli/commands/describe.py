"""`drumline describe`: everything about one object, for people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer
from drumline.cli import output
from drumline.cli.options import NamespaceOption, kind_of
from drumline.cli.session import with_client

if TYPE_CHECKING:
    import datetime

    from drumline.api.v1.node_pb2 import Node
    from drumline.api.v1.pod_pb2 import ContainerStatus, Pod, Toleration
    from drumline.client import Client
    from google.protobuf.timestamp_pb2 import Timestamp


def describe(
    kind: Annotated[str, typer.Argument(metavar="pod|node|namespace")],
    name: Annotated[str, typer.Argument()],
    namespace: NamespaceOption = "default",
) -> None:
    """Tell everything about one object.

    Of a pod that is on no node it tells what keeps it off, with counts.
    """
    what = kind_of(kind)

    async def read(client: Client) -> str:
        from drumline.process import clock

        if what == "pod":
            return describe_pod(await client.get_pod(name, namespace), clock.wall())
        if what == "node":
            pods = [pod async for pod in client.list_pods(node=name)]
            return describe_node(await client.get_node(name), pods, clock.wall())
        from drumline.cli import views

        found = await client.get_namespace(name)
        return output.facts(
            [
                ("Name", found.metadata.name),
                ("Labels", views.pairs(found.metadata.labels)),
                ("Annotations", views.pairs(found.metadata.annotations)),
                ("Created", _since(found.metadata.create_time, clock.wall())),
                ("Pods stored", str(found.usage.stored_pods)),
                ("In use", views.amounts(found.usage.requested) or "nothing"),
            ]
        )

    output.out(with_client(read))


def describe_pod(pod: Pod, now: datetime.datetime) -> str:
    """Describe a pod."""
    from drumline.cli import views
    from drumline.model import resources

    meta, status, assignment = pod.metadata, pod.status, pod.assignment
    placed = f"{assignment.node}, attempt {assignment.attempt}, by {assignment.scheduler}"
    asked = resources.to_proto(resources.pod_request(pod.spec))
    asked.pods = 0
    is_impatient = pod.spec.HasField("infeasible_after")
    is_judged = views.is_judged(pod)
    text = output.facts(
        [
            ("Name", meta.name),
            ("Namespace", meta.namespace),
            ("Uid", meta.uid),
            ("Labels", views.pairs(meta.labels)),
            ("Annotations", views.pairs(meta.annotations)),
            ("Created", _since(meta.create_time, now)),
            ("Deletion asked for", _since(meta.delete_time, now)),
            ("Status", views.pod_status(pod)),
            ("Why", pod.verdict.message if is_judged else status.message),
            ("Waits for", status.waiting_on),
            ("Node", placed if pod.HasField("assignment") else "none yet"),
            ("Asks for", views.amounts(asked) or "no cpu or memory"),
            ("Needs labels", views.pairs(pod.spec.node_selector)),
            ("Tolerates", ", ".join(_toleration(t) for t in pod.spec.tolerations)),
            ("Scheduler", pod.spec.scheduler_name),
            ("Ends if on no node", views.patience(pod) if is_impatient else ""),
            ("Grace period", f"{pod.spec.termination_grace_period_seconds}s"),
            ("Started", _since(status.start_time, now)),
            ("Ended", _since(status.finish_time, now)),
        ]
    )
    if is_judged and pod.verdict.causes:
        judged = output.age(pod.verdict.judge_time, now)
        nodes = output.count(pod.verdict.nodes, "node")
        text += f"\nWhy it is on no node ({nodes} looked at {judged} ago):\n"
        text += views.causes_table(pod, "  ")
        nearest = pod.verdict.nearest
        if nearest.missing:
            missing = "; ".join(cause.message or cause.reason for cause in nearest.missing)
            text += f"  {nearest.node} comes closest: {missing}.\n"
        if pod.verdict.help:
            text += f"  What would help: {pod.verdict.help}.\n"
        text += "  It is tried again when something changes that could help.\n"
    return text + "\nContainers:\n" + _containers(pod)


def _containers(pod: Pod) -> str:
    from drumline.cli import views

    statuses = {status.name: status for status in pod.status.containers}
    text = ""
    for container in pod.spec.containers:
        text += f"  {container.name}\n"
        status = statuses.get(container.name)
        text += output.facts(
            [
                ("Image", container.image),
                ("Command", " ".join(map(shlex.quote, [*container.command, *container.args]))),
                ("Directory", container.working_dir),
                ("Environment", ", ".join(f"{v.name}={v.value}" for v in container.env)),
                ("Asks for", views.amounts(container.resources.requests)),
                *(_container_facts(status) if status else []),
            ],
            "    ",
        )
    return text


def _container_facts(status: ContainerStatus) -> list[tuple[str, str]]:
    from drumline.cli import views

    word = views.phase_word(status.phase)
    ending = f"signal {status.signal}" if status.signal else ""
    if status.HasField("exit_code"):
        ending = str(status.exit_code)
    return [
        ("State", f"{word} ({status.reason})" if status.reason else word),
        ("Why", status.message),
        ("Exit code", ending),
        ("Runs as", status.runtime_id),
        ("Started", output.moment(status.start_time)),
        ("Ended", output.moment(status.finish_time)),
    ]


def describe_node(node: Node, pods: list[Pod], now: datetime.datetime) -> str:
    """Describe a node and the pods on it."""
    from drumline.cli import views
    from drumline.model.labels import effective_labels

    meta, info = node.metadata, node.info
    text = output.facts(
        [
            ("Name", meta.name),
            ("Uid", meta.uid),
            ("Labels", views.pairs(effective_labels(node))),
            ("Annotations", views.pairs(meta.annotations)),
            ("Taints", ", ".join(views.taints(node))),
            ("Created", _since(meta.create_time, now)),
            ("Status", views.node_status(node)),
            ("Why", node.status.message),
            ("Since", _since(node.status.transition_time, now)),
            ("Runtime", f"{info.runtime}, {'with' if info.runs_images else 'without'} images"),
            ("Address", info.address),
            ("Kubelet", info.kubelet_version),
            ("Platform", info.platform),
        ]
    )
    capacity, allocatable = views.shown(info.capacity), views.shown(node.load.allocatable)
    promised = views.shown(node.load.promised)
    names = [*allocatable, *(name for name in capacity if name not in allocatable)]
    rows = [
        [name, capacity.get(name, "0"), allocatable.get(name, "0"), promised.get(name, "0")]
        for name in names
    ]
    text += "\nResources:\n"
    text += output.table(("RESOURCE", "CAPACITY", "FOR PODS", "PROMISED"), rows, "  ")
    if not pods:
        return text + "\nNo pods are on it.\n"
    headings = ("NAMESPACE", *views.POD_HEADINGS)
    lines = ([pod.metadata.namespace, *views.pod_row(pod, now, wide=False)] for pod in pods)
    return text + "\nPods:\n" + output.table(headings, lines, "  ")


def _since(stamp: Timestamp, now: datetime.datetime) -> str:
    return f"{output.moment(stamp)} ({output.age(stamp, now)} ago)" if stamp.seconds else ""


def _toleration(toleration: Toleration) -> str:
    from drumline.api.v1.pod_pb2 import TOLERATION_OPERATOR_EXISTS

    if toleration.operator == TOLERATION_OPERATOR_EXISTS:
        text = toleration.key or "every taint"
    else:
        text = f"{toleration.key}={toleration.value}"
    return f"{text}:NoSchedule" if toleration.effect else text
