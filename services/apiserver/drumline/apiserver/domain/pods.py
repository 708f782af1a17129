"""Steps on what users want of pods: create, amend, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drumline.api.v1 import pod_pb2
from drumline.apiserver.domain import charges
from drumline.apiserver.store.kinds import (
    ASSIGNMENTS,
    NAMESPACES,
    POD_STATUSES,
    PODS,
)
from drumline.apiserver.store.view import View
from drumline.model import resources, validation
from drumline.model.errors import (
    AlreadyExistsError,
    ConflictError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    Violation,
)
from drumline.storage.v1 import records_pb2
from google.protobuf.timestamp_pb2 import Timestamp

# What UpdatePods may change: always, and until the pod is placed. docs/pods.md
# lists them for users.
ALWAYS_MUTABLE = frozenset({"metadata.labels", "metadata.annotations"})
MUTABLE_UNTIL_ASSIGNED = frozenset(
    {
        "spec.node_selector",
        "spec.tolerations",
        "spec.scheduler_name",
        "spec.infeasible_after",
        "spec.termination_grace_period_seconds",
    }
)


def pod_key(namespace: str, name: str) -> str:
    """Give the name under which a pod's records are stored."""
    return f"{namespace}/{name}"


def not_found(key: str) -> NotFoundError:
    """Give the error for a pod that is not there."""
    namespace, _, name = key.partition("/")
    return NotFoundError(
        f'there is no pod "{name}" in namespace "{namespace}"', reason="POD_NOT_FOUND"
    )


def create(pod: pod_pb2.Pod, uid: str, now: Timestamp) -> Callable[[View], bytes | None]:
    """Store a pod that is validated and defaulted.

    The step gives the pod's stored bytes; None when the same request has stored
    it before.
    """
    record = records_pb2.PodRecord(metadata=pod.metadata, spec=pod.spec)
    record.metadata.uid = uid
    record.metadata.create_time.CopyFrom(now)
    metadata = record.metadata
    namespace, key = metadata.namespace, pod_key(metadata.namespace, metadata.name)
    request = resources.pod_request(record.spec)
    value = record.SerializeToString()

    def step(view: View) -> bytes | None:
        there = view.get(PODS, key)
        if there is not None:
            if metadata.request_id and there.metadata.request_id == metadata.request_id:
                return None
            raise AlreadyExistsError(
                f'namespace "{namespace}" has a pod "{metadata.name}" already;'
                " choose another name or delete that one",
                reason="POD_EXISTS",
            )
        if view.get(NAMESPACES, namespace) is None:
            raise NotFoundError(
                f'there is no namespace "{namespace}"; create it first',
                reason="NAMESPACE_NOT_FOUND",
            )
        view.put(PODS, key, record)
        charges.charge_namespace(view, namespace, request)
        return value

    return step


@dataclass(frozen=True, slots=True)
class Expected:
    """What must still hold of an object that is to be changed; empty for anything."""

    uid: str = ""
    revision: int = 0


def amend(
    pod: pod_pb2.Pod, paths: frozenset[str], expected: Expected, field: str
) -> Callable[[View], None]:
    """Replace the fields named by `paths` out of those that may change.

    `field` is the path of the pod in the request.
    """
    key = pod_key(pod.metadata.namespace, pod.metadata.name)

    def step(view: View) -> None:
        there = view.get(PODS, key)
        if there is None:
            raise not_found(key)
        check_expected(
            expected,
            there.metadata.uid,
            lambda: view.version(key, PODS, ASSIGNMENTS, POD_STATUSES),
        )
        if paths & MUTABLE_UNTIL_ASSIGNED:
            _check_waits(view, key, paths & MUTABLE_UNTIL_ASSIGNED)
        changed = records_pb2.PodRecord()
        changed.CopyFrom(there)
        for path in paths:
            replace_field(changed, pod, path)
        desired = pod_pb2.Pod(metadata=changed.metadata, spec=changed.spec)
        validation.default_pod(desired)
        found = validation.pod_desired(desired, field)
        if found:
            raise InvalidArgumentError.of(found)
        changed.spec.CopyFrom(desired.spec)
        if changed != there:
            view.put(PODS, key, changed)

    return step


def _check_waits(view: View, key: str, paths: frozenset[str]) -> None:
    """Raise FailedPreconditionError unless a pod is still to be placed."""
    name = key.partition("/")[2]
    fields = ", ".join(sorted(paths))
    assignment = view.get(ASSIGNMENTS, key)
    if assignment is not None:
        raise FailedPreconditionError(
            f'pod "{name}" is placed on node "{assignment.assignment.node}";'
            f" {fields} can no longer change",
            reason="ALREADY_ASSIGNED",
        )
    if view.get(POD_STATUSES, key) is not None:
        raise FailedPreconditionError(
            f'pod "{name}" has ended; {fields} can no longer change', reason="POD_ENDED"
        )


def check_expected(expected: Expected, uid: str, version: Callable[[], int]) -> None:
    """Raise ConflictError unless the object is still the one that was meant."""
    if expected.uid and expected.uid != uid:
        raise ConflictError("the object was deleted and made anew since; read it again")
    if expected.revision and expected.revision != version():
        raise ConflictError("the object has changed since it was read; read it again")


def replace_field(target: Any, source: Any, path: str) -> None:
    """Give `target` the field of `source` that `path` names ("part.field"), or none."""
    part, _, field = path.partition(".")
    into, out_of = getattr(target, part), getattr(source, part)
    into.ClearField(field)
    into.MergeFrom(_only(out_of, field))


def _only(message: Any, field: str) -> Any:
    kept = type(message)()
    kept.CopyFrom(message)
    for descriptor, _ in message.ListFields():
        if descriptor.name != field:
            kept.ClearField(descriptor.name)
    return kept


def check_paths(paths: frozenset[str], allowed: frozenset[str], field: str) -> None:
    """Raise InvalidArgumentError unless `paths` names some, and only allowed, fields."""
    if not paths:
        raise InvalidArgumentError.of([Violation(field, "names no field")])
    wrong = sorted(paths - allowed)
    if wrong:
        raise InvalidArgumentError.of(
            [
                Violation(field, f"{path} cannot be changed; {', '.join(sorted(allowed))} can")
                for path in wrong
            ]
        )


def delete(key: str, uid: str, grace_seconds: int | None, now: Timestamp) -> Callable[[View], bool]:
    """Delete a pod: at once when nothing of it runs, otherwise mark it for its kubelet.

    The step says whether the pod is gone.
    """

    def step(view: View) -> bool:
        there = view.get(PODS, key)
        if there is None or (uid and there.metadata.uid != uid):
            raise not_found(key)
        assignment = view.get(ASSIGNMENTS, key)
        if assignment is None or assignment.assignment.released:
            remove(view, key)
            return True
        if not there.metadata.HasField("delete_time"):
            marked = records_pb2.PodRecord()
            marked.CopyFrom(there)
            marked.metadata.delete_time.CopyFrom(now)
            if grace_seconds is not None:
                marked.spec.termination_grace_period_seconds = grace_seconds
            view.put(PODS, key, marked)
        return False

    return step


def remove(view: View, key: str) -> None:
    """Remove all records of a pod together; what it still asks for is given back."""
    there = view.get(PODS, key)
    assert there is not None
    status = view.get(POD_STATUSES, key)
    ended = status is not None and status.status.phase == pod_pb2.PHASE_TERMINATED
    request = resources.ZERO if ended else resources.pod_request(there.spec)
    charges.forget_in_namespace(view, there.metadata.namespace, request)
    for kind in (PODS, ASSIGNMENTS, POD_STATUSES):
        view.delete(kind, key)


def remove_ended(key: str, uid: str) -> Callable[[View], None]:
    """Remove a pod that has ended and was kept long enough; nothing when it is another."""

    def step(view: View) -> None:
        there = view.get(PODS, key)
        status = view.get(POD_STATUSES, key)
        if (
            there is not None
            and there.metadata.uid == uid
            and status is not None
            and status.status.phase == pod_pb2.PHASE_TERMINATED
        ):
            remove(view, key)

    return step
