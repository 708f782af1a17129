"""All pods of a kubelet's nodes: room, orders of the cluster, restarts."""

from drumline.api.v1.pod_pb2 import PHASE_PENDING, PHASE_RUNNING, PHASE_TERMINATED, Pod
from drumline.kubelet import statuses
from drumline.kubelet.lifecycle import Action, Forget, Report, Start, Stop
from drumline.kubelet.pod_table import Actions, PodTable
from drumline.kubelet.runtime import ContainerState, PodState, RecoveredPod
from drumline.model.resources import Amounts
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kubelet.pods import deleted, make_pod

ROOM = Amounts(1000, 1 << 30, 10)


class Judge:
    """A runtime that refuses images, and adopts when told to."""

    def __init__(self) -> None:
        self.adopts = False

    def refusal(self, pod: Pod) -> str:
        return "no images" if pod.spec.containers[0].image else ""

    def adopt(self, pod: Pod) -> PodState | None:
        return running(pod.metadata.uid) if self.adopts else None


def table(judge: Judge | None = None) -> PodTable:
    return PodTable({"n1": ROOM, "n2": ROOM}, judge or Judge())


def running(uid: str) -> PodState:
    return PodState(uid, (ContainerState("c0", "process:1", 1.0),))


def ended(uid: str, exit_code: int = 0) -> PodState:
    return PodState(uid, (ContainerState("c0", "process:1", 1.0, 2.0, exit_code),), ended=True)


def said(actions: Actions) -> list[tuple[str, Action]]:
    return [(record.uid, action) for record, action in actions]


def reported(table: PodTable, uid: str) -> tuple[str, str]:
    return statuses.reason_and_message(table.records[uid].life)


def echo(table: PodTable, pod: Pod) -> Pod:
    """Give the pod as the cluster holds it once it has taken the newest report."""
    record = table.records[pod.metadata.uid]
    record.sequence += 1
    copy = Pod()
    copy.CopyFrom(pod)
    copy.status.CopyFrom(statuses.build(record.life, pod, record.sequence))
    return copy


def test_a_pod_takes_room_until_it_is_gone() -> None:
    pods = table()
    assert said(pods.assigned(make_pod("a", cpu=700), 0)) == [("a", Start()), ("a", Report())]
    assert pods.free("n1") == Amounts(300, 1 << 30, 9)
    assert pods.free("n2") == ROOM
    pods.observed(running("a"))
    pods.assigned(deleted(make_pod("a", cpu=700)), 0)
    assert pods.free("n1") == Amounts(300, 1 << 30, 9)
    assert said(pods.observed(ended("a"))) == [("a", Report())]
    assert pods.free("n1") == ROOM


def test_what_does_not_fit_is_rejected_and_takes_nothing() -> None:
    pods = table()
    pods.assigned(make_pod("a", cpu=700), 0)
    assert said(pods.assigned(make_pod("b", cpu=400), 0)) == [("b", Report())]
    reason, message = reported(pods, "b")
    assert reason == "REJECTED"
    assert "less than 400m cpu is free" in message
    assert pods.free("n1") == Amounts(300, 1 << 30, 9)


def test_what_the_runtime_cannot_run_is_rejected() -> None:
    pods = table()
    pod = make_pod("a")
    pod.spec.containers[0].image = "busybox"
    assert said(pods.assigned(pod, 0)) == [("a", Report())]
    assert reported(pods, "a") == ("REJECTED", "no images")


def test_it_waits_for_the_room_of_pods_that_were_taken_away() -> None:
    pods = table()
    first = make_pod("a", cpu=700)
    pods.assigned(first, 0)
    pods.observed(running("a"))
    pods.removed(first, 0)
    second = make_pod("b", cpu=700)
    assert said(pods.assigned(second, 0)) == [("b", Report())]
    assert reported(pods, "b")[0] == "STARTING"
    assert pods.assigned(second, 1) == []
    assert said(pods.observed(ended("a"))) == [
        ("a", Forget()),
        ("b", Start()),
        ("b", Report()),
    ]


def test_it_can_be_deleted_while_it_waits() -> None:
    pods = table()
    first, second = make_pod("a", cpu=700), make_pod("b", cpu=700)
    pods.assigned(first, 0)
    pods.observed(running("a"))
    pods.removed(first, 0)
    pods.assigned(second, 0)
    assert said(pods.assigned(deleted(second), 0)) == [("b", Report())]
    assert said(pods.observed(ended("a"))) == [("a", Forget())]
    assert pods.free("n1") == ROOM


def test_pods_of_unknown_nodes_are_not_taken() -> None:
    assert table().assigned(make_pod("a", node="n9"), 0) == []


def test_deletion_is_obeyed_once_and_again_when_the_grace_shrinks() -> None:
    pods = table()
    pod = make_pod("a")
    pods.assigned(pod, 0)
    pods.observed(running("a"))
    pod = echo(pods, pod)
    assert Stop(30.0) in [action for _, action in pods.assigned(deleted(pod, 30), 0)]
    assert Stop(30.0) not in [action for _, action in pods.assigned(deleted(pod, 30), 1)]
    assert Stop(2.0) in [action for _, action in pods.assigned(deleted(pod, 2), 2)]


def test_what_the_watch_does_not_name_is_stopped() -> None:
    pods = table()
    pods.recover(RecoveredPod("a", make_pod("a"), running("a")), "n1")
    pods.recover(RecoveredPod("b", None, running("b")), "n1")
    pods.recover(RecoveredPod("c", make_pod("c"), ended("c")), "n1")
    pods.assigned(make_pod("d"), 0)
    assert said(pods.synced({"d"}, 0)) == [
        ("a", Stop(30.0)),
        ("b", Stop(30.0)),
        ("c", Forget()),
    ]


def test_what_was_found_again_is_reported_when_the_cluster_names_it() -> None:
    pods = table()
    pods.recover(RecoveredPod("a", make_pod("a", cpu=700), running("a")), "n1")
    assert pods.free("n1") == Amounts(300, 1 << 30, 9)
    pod = make_pod("a", cpu=700)
    pod.status.phase = PHASE_PENDING
    assert said(pods.assigned(pod, 0)) == [("a", Report())]
    assert pods.assigned(echo(pods, pod), 0) == []
    assert pods.free("n1") == Amounts(300, 1 << 30, 9)


def test_what_was_about_to_start_at_a_restart_is_started_when_it_is_named() -> None:
    pods = table()
    assert pods.recover(RecoveredPod("a", make_pod("a"), None), "n1") == []
    assert said(pods.assigned(make_pod("a"), 0)) == [("a", Start()), ("a", Report())]


def test_a_pod_without_a_readable_file_takes_room_once_it_is_named() -> None:
    pods = table()
    pods.recover(RecoveredPod("a", None, running("a")), "n1")
    pods.assigned(make_pod("a", cpu=700), 0)
    assert pods.free("n1") == Amounts(300, 1 << 30, 9)
    pods.observed(ended("a"))
    assert pods.free("n1") == ROOM


def test_a_running_pod_without_a_trace_is_lost_unless_it_can_be_adopted() -> None:
    pod = make_pod("a", cpu=700)
    pod.status.phase = PHASE_RUNNING
    pod.status.report_sequence = 3
    pods = table()
    assert said(pods.assigned(pod, 0)) == [("a", Report())]
    assert reported(pods, "a")[0] == "LOST_BY_NODE"
    judge = Judge()
    judge.adopts = True
    pods = table(judge)
    assert Start() not in [action for _, action in pods.assigned(pod, 0)]
    assert reported(pods, "a")[0] == "STARTED"
    assert pods.free("n1") == Amounts(300, 1 << 30, 9)


def test_a_pod_that_the_cluster_calls_terminated_is_left_alone() -> None:
    pod = make_pod("a")
    pod.status.phase = PHASE_TERMINATED
    assert table().assigned(pod, 0) == []


def test_a_report_that_the_cluster_does_not_hold_is_repeated() -> None:
    pods = table()
    pod = make_pod("a")
    pods.assigned(pod, 0)
    pods.observed(running("a"))
    held = echo(pods, pod)
    assert pods.assigned(held, 0) == []
    # An older state of the cluster's says nothing about a report under way …
    pods.records["a"].sequence += 1
    held.status.reason = "OTHER"
    assert pods.assigned(held, 0) == []
    # … a newer one that differs does.
    held.status.report_sequence += 1
    assert said(pods.assigned(held, 0)) == [("a", Report())]


def test_an_ended_pod_never_starts_again_while_it_is_kept() -> None:
    pods = table()
    pod = make_pod("a")
    pods.assigned(pod, 0)
    pods.observed(ended("a"))
    record = pods.records["a"]
    assert said(pods.removed(pod, 0)) == [("a", Forget())]
    pods.forget(record, 0)
    assert said(pods.assigned(pod, 1)) == [("a", Report())]
    assert reported(pods, "a")[0] == "COMPLETED"


def test_ended_pods_are_kept_by_count_and_age_and_deleted_ones_not_at_all() -> None:
    pods = table()
    for number in range(5):
        uid = str(number)
        pods.assigned(make_pod(uid), 0)
        pods.observed(ended(uid))
        record = pods.records[uid]
        pods.removed(make_pod(uid), number)
        pods.forget(record, number)
    assert pods.expire(count=4, age=100, now=10) == ["0"]
    assert pods.expire(count=4, age=7, now=10) == ["1", "2"]
    assert pods.expire(count=0, age=100, now=10) == ["3", "4"]
    pod = deleted(make_pod("x"))
    pods.assigned(pod, 0)
    record = pods.records["x"]
    pods.removed(pod, 0)
    pods.forget(record, 0)
    assert record.deleted
    assert pods.kept == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assign", "delete", "remove", "run", "end", "sync"]),
            st.sampled_from("abcd"),
            st.sampled_from([0, 300, 600, 5000]),
        ),
        max_size=40,
    )
)
def test_room_is_never_overdrawn_and_always_comes_back(
    events: list[tuple[str, str, int]],
) -> None:
    host = Host()
    asked: dict[str, Pod] = {}
    for event, uid, cpu in events:
        host.now += 1
        host.happen(event, asked.setdefault(uid, make_pod(uid, cpu=cpu)))
        assert min(host.pods.free("n1")[:3]) >= 0
    # Whoever waited for the room of these starts, and ends too.
    for _ in asked:
        for uid in list(host.started):
            host.carry_out(host.pods.observed(ended(uid)))
    assert host.pods.free("n1") == ROOM


class Host:
    """A table whose actions are carried out."""

    def __init__(self) -> None:
        self.pods = table()
        self.now = 0.0
        self.started: set[str] = set()

    def happen(self, event: str, pod: Pod) -> None:
        uid = pod.metadata.uid
        if event == "assign":
            self.carry_out(self.pods.assigned(pod, self.now))
        elif event == "delete":
            self.carry_out(self.pods.assigned(deleted(pod), self.now))
        elif event == "remove":
            self.carry_out(self.pods.removed(pod, self.now))
        elif event == "sync":
            self.carry_out(self.pods.synced({uid}, self.now))
        elif uid in self.started:
            self.carry_out(self.pods.observed(running(uid) if event == "run" else ended(uid)))

    def carry_out(self, actions: Actions) -> None:
        for record, action in actions:
            if isinstance(action, Start):
                assert record.uid not in self.started
                self.started.add(record.uid)
            if isinstance(action, Forget):
                self.pods.forget(record, self.now)
