"""Takes heartbeats. Nothing of them is stored."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence

from drumline.model.errors import InvalidArgumentError, PermissionDeniedError, Violation
from drumline.node.v1.heartbeat_service_pb2 import BeatRequest, BeatResponse
from drumline.nodecontroller.liveness import STRANGER_SECONDS, Liveness, Transition
from drumline.nodecontroller.rules import spread
from drumline.process import clock
from drumline.process.peer import Peer
from drumline.process.rpc import Call

MAX_NODES_PER_BEAT = 5_000

# Beats of one stream are taken at most this often, whatever its sender does.
_SPACING_SECONDS = 0.02


class HeartbeatService:
    """Answers each beat with the time of the next; hands transitions to `report`."""

    def __init__(self, liveness: Liveness, report: Callable[[Sequence[Transition]], None]) -> None:
        self._liveness = liveness
        self._report = report

    async def Beat(
        self, requests: AsyncIterator[BeatRequest], call: Call
    ) -> AsyncIterator[BeatResponse]:
        """Take the beats of one stream."""
        last = 0
        async for request in requests:
            self._check(request, last, call.peer)
            last = request.sequence
            yield self._take(request, call.peer)
            await asyncio.sleep(_SPACING_SECONDS)

    def _take(self, request: BeatRequest, peer: Peer) -> BeatResponse:
        liveness = self._liveness
        heard = liveness.beat(request.nodes, clock.monotonic(), simulated=peer.is_simulator)
        self._report(heard.transitions)
        draw = random.random()  # noqa: S311 - spreads load, keeps no secret
        interval = liveness.rules.next_interval(liveness.beating, draw)
        if heard.expected:
            interval = min(interval, spread(STRANGER_SECONDS, draw))
        response = BeatResponse(acknowledged_sequence=request.sequence, unknown_nodes=heard.unknown)
        response.next_interval.FromNanoseconds(int(interval * 1e9))
        return response

    def _check(self, request: BeatRequest, last: int, peer: Peer) -> None:
        violations = []
        if not 1 <= len(request.nodes) <= MAX_NODES_PER_BEAT:
            violations.append(
                Violation(
                    "nodes",
                    f"{len(request.nodes)} names; a beat carries 1 to {MAX_NODES_PER_BEAT}",
                )
            )
        if request.sequence <= last:
            violations.append(
                Violation("sequence", f"{request.sequence} does not follow {last}; it must grow")
            )
        if violations:
            raise InvalidArgumentError.of(violations)
        if peer.is_simulator:
            refused = self._liveness.unentitled(request.nodes)
        else:
            refused = [name for name in request.nodes if not peer.speaks_for_node(name)]
        if refused:
            more = f" and {len(refused) - 1} others" if len(refused) > 1 else ""
            raise PermissionDeniedError(
                f'"{peer.identity}" may not speak for node "{refused[0][:64]}"{more}'
            )
