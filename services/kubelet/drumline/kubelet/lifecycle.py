"""What a node does about one pod: a state machine without clock, I/O or gRPC.

Events are the methods of `Life`; each gives the actions that follow, in order.
Times are seconds of any clock that only goes forward, passed in.

========  ==============================  =====================================
stage     meaning                         left by
========  ==============================  =====================================
WAITING   for room that pods leave that   `admit`, `refuse`, `stop`
          are being stopped
STARTING  the runtime was told            `observe`
RUNNING   a container has started         `observe`
ENDED     nothing of it lives; final      nothing
========  ==============================  =====================================

Containers run once. A pod is started at most once in its life, and its deadline,
once set, only comes forward.
"""

from dataclasses import dataclass
from enum import Enum, auto

from drumline.kubelet.runtime import PodState

STARTING = "STARTING"
STARTED = "STARTED"
COMPLETED = "COMPLETED"
FAILED = "FAILED"
START_FAILED = "START_FAILED"
DELETED = "DELETED"
REJECTED = "REJECTED"
LOST_BY_NODE = "LOST_BY_NODE"
NODE_STOPPED = "NODE_STOPPED"


class Stage(Enum):
    """How far a pod has come."""

    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Start:
    """Have the runtime start it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Have the runtime stop it, within `grace` seconds."""

    grace: float


@dataclass(frozen=True, slots=True)
class Report:
    """Say what it is now."""


@dataclass(frozen=True, slots=True)
class Forget:
    """It is no longer this node's business; nothing of it lives."""


Action = Start | Stop | Report | Forget


class Life:
    """One pod on its node. `assigned` says whether the cluster wants it here."""

    __slots__ = ("assigned", "deadline", "grace", "message", "reason", "stage", "state", "stopping")

    def __init__(self) -> None:
        self.stage = Stage.WAITING
        self.assigned = True
        self.state: PodState | None = None
        # Why it is being stopped, once it is, within how many seconds, and until when.
        self.stopping = ""
        self.grace = 0.0
        self.deadline: float | None = None
        # Why it ended, where its containers do not tell.
        self.reason = ""
        self.message = ""

    def admit(self) -> list[Action]:
        """There is room for it."""
        if self.stage is not Stage.WAITING:
            return []
        self.stage = Stage.STARTING
        return [Start(), Report()]

    def refuse(self, reason: str, message: str) -> list[Action]:
        """It cannot run here, or must not."""
        if self.stage is not Stage.WAITING:
            return []
        return self._end(reason, message)

    def recover(self, state: PodState) -> list[Action]:
        """It was found, as it is, at the kubelet's start."""
        if self.stage is not Stage.WAITING:
            return []
        self.stage = Stage.STARTING
        return self.observe(state)

    def observe(self, state: PodState) -> list[Action]:
        """The runtime says what it is."""
        if self.stage in {Stage.ENDED, Stage.WAITING}:
            return []
        self.state = state
        if state.ended:
            return self._end("", "")
        if state.containers:
            self.stage = Stage.RUNNING
            return self._report()
        return []

    def stop(self, reason: str, grace: float, now: float) -> list[Action]:
        """It is to end within `grace` seconds; `reason` is what will be reported."""
        if self.stage is Stage.ENDED:
            return []
        if self.stage is Stage.WAITING:
            self.stopping = reason
            return self._end("", "")
        deadline = now + grace
        self.stopping = self.stopping or reason
        if self.deadline is not None and self.deadline <= deadline:
            return []
        self.deadline = deadline
        self.grace = grace
        return [Stop(grace)]

    def release(self, grace: float, now: float) -> list[Action]:
        """The cluster no longer wants it here: nothing of it may run."""
        self.assigned = False
        if self.stage is Stage.ENDED:
            return [Forget()]
        return self.stop(DELETED, grace, now)

    def _end(self, reason: str, message: str) -> list[Action]:
        self.stage = Stage.ENDED
        self.reason = reason
        self.message = message
        return self._report() if self.assigned else [Forget()]

    def _report(self) -> list[Action]:
        return [Report()] if self.assigned else []
