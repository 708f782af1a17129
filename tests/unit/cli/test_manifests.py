"""Manifests: what is accepted, what is refused, and where."""

from pathlib import Path

import pytest
from drumline.api.v1.namespace_service_pb2 import Namespace
from drumline.api.v1.pod_pb2 import (
    PHASE_RUNNING,
    TAINT_EFFECT_NO_SCHEDULE,
    TOLERATION_OPERATOR_EXISTS,
    Pod,
)
from drumline.cli import render
from drumline.cli.manifest import Document, ManifestError, read
from drumline.model.errors import Violation
from drumline.model.validation import pod_to_create

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    command: [sleep, "5"]
"""

WHOLE = """\
apiVersion: drumline.dev/v1
kind: Pod
metadata:
  name: web
  namespace: shop
  labels: {app: web, tier: ""}
  annotations:
    note: "1"
spec:
  restartPolicy: Never
  schedulerName: mine
  terminationGracePeriodSeconds: 0
  infeasibleAfter: 1m1.5s
  nodeSelector: {disk: ssd}
  tolerations:
  - {key: a, operator: Exists, effect: NoSchedule}
  - {key: b, value: c}
  containers:
  - name: main
    image: busybox
    command: [sh]
    args: ["-c", "true"]
    workingDir: /tmp
    env:
    - {name: A, value: "1"}
    - {name: B}
    resources:
      requests: {cpu: 100m, memory: 64Mi, example.com/gpu: 2.5}
"""


def one(text: str) -> Document:
    (document,) = read(text.encode(), "web.yaml")
    return document


def problems(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        read(text.encode(), "web.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_every_field_of_a_pod_is_taken_under_its_kubernetes_name() -> None:
    pod = one(WHOLE).message
    assert isinstance(pod, Pod)
    assert (pod.metadata.name, pod.metadata.namespace) == ("web", "shop")
    assert dict(pod.metadata.labels) == {"app": "web", "tier": ""}
    assert dict(pod.metadata.annotations) == {"note": "1"}
    spec = pod.spec
    assert spec.scheduler_name == "mine"
    assert spec.HasField("termination_grace_period_seconds")
    assert spec.termination_grace_period_seconds == 0
    assert spec.infeasible_after.ToNanoseconds() == 61_500_000_000
    assert dict(spec.node_selector) == {"disk": "ssd"}
    assert spec.tolerations[0].operator == TOLERATION_OPERATOR_EXISTS
    assert spec.tolerations[0].effect == TAINT_EFFECT_NO_SCHEDULE
    assert (spec.tolerations[1].key, spec.tolerations[1].value) == ("b", "c")
    container = spec.containers[0]
    assert (container.image, container.working_dir) == ("busybox", "/tmp")
    assert [*container.command, *container.args] == ["sh", "-c", "true"]
    assert [(v.name, v.value) for v in container.env] == [("A", "1"), ("B", "")]
    requests = container.resources.requests
    assert (requests.cpu_millicores, requests.memory_bytes) == (100, 64 << 20)
    assert dict(requests.named_thousandths) == {"example.com/gpu": 2500}


def test_json_is_taken_too_with_tabs_and_escapes() -> None:
    text = '{\n\t"apiVersion": "v1", "kind": "Namespace",\n\t"metadata": {"name": "shop",'
    text += ' "annotations": {"face": "\\ud83d\\ude00\\/"}}\n}'
    namespace = one(text).message
    assert isinstance(namespace, Namespace)
    assert namespace.metadata.annotations["face"] == "\N{GRINNING FACE}/"


def test_several_documents_and_lists_are_taken_in_order() -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n"
    for name in "ab":
        listed += f"- {{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n"
    text = f"---\n{POD}---\n---\n{listed}"
    assert [d.message.metadata.name for d in read(text.encode(), "x")] == ["web", "a", "b"]


def test_what_only_clusters_write_is_passed_over() -> None:
    text = POD.replace(
        "  name: web\n",
        "  name: web\n  uid: x\n  creationTimestamp: null\n  resourceVersion: '7'\n",
    )
    assert one(text + "status: {phase: Running}\n").message == one(POD).message


def test_what_was_read_from_the_cluster_can_be_applied_again() -> None:
    pod = one(WHOLE).message
    assert isinstance(pod, Pod)
    stored = Pod()
    stored.CopyFrom(pod)
    stored.metadata.uid = "x"
    stored.metadata.create_time.GetCurrentTime()
    stored.metadata.resource_version = "e-1"
    stored.metadata.request_id = "r"
    stored.status.phase = PHASE_RUNNING
    stored.assignment.node = "node-1"
    stored.assignment.charged.memory_bytes = 3 << 30
    assert one(render.as_yaml([stored])).message == pod
    assert one(render.as_json([stored], single=True)).message == pod
    assert one(render.as_json([stored], single=False)).message == pod


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  containers:", "  contaners: []\n  containers:",
         "web.yaml:6: spec.contaners: this field is not known; did you mean containers?"),
        ("    command: [sleep, \"5\"]", "    command: [sleep, 5]",
         'web.yaml:8: spec.containers[0].command[1]: must be a string, quote it: "5"'),
        ("    command: [sleep, \"5\"]", "    command: [5]",
         'web.yaml:8: spec.containers[0].command[0]: must be a string, quote it: "5"'),
        ("  name: web", "  name: web\n  labels: {on: yes}",
         "web.yaml:5: metadata.labels['on']: must be a string, quote it: \"yes\""),
        ("  name: web", "  name: 1.0",
         'web.yaml:4: metadata.name: must be a string, quote it: "1.0"'),
        ("  name: web", "  name: web\n  labels: [a]",
         "web.yaml:5: metadata.labels: must be an object of names and values"),
        ("spec:", "spec:\n  restartPolicy: Always",
         ("web.yaml:6: spec.restartPolicy: must be Never or left out, not 'Always': "
          "containers run once and are not restarted")),
        ("spec:", "spec:\n  terminationGracePeriodSeconds: soon",
         "web.yaml:6: spec.terminationGracePeriodSeconds: must be a whole number, without quotes"),
        ("spec:", "spec:\n  tolerations: [{key: a, effect: NoExecute}]",
         "web.yaml:6: spec.tolerations[0].effect: must be NoSchedule, not 'NoExecute'"),
        ("spec:", "spec:\n  infeasibleAfter: 30",
         ("web.yaml:6: spec.infeasibleAfter: must be a duration, such as 30s, 5m or 1h30m, "
          "not '30'")),
        ("spec:", "spec:\n  infeasibleAfter: {seconds: 30}",
         "web.yaml:6: spec.infeasibleAfter: must be a duration, such as 30s, 5m or 1h30m"),
        ("spec:", "spec:\n  infeasibleAfter: soon",
         ("web.yaml:6: spec.infeasibleAfter: 'soon' is not a duration: write a number with its "
          "unit (ms, s, m or h), such as 50ms, 1.5s, 2m or 1h30m")),
        ("spec:", "spec:\n  infeasibleAfter: 500ms",
         "web.yaml:6: spec.infeasibleAfter: must be from 1 second to a year, not 0.5 s"),
        ("kind: Pod", "kind: Deployment",
         "web.yaml:2: kind: must be Pod or Namespace, not 'Deployment'"),
        ("apiVersion: v1", "apiVersion: apps/v1",
         "web.yaml:1: apiVersion: must be v1 or drumline.dev/v1, not 'apps/v1'"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_by_path_and_line(old: str, new: str, expected: str) -> None:
    assert problems(POD.replace(old, new)) == [expected]


@pytest.mark.parametrize(
    ("quantity", "complaint"),
    [
        ("-1", "is negative"),
        ("0.0001", "not a whole number of thousandths"),
        ("9223372036854775808", "too large"),
        ("1e999999999", "too large"),
        ("1e", "is not a quantity"),
        ("true", "must be a quantity"),
        ("[1]", "must be a quantity"),
    ],
)
def test_quantities_are_exact_or_refused(quantity: str, complaint: str) -> None:
    text = f"{POD}    resources: {{requests: {{cpu: {quantity}}}}}\n"
    (problem,) = problems(text)
    assert problem.startswith("web.yaml:9: spec.containers[0].resources.requests.cpu: ")
    assert complaint in problem


@pytest.mark.parametrize("quantity", ["0.1", "'0.1'", "100m", "1e-1", "0.100"])
def test_equal_quantities_are_equal(quantity: str) -> None:
    pod = one(f"{POD}    resources: {{requests: {{cpu: {quantity}}}}}\n").message
    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].resources.requests.cpu_millicores == 100


def test_all_that_is_wrong_is_told_at_once() -> None:
    text = POD.replace("web", "Web_").replace("sleep", '""').replace("spec:", "spec:\n  x: 1")
    text += "---\nkind: Pod\napiVersion: v1\n---\n7\n"
    assert [problem.split(": ")[0:2] for problem in problems(text)] == [
        ["web.yaml:4", "metadata.name"],
        ["web.yaml:6", "spec.x"],
        ["web.yaml:9", "spec.containers[0].command[0]"],
        ["web.yaml:11", "metadata.name"],
        ["web.yaml:11", "spec.containers"],
        ["web.yaml:14", "a document must be an object with apiVersion, kind and metadata"],
    ]


def test_a_refusal_of_the_cluster_is_found_in_the_file() -> None:
    found = one(WHOLE).problem(Violation("spec.containers[0].env[1].name", "is bad"))
    assert str(found) == "web.yaml:26: spec.containers[0].env[1].name: is bad"
    missing = one(POD).problem(Violation("spec.containers[0].image", "is required"))
    assert missing.line == 7


def test_what_is_accepted_is_valid() -> None:
    pod = one(WHOLE).message
    assert isinstance(pod, Pod)
    assert pod_to_create(pod, "") == []


def test_the_examples_of_the_repository_are_valid() -> None:
    files = sorted((Path(__file__).parents[3] / "examples").rglob("*.yaml"))
    assert files
    for file in files:
        assert read(file.read_bytes(), file.name)
