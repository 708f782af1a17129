"""Sends transitions to the apiserver: the newest of each node, in batches, one at a time."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc
from drumline.api.v1.node_pb2 import NodeState, NodeStatus
from drumline.internal.v1alpha1.node_lifecycle_service_pb2 import (
    NodeTransition,
    PostNodeTransitionsRequest,
)
from drumline.model.errors import DrumlineError, UnavailableError, from_rpc_error, from_status
from drumline.nodecontroller.liveness import Transition
from drumline.process import clock, logs
from drumline.process.backoff import Backoff

if TYPE_CHECKING:
    from drumline.internal.v1alpha1.node_lifecycle_service_pb2_grpc import (
        NodeLifecycleServiceAsyncStub,
    )

_log = logs.get(__name__)

MAX_TRANSITIONS_PER_POST = 5_000
_POST_TIMEOUT_SECONDS = 10.0

# What may be otherwise when the same is sent again. Anything else is final: the
# node is gone, or another one has its name, or this process has a fault.
_TEMPORARY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
    }
)


class Reporter:
    """Transitions that the apiserver has not acknowledged yet: at most one a node."""

    def __init__(self) -> None:
        self._stub: NodeLifecycleServiceAsyncStub | None = None
        self._pending: dict[str, NodeTransition] = {}
        self._wakeup = asyncio.Event()
        self._backoff = Backoff(initial=0.1, maximum=5.0)

    def add(self, transitions: Sequence[Transition]) -> None:
        """Queue transitions; each replaces an earlier one of its node."""
        if not transitions:
            return
        now = clock.timestamp()
        for transition in transitions:
            self._pending[transition.name] = NodeTransition(
                node=transition.name,
                node_uid=transition.uid,
                status=NodeStatus(
                    state=transition.state,
                    reason=transition.reason,
                    message=transition.message,
                    transition_time=now,
                ),
            )
            _log.info(
                "node_transition",
                node=transition.name,
                state=NodeState.Name(transition.state),
                reason=transition.reason,
                message=transition.message,
            )
        self._wakeup.set()

    def attach(self, stub: "NodeLifecycleServiceAsyncStub") -> None:
        """The apiserver is in sight: send to it."""
        self._stub = stub
        self._backoff.reset()
        self._wakeup.set()

    def detach(self) -> None:
        """The apiserver is out of sight: drop what was judged before."""
        self._stub = None
        self._pending.clear()

    async def run(self) -> None:
        """Send what is queued, one batch at a time, until cancelled."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._pending and self._stub is not None:
                if await self._post(self._stub):
                    self._backoff.reset()
                else:
                    await asyncio.sleep(self._backoff.next_delay())

    async def _post(self, stub: "NodeLifecycleServiceAsyncStub") -> bool:
        """Send one batch; say whether nothing of it has to be sent again."""
        names = list(self._pending)[:MAX_TRANSITIONS_PER_POST]
        batch = [self._pending.pop(name) for name in names]
        error: DrumlineError
        refused: list[tuple[NodeTransition, DrumlineError]]
        try:
            response = await stub.PostNodeTransitions(
                PostNodeTransitionsRequest(transitions=batch), timeout=_POST_TIMEOUT_SECONDS
            )
        except asyncio.CancelledError:
            # So ends a call, too, whose channel was closed under it.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error = UnavailableError("the connection was closed")
            refused = [(transition, error) for transition in batch]
        except grpc.aio.AioRpcError as failure:
            error = from_rpc_error(failure)
            _log.warning("post_failed", transitions=len(batch), error=error.message)
            refused = [(transition, error) for transition in batch]
        else:
            refused = [
                (transition, from_status(status))
                for transition, status in zip(batch, response.results, strict=True)
                if status.code
            ]
        # After the apiserver went out of sight nothing of before is sent again.
        return stub is not self._stub or not self._again(refused)

    def _again(self, refused: Sequence[tuple[NodeTransition, DrumlineError]]) -> bool:
        """Queue again what may still be accepted; say whether there is any."""
        any_again = False
        for transition, error in refused:
            if error.code in _TEMPORARY:
                # A newer transition of the node stays.
                self._pending.setdefault(transition.node, transition)
                any_again = True
            else:
                _log.info(
                    "transition_dropped",
                    node=transition.node,
                    reason=error.reason,
                    error=error.message,
                )
        return any_again
