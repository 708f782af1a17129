"""Runs pods in pretence: no process, only the times and exit codes that annotations ask for.

One heap of times serves all pods of all nodes; a pod costs no task and no timer
of its own.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from drumline.api.v1.pod_pb2 import PHASE_RUNNING, Pod
from drumline.kubelet.runtime import (
    ContainerState,
    Listener,
    PodState,
    RecoveredPod,
    choose_container,
)
from drumline.model.durations import parse_duration
from drumline.model.errors import NotFoundError
from drumline.model.names import (
    ANNOTATION_EXIT_CODE,
    ANNOTATION_RUN_TIME,
    ANNOTATION_START_DELAY,
)

_SIGTERM = 15
_RUNTIME_ID = "simulated"
_FOLLOW_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pod is to do: start after a delay, and end by itself unless `run_time` is None.

    Times are in seconds.
    """

    start_delay: float = 0.0
    run_time: float | None = None
    exit_code: int = 0


DEFAULT_PLAN = Plan()


def plan_of(pod: Pod) -> Plan:
    """Read the pod's annotations. Raises ValueError with a sentence."""
    annotations = pod.metadata.annotations
    if not annotations:
        return DEFAULT_PLAN
    given: dict[str, float] = {}
    for key in (ANNOTATION_START_DELAY, ANNOTATION_RUN_TIME):
        if key in annotations:
            try:
                given[key] = parse_duration(annotations[key])
            except ValueError as error:
                raise ValueError(f"annotation {key}: {error}") from None
    code = annotations.get(ANNOTATION_EXIT_CODE, "0")
    if not (code.isascii() and code.isdecimal() and len(code) <= 3 and int(code) <= 255):
        raise ValueError(f"annotation {ANNOTATION_EXIT_CODE}: {code[:20]!r} is not 0 to 255")
    return Plan(given.get(ANNOTATION_START_DELAY, 0.0), given.get(ANNOTATION_RUN_TIME), int(code))


@dataclass(slots=True)
class _Entry:
    names: tuple[str, ...]
    plan: Plan
    state: PodState


class SimulatedRuntime:
    """The simulated runtime. `monotonic` and `wall` give seconds."""

    name = "simulated"

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._pods: dict[str, _Entry] = {}
        # (when, count, uid): the count keeps equal times in order.
        self._times: list[tuple[float, int, str]] = []
        self._count = 0
        self._earlier = asyncio.Event()
        self._listener: Listener = lambda _: None

    def listen(self, listener: Listener) -> None:
        """Say who is told of changes."""
        self._listener = listener

    async def recover(self) -> list[RecoveredPod]:
        """Nothing is kept; what was reported running is adopted when it is seen."""
        return []

    async def run(self) -> None:
        """Let time pass for the pods until cancelled."""
        while True:
            now = self._monotonic()
            while self._times and self._times[0][0] <= now:
                self._advance(heapq.heappop(self._times)[2])
            self._earlier.clear()
            wait = self._times[0][0] - now if self._times else None
            try:
                await asyncio.wait_for(self._earlier.wait(), wait)
            except TimeoutError:
                continue

    def refusal(self, pod: Pod) -> str:  # noqa: ARG002 - images are pretended too
        """Anything can be pretended."""
        return ""

    def start(self, pod: Pod) -> None:
        """Begin the pod's pretended life."""
        uid = pod.metadata.uid
        names = tuple(c.name for c in pod.spec.containers)
        try:
            plan = plan_of(pod)
        except ValueError as error:
            state = PodState(uid, ended=True, start_problem=str(error))
            self._pods[uid] = _Entry(names, DEFAULT_PLAN, state)
            self._listener(state)
            return
        self._pods[uid] = _Entry(names, plan, PodState(uid))
        if plan.start_delay:
            self._at(self._monotonic() + plan.start_delay, uid)
        else:
            self._advance(uid)

    def adopt(self, pod: Pod) -> PodState | None:
        """Go on with a pod that an earlier simulator reported running."""
        if pod.status.phase != PHASE_RUNNING:
            return None
        try:
            plan = plan_of(pod)
        except ValueError:
            return None
        uid = pod.metadata.uid
        names = tuple(c.name for c in pod.spec.containers)
        started = pod.status.start_time.ToNanoseconds() / 1e9
        state = PodState(uid, tuple(ContainerState(n, _RUNTIME_ID, started) for n in names))
        self._pods[uid] = _Entry(names, plan, state)
        if plan.run_time is not None:
            self._at(self._monotonic() + started + plan.run_time - self._wall(), uid)
        return state

    def stop(self, uid: str, grace: float) -> None:  # noqa: ARG002 - pretended programs obey
        """End the pod at once, as a program does that obeys TERM."""
        entry = self._pods.get(uid)
        if entry is not None and not entry.state.ended:
            self._end(entry, exit_code=None, signal=_SIGTERM)

    def remove(self, uid: str) -> None:
        """Forget the pod."""
        self._pods.pop(uid, None)

    async def logs(
        self, uid: str, container: str, *, tail_lines: int | None, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """Tell the pretended life, a line an event."""
        sent = 0
        while True:
            entry = self._pods.get(uid)
            if entry is None:
                if sent:
                    return
                raise NotFoundError("the node has nothing of this pod", reason="POD_NOT_FOUND")
            name = choose_container(entry.names, container)
            lines = _lines(entry.state, name)
            if tail_lines is not None:
                sent = max(sent, len(lines) - tail_lines)
                tail_lines = None
            for line in lines[sent:]:
                yield line
            sent = max(sent, len(lines))
            if not follow or entry.state.ended:
                return
            await asyncio.sleep(_FOLLOW_SECONDS)

    def _at(self, when: float, uid: str) -> None:
        self._count += 1
        heapq.heappush(self._times, (when, self._count, uid))
        if self._times[0][1] == self._count:
            self._earlier.set()

    def _advance(self, uid: str) -> None:
        """Start the pod, or end it when it has started."""
        entry = self._pods.get(uid)
        if entry is None or entry.state.ended:
            return
        if entry.state.containers:
            self._end(entry, exit_code=entry.plan.exit_code, signal=0)
            return
        now = self._wall()
        entry.state = PodState(
            uid, tuple(ContainerState(name, _RUNTIME_ID, now) for name in entry.names)
        )
        if entry.plan.run_time is not None:
            self._at(self._monotonic() + entry.plan.run_time, uid)
        self._listener(entry.state)

    def _end(self, entry: _Entry, *, exit_code: int | None, signal: int) -> None:
        now = self._wall()
        entry.state = PodState(
            entry.state.uid,
            tuple(
                ContainerState(c.name, c.runtime_id, c.start_time, now, exit_code, signal)
                for c in entry.state.containers
            ),
            ended=True,
        )
        self._listener(entry.state)


def _lines(state: PodState, container: str) -> list[bytes]:
    lines = []
    for c in state.containers:
        if c.name == container:
            lines.append(f"simulated: started {_when(c.start_time)}\n")
            if c.finish_time is not None:
                how = f"signal {c.signal}" if c.signal else f"exit code {c.exit_code}"
                lines.append(f"simulated: ended {_when(c.finish_time)}, {how}\n")
    return [line.encode() for line in lines]


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
