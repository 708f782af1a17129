"""Pods that are alike for placement, told apart once and judged together."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from drumline.api.v1.pod_pb2 import PodSpec
from drumline.model import fit, resources
from drumline.model.resources import Amounts

ShapeKey = tuple[Hashable, Amounts]


@dataclass(frozen=True, eq=False)
class Shape:
    """What is the same in all pods of one `shape_key`; equal only to itself."""

    spec: PodSpec
    """The spec of one of them."""
    static_key: Hashable
    """Equal for shapes that are the same but for what they ask for."""
    request: Amounts
    """What each is charged."""

    @classmethod
    def of(cls, spec: PodSpec) -> "Shape":
        """Give the shape of a pod."""
        return cls(spec, fit.static_shape(spec), resources.pod_request(spec))

    def to_keep(self) -> "Shape":
        """Give the same with a spec of its own, without what only the kubelet reads.

        A part of a message keeps the whole message in memory.
        """
        spec = PodSpec()
        spec.CopyFrom(self.spec)
        for container in spec.containers:
            for bulky in ("command", "args", "env"):
                container.ClearField(bulky)
        return Shape(spec, self.static_key, self.request)

    @property
    def key(self) -> ShapeKey:
        """Equal for shapes of pods that are alike."""
        return self.static_key, self.request

    @cached_property
    def asks(self) -> tuple[tuple[str, int], ...]:
        """(resource, amount) of what is asked for, in the order of `resources.shortfalls`."""
        cpu, memory, pods, named = self.request
        asked = (("cpu", cpu), ("memory", memory), ("pods", pods), *named)
        return tuple((resource, amount) for resource, amount in asked if amount > 0)
