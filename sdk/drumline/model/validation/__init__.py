"""What requests must fulfil, as the contracts' comments say it.

Each function gives all violations of a message at once and never raises; none
means that it is good. `path` names the message in the request, such as
``pods[3]``; violations are found at paths such as ``pods[3].spec.containers[0].name``.
Where a message has more than 32 violations the last one says how many were left
out, so that an answer stays in proportion to its request.
"""

from drumline.model.validation.common import (
    annotations_map,
    label_selector,
    labels_map,
    name,
    namespace_to_create,
    pod_reference,
    resources,
)
from drumline.model.validation.nodes import node_desired, node_info, node_spec
from drumline.model.validation.pods import default_pod, grace_seconds, pod_desired, pod_to_create

__all__ = [
    "annotations_map",
    "default_pod",
    "grace_seconds",
    "label_selector",
    "labels_map",
    "name",
    "namespace_to_create",
    "node_desired",
    "node_info",
    "node_spec",
    "pod_desired",
    "pod_reference",
    "pod_to_create",
    "resources",
]
