"""A scheduler's session: taken from what a subscription tells, renewed, and ended.

A session outlives the subscription that gave it, so one object serves a whole process:
it names its session when it subscribes anew, through whichever apiserver, and is given
it back if it still lives.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

import grpc
from drumline.model.errors import from_rpc_error
from drumline.process import clock, logs
from drumline.schedulers.answers import SESSION_ENDED
from drumline.scheduling.v1.scheduler_service_pb2 import (
    EndSessionRequest,
    RenewSessionRequest,
    SchedulerSession,
    SubscribeRequest,
)

if TYPE_CHECKING:
    from drumline.scheduling.v1.scheduler_service_pb2_grpc import SchedulerServiceAsyncStub

_log = logs.get(__name__)

_RENEWALS = 3
_LEAST_PAUSE_SECONDS = 0.05
_END_SECONDS = 1.0


class Session:
    """Whether this process decides for its scheduler name."""

    def __init__(self, scheduler_name: str, instance_id: str, version: str) -> None:
        self._scheduler_name = scheduler_name
        self._instance_id = instance_id
        self._version = version
        self.id = ""
        """What every post carries; empty while another decides, or nobody."""
        self._time_to_live = 0.0
        self._held = asyncio.Event()

    def subscribe_request(self) -> SubscribeRequest:
        """Give the request of a subscription that takes up the session, if there is one."""
        return SubscribeRequest(
            scheduler_name=self._scheduler_name,
            instance_id=self._instance_id,
            version=self._version,
            session_id=self.id,
        )

    def take(self, told: SchedulerSession) -> None:
        """Take over what a subscription says of who decides."""
        self._time_to_live = told.time_to_live.ToNanoseconds() / 1e9
        if self.id and self.id != told.id:
            self.lose(self.id)
        if told.id and not self.id:
            _log.info("session_begun", scheduler=self._scheduler_name)
            self.id = told.id
            self._held.set()
        elif not told.id:
            _log.info("standing_by", scheduler=self._scheduler_name, active=told.active_instance)

    def lose(self, session_id: str) -> None:
        """Forget a session that has ended, if it is still this one."""
        if session_id and self.id == session_id:
            _log.warning("session_lost", scheduler=self._scheduler_name)
            self.id = ""
            self._held.clear()

    async def keep(self, stub: "SchedulerServiceAsyncStub") -> None:
        """Renew the session while there is one, until cancelled."""
        while True:
            await self._held.wait()
            started = clock.monotonic()
            session_id, pause = self.id, max(self._time_to_live / _RENEWALS, _LEAST_PAUSE_SECONDS)
            try:
                await stub.RenewSession(
                    RenewSessionRequest(scheduler_name=self._scheduler_name, session_id=session_id),
                    timeout=pause,
                )
            except grpc.RpcError as failure:
                error = from_rpc_error(failure)
                if error.reason == SESSION_ENDED:
                    self.lose(session_id)
                else:
                    _log.warning("session_not_renewed", reason=error.reason, error=error.message)
            # A renewal that takes long, or has no answer, does not put the next one off.
            await asyncio.sleep(started + pause - clock.monotonic())

    async def end(self, stub: "SchedulerServiceAsyncStub") -> None:
        """End the session, so that another can decide at once; close the subscription first."""
        if not self.id:
            return
        request = EndSessionRequest(scheduler_name=self._scheduler_name, session_id=self.id)
        self.id = ""
        self._held.clear()
        # Without an answer it runs out by itself.
        with contextlib.suppress(grpc.RpcError):
            await stub.EndSession(request, timeout=_END_SECONDS)
