"""The one table of rules by which a pod fits a node.

==========================  ===================================================
reason                      the node is refused when
==========================  ===================================================
NODE_NOT_READY              the nodecontroller does not call it ready
NODE_CORDONED               an admin keeps new pods off it
IMAGES_NOT_SUPPORTED        the pod names an image and the node runs none
NODE_SELECTOR_MISMATCH      a label that the pod demands is missing or different
UNTOLERATED_TAINT           it has a taint that the pod does not put up with
INSUFFICIENT_CPU,           less of it is free than the pod asks for
INSUFFICIENT_MEMORY,
INSUFFICIENT_PODS,
INSUFFICIENT_RESOURCE
==========================  ===================================================

Everything here judges one pod on one node. A cause's message depends on the pod
and on the label, taint or resource, never on an amount of the node: equal causes
of many nodes can be counted. The scheduler judges resources for all nodes at once
and takes the rest from here, once for each `static_shape`.
"""

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from drumline.api.v1.node_pb2 import NODE_STATE_READY, NODE_STATE_UNREACHABLE, Node, Taint
from drumline.api.v1.pod_pb2 import (
    TAINT_EFFECT_UNSPECIFIED,
    TOLERATION_OPERATOR_EQUAL,
    TOLERATION_OPERATOR_EXISTS,
    TOLERATION_OPERATOR_UNSPECIFIED,
    PodSpec,
    TaintEffect,
    Toleration,
)
from drumline.model import labels, quantity, resources
from drumline.model.resources import Amounts

NODE_NOT_READY: Final = "NODE_NOT_READY"
NODE_CORDONED: Final = "NODE_CORDONED"
IMAGES_NOT_SUPPORTED: Final = "IMAGES_NOT_SUPPORTED"
NODE_SELECTOR_MISMATCH: Final = "NODE_SELECTOR_MISMATCH"
UNTOLERATED_TAINT: Final = "UNTOLERATED_TAINT"
INSUFFICIENT_CPU: Final = "INSUFFICIENT_CPU"
INSUFFICIENT_MEMORY: Final = "INSUFFICIENT_MEMORY"
INSUFFICIENT_PODS: Final = "INSUFFICIENT_PODS"
INSUFFICIENT_RESOURCE: Final = "INSUFFICIENT_RESOURCE"

REASONS: Final = (
    NODE_NOT_READY,
    NODE_CORDONED,
    IMAGES_NOT_SUPPORTED,
    NODE_SELECTOR_MISMATCH,
    UNTOLERATED_TAINT,
    INSUFFICIENT_CPU,
    INSUFFICIENT_MEMORY,
    INSUFFICIENT_PODS,
    INSUFFICIENT_RESOURCE,
)
"""All reasons, in the order in which causes are given."""


class Cause(NamedTuple):
    """One reason why a pod cannot go to a node."""

    reason: str
    """Stable upper-case word, one of REASONS."""
    message: str
    """The same in a few words, with the label, taint or resource."""


CLOSED: Final = Cause(NODE_NOT_READY, "the node accepts no pods at present")
"""Of a node whose load says that it takes none, before the reason is heard."""


def pod_on_node(pod: PodSpec, node: Node, free: Amounts) -> list[Cause]:
    """Judge everything; `free` is what the node's pods may have and do not use.

    Empty: the pod fits.
    """
    return [
        *readiness_causes(node),
        *static_causes(pod, node),
        *resource_causes(resources.pod_request(pod), free),
    ]


def readiness_causes(node: Node) -> list[Cause]:
    """Judge what concerns every pod alike: the node is ready and not cordoned."""
    causes = []
    state = node.status.state
    if state == NODE_STATE_UNREACHABLE:
        causes.append(Cause(NODE_NOT_READY, "the node is not heard"))
    elif state != NODE_STATE_READY:
        causes.append(Cause(NODE_NOT_READY, "the node has not been judged ready yet"))
    if node.spec.unschedulable:
        causes.append(Cause(NODE_CORDONED, "the node is cordoned"))
    return causes


def static_causes(spec: PodSpec, node: Node) -> list[Cause]:
    """Judge image, node selector and taints: what changes only when pod or node is edited."""
    causes = []
    if not node.info.runs_images and names_image(spec):
        causes.append(Cause(IMAGES_NOT_SUPPORTED, "the node cannot run images"))
    if spec.node_selector:
        there = labels.effective_labels(node)
        causes += [
            selector_cause(key, value)
            for key, value in sorted(spec.node_selector.items())
            if there.get(key) != value
        ]
    if node.info.taints or node.spec.taints:
        causes += [
            Cause(UNTOLERATED_TAINT, f"taint {describe_taint(taint)}")
            for taint in labels.effective_taints(node)
            if not tolerates(spec.tolerations, taint)
        ]
    return causes


def selector_cause(key: str, value: str) -> Cause:
    """Give the cause for a label that the pod demands and the node has not."""
    return Cause(NODE_SELECTOR_MISMATCH, f"the node's label {key} is not {value!r}")


def static_shape(spec: PodSpec) -> Hashable:
    """Give a value that is equal for pods of which `static_causes` says the same on every node."""
    selector = spec.node_selector
    tolerations = spec.tolerations
    return (
        names_image(spec),
        tuple(sorted(selector.items())) if selector else (),
        tuple((t.key, t.operator, t.value, t.effect) for t in tolerations) if tolerations else (),
    )


def names_image(spec: PodSpec) -> bool:
    """Whether any of the pod's containers names an image."""
    return any(container.image for container in spec.containers)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations puts up with the taint."""
    for toleration in tolerations:
        if toleration.effect not in (TAINT_EFFECT_UNSPECIFIED, taint.effect):
            continue
        operator = toleration.operator
        if operator == TOLERATION_OPERATOR_EXISTS:
            if toleration.key in ("", taint.key):
                return True
        elif (
            operator in (TOLERATION_OPERATOR_UNSPECIFIED, TOLERATION_OPERATOR_EQUAL)
            and toleration.key == taint.key
            and toleration.value == taint.value
        ):
            return True
    return False


def describe_taint(taint: Taint) -> str:
    """Write a taint as people do: ``key=value:NO_SCHEDULE``, ``key:NO_SCHEDULE``."""
    pair = f"{taint.key}={taint.value}" if taint.value else taint.key
    known = taint.effect in TaintEffect.values()
    name = TaintEffect.Name(taint.effect) if known else str(taint.effect)
    return f"{pair}:{name.removeprefix('TAINT_EFFECT_')}"


def resource_causes(asked: Amounts, free: Amounts) -> list[Cause]:
    """Judge amounts: one cause for each resource of which less is free than is asked for."""
    return [
        resource_cause(shortfall.resource, shortfall.asked)
        for shortfall in resources.shortfalls(asked, free)
    ]


def resource_cause(resource: str, asked: int) -> Cause:
    """Give the cause for a lack of one resource ("cpu", "memory", "pods" or another's name).

    `asked` is in the resource's unit, as in `resources.Shortfall`.
    """
    if resource == "cpu":
        return Cause(INSUFFICIENT_CPU, f"less than {quantity.format_cpu(asked)} cpu is free")
    if resource == "memory":
        amount = quantity.format_memory(asked)
        return Cause(INSUFFICIENT_MEMORY, f"less than {amount} of memory is free")
    if resource == "pods":
        return Cause(INSUFFICIENT_PODS, "the node has its full number of pods")
    amount = quantity.format_thousandths(asked)
    return Cause(INSUFFICIENT_RESOURCE, f"less than {amount} {resource} is free")
