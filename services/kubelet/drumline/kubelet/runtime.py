"""What a runtime is: it starts pods, stops them, and says what becomes of them.

Runtimes are told and answer later: no call waits for a process or a disk. What a
pod has become arrives at the listener, always from the event loop's thread, as
the whole of its newest state.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from drumline.api.v1.pod_pb2 import Pod
from drumline.model.errors import InvalidArgumentError, NotFoundError, Violation


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container that was started. Times are wall-clock seconds since 1970."""

    name: str
    runtime_id: str
    start_time: float
    finish_time: float | None = None
    exit_code: int | None = None
    signal: int = 0


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod as its runtime knows it.

    `ended`: nothing of it lives, and nothing will. `start_problem` says why it
    could not be started, `loss` why nothing is known of its end, `killed` how
    many processes had to be killed when the grace period was over.
    """

    uid: str
    containers: tuple[ContainerState, ...] = ()
    ended: bool = False
    start_problem: str = ""
    loss: str = ""
    killed: int = 0


@dataclass(frozen=True, slots=True)
class RecoveredPod:
    """A pod from before this kubelet's start.

    `pod` is None when what was kept of it cannot be read; `state` is None when it
    was about to be started and starting it is still allowed.
    """

    uid: str
    pod: Pod | None
    state: PodState | None


Listener = Callable[[PodState], None]


class Runtime(Protocol):
    """Runs pods."""

    @property
    def name(self) -> str:
        """Its name, as nodes declare it."""

    def listen(self, listener: Listener) -> None:
        """Say who is told of changes; before anything else."""

    async def recover(self) -> list[RecoveredPod]:
        """Find the pods from before this start; once, before anything is started."""

    async def run(self) -> None:
        """Follow the pods until cancelled. What runs goes on running."""

    def refusal(self, pod: Pod) -> str:
        """Say why the runtime cannot run such a pod at all; nothing when it can."""

    def start(self, pod: Pod) -> None:
        """Start a pod, once."""

    def adopt(self, pod: Pod) -> PodState | None:
        """Go on with a pod that was reported running and is unknown here, if that is possible."""

    def stop(self, uid: str, grace: float) -> None:
        """Ask the pod's processes to end, and kill what is left after `grace` seconds.

        Asking again can only bring the end forward.
        """

    def remove(self, uid: str) -> None:
        """Drop everything that is kept of an ended pod, its output too."""

    def logs(
        self, uid: str, container: str, *, tail_lines: int | None, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """Give a container's output in pieces; `container` may be empty when there is one only.

        Raises NotFoundError, or InvalidArgumentError when the container must be named.
        """


def choose_container(names: Sequence[str], asked: str) -> str:
    """Give the name of the container that is meant; `asked` may be empty when there is one only.

    Raises NotFoundError, InvalidArgumentError.
    """
    if asked:
        if asked not in names:
            raise NotFoundError(
                f'the pod has no container "{asked}"; it has {", ".join(names)}',
                reason="CONTAINER_NOT_FOUND",
            )
        return asked
    if len(names) != 1:
        raise InvalidArgumentError.of(
            [Violation("container", f"required, one of {', '.join(names)}")]
        )
    return names[0]
