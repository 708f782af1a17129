"""Pods are checked as a whole: every violation is named by its field's path."""

from collections.abc import Callable

import pytest
from drumline.api.v1.metadata_pb2 import (
    PodReference,
)
from drumline.api.v1.pod_pb2 import (
    TAINT_EFFECT_NO_SCHEDULE,
    TOLERATION_OPERATOR_EQUAL,
    TOLERATION_OPERATOR_EXISTS,
    Container,
    Pod,
    TaintEffect,
    TolerationOperator,
)
from drumline.model import validation
from drumline.model.errors import Violation
from hypothesis import given
from hypothesis import strategies as st

KIB = 1024


def good_pod() -> Pod:
    pod = Pod()
    pod.metadata.name = "web-1.a"
    pod.metadata.labels.update({"app": "web", "example.com/tier": ""})
    pod.metadata.annotations["note"] = "anything, really\n"
    pod.metadata.request_id = "r" * 128
    container = pod.spec.containers.add(name="main", command=["sh", "-c", "true"])
    container.env.add(name="EMPTY")
    container.working_dir = "/tmp"
    container.resources.requests.cpu_millicores = 100
    container.resources.requests.named_thousandths["example.com/gpu"] = 500
    pod.spec.tolerations.add(key="drumline.dev/simulated", operator=TOLERATION_OPERATOR_EXISTS)
    pod.spec.tolerations.add(operator=TOLERATION_OPERATOR_EXISTS)
    pod.spec.tolerations.add(key="k", value="v", effect=TAINT_EFFECT_NO_SCHEDULE)
    pod.spec.node_selector["zone"] = "a"
    pod.spec.termination_grace_period_seconds = 0
    return pod


def fields(violations: list[Violation]) -> list[str]:
    return [violation.field for violation in violations]


def test_a_good_pod_passes_before_and_after_defaults() -> None:
    pod = good_pod()
    assert validation.pod_to_create(pod, "pods[0]") == []
    validation.default_pod(pod)
    assert validation.pod_to_create(pod, "pods[0]") == []
    assert validation.pod_desired(pod, "pods[0]") == []


BAD_NAMES = ["A", "a_b", "-a", "a-", ".a", "a.", "a/b", "a b", "a\n", "é", "x" * 64]
BAD_WITHOUT_DOTS = [*BAD_NAMES, "a.b"]
BAD_KEYS = ["", "-a", "a-", "a b", "a/", "/a", "a/b/c", "A/b", "a..b/c", "x" * 64, "é"]
BAD_VALUES = ["-a", "a-", "a b", "a/b", "x" * 64, "a\n", "é"]


@pytest.mark.parametrize("value", [*BAD_NAMES, ""])
def test_a_bad_name_is_refused(value: str) -> None:
    pod = good_pod()
    pod.metadata.name = value
    assert fields(validation.pod_to_create(pod, "p")) == ["p.metadata.name"]
    assert fields(validation.name(value, "name")) == ["name"]
    assert fields(validation.pod_reference(PodReference(name=value), "pods[4]")) == ["pods[4].name"]


@pytest.mark.parametrize("value", BAD_WITHOUT_DOTS)
def test_a_bad_namespace_container_or_scheduler_is_refused(value: str) -> None:
    pod = good_pod()
    pod.metadata.namespace = value
    pod.spec.containers[0].name = value
    pod.spec.scheduler_name = "_" + value
    assert fields(validation.pod_to_create(pod, "p")) == [
        "p.metadata.namespace",
        "p.spec.containers[0].name",
        "p.spec.scheduler_name",
    ]
    reference = PodReference(namespace=value, name="a")
    assert fields(validation.pod_reference(reference, "r")) == ["r.namespace"]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_bad_key_is_refused_wherever_labels_are(key: str) -> None:
    pod = good_pod()
    for labels in (pod.metadata.labels, pod.metadata.annotations, pod.spec.node_selector):
        labels[key] = ""
    at = f"[{key if len(key) <= 80 else key[:40] + '…'!r}]"
    assert fields(validation.pod_to_create(pod, "p")) == [
        f"p.metadata.labels{at}",
        f"p.metadata.annotations{at}",
        f"p.spec.node_selector{at}",
    ]


@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_bad_label_value_is_refused_and_an_annotation_is_free(value: str) -> None:
    pod = good_pod()
    for labels in (pod.metadata.labels, pod.metadata.annotations, pod.spec.node_selector):
        labels["k"] = value
    pod.spec.tolerations[2].value = value
    assert fields(validation.pod_to_create(pod, "p")) == [
        "p.metadata.labels['k']",
        "p.spec.node_selector['k']",
        "p.spec.tolerations[2].value",
    ]


def _set(path: str, value: object) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        *parents, last = path.split(".")
        message: object = pod
        for parent in parents:
            message = message[int(parent)] if parent.isdigit() else getattr(message, parent)  # type: ignore[index]
        setattr(message, last, value)

    return change


def _image(pod: Pod) -> None:
    pod.spec.containers[0].image = "busybox"
    del pod.spec.containers[0].command[:]


def _command(*command: str) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        pod.spec.containers[0].command[:] = command

    return change


def _env(*pairs: tuple[str, str]) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        del pod.spec.containers[0].env[:]
        for name, value in pairs:
            pod.spec.containers[0].env.add(name=name, value=value)

    return change


def _containers(count: int, **fields: object) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        del pod.spec.containers[:]
        for index in range(count):
            container = pod.spec.containers.add(name=f"c{index}", command=["true"])
            for name, value in fields.items():
                setattr(container.resources.requests, name, value)

    return change


def _fill(path: str, count: int) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        outer, inner = path.split(".")
        entries = getattr(getattr(pod, outer), inner)
        entries.clear()
        entries.update({f"k{index}": "" for index in range(count)})

    return change


def _toleration(**fields: object) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        del pod.spec.tolerations[:]
        toleration = pod.spec.tolerations.add(key="k")
        for name, value in fields.items():
            setattr(toleration, name, value)

    return change


def _tolerations(count: int) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        del pod.spec.tolerations[:]
        for _ in range(count):
            pod.spec.tolerations.add(key="k")

    return change


def _annotation(name: str, value: str) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        pod.metadata.annotations[name] = value

    return change


def _named(count: int, amount: int = 1) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        named = pod.spec.containers[0].resources.requests.named_thousandths
        named.clear()
        named.update({f"r{index}": amount for index in range(count)})

    return change


CONTAINER = "spec.containers.0"
REQUESTS = f"{CONTAINER}.resources.requests"
HALF = 64 * KIB
SIMULATED = "simulated.drumline.dev"


def _infeasible(seconds: int, nanos: int = 0) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        pod.spec.infeasible_after.seconds = seconds
        pod.spec.infeasible_after.nanos = nanos

    return change


ALLOWED = {
    "an image without a command": _image,
    "an image at its longest": _set(f"{CONTAINER}.image", "i" * 512),
    "empty arguments": _command("true", ""),
    "1,024 strings": _command(*["a"] * 1024),
    "128 KiB of strings": _command("a" * (HALF - 1), "b" * (HALF - 1)),
    "256 variables": _env(*[("A", "")] * 256),
    "128 KiB of variables": _env(("A", "x" * (2 * HALF - 3))),
    "a variable given twice": _env(("A", "1"), ("A", "2")),
    "16 containers": _containers(16),
    "64 labels": _fill("metadata.labels", 64),
    "32 demanded labels": _fill("spec.node_selector", 32),
    "64 KiB of annotations": _annotation("n", "x" * (64 * KIB - 1 - len("noteanything, really\n"))),
    "32 tolerations": _tolerations(32),
    "a day of grace": _set("spec.termination_grace_period_seconds", 86_400),
    "a second before it is infeasible": _infeasible(1),
    "a year before it is infeasible": _infeasible(365 * 86_400),
    "10^15 of cpu": _set(f"{REQUESTS}.cpu_millicores", 10**15),
    "16 named resources": _named(16, 10**15),
    "a start delay": _annotation(f"{SIMULATED}/start-delay", "50ms"),
    "a run time": _annotation(f"{SIMULATED}/run-time", "1.5s"),
    "the greatest exit code": _annotation(f"{SIMULATED}/exit-code", "255"),
}

REFUSED = {
    "no container": (_containers(0), "spec.containers"),
    "17 containers": (_containers(17), "spec.containers"),
    "neither image nor command": (_command(), "spec.containers[0].command"),
    "an empty program": (_command(""), "spec.containers[0].command[0]"),
    "a NUL in the command": (_command("sh", "a\0b"), "spec.containers[0].command[1]"),
    "1,025 strings": (_command(*["a"] * 1025), "spec.containers[0].command"),
    "more than 128 KiB": (_command("a" * 2 * HALF), "spec.containers[0].command"),
    "more than 128 KiB of UTF-8": (_command("é" * HALF), "spec.containers[0].command"),
    "an image too long": (_set(f"{CONTAINER}.image", "i" * 513), "spec.containers[0].image"),
    "a variable without name": (_env(("", "v")), "spec.containers[0].env[0].name"),
    "a variable with =": (_env(("A", ""), ("A=B", "")), "spec.containers[0].env[1].name"),
    "a variable named NUL": (_env(("\0", "")), "spec.containers[0].env[0].name"),
    "a variable's value NUL": (_env(("A", "\0")), "spec.containers[0].env[0].value"),
    "257 variables": (_env(*[("A", "")] * 257), "spec.containers[0].env"),
    "large variables": (_env(("A", "x" * 2 * HALF)), "spec.containers[0].env"),
    "a relative directory": (
        _set(f"{CONTAINER}.working_dir", "tmp"),
        "spec.containers[0].working_dir",
    ),
    "a directory with NUL": (
        _set(f"{CONTAINER}.working_dir", "/\0"),
        "spec.containers[0].working_dir",
    ),
    "a directory too long": (
        _set(f"{CONTAINER}.working_dir", "/" * 4097),
        "spec.containers[0].working_dir",
    ),
    "negative cpu": (
        _set(f"{REQUESTS}.cpu_millicores", -1),
        "spec.containers[0].resources.requests.cpu_millicores",
    ),
    "absurd cpu": (
        _set(f"{REQUESTS}.cpu_millicores", 10**15 + 1),
        "spec.containers[0].resources.requests.cpu_millicores",
    ),
    "absurd memory": (
        _set(f"{REQUESTS}.memory_bytes", 2**63 - 1),
        "spec.containers[0].resources.requests.memory_bytes",
    ),
    "pods asked for": (_set(f"{REQUESTS}.pods", 1), "spec.containers[0].resources.requests.pods"),
    "17 named resources": (
        _named(17),
        "spec.containers[0].resources.requests.named_thousandths",
    ),
    "a negative named resource": (
        _named(1, -1),
        "spec.containers[0].resources.requests.named_thousandths['r0']",
    ),
    "a sum beyond the bound": (_containers(2, memory_bytes=6 * 10**14), "spec.containers"),
    "65 labels": (_fill("metadata.labels", 65), "metadata.labels"),
    "33 demanded labels": (_fill("spec.node_selector", 33), "spec.node_selector"),
    "large annotations": (_annotation("n", "x" * 64 * KIB), "metadata.annotations"),
    "annotations large in bytes": (_annotation("n", "é" * 33 * KIB), "metadata.annotations"),
    "a long request_id": (_set("metadata.request_id", "r" * 129), "metadata.request_id"),
    "33 tolerations": (_tolerations(33), "spec.tolerations"),
    "EXISTS with a value": (
        _toleration(operator=TOLERATION_OPERATOR_EXISTS, value="v"),
        "spec.tolerations[0].value",
    ),
    "EQUAL without a key": (
        _toleration(operator=TOLERATION_OPERATOR_EQUAL, key=""),
        "spec.tolerations[0].key",
    ),
    "no operator and no key": (_toleration(key=""), "spec.tolerations[0].key"),
    "a bad key tolerated": (_toleration(key="a b"), "spec.tolerations[0].key"),
    "an unknown operator": (
        _toleration(operator=TolerationOperator.ValueType(9)),
        "spec.tolerations[0].operator",
    ),
    "an unknown effect": (
        _toleration(effect=TaintEffect.ValueType(9)),
        "spec.tolerations[0].effect",
    ),
    "negative grace": (
        _set("spec.termination_grace_period_seconds", -1),
        "spec.termination_grace_period_seconds",
    ),
    "too much grace": (
        _set("spec.termination_grace_period_seconds", 86_401),
        "spec.termination_grace_period_seconds",
    ),
    "infeasible too soon": (_infeasible(0, 999_999_999), "spec.infeasible_after"),
    "infeasible before it is made": (_infeasible(-5), "spec.infeasible_after"),
    "infeasible after more than a year": (
        _infeasible(365 * 86_400, 1),
        "spec.infeasible_after",
    ),
    "a time that is none": (_infeasible(5, -1), "spec.infeasible_after.nanos"),
    "a bad start delay": (
        _annotation(f"{SIMULATED}/start-delay", "soon"),
        f"metadata.annotations['{SIMULATED}/start-delay']",
    ),
    "a bad run time": (
        _annotation(f"{SIMULATED}/run-time", "5"),
        f"metadata.annotations['{SIMULATED}/run-time']",
    ),
    "a bad exit code": (
        _annotation(f"{SIMULATED}/exit-code", "256"),
        f"metadata.annotations['{SIMULATED}/exit-code']",
    ),
    "a negative exit code": (
        _annotation(f"{SIMULATED}/exit-code", "-1"),
        f"metadata.annotations['{SIMULATED}/exit-code']",
    ),
    "a uid": (_set("metadata.uid", "u"), "metadata.uid"),
    "a version": (_set("metadata.resource_version", "1"), "metadata.resource_version"),
    "a create time": (_set("metadata.create_time.seconds", 1), "metadata.create_time"),
    "a delete time": (_set("metadata.delete_time.seconds", 1), "metadata.delete_time"),
    "an assignment": (_set("assignment.node", "n"), "assignment"),
    "a status": (_set("status.reason", "R"), "status"),
    "a verdict": (_set("verdict.reason", "R"), "verdict"),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_within_the_bounds_is_taken(case: str) -> None:
    pod = good_pod()
    ALLOWED[case](pod)
    assert validation.pod_to_create(pod, "pods[3]") == []


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_out_of_bounds_is_refused_by_its_path(case: str) -> None:
    pod = good_pod()
    change, field = REFUSED[case]
    change(pod)
    (violation,) = validation.pod_to_create(pod, "pods[3]")
    assert violation.field == f"pods[3].{field}"
    assert 0 < len(violation.description) < 300


def test_containers_of_one_name_are_refused() -> None:
    pod = good_pod()
    pod.spec.containers.add(name="main", command=["true"])
    (violation,) = validation.pod_to_create(pod, "p")
    assert violation == Violation(
        "p.spec.containers[1].name", "'main' is the name of containers[0]"
    )


def test_the_sum_of_named_resources_is_bounded_in_number_too() -> None:
    pod = good_pod()
    _containers(2)(pod)
    for index, container in enumerate(pod.spec.containers):
        for name in range(9):
            container.resources.requests.named_thousandths[f"r{index}-{name}"] = 1
    assert fields(validation.pod_to_create(pod, "p")) == ["p.spec.containers"]


def test_all_violations_are_named_at_once() -> None:
    pod = good_pod()
    chosen = ["a uid", "a status", "negative grace", "an image too long", "EXISTS with a value"]
    for case in chosen:
        REFUSED[case][0](pod)
    found = fields(validation.pod_to_create(pod, "pods[3]"))
    assert sorted(found) == sorted(f"pods[3].{REFUSED[case][1]}" for case in chosen)


def test_an_answer_stays_in_proportion_to_the_request() -> None:
    pod = good_pod()
    _env(*[("", "")] * 256)(pod)
    found = validation.pod_to_create(pod, "p")
    assert len(found) == 33
    assert found[-1] == Violation("p", "has 224 more violations")


def test_a_long_bad_value_is_shown_shortened_and_printable() -> None:
    pod = good_pod()
    pod.metadata.name = "\x1b[31m" + "x" * 100_000
    (violation,) = validation.pod_to_create(pod, "p")
    assert len(violation.description) < 300
    assert violation.description.isprintable()


def test_a_message_is_not_changed_by_being_checked() -> None:
    pod = Pod()
    assert validation.pod_to_create(pod, "p")
    assert pod.SerializeToString() == b""


def test_defaults_fill_in_only_what_was_left_out() -> None:
    pod = Pod()
    validation.default_pod(pod)
    assert pod.metadata.namespace == "default"
    assert pod.spec.scheduler_name == "default"
    assert pod.spec.termination_grace_period_seconds == 30
    pod = good_pod()
    pod.metadata.namespace = pod.spec.scheduler_name = "mine"
    before = pod.SerializeToString(deterministic=True)
    validation.default_pod(pod)
    assert pod.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("seconds", "good"), [(0, True), (86_400, True), (-1, False), (86_401, False)]
)
def test_a_grace_period_is_up_to_a_day(seconds: int, good: bool) -> None:
    assert (not validation.grace_seconds(seconds, "grace_period_seconds")) == good


def test_what_may_change_later_is_held_to_the_same_rules() -> None:
    pod = good_pod()
    pod.metadata.uid = "u"
    pod.metadata.labels["-"] = ""
    pod.spec.scheduler_name = "-"
    _annotation(f"{SIMULATED}/run-time", "5")(pod)
    assert fields(validation.pod_desired(pod, "updates[0].pod")) == [
        "updates[0].pod.metadata.labels['-']",
        f"updates[0].pod.metadata.annotations['{SIMULATED}/run-time']",
        "updates[0].pod.spec.scheduler_name",
    ]


@given(st.binary(max_size=200))
def test_whatever_parses_is_checked_without_a_fault(data: bytes) -> None:
    try:
        pod = Pod.FromString(data)
    except Exception:
        return
    for violation in validation.pod_to_create(pod, "p"):
        assert violation.field.startswith("p")


def test_a_container_of_nothing_is_told_all_that_it_lacks() -> None:
    pod = good_pod()
    pod.spec.containers[0].CopyFrom(Container())
    assert fields(validation.pod_to_create(pod, "p")) == [
        "p.spec.containers[0].name",
        "p.spec.containers[0].command",
    ]
