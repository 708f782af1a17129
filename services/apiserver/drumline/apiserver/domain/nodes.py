"""Steps on nodes: register, amend, judge, forget."""

from collections.abc import Callable

from drumline.api.v1 import node_pb2
from drumline.apiserver.domain.pods import Expected, check_expected, replace_field
from drumline.apiserver.store.kinds import (
    NODE_INFOS,
    NODE_LOADS,
    NODE_STATUSES,
    NODES,
)
from drumline.apiserver.store.view import View
from drumline.model import validation
from drumline.model.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from drumline.model.names import LABEL_SIMULATED
from drumline.storage.v1 import records_pb2
from google.protobuf.timestamp_pb2 import Timestamp

MUTABLE = frozenset(
    {"metadata.labels", "metadata.annotations", "spec.unschedulable", "spec.taints"}
)


def not_found(name: str) -> NotFoundError:
    """Give the error for a node that is not there."""
    return NotFoundError(f'there is no node "{name}"', reason="NODE_NOT_FOUND")


def register(
    name: str, info: node_pb2.NodeInfo, uid: str, now: Timestamp, *, simulator: bool
) -> Callable[[View], None]:
    """Take over what a node says of itself; nothing is written when nothing is new.

    A simulator speaks only for nodes that were simulated from their first
    registration on, and a kubelet only for those that were not.
    """

    def step(view: View) -> None:
        node = view.get(NODES, name)
        before = view.get(NODE_INFOS, name)
        load = view.get(NODE_LOADS, name)
        if before is not None and simulator != _is_simulated(before.info):
            raise PermissionDeniedError(
                f'node "{name}" is registered as '
                + ("a simulated one" if not simulator else "a real one")
                + "; delete it first, or choose another name",
                reason="NODE_NAME_TAKEN",
            )
        if node is None:
            node = records_pb2.NodeRecord()
            node.metadata.name, node.metadata.uid = name, uid
            node.metadata.create_time.CopyFrom(now)
            # There, though empty: an amendment that changes nothing is then equal to it.
            node.spec.SetInParent()
            view.put(NODES, name, node)
        if before is None or before.info != info:
            view.put(NODE_INFOS, name, records_pb2.NodeInfoRecord(info=info))
        if load is None or load.load.allocatable != info.allocatable:
            changed = records_pb2.NodeLoadRecord()
            if load is not None:
                changed.CopyFrom(load)
            changed.load.allocatable.CopyFrom(info.allocatable)
            changed.load.generation += 1
            view.put(NODE_LOADS, name, changed)
        _set_schedulable(view, name)

    return step


def _is_simulated(info: node_pb2.NodeInfo) -> bool:
    return info.labels.get(LABEL_SIMULATED) == "true"


def _set_schedulable(view: View, name: str) -> None:
    """Let the load say whether the node takes pods: it is ready and not cordoned."""
    node, status = view.get(NODES, name), view.get(NODE_STATUSES, name)
    load = view.get(NODE_LOADS, name)
    if node is None or load is None:
        return
    ready = status is not None and status.status.state == node_pb2.NODE_STATE_READY
    schedulable = ready and not node.spec.unschedulable
    if load.load.schedulable != schedulable:
        changed = records_pb2.NodeLoadRecord()
        changed.CopyFrom(load)
        changed.load.schedulable = schedulable
        changed.load.generation += 1
        view.put(NODE_LOADS, name, changed)


def amend(
    node: node_pb2.Node, paths: frozenset[str], expected: Expected, field: str
) -> Callable[[View], None]:
    """Replace the fields named by `paths`, which may change.

    `field` is the path of the node in the request.
    """
    name = node.metadata.name

    def step(view: View) -> None:
        there = view.get(NODES, name)
        if there is None:
            raise not_found(name)
        check_expected(
            expected,
            there.metadata.uid,
            lambda: view.version(name, NODES, NODE_INFOS, NODE_STATUSES, NODE_LOADS),
        )
        changed = records_pb2.NodeRecord()
        changed.CopyFrom(there)
        for path in paths:
            replace_field(changed, node, path)
        found = validation.node_desired(
            node_pb2.Node(metadata=changed.metadata, spec=changed.spec), field
        )
        if found:
            raise InvalidArgumentError.of(found)
        if changed != there:
            view.put(NODES, name, changed)
            _set_schedulable(view, name)

    return step


def judge(name: str, uid: str, status: node_pb2.NodeStatus) -> Callable[[View], None]:
    """Take over a nodecontroller's verdict on a node."""

    def step(view: View) -> None:
        node = view.get(NODES, name)
        if node is None or node.metadata.uid != uid:
            raise not_found(name)
        before = view.get(NODE_STATUSES, name)
        if before is None or before.status != status:
            view.put(NODE_STATUSES, name, records_pb2.NodeStatusRecord(status=status))
            _set_schedulable(view, name)

    return step


def forget(name: str) -> Callable[[View], None]:
    """Remove a node that no active assignment names."""

    def step(view: View) -> None:
        if view.get(NODES, name) is None:
            raise not_found(name)
        load = view.get(NODE_LOADS, name)
        if load is not None and load.load.promised.pods:
            raise FailedPreconditionError(
                f'node "{name}" has {load.load.promised.pods} pod(s);'
                " cordon it and delete them first",
                reason="NODE_IN_USE",
            )
        for kind in (NODES, NODE_INFOS, NODE_STATUSES, NODE_LOADS):
            view.delete(kind, name)

    return step
