"""Says of a life what the contract's PodStatus says: phase, reason, a sentence, containers."""

from drumline.api.v1.pod_pb2 import (
    PHASE_PENDING,
    PHASE_RUNNING,
    PHASE_TERMINATED,
    ContainerStatus,
    Pod,
    PodStatus,
)
from drumline.kubelet import lifecycle
from drumline.kubelet.lifecycle import Life, Stage
from drumline.kubelet.runtime import ContainerState, PodState

_EMPTY = PodState("")


def reason_and_message(life: Life) -> tuple[str, str]:
    """Give the stable reason and the sentence."""
    if life.stage is Stage.WAITING:
        return lifecycle.STARTING, "waiting for pods that are being stopped to leave room"
    if life.stage is Stage.STARTING:
        return lifecycle.STARTING, "the node is starting it"
    if life.stage is Stage.RUNNING:
        return lifecycle.STARTED, "running"
    return _ending(life, life.state or _EMPTY)


def _ending(life: Life, state: PodState) -> tuple[str, str]:
    if life.reason:
        return life.reason, life.message
    if state.loss:
        return lifecycle.LOST_BY_NODE, state.loss
    if life.stopping:
        return life.stopping, _stopped(life, state)
    if state.start_problem:
        return lifecycle.START_FAILED, f"it could not be started: {state.start_problem}"
    failed = [c for c in state.containers if c.exit_code != 0]
    if failed:
        return lifecycle.FAILED, "; ".join(f"container {c.name} {_how_ended(c)}" for c in failed)
    return lifecycle.COMPLETED, "every container ended with exit code 0"


def build(life: Life, pod: Pod, sequence: int) -> PodStatus:
    """Give the whole status of the pod's assigned attempt."""
    reason, message = reason_and_message(life)
    status = PodStatus(
        phase=PHASES[life.stage],
        reason=reason,
        message=message,
        attempt=pod.assignment.attempt,
        report_sequence=sequence,
    )
    if life.stage in {Stage.WAITING, Stage.STARTING}:
        status.waiting_on = f"kubelet:{pod.assignment.node}"
        return status
    state = life.state or _EMPTY
    there = {c.name: c for c in state.containers}
    for container in pod.spec.containers:
        _fill(status.containers.add(name=container.name), there.get(container.name), life)
    if state.containers:
        status.start_time.FromNanoseconds(_nanoseconds(min(c.start_time for c in state.containers)))
    ends = [c.finish_time for c in state.containers if c.finish_time is not None]
    if life.stage is Stage.ENDED and ends:
        status.finish_time.FromNanoseconds(_nanoseconds(max(ends)))
    return status


PHASES = {
    Stage.WAITING: PHASE_PENDING,
    Stage.STARTING: PHASE_PENDING,
    Stage.RUNNING: PHASE_RUNNING,
    Stage.ENDED: PHASE_TERMINATED,
}


def _fill(status: ContainerStatus, state: ContainerState | None, life: Life) -> None:
    if state is None:
        ended = life.stage is Stage.ENDED
        status.phase = PHASE_TERMINATED if ended else PHASE_PENDING
        status.reason = reason_and_message(life)[0] if ended else lifecycle.STARTING
        return
    status.runtime_id = state.runtime_id
    status.start_time.FromNanoseconds(_nanoseconds(state.start_time))
    if state.finish_time is not None:
        status.phase = PHASE_TERMINATED
        status.reason = lifecycle.COMPLETED if state.exit_code == 0 else lifecycle.FAILED
        status.message = _how_ended(state)
        status.finish_time.FromNanoseconds(_nanoseconds(state.finish_time))
        if state.exit_code is not None:
            status.exit_code = state.exit_code
        status.signal = state.signal
    elif life.stage is Stage.ENDED:
        status.phase = PHASE_TERMINATED
        status.reason = lifecycle.LOST_BY_NODE
    else:
        status.phase = PHASE_RUNNING
        status.reason = lifecycle.STARTED


def _stopped(life: Life, state: PodState) -> str:
    why = (
        "the node's kubelet was stopped together with its pods"
        if life.stopping == lifecycle.NODE_STOPPED
        else "deletion was asked for"
    )
    if not state.containers:
        return f"{why} before it was started"
    if not state.killed:
        return why
    plural = "process was" if state.killed == 1 else "processes were"
    return (
        f"{why}; {state.killed} {plural} still there after the grace period of "
        f"{life.grace:g} s, and had to be killed"
    )


def _how_ended(container: ContainerState) -> str:
    if container.signal:
        return f"was ended by signal {container.signal}"
    if container.exit_code is None:
        return "ended, and its exit code is not known"
    return f"ended with exit code {container.exit_code}"


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
