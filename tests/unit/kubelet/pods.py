"""Pods for the tests of this folder."""

from collections.abc import Mapping

from drumline.api.v1.pod_pb2 import Pod


def make_pod(
    uid: str = "u1",
    *,
    node: str = "n1",
    cpu: int = 0,
    grace: int = 30,
    containers: int = 1,
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    """Make a pod that is assigned to the node; nothing of it was reported yet."""
    pod = Pod()
    pod.metadata.uid = uid
    pod.metadata.name = f"pod-{uid}"
    pod.metadata.namespace = "default"
    pod.metadata.annotations.update(annotations or {})
    pod.spec.termination_grace_period_seconds = grace
    for number in range(containers):
        container = pod.spec.containers.add(name=f"c{number}", command=["true"])
        container.resources.requests.cpu_millicores = cpu
    pod.assignment.pod_uid = uid
    pod.assignment.attempt = 1
    pod.assignment.node = node
    return pod


def deleted(pod: Pod, grace: int = 30) -> Pod:
    """Give the pod with its deletion asked for."""
    copy = Pod()
    copy.CopyFrom(pod)
    copy.metadata.delete_time.seconds = 1
    copy.spec.termination_grace_period_seconds = grace
    return copy
