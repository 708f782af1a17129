"""Rules for what admins want of nodes and what nodes say of themselves."""

import re
from collections.abc import Sequence
from typing import Final

from drumline.api.v1.node_pb2 import Node, NodeInfo, NodeSpec, Taint
from drumline.api.v1.pod_pb2 import TAINT_EFFECT_NO_SCHEDULE
from drumline.model import resources as amounts
from drumline.model.errors import Violation
from drumline.model.validation.common import (
    annotations_map,
    bounded,
    label_key,
    label_value,
    labels_map,
    resources,
    shown,
    too_long,
    too_many,
)

MAXIMUM_TAINTS: Final = 32
MAXIMUM_VERSION: Final = 128
MAXIMUM_PLATFORM: Final = 512
RUNTIMES: Final = ("process", "simulated")

_ADDRESS = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[-A-Za-z0-9.]{0,252})):([0-9]{1,5})"
)


def node_desired(node: Node, path: str) -> list[Violation]:
    """Check all that an admin may set: labels, annotations, cordon and taints."""
    found = labels_map(node.metadata.labels, f"{path}.metadata.labels")
    found += annotations_map(node.metadata.annotations, f"{path}.metadata.annotations")
    found += node_spec(node.spec, f"{path}.spec")
    return bounded(found, path)


def node_spec(spec: NodeSpec, path: str) -> list[Violation]:
    """Check an admin's taints."""
    return bounded(_taints(spec.taints, f"{path}.taints"), path)


def node_info(info: NodeInfo, path: str) -> list[Violation]:
    """Check a registration.

    What pods may have is within what the node has; runtime is one that is known;
    an address, where there is one, is HOST:PORT.
    """
    found = resources(info.capacity, f"{path}.capacity")
    found += resources(info.allocatable, f"{path}.allocatable")
    if not found:
        beyond = amounts.shortfalls(
            amounts.from_proto(info.allocatable), amounts.from_proto(info.capacity)
        )
        found += [
            Violation(
                f"{path}.allocatable",
                f"has {item.asked} of {item.resource}, more than the capacity of {item.free}",
            )
            for item in beyond
        ]
    found += labels_map(info.labels, f"{path}.labels")
    found += _taints(info.taints, f"{path}.taints")
    if info.runtime not in RUNTIMES:
        found.append(
            Violation(
                f"{path}.runtime", f"must be 'process' or 'simulated', not {shown(info.runtime)}"
            )
        )
    if info.address and not _is_address(info.address):
        found.append(Violation(f"{path}.address", f"must be HOST:PORT, not {shown(info.address)}"))
    if len(info.kubelet_version) > MAXIMUM_VERSION:
        found.append(too_long(f"{path}.kubelet_version", info.kubelet_version, MAXIMUM_VERSION))
    if len(info.platform) > MAXIMUM_PLATFORM:
        found.append(too_long(f"{path}.platform", info.platform, MAXIMUM_PLATFORM))
    return bounded(found, path)


def _is_address(address: str) -> bool:
    match = _ADDRESS.fullmatch(address)
    return match is not None and 0 < int(match[1]) < 2**16


def _taints(taints: Sequence[Taint], path: str) -> list[Violation]:
    if len(taints) > MAXIMUM_TAINTS:
        return [too_many(path, len(taints), MAXIMUM_TAINTS)]
    found: list[Violation] = []
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        found += label_key(taint.key, f"{at}.key")
        found += label_value(taint.value, f"{at}.value")
        if taint.effect != TAINT_EFFECT_NO_SCHEDULE:
            found.append(Violation(f"{at}.effect", "must be NO_SCHEDULE"))
    return found
