"""Rules for what several messages share: names, labels, annotations, selectors, amounts.

Paths are put together only where something is wrong: the good case costs a few
comparisons and pattern matches.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from drumline.api.v1.metadata_pb2 import (
    LABEL_OPERATOR_EXISTS,
    LABEL_OPERATOR_IN,
    LABEL_OPERATOR_NOT_EXISTS,
    LABEL_OPERATOR_NOT_IN,
    LabelSelector,
    ObjectMeta,
    PodReference,
)
from drumline.api.v1.namespace_service_pb2 import Namespace
from drumline.api.v1.resources_pb2 import Resources
from drumline.model.errors import Violation
from drumline.model.names import LABEL_KEY, LABEL_VALUE, NAME, NAME_WITHOUT_DOTS
from drumline.model.quantity import MAXIMUM

MAXIMUM_VIOLATIONS: Final = 32
MAXIMUM_LABELS: Final = 64
MAXIMUM_ANNOTATION_BYTES: Final = 64 * 1024
MAXIMUM_REQUIREMENTS: Final = 32
MAXIMUM_SELECTOR_VALUES: Final = 256
MAXIMUM_NAMED_RESOURCES: Final = 16
MAXIMUM_REQUEST_ID: Final = 128
MAXIMUM_UID: Final = 128

LEAVE_OUT: Final = "must be left out: the cluster sets it"

_KEY_RULE = (
    "must be NAME or PREFIX/NAME: NAME at most 63 letters, digits, '-', '_' and '.', starting and "
    "ending with a letter or digit, PREFIX a DNS name of at most 253 characters"
)
_VALUE_RULE = (
    "must be empty or at most 63 letters, digits, '-', '_' and '.', "
    "starting and ending with a letter or digit"
)
_OWN_FIELDS = ("cpu", "memory", "pods")


def name(value: str, path: str, dots: bool = True) -> list[Violation]:
    """Check an object's name; namespaces and containers have no dots in theirs."""
    if (NAME if dots else NAME_WITHOUT_DOTS).fullmatch(value):
        return []
    if not value:
        return [Violation(path, "is required")]
    signs = "digits, '-' and '.'" if dots else "digits and '-'"
    return [
        Violation(
            path,
            f"must be at most 63 lower-case letters, {signs}, starting and ending "
            f"with a letter or digit, not {shown(value)}",
        )
    ]


def labels_map(
    labels: Mapping[str, str], path: str, maximum: int = MAXIMUM_LABELS
) -> list[Violation]:
    """Check labels, or a node selector: keys, values and their number."""
    if len(labels) > maximum:
        return [too_many(path, len(labels), maximum)]
    found: list[Violation] = []
    for key, value in labels.items():
        if not LABEL_KEY.fullmatch(key):
            found.append(Violation(entry(path, key), f"the key {_KEY_RULE}"))
        if value and not LABEL_VALUE.fullmatch(value):
            found.append(Violation(entry(path, key), f"{_VALUE_RULE}, not {shown(value)}"))
    return found


def annotations_map(annotations: Mapping[str, str], path: str) -> list[Violation]:
    """Check annotations: keys, and the bytes of all keys and values."""
    size = 0
    found: list[Violation] = []
    for key, value in annotations.items():
        size += byte_size(key) + byte_size(value)
        if not LABEL_KEY.fullmatch(key):
            found.append(Violation(entry(path, key), f"the key {_KEY_RULE}"))
    if size > MAXIMUM_ANNOTATION_BYTES:
        found.append(too_large(path, size, MAXIMUM_ANNOTATION_BYTES))
    return found


def label_key(key: str, path: str) -> list[Violation]:
    """Check the key of a label or taint."""
    if LABEL_KEY.fullmatch(key):
        return []
    return [Violation(path, f"{_KEY_RULE}, not {shown(key)}" if key else "is required")]


def label_value(value: str, path: str) -> list[Violation]:
    """Check the value of a label or taint."""
    if LABEL_VALUE.fullmatch(value):
        return []
    return [Violation(path, f"{_VALUE_RULE}, not {shown(value)}")]


def metadata_to_create(metadata: ObjectMeta, path: str) -> list[Violation]:
    """Check what every object has beside its name, and that no output field is set."""
    found: list[Violation] = []
    if metadata.labels:
        found += labels_map(metadata.labels, f"{path}.labels")
    if metadata.annotations:
        found += annotations_map(metadata.annotations, f"{path}.annotations")
    if len(metadata.request_id) > MAXIMUM_REQUEST_ID:
        found.append(too_long(f"{path}.request_id", metadata.request_id, MAXIMUM_REQUEST_ID))
    if metadata.uid:
        found.append(Violation(f"{path}.uid", LEAVE_OUT))
    if metadata.resource_version:
        found.append(Violation(f"{path}.resource_version", LEAVE_OUT))
    if metadata.HasField("create_time"):
        found.append(Violation(f"{path}.create_time", LEAVE_OUT))
    if metadata.HasField("delete_time"):
        found.append(Violation(f"{path}.delete_time", LEAVE_OUT))
    return found


def namespace_to_create(namespace: Namespace, path: str) -> list[Violation]:
    """Check a namespace that is to be stored."""
    metadata = namespace.metadata
    found = name(metadata.name, f"{path}.metadata.name", dots=False)
    if metadata.namespace:
        found.append(
            Violation(f"{path}.metadata.namespace", "must be left out: a namespace is in none")
        )
    found += metadata_to_create(metadata, f"{path}.metadata")
    if namespace.HasField("usage"):
        found.append(Violation(f"{path}.usage", LEAVE_OUT))
    return bounded(found, path)


def pod_reference(reference: PodReference, path: str) -> list[Violation]:
    """Check the name of a pod in a request; an empty namespace is "default"."""
    found: list[Violation] = []
    if reference.namespace and not NAME_WITHOUT_DOTS.fullmatch(reference.namespace):
        found += name(reference.namespace, f"{path}.namespace", dots=False)
    if not NAME.fullmatch(reference.name):
        found += name(reference.name, f"{path}.name")
    if len(reference.uid) > MAXIMUM_UID:
        found.append(too_long(f"{path}.uid", reference.uid, MAXIMUM_UID))
    return found


def label_selector(selector: LabelSelector, path: str) -> list[Violation]:
    """Check a selector: number of requirements, and of each key, operator and values."""
    requirements = selector.requirements
    if len(requirements) > MAXIMUM_REQUIREMENTS:
        return [too_many(f"{path}.requirements", len(requirements), MAXIMUM_REQUIREMENTS)]
    found: list[Violation] = []
    for index, requirement in enumerate(requirements):
        at = f"{path}.requirements[{index}]"
        found += label_key(requirement.key, f"{at}.key")
        found += _selector_values(requirement.operator, requirement.values, at)
    return bounded(found, path)


def _selector_values(operator: int, values: Iterable[str], path: str) -> list[Violation]:
    values = list(values)
    if operator in (LABEL_OPERATOR_EXISTS, LABEL_OPERATOR_NOT_EXISTS):
        if values:
            return [Violation(f"{path}.values", "must be left out for EXISTS and NOT_EXISTS")]
        return []
    if operator not in (LABEL_OPERATOR_IN, LABEL_OPERATOR_NOT_IN):
        return [Violation(f"{path}.operator", "must be IN, NOT_IN, EXISTS or NOT_EXISTS")]
    if not values:
        return [Violation(f"{path}.values", "must have at least one value for IN and NOT_IN")]
    if len(values) > MAXIMUM_SELECTOR_VALUES:
        return [too_many(f"{path}.values", len(values), MAXIMUM_SELECTOR_VALUES)]
    return [
        violation
        for index, value in enumerate(values)
        if not LABEL_VALUE.fullmatch(value)
        for violation in label_value(value, f"{path}.values[{index}]")
    ]


def resources(message: Resources, path: str, *, pods: bool = True) -> list[Violation]:
    """Check amounts: each from 0 to 10^15; at most 16 named ones; no pods where `pods` is false."""
    found: list[Violation] = []
    cpu, memory, count = message.cpu_millicores, message.memory_bytes, message.pods
    if not 0 <= cpu <= MAXIMUM:
        found.append(_out_of_range(f"{path}.cpu_millicores", cpu))
    if not 0 <= memory <= MAXIMUM:
        found.append(_out_of_range(f"{path}.memory_bytes", memory))
    if count and not pods:
        found.append(Violation(f"{path}.pods", "must be left out: a pod counts as one"))
    elif not 0 <= count <= MAXIMUM:
        found.append(_out_of_range(f"{path}.pods", count))
    if message.named_thousandths:
        found += _named_resources(message.named_thousandths, f"{path}.named_thousandths")
    return found


def _named_resources(named: Mapping[str, int], path: str) -> list[Violation]:
    if len(named) > MAXIMUM_NAMED_RESOURCES:
        return [too_many(path, len(named), MAXIMUM_NAMED_RESOURCES)]
    found: list[Violation] = []
    for key, amount in named.items():
        if key in _OWN_FIELDS:
            found.append(Violation(entry(path, key), f"{key} has a field of its own"))
        elif not LABEL_KEY.fullmatch(key):
            found.append(Violation(entry(path, key), f"the name {_KEY_RULE}"))
        if not 0 <= amount <= MAXIMUM:
            found.append(_out_of_range(entry(path, key), amount))
    return found


def _out_of_range(path: str, amount: int) -> Violation:
    return Violation(path, f"must be from 0 to 10^15, not {amount}")


def bounded(found: list[Violation], path: str) -> list[Violation]:
    """Keep the first violations, and say how many there are beyond."""
    more = len(found) - MAXIMUM_VIOLATIONS
    if more <= 0:
        return found
    return [*found[:MAXIMUM_VIOLATIONS], Violation(path, f"has {more} more violations")]


def entry(path: str, key: str) -> str:
    """Give the path of a map's entry."""
    return f"{path}[{shown(key)}]"


def shown(text: str) -> str:
    """Quote a text for a message, shortened and with nothing unprintable in it."""
    return repr(text if len(text) <= 80 else text[:40] + "…")


def byte_size(text: str) -> int:
    """Count the bytes of a text as it is sent."""
    return len(text) if text.isascii() else len(text.encode())


def too_many(path: str, count: int, maximum: int) -> Violation:
    """There are more of them than are allowed."""
    return Violation(path, f"has {count} entries, at most {maximum} are allowed")


def too_large(path: str, size: int, maximum: int) -> Violation:
    """The bytes are more than are allowed."""
    return Violation(path, f"has {size} bytes in all, at most {maximum} are allowed")


def too_long(path: str, text: str, maximum: int) -> Violation:
    """The characters are more than are allowed."""
    return Violation(path, f"has {len(text)} characters, at most {maximum} are allowed")
