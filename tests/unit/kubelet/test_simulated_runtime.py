"""Pods in pretence."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from drumline.api.v1.pod_pb2 import PHASE_RUNNING, Pod
from drumline.kubelet.runtime import PodState
from drumline.kubelet.simulated_runtime import Plan, SimulatedRuntime, plan_of
from drumline.model.errors import NotFoundError

from tests.unit.kubelet.pods import make_pod

START_DELAY = "simulated.drumline.dev/start-delay"
RUN_TIME = "simulated.drumline.dev/run-time"
EXIT_CODE = "simulated.drumline.dev/exit-code"


class Clock:
    """A clock that is set by hand; its two times differ by a million seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + 1e6


class Simulation:
    """A runtime whose time passes when it is told to."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.runtime = SimulatedRuntime(self.clock.monotonic, self.clock.wall)
        self.states: list[PodState] = []
        self.runtime.listen(self.states.append)

    async def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        # What is due happens when the runtime next looks.
        self.runtime._earlier.set()
        for _ in range(5):
            await asyncio.sleep(0)

    async def output(self, uid: str, tail: int | None = None, *, follow: bool = False) -> bytes:
        pieces = self.runtime.logs(uid, "", tail_lines=tail, follow=follow)
        return b"".join([piece async for piece in pieces])


@pytest.fixture
async def simulation() -> AsyncIterator[Simulation]:
    made = Simulation()
    task = asyncio.create_task(made.runtime.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def annotated(**annotations: str) -> Pod:
    keys = {"start_delay": START_DELAY, "run_time": RUN_TIME, "exit_code": EXIT_CODE}
    return make_pod(annotations={keys[name]: value for name, value in annotations.items()})


def test_annotations_say_what_a_pod_does() -> None:
    assert plan_of(make_pod()) == Plan(0, None, 0)
    pod = annotated(start_delay="50ms", run_time="1m30s", exit_code="3")
    assert plan_of(pod) == Plan(0.05, 90, 3)


@pytest.mark.parametrize(
    ("annotations", "named"),
    [
        ({"start_delay": "soon"}, START_DELAY),
        ({"run_time": "-1s"}, RUN_TIME),
        ({"exit_code": "256"}, EXIT_CODE),
        ({"exit_code": "-1"}, EXIT_CODE),
        ({"exit_code": "one"}, EXIT_CODE),
    ],
)
async def test_a_bad_annotation_keeps_it_from_starting(
    simulation: Simulation, annotations: dict[str, str], named: str
) -> None:
    simulation.runtime.start(annotated(**annotations))
    (state,) = simulation.states
    assert state.ended
    assert named in state.start_problem


async def test_without_annotations_it_runs_at_once_until_it_is_stopped(
    simulation: Simulation,
) -> None:
    simulation.runtime.start(make_pod())
    await simulation.pass_time(1e6)
    simulation.runtime.stop("u1", 30)
    first, last = simulation.states
    assert not first.ended
    assert [c.start_time for c in first.containers] == [1_000_100.0]
    assert last.ended
    assert [(c.signal, c.exit_code) for c in last.containers] == [(15, None)]


async def test_times_and_exit_code_are_those_asked_for(simulation: Simulation) -> None:
    simulation.runtime.start(annotated(start_delay="2s", run_time="5s", exit_code="3"))
    await simulation.pass_time(1.9)
    assert simulation.states == []
    await simulation.pass_time(0.2)
    assert [s.ended for s in simulation.states] == [False]
    await simulation.pass_time(4.8)
    assert len(simulation.states) == 1
    await simulation.pass_time(0.3)
    (container,) = simulation.states[-1].containers
    assert container.exit_code == 3
    assert container.finish_time == pytest.approx(1_000_107.2)


async def test_a_pod_that_is_stopped_before_it_starts_never_does(simulation: Simulation) -> None:
    simulation.runtime.start(annotated(start_delay="2s"))
    simulation.runtime.stop("u1", 30)
    await simulation.pass_time(10)
    (state,) = simulation.states
    assert state == PodState("u1", ended=True)


async def test_a_new_simulator_goes_on_with_what_was_running(simulation: Simulation) -> None:
    pod = annotated(run_time="5s")
    pod.status.phase = PHASE_RUNNING
    pod.status.start_time.FromDatetime(datetime.fromtimestamp(1_000_098.0, UTC))
    state = simulation.runtime.adopt(pod)
    assert state is not None
    assert [c.start_time for c in state.containers] == [1_000_098.0]
    await simulation.pass_time(2.9)
    assert simulation.states == []
    await simulation.pass_time(0.2)
    assert [s.ended for s in simulation.states] == [True]


async def test_its_output_tells_its_life(simulation: Simulation) -> None:
    simulation.runtime.start(annotated(run_time="1s", exit_code="4"))
    started = b"simulated: started 1970-01-12T13:48:20.000+00:00\n"
    assert await simulation.output("u1") == started
    await simulation.pass_time(1.5)
    ended = b"simulated: ended 1970-01-12T13:48:21.500+00:00, exit code 4\n"
    assert await simulation.output("u1") == started + ended
    assert await simulation.output("u1", 1, follow=True) == ended
    assert await simulation.output("u1", 0) == b""
    simulation.runtime.remove("u1")
    with pytest.raises(NotFoundError):
        await simulation.output("u1")
