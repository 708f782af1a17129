"""What is said of a pod, in the contract's words."""

import pytest
from drumline.api.v1.pod_pb2 import PHASE_PENDING, PHASE_RUNNING, PHASE_TERMINATED
from drumline.kubelet import statuses
from drumline.kubelet.lifecycle import DELETED, NODE_STOPPED, Life
from drumline.kubelet.runtime import ContainerState, PodState

from tests.unit.kubelet.pods import make_pod


def life(*states: PodState, stopped: str = "", grace: float = 5) -> Life:
    made = Life()
    made.admit()
    if stopped:
        made.stop(stopped, grace, 0)
    for state in states:
        made.observe(state)
    return made


def container(number: int = 0, **values: object) -> ContainerState:
    return ContainerState(f"c{number}", f"process:{100 + number}", 1.5, **values)  # type: ignore[arg-type]


def gone(*containers: ContainerState, **values: object) -> PodState:
    return PodState("u1", containers, ended=True, **values)  # type: ignore[arg-type]


def test_a_starting_pod_waits_on_its_kubelet() -> None:
    status = statuses.build(life(), make_pod(), 1)
    assert (status.phase, status.reason) == (PHASE_PENDING, "STARTING")
    assert status.waiting_on == "kubelet:n1"
    assert (status.attempt, status.report_sequence) == (1, 1)


def test_a_running_pod_names_its_processes() -> None:
    status = statuses.build(
        life(PodState("u1", (container(0), container(1, finish_time=2.25, exit_code=0)))),
        make_pod(containers=2),
        7,
    )
    assert (status.phase, status.reason, status.waiting_on) == (PHASE_RUNNING, "STARTED", "")
    first, second = status.containers
    assert (first.name, first.phase, first.runtime_id) == ("c0", PHASE_RUNNING, "process:100")
    assert not first.HasField("exit_code")
    assert (second.phase, second.exit_code) == (PHASE_TERMINATED, 0)
    assert second.finish_time.ToNanoseconds() == 2_250_000_000
    assert status.start_time.ToNanoseconds() == 1_500_000_000
    assert not status.HasField("finish_time")


KILLED = (
    "deletion was asked for; 1 process was still there after the grace period of 5 s, "
    "and had to be killed"
)


@pytest.mark.parametrize(
    ("ended", "stopped", "reason", "message"),
    [
        (
            gone(container(finish_time=2.0, exit_code=0)),
            "",
            "COMPLETED",
            "every container ended with exit code 0",
        ),
        (
            gone(container(finish_time=2.0, exit_code=3)),
            "",
            "FAILED",
            "container c0 ended with exit code 3",
        ),
        (
            gone(container(finish_time=2.0, signal=9)),
            "",
            "FAILED",
            "container c0 was ended by signal 9",
        ),
        (
            gone(start_problem="container c0: cannot run x: No such file or directory"),
            "",
            "START_FAILED",
            "it could not be started: container c0: cannot run x: No such file or directory",
        ),
        (gone(container(), loss="gone"), "", "LOST_BY_NODE", "gone"),
        (gone(container(), loss="gone"), DELETED, "LOST_BY_NODE", "gone"),
        (
            gone(container(finish_time=2.0, signal=15)),
            DELETED,
            "DELETED",
            "deletion was asked for",
        ),
        (
            gone(container(finish_time=2.0, signal=9), killed=1),
            DELETED,
            "DELETED",
            KILLED,
        ),
        (gone(), DELETED, "DELETED", "deletion was asked for before it was started"),
        (
            gone(container(finish_time=2.0, signal=15)),
            NODE_STOPPED,
            "NODE_STOPPED",
            "the node's kubelet was stopped together with its pods",
        ),
    ],
)
def test_an_end_says_why(ended: PodState, stopped: str, reason: str, message: str) -> None:
    status = statuses.build(life(ended, stopped=stopped), make_pod(), 2)
    assert (status.phase, status.reason, status.message) == (PHASE_TERMINATED, reason, message)
    assert [c.phase for c in status.containers] == [PHASE_TERMINATED]


def test_a_pod_ends_when_its_last_container_does() -> None:
    ended = gone(
        container(0, finish_time=9.0, exit_code=0), container(1, finish_time=4.0, signal=15)
    )
    status = statuses.build(life(ended), make_pod(containers=2), 2)
    assert status.finish_time.ToNanoseconds() == 9_000_000_000
    assert [c.reason for c in status.containers] == ["COMPLETED", "FAILED"]
    assert status.containers[1].signal == 15
    assert not status.containers[1].HasField("exit_code")
