"""Objects as clients see them, joined from their records.

An entry is never changed: a change of the object makes another entry, so that
watchers can hold on to one and what changed is seen by comparing two. The bytes
of an object are the bytes of its records, one after another (see
storage/v1/records.proto), and what the apiserver adds to them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from drumline.api.v1 import namespace_service_pb2, node_pb2, pod_pb2
from drumline.apiserver.store import wire
from drumline.apiserver.store.kinds import Record
from drumline.model.labels import effective_labels
from drumline.storage.v1 import records_pb2

_EMPTY: Mapping[str, str] = {}

# Field numbers of Pod, Node and Namespace, and of ObjectMeta.
_METADATA = 1
_STATUS = 4
_RESOURCE_VERSION = 7


def version_part(resource_version: str) -> bytes:
    """Give the bytes that add the version to an object."""
    return wire.message_field(
        _METADATA, wire.message_field(_RESOURCE_VERSION, resource_version.encode())
    )


class Entry(Protocol):
    """An object at one version."""

    key: str
    uid: str
    version: int
    # The object's bytes with its version, once they were asked for.
    whole: bytes

    def encode(self) -> bytes:
        """Give the object's bytes, but for its version."""


@lru_cache(maxsize=65536)
def _waiting_status(reason: str, waiting_on: str, attempt: int) -> bytes:
    status = pod_pb2.PodStatus(
        phase=pod_pb2.PHASE_PENDING, reason=reason, waiting_on=waiting_on, attempt=attempt
    )
    return pod_pb2.Pod(status=status).SerializeToString()


def new_pod(value: bytes, scheduler_name: str, resource_version: str) -> bytes:
    """Give the bytes of a pod that has just been stored as `value`."""
    waiting = _waiting_status("UNSCHEDULED", f"scheduler:{scheduler_name}", 0)
    return value + waiting + version_part(resource_version)


@dataclass(slots=True, eq=False)
class PodEntry:
    """A pod at one version: its records, and what selectors ask for."""

    key: str
    uid: str
    namespace: str
    labels: Mapping[str, str]
    scheduler_name: str
    deleting: bool
    pod: Record
    assignment: Record | None = None
    status: Record | None = None
    verdict: bytes = b""
    # Seconds after its creation at which it ends when none fits; 0: never.
    infeasible_after: float = 0.0
    # Of the assignment: its node, and whether it still holds.
    node: str = ""
    assigned: bool = False
    attempt: int = 0
    # Of the status, when it is of this attempt.
    phase: "pod_pb2.Phase.ValueType" = pod_pb2.PHASE_PENDING
    status_attempt: int = 0
    version: int = 0
    whole: bytes = b""

    @property
    def waits_for_scheduler(self) -> bool:
        """It is to be placed."""
        return not self.assigned and not self.deleting and self.phase != pod_pb2.PHASE_TERMINATED

    def encode(self) -> bytes:
        """Give the pod's bytes, but for its version."""
        parts = [self.pod.value]
        if self.assignment is not None:
            parts.append(self.assignment.value)
        if self.status is not None and self.status_attempt >= self.attempt:
            parts.append(self.status.value)
        elif self.assigned:
            parts.append(_waiting_status("ASSIGNED", f"kubelet:{self.node}", self.attempt))
        else:
            parts.append(_waiting_status("UNSCHEDULED", f"scheduler:{self.scheduler_name}", 0))
        parts.append(self.verdict)
        return b"".join(parts)


def join_pod(
    key: str,
    pod: Record,
    assignment: Record | None,
    status: Record | None,
    before: PodEntry | None,
) -> PodEntry:
    """Make the entry of a pod from its records; what has not changed is taken from `before`."""
    if before is not None and before.pod is pod:
        entry = PodEntry(
            key, before.uid, before.namespace, before.labels, before.scheduler_name,
            before.deleting, pod,
        )  # fmt: skip
        entry.infeasible_after = before.infeasible_after
    else:
        decoded = records_pb2.PodRecord.FromString(pod.value)
        metadata = decoded.metadata
        entry = PodEntry(
            key,
            metadata.uid,
            metadata.namespace,
            dict(metadata.labels) if metadata.labels else _EMPTY,
            decoded.spec.scheduler_name,
            metadata.HasField("delete_time"),
            pod,
        )
        if decoded.spec.HasField("infeasible_after"):
            after = decoded.spec.infeasible_after
            entry.infeasible_after = after.seconds + after.nanos / 1e9
    entry.assignment, entry.status = assignment, status
    entry.version = pod.revision
    if assignment is not None:
        entry.version = max(entry.version, assignment.revision)
        if before is not None and before.assignment is assignment:
            entry.node, entry.assigned = before.node, before.assigned
            entry.attempt = before.attempt
        else:
            placed = records_pb2.AssignmentRecord.FromString(assignment.value).assignment
            entry.node, entry.assigned = placed.node, not placed.released
            entry.attempt = placed.attempt
    if status is not None:
        entry.version = max(entry.version, status.revision)
        if before is not None and before.status is status:
            entry.status_attempt, entry.phase = before.status_attempt, before.phase
        else:
            said = records_pb2.PodStatusRecord.FromString(status.value).status
            entry.status_attempt, entry.phase = said.attempt, said.phase
        if entry.status_attempt < entry.attempt:
            entry.phase = pod_pb2.PHASE_PENDING
    if (
        before is not None
        and before.uid == entry.uid
        and before.scheduler_name == entry.scheduler_name
        and entry.waits_for_scheduler
        and before.verdict
    ):
        entry.verdict = before.verdict
    return entry


@dataclass(slots=True, eq=False)
class NodeEntry:
    """A node at one version."""

    key: str
    uid: str
    labels: Mapping[str, str]
    node: Record
    info: Record
    status: Record | None
    load: Record | None
    address: str
    simulated: bool
    version: int
    whole: bytes = b""

    def encode(self) -> bytes:
        """Give the node's bytes, but for its version."""
        return b"".join(
            record.value
            for record in (self.node, self.info, self.status, self.load)
            if record is not None
        )


def join_node(
    key: str,
    node: Record,
    info: Record,
    status: Record | None,
    load: Record | None,
    before: NodeEntry | None,
) -> NodeEntry:
    """Make the entry of a node from its records; what has not changed is taken from `before`."""
    version = max(r.revision for r in (node, info, status, load) if r is not None)
    if before is not None and before.node is node and before.info is info:
        return NodeEntry(
            key, before.uid, before.labels, node, info, status, load, before.address,
            before.simulated, version,
        )  # fmt: skip
    decoded = node_pb2.Node.FromString(node.value + info.value)
    return NodeEntry(
        key,
        decoded.metadata.uid,
        effective_labels(decoded),
        node,
        info,
        status,
        load,
        decoded.info.address,
        decoded.info.runtime == "simulated",
        version,
    )


@dataclass(slots=True, eq=False)
class NamespaceEntry:
    """A namespace at one version."""

    key: str
    uid: str
    namespace: Record
    usage: Record | None
    version: int
    whole: bytes = b""

    def encode(self) -> bytes:
        """Give the namespace's bytes, but for its version."""
        return self.namespace.value + (b"" if self.usage is None else self.usage.value)


def join_namespace(key: str, namespace: Record, usage: Record | None) -> NamespaceEntry:
    """Make the entry of a namespace from its records."""
    uid = namespace_service_pb2.Namespace.FromString(namespace.value).metadata.uid
    version = max(namespace.revision, usage.revision if usage else 0)
    return NamespaceEntry(key, uid, namespace, usage, version)
