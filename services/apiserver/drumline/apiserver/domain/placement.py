"""Steps on where pods go and what they are: assign, report, end.

Safety rests here: the load of a node is read and written in the transaction of
every assignment to it, so no node is promised more than it has, whatever several
schedulers post through several apiservers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drumline.api.v1 import pod_pb2
from drumline.apiserver.domain import charges
from drumline.apiserver.domain.pods import not_found, pod_key, remove
from drumline.apiserver.store.kinds import (
    ASSIGNMENTS,
    LEADERS,
    NODE_LOADS,
    POD_STATUSES,
    PODS,
)
from drumline.apiserver.store.view import View
from drumline.model import resources
from drumline.model.errors import (
    AlreadyExistsError,
    ConflictError,
    DrumlineError,
    FailedPreconditionError,
    NotFoundError,
    PermissionDeniedError,
    Violation,
)
from drumline.node.v1.node_agent_service_pb2 import PodStatusReport
from drumline.scheduling.v1.scheduler_service_pb2 import ProposedAssignment
from drumline.storage.v1 import records_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp


@dataclass(frozen=True, slots=True)
class Author:
    """Who places: a scheduler name, its identity, and the session that it decides in."""

    scheduler_name: str
    identity: str
    session_id: str


class GroupRefusedError(ConflictError):
    """Why none of a group is assigned: `cause`, the refusal of the member at `place`."""

    def __init__(self, place: int, cause: DrumlineError) -> None:
        super().__init__(f"its group is not assigned: {cause.message}", reason="GROUP_REFUSED")
        self.place = place
        self.cause = cause


def session_ended(scheduler_name: str) -> FailedPreconditionError:
    """Make the refusal of a scheduler that no longer decides."""
    return FailedPreconditionError(
        f'the session is over, or was never one of "{scheduler_name}": subscribe, and wait'
        " for a session",
        reason="SESSION_ENDED",
    )


def together(steps: Sequence[Callable[[View], int]]) -> Callable[[View], list[int]]:
    """Make one step of several: all are done or none. It gives what each gave."""

    def step(view: View) -> list[int]:
        given = []
        for place, member in enumerate(steps):
            try:
                given.append(member(view))
            except DrumlineError as cause:
                raise GroupRefusedError(place, cause) from cause
        return given

    return step


def assign(
    proposal: ProposedAssignment, author: Author, seen_at: int | None, now: Timestamp
) -> Callable[[View], int]:
    """Assign a pod to a node. The step gives the load's generation that first contains it.

    `seen_at` is the revision of the pod that the decision was made on; None for any.
    """
    key = pod_key(proposal.pod.namespace, proposal.pod.name)
    uid, node = proposal.pod.uid, proposal.node

    def step(view: View) -> int:
        pod = _pod_of(view, key, uid, author)
        before = view.get(ASSIGNMENTS, key)
        status = view.get(POD_STATUSES, key)
        load = view.get(NODE_LOADS, node)
        if status is not None and status.status.phase == pod_pb2.PHASE_TERMINATED:
            raise FailedPreconditionError("the pod has ended", reason="POD_ENDED")
        if before is not None and not before.assignment.released:
            held = before.assignment
            if held.node == node and load is not None:
                return load.load.generation
            raise AlreadyExistsError(
                f'the pod is assigned to node "{held.node}"',
                reason="ALREADY_ASSIGNED",
                metadata={"node": held.node},
            )
        if pod.metadata.HasField("delete_time"):
            raise FailedPreconditionError("the pod is being deleted", reason="POD_BEING_DELETED")
        if seen_at is not None and seen_at != view.version(key, PODS, ASSIGNMENTS, POD_STATUSES):
            raise ConflictError(
                "the pod has changed since; decide on it as it is now", reason="POD_CHANGED"
            )
        if load is None:
            raise NotFoundError(f'there is no node "{node}"', reason="NODE_NOT_FOUND")
        request = resources.pod_request(pod.spec)
        _check_room(node, load, request)
        attempt = 1 if before is None else before.assignment.attempt + 1
        record = records_pb2.AssignmentRecord(
            assignment=pod_pb2.Assignment(
                pod_uid=uid,
                attempt=attempt,
                node=node,
                scheduler=author.identity,
                session_id=author.session_id,
                charged=resources.to_proto(request),
                assign_time=now,
            )
        )
        view.put(ASSIGNMENTS, key, record)
        return charges.charge_node(view, node, request)

    return step


def _pod_of(view: View, key: str, uid: str, author: Author) -> records_pb2.PodRecord:
    """Read a pod that `author` may place; raise why it may not be."""
    leader = view.get(LEADERS, author.scheduler_name)
    if leader is None or leader.session_id != author.session_id:
        raise session_ended(author.scheduler_name)
    pod = view.get(PODS, key)
    if pod is None or pod.metadata.uid != uid:
        raise not_found(key)
    if pod.spec.scheduler_name != author.scheduler_name:
        raise PermissionDeniedError(
            f'the pod is scheduled by "{pod.spec.scheduler_name}"', reason="WRONG_SCHEDULER"
        )
    return pod


def _check_room(node: str, record: records_pb2.NodeLoadRecord, request: resources.Amounts) -> None:
    load = record.load
    if not load.schedulable:
        raise FailedPreconditionError(
            f'node "{node}" takes no pods now: it is cordoned or not ready',
            reason="NODE_NOT_SCHEDULABLE",
        )
    free = resources.subtract(
        resources.from_proto(load.allocatable), resources.from_proto(load.promised)
    )
    lacking = resources.shortfalls(request, free)
    if lacking:
        raise FailedPreconditionError(
            f'the pod does not fit on node "{node}": '
            + ", ".join(f"it asks for {s.asked} {s.resource}, {s.free} is free" for s in lacking),
            reason="DOES_NOT_FIT",
            violations=[
                Violation(f"{node}/{s.resource}", f"asked {s.asked}, free {s.free}")
                for s in lacking
            ],
        )


def report(status_report: PodStatusReport) -> Callable[[View], None]:
    """Take over what a kubelet says of a pod; a report that ends the attempt frees its room."""
    key = pod_key(status_report.pod.namespace, status_report.pod.name)
    said = status_report.status

    def step(view: View) -> None:
        pod = view.get(PODS, key)
        if pod is None or pod.metadata.uid != status_report.pod.uid:
            raise not_found(key)
        record = view.get(ASSIGNMENTS, key)
        before = view.get(POD_STATUSES, key)
        if (
            record is None
            or record.assignment.node != status_report.node
            or record.assignment.attempt != said.attempt
        ):
            raise FailedPreconditionError(
                f'attempt {said.attempt} of the pod is not assigned to node "{status_report.node}"',
                reason="NOT_ASSIGNED",
            )
        if before is not None and before.status.attempt == said.attempt:
            if before.status == said:
                return
            if (
                said.report_sequence <= before.status.report_sequence
                or before.status.phase == pod_pb2.PHASE_TERMINATED
            ):
                raise ConflictError(
                    f"report {said.report_sequence} is not newer than report"
                    f" {before.status.report_sequence}, which is stored",
                    reason="STALE_REPORT",
                )
        view.put(POD_STATUSES, key, records_pb2.PodStatusRecord(status=said))
        if said.phase == pod_pb2.PHASE_TERMINATED:
            _end(view, key, pod, record)

    return step


def end_infeasible(key: str, uid: str, after: Duration, message: str) -> Callable[[View], bool]:
    """End a pod that no node could take; the step says whether it did.

    It does nothing once the pod is placed, has ended, was made anew, or waits for another
    time than `after`.
    """

    def step(view: View) -> bool:
        pod = view.get(PODS, key)
        record = view.get(ASSIGNMENTS, key)
        if (
            pod is None
            or pod.metadata.uid != uid
            or pod.spec.infeasible_after != after
            or (record is not None and not record.assignment.released)
            or view.get(POD_STATUSES, key) is not None
        ):
            return False
        status = pod_pb2.PodStatus(
            phase=pod_pb2.PHASE_TERMINATED, reason="INFEASIBLE", message=message
        )
        view.put(POD_STATUSES, key, records_pb2.PodStatusRecord(status=status))
        charges.discharge_namespace(view, pod.metadata.namespace, resources.pod_request(pod.spec))
        return True

    return step


def _end(
    view: View, key: str, pod: records_pb2.PodRecord, record: records_pb2.AssignmentRecord
) -> None:
    charges.discharge_node(view, record.assignment.node, record.assignment.charged)
    if pod.metadata.HasField("delete_time"):
        charges.discharge_namespace(view, pod.metadata.namespace, resources.pod_request(pod.spec))
        remove(view, key)
        return
    released = records_pb2.AssignmentRecord()
    released.CopyFrom(record)
    released.assignment.released = True
    view.put(ASSIGNMENTS, key, released)
    charges.discharge_namespace(view, pod.metadata.namespace, resources.pod_request(pod.spec))
