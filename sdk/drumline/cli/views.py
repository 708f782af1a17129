"""What is shown of pods, nodes and namespaces: cells of tables, words for states. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

from drumline.api.v1.metadata_pb2 import ObjectMeta
from drumline.api.v1.namespace_service_pb2 import Namespace
from drumline.api.v1.node_pb2 import NODE_STATE_READY, NODE_STATE_UNREACHABLE, Node
from drumline.api.v1.pod_pb2 import (
    PHASE_PENDING,
    PHASE_RUNNING,
    PHASE_TERMINATED,
    ContainerStatus,
    Phase,
    Pod,
)
from drumline.api.v1.resources_pb2 import Resources
from drumline.cli import output
from drumline.cli.forms import quantities
from drumline.model import resources
from drumline.model.quantity import format_thousandths
from google.protobuf.timestamp_pb2 import Timestamp

PHASES: Mapping[str, Phase.ValueType] = {
    "pending": PHASE_PENDING,
    "running": PHASE_RUNNING,
    "terminated": PHASE_TERMINATED,
}

POD_HEADINGS = ("NAME", "STATUS", "NODE", "AGE")
POD_WIDE_HEADINGS = (*POD_HEADINGS, "CPU", "MEMORY", "ATTEMPT", "CONTAINERS", "EXIT", "UID", "WHY")
NODE_HEADINGS = ("NAME", "STATUS", "RUNTIME", "PODS", "CPU", "MEMORY", "AGE")
NODE_WIDE_HEADINGS = (*NODE_HEADINGS, "ADDRESS", "VERSION", "PLATFORM", "TAINTS")
NAMESPACE_HEADINGS = ("NAME", "PODS", "ACTIVE", "CPU", "MEMORY", "AGE")


def phase_word(phase: int) -> str:
    """Write a phase: Pending, Running, Terminated."""
    known = phase in Phase.values()
    return Phase.Name(phase).removeprefix("PHASE_").capitalize() if known else str(phase)  # type: ignore[arg-type]


def pod_status(pod: Pod) -> str:
    """Say how far a pod has come, and why no further: Pending (NO_NODE_FITS)."""
    status = pod.status
    word = phase_word(status.phase)
    if status.phase == PHASE_RUNNING:
        reason = "" if status.reason == "STARTED" else status.reason
    elif status.phase == PHASE_PENDING and pod.HasField("verdict"):
        reason = pod.verdict.reason
    else:
        reason = status.reason
    if pod.metadata.HasField("delete_time") and status.phase != PHASE_TERMINATED:
        reason = "STOPPING"
    return f"{word} ({reason})" if reason else word


def pod_row(pod: Pod, now: datetime.datetime, *, wide: bool) -> list[str]:
    """Give a pod's cells."""
    meta = pod.metadata
    cells = [
        meta.name,
        pod_status(pod),
        pod.assignment.node or "-",
        output.age(meta.create_time, now) or "-",
    ]
    if wide:
        asked = shown(resources.to_proto(resources.pod_request(pod.spec)))
        cells += [
            asked.get("cpu", "-"),
            asked.get("memory", "-"),
            str(pod.assignment.attempt or "-"),
            str(len(pod.spec.containers)),
            ",".join(exit_words(c) for c in pod.status.containers if ended(c)) or "-",
            meta.uid,
            why(pod) or "-",
        ]
    return cells


def is_judged(pod: Pod) -> bool:
    """Whether a scheduler says why the pod is on no node."""
    placed = pod.HasField("assignment") and not pod.assignment.released
    return pod.HasField("verdict") and pod.status.phase == PHASE_PENDING and not placed


def why(pod: Pod) -> str:
    """Say in a sentence why a pod does not run; empty when it does."""
    if is_judged(pod):
        return pod.verdict.message
    return "" if pod.status.phase == PHASE_RUNNING else pod.status.message


def patience(pod: Pod) -> str:
    """Say when a pod ends that no node takes: 30s after its creation, with the time."""
    after, created = pod.spec.infeasible_after, pod.metadata.create_time
    text = f"{after.ToJsonString()} after its creation"
    if not created.seconds:
        return text
    at = Timestamp()
    at.FromNanoseconds(created.ToNanoseconds() + after.ToNanoseconds())
    return f"{text}, at {output.moment(at)}"


def ended(container: ContainerStatus) -> bool:
    """Whether a container has ended, or never will run."""
    return container.phase == PHASE_TERMINATED


def exit_words(container: ContainerStatus) -> str:
    """Say how a container ended: its exit code, its signal, or the reason."""
    if container.HasField("exit_code"):
        return str(container.exit_code)
    return f"signal {container.signal}" if container.signal else container.reason


def succeeded(pod: Pod) -> bool:
    """Whether a pod has ended, all its containers with exit code 0."""
    return pod.status.phase == PHASE_TERMINATED and pod.status.reason == "COMPLETED"


def node_status(node: Node) -> str:
    """Say whether a node is heard and takes pods: Ready, Unreachable (cordoned)."""
    words = {NODE_STATE_READY: "Ready", NODE_STATE_UNREACHABLE: "Unreachable"}
    word = words.get(node.status.state, "Not judged yet")
    return f"{word} (cordoned)" if node.spec.unschedulable else word


def node_row(node: Node, now: datetime.datetime, *, wide: bool) -> list[str]:
    """Give a node's cells."""
    promised, allocatable = node.load.promised, node.load.allocatable
    cells = [
        node.metadata.name,
        node_status(node),
        node.info.runtime,
        f"{promised.pods}/{allocatable.pods}",
        f"{cpu(promised.cpu_millicores)}/{cpu(allocatable.cpu_millicores)}",
        f"{memory(promised.memory_bytes)}/{memory(allocatable.memory_bytes)}",
        output.age(node.metadata.create_time, now) or "-",
    ]
    if wide:
        cells += [
            node.info.address or "-",
            node.info.kubelet_version or "-",
            node.info.platform or "-",
            ",".join(taints(node)) or "-",
        ]
    return cells


def taints(node: Node) -> list[str]:
    """Write the taints in effect on a node."""
    from drumline.model.fit import describe_taint
    from drumline.model.labels import effective_taints

    return [describe_taint(taint) for taint in effective_taints(node)]


def namespace_row(namespace: Namespace, now: datetime.datetime) -> list[str]:
    """Give a namespace's cells."""
    usage = namespace.usage
    return [
        namespace.metadata.name,
        str(usage.stored_pods),
        str(usage.requested.pods),
        cpu(usage.requested.cpu_millicores),
        memory(usage.requested.memory_bytes),
        output.age(namespace.metadata.create_time, now) or "-",
    ]


def cpu(millicores: int) -> str:
    """Write processor time for people: 50m, 2, 10000.15."""
    return f"{millicores}m" if 0 < millicores < 1000 else format_thousandths(millicores)


def memory(amount: int) -> str:
    """Write bytes for people, to three digits: 23.6Gi."""
    units = ("", "Ki", "Mi", "Gi", "Ti")
    power = min((max(amount, 1).bit_length() - 1) // 10, len(units) - 1)
    size = amount / 1024**power
    return f"{size:.0f}{units[power]}" if size >= 100 else f"{size:.3g}{units[power]}"


def shown(message: Resources) -> dict[str, str]:
    """Write amounts for people, by the names of their resources."""
    found = quantities(message)
    if message.cpu_millicores:
        found["cpu"] = cpu(message.cpu_millicores)
    if message.memory_bytes:
        found["memory"] = memory(message.memory_bytes)
    return found


def amounts(message: Resources) -> str:
    """Write amounts in one line: cpu 500m, memory 64Mi."""
    return ", ".join(f"{name} {amount}" for name, amount in shown(message).items())


def pairs(values: Mapping[str, str]) -> str:
    """Write labels in one line: a=b, c=d."""
    return ", ".join(f"{key}={values[key]}" for key in sorted(values))


def full_name(meta: ObjectMeta, kind: str) -> str:
    """Name an object for people: pod/web, or pod/shop/web outside the default namespace."""
    if meta.namespace in {"", "default"}:
        return f"{kind}/{meta.name}"
    return f"{kind}/{meta.namespace}/{meta.name}"


def causes_table(pod: Pod, indent: str = "") -> str:
    """Lay out what keeps a pod off nodes, one cause a line with its number of nodes."""
    rows: Iterable[list[str]] = (
        [str(cause.nodes), cause.reason, cause.message, cause.example_node, cause.decided_by]
        for cause in pod.verdict.causes
    )
    return output.table(("NODES", "CAUSE", "WHAT", "FOR EXAMPLE", "DECIDED BY"), rows, indent)
