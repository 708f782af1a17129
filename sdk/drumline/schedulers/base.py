"""The base class of schedulers: one method decides, the rest is taken care of.

The connection, the session, what is told and in which order, answers that were lost,
refusals, and rests after them are the base class's. It asks `decide` whenever something
has changed while pods wait, and at least every second.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import grpc
from drumline.api.v1.metadata_pb2 import PodReference
from drumline.model.errors import InternalError, UnavailableError, from_rpc_error
from drumline.process import clock, logs
from drumline.process import run as process
from drumline.process.backoff import Backoff
from drumline.process.channels import Endpoints
from drumline.process.tls import TlsFiles
from drumline.process.version import VERSION
from drumline.schedulers.answers import SESSION_ENDED
from drumline.schedulers.connection import Synced, stay_subscribed
from drumline.schedulers.session import Session
from drumline.schedulers.settings import SchedulerSettings
from drumline.schedulers.state import State
from drumline.schedulers.view import Assign, ClusterView, Decision, PendingPod, Wait
from drumline.scheduling.v1.scheduler_service_pb2 import (
    PostAssignmentsRequest,
    PostVerdictsRequest,
)

if TYPE_CHECKING:
    from drumline.scheduling.v1.scheduler_service_pb2_grpc import SchedulerServiceAsyncStub

_log = logs.get(__name__)

_POST_PODS = 1000
_POST_SECONDS = 10.0
# For so long it is decided at a stretch; a session lives for some seconds.
_ASKING_SECONDS = 0.1
_LONG_SECONDS = 1.0
# Pods are decided on again after at most this long, whatever happens.
_LONGEST_PAUSE_SECONDS = 1.0


async def _nobody(_: bool) -> None:
    """Take note of nothing."""


class Scheduler(ABC):
    """Places the pods whose spec.scheduler_name is `name`."""

    def __init__(self, name: str, instance_id: str, version: str = VERSION) -> None:
        """Make one; `instance_id` names the process for people."""
        self.name = name
        self._session = Session(name, instance_id, version)

    @abstractmethod
    def decide(self, pending: Sequence[PendingPod], cluster: ClusterView) -> Iterable[Decision]:
        """Decide on pods, those first that were created first.

        Give one decision after another (yield): when they take longer than a tenth of a
        second, those that are there are posted, and the other pods come first in the
        next call. A pod may be left out, and is then asked about again like one that
        waits. What is decided here is not in `cluster` until the next call: follow it
        with `ClusterView.with_pod`.
        """

    async def run(
        self,
        addresses: Sequence[str],
        tls: TlsFiles,
        set_serving: Callable[[bool], Awaitable[None]] = _nobody,
    ) -> None:
        """Schedule until cancelled, through any of the apiservers at `addresses`, HOST:PORT.

        `set_serving` is told when everything is known, and when it is no longer.
        """
        endpoints = Endpoints(addresses, tls)
        try:
            await stay_subscribed(
                endpoints,
                self._session,
                lambda stub, synced: _Subscription(self, self._session, stub, synced).run(),
                set_serving,
            )
        finally:
            await endpoints.close()

    @classmethod
    def main(cls, program: str, argv: Sequence[str] | None = None) -> int:
        """Be a whole process until SIGTERM or SIGINT; give the exit status.

        It is told what `SchedulerSettings` hold, by flags, environment or file
        (`drumline.process.settings`), and places pods whose scheduler is `program` unless
        told another name. It answers health checks: it serves when everything is known.
        """

        async def run(settings: SchedulerSettings) -> None:
            made = cls(settings.name(program), settings.instance)
            async with process.serving(settings.listen_address, settings.tls, []) as (health, _):
                await made.run(settings.apiserver, settings.tls, health.set_serving)

        return process.main(program, SchedulerSettings, run, argv)


class _Subscription:
    """One subscription of a scheduler, to its end by an error."""

    def __init__(
        self,
        scheduler: Scheduler,
        session: Session,
        stub: "SchedulerServiceAsyncStub",
        synced: Synced,
    ) -> None:
        self._scheduler = scheduler
        self._session = session
        self._stub = stub
        self._synced = synced
        self._state = State()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(), name="subscription")
            group.create_task(self._session.keep(self._stub), name="session")
            group.create_task(self._work(), name="deciding")

    async def _read(self) -> None:
        try:
            async for message in self._stub.Subscribe(self._session.subscribe_request()):
                was_synced = self._state.synced
                self._state.apply(message)
                if self._state.synced and not was_synced:
                    await self._synced()
                if message.HasField("session"):
                    self._session.take(message.session)
                    self._state.tell_all_again()
                self._changed.set()
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        raise UnavailableError("the apiserver ended the subscription")

    async def _work(self) -> None:
        while True:
            rest = self._state.next_end_of_rest(clock.monotonic())
            pause = min(_LONGEST_PAUSE_SECONDS, rest if rest is not None else 1.0)
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            if self._session.id and self._state.synced:
                await self._decide(self._session.id)

    async def _decide(self, session_id: str) -> None:
        pending = self._state.pending(clock.monotonic())
        if not pending:
            return
        decisions = self._ask(pending)
        assigned = [d for d in decisions if isinstance(d, Assign)]
        for decision in assigned:
            self._state.decide(decision)
        for first in range(0, len(assigned), _POST_PODS):
            await self._post(assigned[first : first + _POST_PODS], session_id)
        waits = self._state.news([d for d in decisions if isinstance(d, Wait)])
        for first in range(0, len(waits), _POST_PODS):
            await self._say(waits[first : first + _POST_PODS], session_id)

    def _ask(self, pending: Sequence[PendingPod]) -> list[Decision]:
        """Have it decided, for a bounded time: nothing else is done meanwhile, renewals neither."""
        started = clock.monotonic()
        # One decision for each pod that was asked about, the first.
        asked, decisions = {pod.uid for pod in pending}, list[Decision]()
        for decision in self._scheduler.decide(pending, self._state.cluster()):
            if decision.pod.uid in asked:
                asked.remove(decision.pod.uid)
                decisions.append(decision)
            if clock.monotonic() - started > _ASKING_SECONDS:
                self._state.went_through([decided.pod for decided in decisions])
                self._changed.set()
                break
        else:
            self._state.went_through(pending)
        took = clock.monotonic() - started
        if took > _LONG_SECONDS:
            _log.warning("deciding_took_long", seconds=round(took, 1), decisions=len(decisions))
        return decisions

    async def _post(self, batch: list[Assign], session_id: str) -> None:
        """Post until there is an answer: an assignment may have been made without one.

        What the session does not outlive is taken back.
        """
        backoff = Backoff(initial=0.05, maximum=5.0)
        while True:
            if self._session.id != session_id:
                self._state.withdraw(batch)
                return
            request = PostAssignmentsRequest(
                scheduler_name=self._scheduler.name, session_id=session_id
            )
            for decision in batch:
                request.assignments.add(pod=_reference(decision.pod), node=decision.node)
            try:
                response = await self._stub.PostAssignments(request, timeout=_POST_SECONDS)
            except grpc.RpcError as failure:
                error = from_rpc_error(failure)
                if error.reason == SESSION_ENDED:
                    self._session.lose(session_id)
                    continue
                _log.warning("post_failed", pods=len(batch), reason=error.reason)
                await asyncio.sleep(max(backoff.next_delay(), error.retry_after or 0.0))
                continue
            if len(response.results) != len(batch):
                raise InternalError("the apiserver did not answer every proposal")
            now = clock.monotonic()
            reasons = [
                self._state.answer(decision, result, now)
                for decision, result in zip(batch, response.results, strict=True)
            ]
            if SESSION_ENDED in reasons:
                self._session.lose(session_id)
            _log.info("assignments_posted", pods=len(batch), refused=sum(map(bool, reasons)))
            return

    async def _say(self, waits: Sequence[Wait], session_id: str) -> None:
        """Say why pods wait; what does not arrive is due again at the next decisions."""
        if self._session.id != session_id:
            self._state.tell_all_again()
            return
        request = PostVerdictsRequest(scheduler_name=self._scheduler.name, session_id=session_id)
        for wait in waits:
            verdict = request.verdicts.add(pod=_reference(wait.pod)).verdict
            verdict.reason, verdict.message = wait.reason, wait.message
            verdict.judge_time.CopyFrom(clock.timestamp())
        try:
            await self._stub.PostVerdicts(request, timeout=_POST_SECONDS)
        except grpc.RpcError as failure:
            error = from_rpc_error(failure)
            self._state.tell_all_again()
            if error.reason == SESSION_ENDED:
                self._session.lose(session_id)
            _log.warning("verdicts_failed", reason=error.reason, error=error.message)


def _reference(pod: PendingPod) -> PodReference:
    meta = pod.pod.metadata
    return PodReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
