"""What tables and descriptions show."""

import datetime
import json

import pytest
import yaml
from drumline.api.v1.pod_pb2 import PHASE_PENDING, PHASE_RUNNING, PHASE_TERMINATED, Phase, Pod
from drumline.cli import output, render, views
from drumline.cli.commands.describe import describe_pod
from drumline.cli.commands.explain import explain_pod, explanation
from google.protobuf.timestamp_pb2 import Timestamp

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def pod(phase: Phase.ValueType, reason: str) -> Pod:
    made = Pod()
    made.metadata.name = "web"
    made.metadata.namespace = "default"
    made.status.phase = phase
    made.status.reason = reason
    made.status.waiting_on = "scheduler:default"
    made.spec.containers.add(name="main", command=["sleep", "1 2"])
    return made


@pytest.mark.parametrize(
    ("phase", "reason", "shown"),
    [
        (PHASE_PENDING, "UNSCHEDULED", "Pending (UNSCHEDULED)"),
        (PHASE_RUNNING, "STARTED", "Running"),
        (PHASE_RUNNING, "SOMETHING_NEW", "Running (SOMETHING_NEW)"),
        (PHASE_TERMINATED, "COMPLETED", "Terminated (COMPLETED)"),
    ],
)
def test_a_status_is_the_phase_and_the_reason(
    phase: Phase.ValueType, reason: str, shown: str
) -> None:
    assert views.pod_status(pod(phase, reason)) == shown


def test_a_verdict_is_the_reason_of_a_pod_that_fits_nowhere() -> None:
    made = pod(PHASE_PENDING, "UNSCHEDULED")
    made.verdict.reason = "NO_NODE_FITS"
    assert views.pod_status(made) == "Pending (NO_NODE_FITS)"


def test_a_pod_that_is_being_deleted_says_so() -> None:
    made = pod(PHASE_RUNNING, "STARTED")
    made.metadata.delete_time.FromSeconds(5)
    assert views.pod_status(made) == "Running (STOPPING)"


def test_c1_a_description_names_each_cause_with_its_number_of_nodes() -> None:
    made = pod(PHASE_PENDING, "UNSCHEDULED")
    made.verdict.reason = "NO_NODE_FITS"
    made.verdict.message = "0 of 5 nodes can take it"
    made.verdict.nodes = 5
    made.verdict.causes.add(
        reason="INSUFFICIENT_CPU", message="less than 8 cpu is free", nodes=3, example_node="a"
    )
    made.verdict.causes.add(
        reason="UNTOLERATED_TAINT",
        message="taint x:NO_SCHEDULE",
        nodes=2,
        example_node="b",
        decided_by="user",
    )
    made.verdict.help = "a could take it as soon as 2 more cpu is free"
    text = describe_pod(made, NOW)
    assert "What would help: a could take it as soon as 2 more cpu is free.\n" in text
    assert "Waits for:     scheduler:default\n" in text
    assert "Why:           0 of 5 nodes can take it\n" in text
    assert "(5 nodes looked at" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["3", "INSUFFICIENT_CPU", "less", "than", "8", "cpu", "is", "free", "a"] in rows
    assert ["2", "UNTOLERATED_TAINT", "taint", "x:NO_SCHEDULE", "b", "user"] in rows


def test_a_description_has_no_empty_table_of_causes() -> None:
    made = pod(PHASE_PENDING, "UNSCHEDULED")
    made.verdict.reason = "NO_NODES"
    made.verdict.message = "there are no nodes"
    text = describe_pod(made, NOW)
    assert "there are no nodes" in text
    assert "CAUSE" not in text


def test_a_description_shows_how_containers_ended() -> None:
    made = pod(PHASE_TERMINATED, "FAILED")
    status = made.status.containers.add(name="main", phase=PHASE_TERMINATED, reason="FAILED")
    status.exit_code = 0
    assert "Exit code:  0\n" in describe_pod(made, NOW)
    status.ClearField("exit_code")
    status.signal = 9
    assert "Exit code:  signal 9\n" in describe_pod(made, NOW)
    assert "Command:    sleep '1 2'\n" in describe_pod(made, NOW)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (59, "59s"), (60, "1m"), (61, "1m1s"), (3600, "1h"), (7500, "2h5m"),
     (86_400, "1d"), (90_000, "1d1h"), (9 * 86_400 + 3600, "9d")],
)  # fmt: skip
def test_ages_are_short(seconds: float, shown: str) -> None:
    assert output.span(seconds) == shown


def test_no_time_has_no_age() -> None:
    assert output.age(Timestamp(), NOW) == ""
    assert output.moment(Timestamp()) == ""


def test_rows_that_come_later_stand_under_the_first() -> None:
    table = output.Table(("NAME", "STATUS"))
    assert table.text([["web-server", "x"]]) == "NAME         STATUS\nweb-server   x\n"
    assert table.text([["a", "y"]]) == "a            y\n"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "0"), (1023, "1023"), (1024, "1Ki"), (64 << 20, "64Mi"), (25325268992, "23.6Gi")],
)
def test_memory_is_written_for_people(amount: int, shown: str) -> None:
    assert views.memory(amount) == shown


def test_c1_an_explanation_names_what_is_waited_for_who_decides_and_what_would_help() -> None:
    made = pod(PHASE_PENDING, "UNSCHEDULED")
    made.status.waiting_on = "scheduler:default"
    assert "waits for scheduler:default, which has not judged it yet" in explain_pod(made)
    made.verdict.reason = "NO_NODE_FITS"
    made.verdict.message = "0 of 3 nodes can take it"
    made.verdict.help = "a could take it as soon as 2 more cpu is free"
    made.verdict.causes.add(
        reason="INSUFFICIENT_CPU",
        message="less than 8 cpu is free",
        nodes=3,
        example_node="a",
        decided_by="pods",
    )
    table, _, said = explain_pod(made).partition("\n\n")
    assert table.splitlines()[1].split() == [
        "3", "INSUFFICIENT_CPU", "less", "than", "8", "cpu", "is", "free", "a", "pods",
    ]  # fmt: skip
    assert said == (
        "pod/web waits to be placed: 0 of 3 nodes can take it.\n"
        "What would help: a could take it as soon as 2 more cpu is free.\n"
        "scheduler:default decides, and tries again when something changes.\n"
    )
    made.verdict.permanent = True
    assert "pod/web cannot be placed: " in explain_pod(made)
    made.assignment.node, made.status.waiting_on = "n1", "kubelet:n1"
    assert "is placed on n1 and is not running yet, UNSCHEDULED: kubelet:n1 decides" in (
        explain_pod(made)
    )
    made.metadata.delete_time.FromSeconds(5)
    assert explain_pod(made) == "pod/web is being deleted: kubelet:n1 is to end it.\n"
    made.status.phase = PHASE_RUNNING
    made.status.waiting_on = ""
    assert explain_pod(made) == "pod/web is being deleted: kubelet:n1 is to end it.\n"
    made.metadata.ClearField("delete_time")
    assert explain_pod(made) == "pod/web runs on n1; it waits for nothing.\n"
    made.status.phase, made.status.reason = PHASE_TERMINATED, "FAILED"
    assert explain_pod(made) == (
        "pod/web has ended, FAILED; it waits for nothing.\n"
        "To run it again, delete it and create it anew.\n"
    )


def impatient() -> Pod:
    made = pod(PHASE_PENDING, "UNSCHEDULED")
    made.spec.infeasible_after.seconds = 90
    made.metadata.create_time.FromDatetime(NOW)
    made.verdict.reason, made.verdict.message = "NO_NODE_FITS", "0 of 3 nodes can take it"
    made.verdict.nearest.node = "a"
    made.verdict.nearest.missing.add(reason="NODE_CORDONED", message="the node is cordoned")
    made.verdict.nearest.missing.add(reason="INSUFFICIENT_CPU", message="less than 8 cpu is free")
    made.verdict.causes.add(reason="NODE_CORDONED", nodes=3, example_node="a", decided_by="admin")
    return made


def test_c1_a_pod_that_ends_when_nothing_takes_it_says_when() -> None:
    made = impatient()
    assert explain_pod(made).endswith(
        "If none takes it, it ends as INFEASIBLE 90s after its creation,"
        " at 2026-01-01 12:01:30 UTC.\n"
    )
    text = describe_pod(made, NOW)
    assert "90s after its creation, at 2026-01-01 12:01:30 UTC\n" in text
    assert "  a comes closest: the node is cordoned; less than 8 cpu is free.\n" in text
    made.status.phase, made.status.reason = PHASE_TERMINATED, "INFEASIBLE"
    made.status.waiting_on, made.status.message = "", "on no node 90s after its creation: x"
    made.ClearField("verdict")
    assert explain_pod(made).startswith(
        "pod/web has ended, INFEASIBLE (on no node 90s after its creation: x); it waits for nothing"
    )
    assert "Why:                 on no node 90s after its creation: x\n" in describe_pod(made, NOW)
    assert views.pod_row(made, NOW, wide=True)[1] == "Terminated (INFEASIBLE)"


def test_c1_a_wide_table_says_in_a_sentence_why_a_pod_does_not_run() -> None:
    made = impatient()
    assert views.pod_row(made, NOW, wide=True)[-1] == "0 of 3 nodes can take it"
    made.ClearField("verdict")
    assert views.pod_row(made, NOW, wide=True)[-1] == "-"
    made.status.message = "the node is starting it"
    assert views.pod_row(made, NOW, wide=True)[-1] == "the node is starting it"
    made.status.phase = PHASE_RUNNING
    assert views.pod_row(made, NOW, wide=True)[-1] == "-"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_c1_an_explanation_has_a_form_for_programs(form: str) -> None:
    text = render.document_as(form, explanation(impatient()))
    document = json.loads(text) if form == "json" else yaml.safe_load(text)
    assert {key: document[key] for key in ("pod", "namespace", "phase", "reason", "waitingOn")} == {
        "pod": "web", "namespace": "default", "phase": "Pending", "reason": "UNSCHEDULED",
        "waitingOn": "scheduler:default",
    }  # fmt: skip
    assert document["sentences"][0] == "pod/web waits to be placed: 0 of 3 nodes can take it."
    assert document["verdict"]["causes"][0]["decidedBy"] == "admin"
    assert [cause["reason"] for cause in document["verdict"]["nearest"]["missing"]] == [
        "NODE_CORDONED", "INSUFFICIENT_CPU",
    ]  # fmt: skip
    running = pod(PHASE_RUNNING, "STARTED")
    assert "verdict" not in explanation(running)
