"""Rules for pods that are to be stored, and what is filled in where they are silent.

`pod_to_create` runs for every pod of every create: good pods pass in some ten
microseconds.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from drumline.api.v1.pod_pb2 import (
    TAINT_EFFECT_NO_SCHEDULE,
    TAINT_EFFECT_UNSPECIFIED,
    TOLERATION_OPERATOR_EQUAL,
    TOLERATION_OPERATOR_EXISTS,
    TOLERATION_OPERATOR_UNSPECIFIED,
    Container,
    Pod,
    PodSpec,
    Toleration,
)
from drumline.model import resources as amounts
from drumline.model.durations import MAXIMUM_SECONDS, parse_duration
from drumline.model.errors import Violation
from drumline.model.names import (
    ANNOTATION_EXIT_CODE,
    ANNOTATION_RUN_TIME,
    ANNOTATION_START_DELAY,
    DEFAULT_GRACE_SECONDS,
    DEFAULT_NAMESPACE,
    DEFAULT_SCHEDULER,
    NAME,
    NAME_WITHOUT_DOTS,
)
from drumline.model.validation.common import (
    LEAVE_OUT,
    annotations_map,
    bounded,
    byte_size,
    entry,
    label_key,
    label_value,
    labels_map,
    metadata_to_create,
    name,
    resources,
    shown,
    too_large,
    too_long,
    too_many,
)
from google.protobuf.duration_pb2 import Duration

MAXIMUM_CONTAINERS: Final = 16
MAXIMUM_NODE_SELECTOR: Final = 32
MAXIMUM_TOLERATIONS: Final = 32
MAXIMUM_GRACE_SECONDS: Final = 86_400
MAXIMUM_IMAGE: Final = 512
MAXIMUM_ARGUMENTS: Final = 1024
MAXIMUM_ENVIRONMENT: Final = 256
MAXIMUM_STRINGS_BYTES: Final = 128 * 1024
MAXIMUM_PATH_BYTES: Final = 4096

_EXIT_CODE = re.compile(r"[0-9]{1,3}")


def default_pod(pod: Pod) -> None:
    """Fill in what the user left to the cluster: namespace, scheduler and grace period."""
    if not pod.metadata.namespace:
        pod.metadata.namespace = DEFAULT_NAMESPACE
    spec = pod.spec
    if not spec.scheduler_name:
        spec.scheduler_name = DEFAULT_SCHEDULER
    if not spec.HasField("termination_grace_period_seconds"):
        spec.termination_grace_period_seconds = DEFAULT_GRACE_SECONDS


def pod_to_create(pod: Pod, path: str) -> list[Violation]:
    """Check a pod as a user sends it, before or after `default_pod`."""
    metadata = pod.metadata
    found: list[Violation] = []
    if not NAME.fullmatch(metadata.name):
        found += name(metadata.name, f"{path}.metadata.name")
    namespace = metadata.namespace
    if namespace and not NAME_WITHOUT_DOTS.fullmatch(namespace):
        found += name(namespace, f"{path}.metadata.namespace", dots=False)
    found += metadata_to_create(metadata, f"{path}.metadata")
    if metadata.annotations:
        found += _simulated_runtime(metadata.annotations, f"{path}.metadata.annotations")
    found += _spec(pod.spec, f"{path}.spec")
    for part in ("assignment", "status", "verdict"):
        if pod.HasField(part):
            found.append(Violation(f"{path}.{part}", LEAVE_OUT))
    return bounded(found, path) if found else found


def pod_desired(pod: Pod, path: str) -> list[Violation]:
    """Check all that a user may change of a stored pod: labels, annotations and spec."""
    metadata = pod.metadata
    found = labels_map(metadata.labels, f"{path}.metadata.labels")
    if metadata.annotations:
        at = f"{path}.metadata.annotations"
        found += annotations_map(metadata.annotations, at)
        found += _simulated_runtime(metadata.annotations, at)
    found += _spec(pod.spec, f"{path}.spec")
    return bounded(found, path)


def grace_seconds(seconds: int, path: str) -> list[Violation]:
    """Check a grace period."""
    if 0 <= seconds <= MAXIMUM_GRACE_SECONDS:
        return []
    return [Violation(path, f"must be from 0 to {MAXIMUM_GRACE_SECONDS} seconds, not {seconds}")]


def _simulated_runtime(annotations: Mapping[str, str], path: str) -> list[Violation]:
    found: list[Violation] = []
    for key in (ANNOTATION_START_DELAY, ANNOTATION_RUN_TIME):
        if key in annotations:
            try:
                parse_duration(annotations[key])
            except ValueError as error:
                found.append(Violation(entry(path, key), str(error)))
    code = annotations.get(ANNOTATION_EXIT_CODE, "0")
    if not _EXIT_CODE.fullmatch(code) or int(code) > 255:
        at = entry(path, ANNOTATION_EXIT_CODE)
        found.append(Violation(at, f"must be an exit code from 0 to 255, not {shown(code)}"))
    return found


def _spec(spec: PodSpec, path: str) -> list[Violation]:
    found = _containers(spec, path)
    if spec.node_selector:
        found += labels_map(spec.node_selector, f"{path}.node_selector", MAXIMUM_NODE_SELECTOR)
    if spec.tolerations:
        found += _tolerations(spec.tolerations, f"{path}.tolerations")
    scheduler = spec.scheduler_name
    if scheduler and not NAME.fullmatch(scheduler):
        found += name(scheduler, f"{path}.scheduler_name")
    # Unset reads as 0, which is in range.
    seconds = spec.termination_grace_period_seconds
    if not 0 <= seconds <= MAXIMUM_GRACE_SECONDS:
        found += grace_seconds(seconds, f"{path}.termination_grace_period_seconds")
    if spec.HasField("infeasible_after"):
        found += _infeasible_after(spec.infeasible_after, f"{path}.infeasible_after")
    return found


def _infeasible_after(after: Duration, path: str) -> list[Violation]:
    seconds, nanos = after.seconds, after.nanos
    if not 0 <= nanos < 1_000_000_000:
        return [Violation(f"{path}.nanos", f"must be from 0 to 999999999, not {nanos}")]
    if 1 <= seconds < MAXIMUM_SECONDS or (seconds == MAXIMUM_SECONDS and not nanos):
        return []
    return [Violation(path, f"must be from 1 second to a year, not {seconds + nanos / 1e9:g} s")]


def _containers(spec: PodSpec, path: str) -> list[Violation]:
    containers = spec.containers
    count = len(containers)
    if count == 0:
        return [Violation(f"{path}.containers", "is required: a pod has 1 to 16 containers")]
    if count > MAXIMUM_CONTAINERS:
        return [too_many(f"{path}.containers", count, MAXIMUM_CONTAINERS)]
    found: list[Violation] = []
    first_with: dict[str, int] = {}
    for index, container in enumerate(containers):
        at = f"{path}.containers[{index}]"
        found += _container(container, at)
        first = first_with.setdefault(container.name, index)
        if first != index and container.name:
            found.append(
                Violation(
                    f"{at}.name", f"{shown(container.name)} is the name of containers[{first}]"
                )
            )
    if count > 1 and not found:
        found += _sum(spec, f"{path}.containers")
    return found


def _sum(spec: PodSpec, path: str) -> list[Violation]:
    """Check what the pod would be charged, which is an amount like any other."""
    total = amounts.to_proto(amounts.pod_request(spec))
    return [
        Violation(path, f"the sum of {violation.field} {violation.description}")
        for violation in resources(total, "requests")
    ]


def _container(container: Container, path: str) -> list[Violation]:
    found: list[Violation] = []
    if not NAME_WITHOUT_DOTS.fullmatch(container.name):
        found += name(container.name, f"{path}.name", dots=False)
    image = container.image
    if len(image) > MAXIMUM_IMAGE:
        found.append(too_long(f"{path}.image", image, MAXIMUM_IMAGE))
    command, arguments = container.command, container.args
    if command:
        if not command[0]:
            found.append(Violation(f"{path}.command[0]", "must name a program"))
    elif not image:
        found.append(Violation(f"{path}.command", "is required without an image"))
    if command or arguments:
        found += _strings(command, arguments, path)
    if container.env:
        found += _environment(container, f"{path}.env")
    directory = container.working_dir
    if directory:
        found += _working_directory(directory, f"{path}.working_dir")
    if container.HasField("resources"):
        found += resources(container.resources.requests, f"{path}.resources.requests", pods=False)
    return found


def _strings(command: Sequence[str], arguments: Sequence[str], path: str) -> list[Violation]:
    count = len(command) + len(arguments)
    if count > MAXIMUM_ARGUMENTS:
        text = f"has, with args, {count} strings, at most {MAXIMUM_ARGUMENTS} are allowed"
        return [Violation(f"{path}.command", text)]
    together = "".join(command) + "".join(arguments)
    # Each string counts with the byte that ends it, as the kernel counts.
    size = byte_size(together) + count
    if size > MAXIMUM_STRINGS_BYTES:
        return [too_large(f"{path}.command", size, MAXIMUM_STRINGS_BYTES)]
    if "\0" not in together:
        return []
    return [
        Violation(f"{path}.{field}[{index}]", "must not contain a NUL")
        for field, strings in (("command", command), ("args", arguments))
        for index, string in enumerate(strings)
        if "\0" in string
    ]


def _environment(container: Container, path: str) -> list[Violation]:
    env = container.env
    if len(env) > MAXIMUM_ENVIRONMENT:
        return [too_many(path, len(env), MAXIMUM_ENVIRONMENT)]
    found: list[Violation] = []
    size = 0
    for index, variable in enumerate(env):
        key, value = variable.name, variable.value
        size += byte_size(key) + byte_size(value) + 2  # '=' and the byte that ends it
        if not key:
            found.append(Violation(f"{path}[{index}].name", "is required"))
        elif "=" in key or "\0" in key:
            text = f"must not contain '=' or a NUL, not {shown(key)}"
            found.append(Violation(f"{path}[{index}].name", text))
        if "\0" in value:
            found.append(Violation(f"{path}[{index}].value", "must not contain a NUL"))
    if size > MAXIMUM_STRINGS_BYTES:
        found.append(too_large(path, size, MAXIMUM_STRINGS_BYTES))
    return found


def _working_directory(directory: str, path: str) -> list[Violation]:
    if not directory.startswith("/") or "\0" in directory:
        text = f"must be an absolute path without NUL, not {shown(directory)}"
        return [Violation(path, text)]
    size = byte_size(directory)
    return [too_large(path, size, MAXIMUM_PATH_BYTES)] if size > MAXIMUM_PATH_BYTES else []


def _tolerations(tolerations: Sequence[Toleration], path: str) -> list[Violation]:
    if len(tolerations) > MAXIMUM_TOLERATIONS:
        return [too_many(path, len(tolerations), MAXIMUM_TOLERATIONS)]
    found: list[Violation] = []
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        operator, key, value = toleration.operator, toleration.key, toleration.value
        if key:
            found += label_key(key, f"{at}.key")
        elif operator != TOLERATION_OPERATOR_EXISTS:
            found.append(Violation(f"{at}.key", "is required, except with EXISTS"))
        if operator == TOLERATION_OPERATOR_EXISTS:
            if value:
                found.append(Violation(f"{at}.value", "must be left out with EXISTS"))
        elif operator in (TOLERATION_OPERATOR_UNSPECIFIED, TOLERATION_OPERATOR_EQUAL):
            found += label_value(value, f"{at}.value")
        else:
            found.append(Violation(f"{at}.operator", "must be EQUAL or EXISTS"))
        if toleration.effect not in (TAINT_EFFECT_UNSPECIFIED, TAINT_EFFECT_NO_SCHEDULE):
            found.append(Violation(f"{at}.effect", "must be NO_SCHEDULE or left out"))
    return found
