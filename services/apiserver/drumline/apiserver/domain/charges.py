"""What pods charge: to the load of their node, and to the usage of their namespace.

Both are sums that change in the transactions that change what they sum up, so
they equal a recount at every revision.
"""

from collections.abc import Callable

from drumline.api.v1.resources_pb2 import Resources
from drumline.apiserver.store.kinds import NODE_LOADS, QUOTA_USES
from drumline.apiserver.store.view import View
from drumline.model import resources
from drumline.model.errors import ResourceExhaustedError
from drumline.model.resources import Amounts
from drumline.storage.v1 import records_pb2

Change = Callable[[Amounts, Amounts], Amounts]

# Bounds of a namespace's sum, which every create and every end of a pod rewrites: what
# its fields hold, and how many resources beside cpu and memory it can be a sum of.
_MAX_SUM = 2**63 - 1
_MAX_NAMED = 64


def charge_namespace(view: View, namespace: str, request: Amounts) -> None:
    """Count a pod that comes into being. Raises ResourceExhaustedError beyond the bounds."""
    _change_usage(view, namespace, 1, request, _added)


def _added(before: Amounts, request: Amounts) -> Amounts:
    total = resources.add(before, request)
    if len(total.named) > _MAX_NAMED and len(total.named) > len(before.named):
        raise ResourceExhaustedError(
            f"the pods of a namespace can ask for {_MAX_NAMED} resources beside cpu and memory"
            " between them; delete pods, or use another namespace",
            reason="TOO_MANY_RESOURCE_NAMES",
        )
    amounts = (total.cpu_millicores, total.memory_bytes, *(amount for _, amount in total.named))
    if max(amounts) > _MAX_SUM:
        raise ResourceExhaustedError(
            "the pods of the namespace would ask for more than can be counted; delete pods, or"
            " use another namespace",
            reason="NAMESPACE_SUM_TOO_LARGE",
        )
    return total


def discharge_namespace(view: View, namespace: str, request: Amounts) -> None:
    """Take off what a pod asked for that has ended; it is still stored."""
    _change_usage(view, namespace, 0, request, resources.subtract)


def forget_in_namespace(view: View, namespace: str, request: Amounts) -> None:
    """Take off a pod that is no longer stored, and what it still asks for."""
    _change_usage(view, namespace, -1, request, resources.subtract)


def _change_usage(view: View, namespace: str, pods: int, request: Amounts, change: Change) -> None:
    before = view.get(QUOTA_USES, namespace)
    after = records_pb2.QuotaUseRecord()
    if before is not None:
        after.CopyFrom(before)
    after.usage.stored_pods += pods
    requested = change(resources.from_proto(after.usage.requested), request)
    resources.fill_proto(after.usage.requested, requested)
    view.put(QUOTA_USES, namespace, after)


def charge_node(view: View, node: str, request: Amounts) -> int:
    """Promise a pod's request on a node that is known; give the load's new generation."""
    return _change_load(view, node, request, resources.add)


def discharge_node(view: View, node: str, charged: Resources) -> None:
    """Give back what was promised; a node that is forgotten has nothing to give back to."""
    if view.get(NODE_LOADS, node) is not None:
        _change_load(view, node, resources.from_proto(charged), resources.subtract)


def _change_load(view: View, node: str, request: Amounts, change: Change) -> int:
    before = view.get(NODE_LOADS, node)
    assert before is not None
    after = records_pb2.NodeLoadRecord()
    after.CopyFrom(before)
    promised = change(resources.from_proto(after.load.promised), request)
    resources.fill_proto(after.load.promised, promised)
    after.load.generation += 1
    view.put(NODE_LOADS, node, after)
    return after.load.generation
