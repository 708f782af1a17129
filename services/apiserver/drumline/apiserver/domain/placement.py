"""Steps on where pods go and what they are: assign, report, end.

Safety rests here: the load of a node is read and written in the transaction of
every assignment to it, so no node is promised more than it has, whatever several
schedulers post through several apiservers.
"""

from collections.abc import Callable

from drumline.api.v1 import pod_pb2
from drumline.apiserver.domain import charges
from drumline.apiserver.domain.pods import not_found, pod_key, remove
from drumline.apiserver.store.kinds import (
    ASSIGNMENTS,
    NODE_LOADS,
    POD_STATUSES,
    PODS,
)
from drumline.apiserver.store.view import View
from drumline.model import resources
from drumline.model.errors import (
    AlreadyExistsError,
    ConflictError,
    FailedPreconditionError,
    NotFoundError,
    PermissionDeniedError,
    Violation,
)
from drumline.node.v1.node_agent_service_pb2 import PodStatusReport
from drumline.scheduling.v1.scheduler_service_pb2 import ProposedAssignment
from drumline.storage.v1 import records_pb2
from google.protobuf.timestamp_pb2 import Timestamp


def assign(
    proposal: ProposedAssignment, scheduler_name: str, identity: str, now: Timestamp
) -> Callable[[View], int]:
    """Assign a pod to a node. The step gives the load's generation that first contains it."""
    key = pod_key(proposal.pod.namespace, proposal.pod.name)
    uid, node = proposal.pod.uid, proposal.node

    def step(view: View) -> int:
        pod = view.get(PODS, key)
        if pod is None or pod.metadata.uid != uid:
            raise not_found(key)
        if pod.spec.scheduler_name != scheduler_name:
            raise PermissionDeniedError(
                f'the pod is scheduled by "{pod.spec.scheduler_name}"', reason="WRONG_SCHEDULER"
            )
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
                scheduler=identity,
                charged=resources.to_proto(request),
                assign_time=now,
            )
        )
        view.put(ASSIGNMENTS, key, record)
        return charges.charge_node(view, node, request)

    return step


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
