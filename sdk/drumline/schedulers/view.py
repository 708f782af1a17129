"""What a scheduler decides on, and what it decides: values, without connection or clock."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from drumline.api.v1.node_pb2 import Node
from drumline.api.v1.pod_pb2 import Pod
from drumline.model import fit, resources
from drumline.model.fit import Cause
from drumline.model.resources import Amounts


@dataclass(frozen=True, slots=True, eq=False)
class PendingPod:
    """A pod that waits for a node."""

    pod: Pod
    """As the apiserver told it; to read only."""
    request: Amounts
    """What it asks for, in the units of `drumline.model.resources`."""

    @property
    def uid(self) -> str:
        """Its identity."""
        return self.pod.metadata.uid


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """A node, and what is free on it."""

    node: Node
    """As the apiserver told it, but for its load; to read only."""
    allocatable: Amounts
    """What pods may have."""
    free: Amounts
    """What of it is neither promised nor decided on; below 0 on a node that shrank."""
    schedulable: bool
    """Whether it takes pods at all; the reason may be told a little later."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.metadata.name

    def fits(self, pod: PendingPod) -> bool:
        """Say whether the node could take the pod now: whether there is nothing in `why_not`."""
        # What keeps most pods off costs least to see.
        return (
            self.schedulable
            and not resources.shortfalls(pod.request, self.free)
            and not fit.readiness_causes(self.node)
            and not fit.static_causes(pod.pod.spec, self.node)
        )

    def why_not(self, pod: PendingPod) -> list[Cause]:
        """Give what keeps the pod off the node, by the rules that the apiserver and all share."""
        causes = fit.pod_on_node(pod.pod.spec, self.node, self.free)
        if not causes and not self.schedulable:
            return [fit.CLOSED]
        return causes


@dataclass(frozen=True, slots=True, eq=False)
class Assign:
    """The pod is to go to the node of this name."""

    pod: PendingPod
    node: str


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """The pod stays where it is, and why: an upper-case word, and a sentence for its user."""

    pod: PendingPod
    reason: str
    message: str


Decision = Assign | Wait


@dataclass(frozen=True, slots=True, eq=False)
class ClusterView:
    """All nodes at one moment. It does not change: `with_pod` gives another."""

    nodes: tuple[NodeView, ...]
    _places: dict[str, int] = field(repr=False)

    @classmethod
    def of(cls, nodes: Sequence[NodeView]) -> "ClusterView":
        """Make the view of these nodes."""
        return cls(tuple(nodes), {node.name: place for place, node in enumerate(nodes)})

    def node(self, name: str) -> NodeView | None:
        """Give a node; None when it is not there."""
        place = self._places.get(name)
        return None if place is None else self.nodes[place]

    def that_fit(self, pod: PendingPod) -> list[NodeView]:
        """Give the nodes that could take the pod now."""
        return [node for node in self.nodes if node.fits(pod)]

    def with_pod(self, name: str, pod: PendingPod) -> "ClusterView":
        """Give the cluster as it is with the pod on the node of this name, which must be there."""
        place = self._places[name]
        there = self.nodes[place]
        taken = NodeView(
            there.node,
            there.allocatable,
            resources.subtract(there.free, pod.request),
            there.schedulable,
        )
        nodes = (*self.nodes[:place], taken, *self.nodes[place + 1 :])
        return ClusterView(nodes, self._places)
