"""One subscription: what the apiserver tells, and what is posted meanwhile."""

import asyncio
import random
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from drumline.api.v1.metadata_pb2 import PodReference
from drumline.model.errors import InternalError, UnavailableError, from_rpc_error
from drumline.process import clock, logs
from drumline.process.backoff import Backoff
from drumline.scheduler.core import Core, Proposal
from drumline.scheduler.placement import Scoring
from drumline.schedulers.answers import SESSION_ENDED
from drumline.schedulers.session import Session
from drumline.scheduling.v1.scheduler_service_pb2 import (
    PodVerdict,
    PostAssignmentsRequest,
    PostVerdictsRequest,
    ProposedAssignment,
)

if TYPE_CHECKING:
    from drumline.scheduling.v1.scheduler_service_pb2_grpc import SchedulerServiceAsyncStub

_log = logs.get(__name__)

# Pods in one post. Larger ones keep the first pods waiting for the last.
BATCH_PODS = 1000
# Posts under way at once: while one commits, the next round is placed and sent.
# Meanwhile arrivals gather, and that alone makes batches: nothing waits for a timer.
POSTS_IN_FLIGHT = 2
POST_TIMEOUT_SECONDS = 10.0
REVIEW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """For whom is scheduled, and how."""

    scheduler_name: str
    instance_id: str
    scoring: Scoring
    safety_retry_seconds: float
    """Parked pods are tried again after at most this long, whatever happens."""


class Subscription:
    """One subscription: what it told, and what is posted on it. It ends with an error."""

    def __init__(
        self,
        stub: "SchedulerServiceAsyncStub",
        plan: Plan,
        session: Session,
        synced: Callable[[], Awaitable[None]],
    ) -> None:
        self._stub = stub
        self._plan = plan
        self._session = session
        self._synced = synced
        # Several schedulers, and one after the other, begin at different nodes.
        start = zlib.crc32(f"{plan.scheduler_name}/{plan.instance_id}".encode())
        self._core = Core(plan.scoring, start)
        self._work = asyncio.Event()
        self._verdicts = asyncio.Event()

    async def run(self) -> None:
        """Serve the subscription until it breaks. Raises a group of DrumlineError."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(), name="subscription")
            group.create_task(self._session.keep(self._stub), name="session")
            for number in range(POSTS_IN_FLIGHT):
                group.create_task(self._place(), name=f"placing-{number}")
            group.create_task(self._explain(), name="verdicts")
            group.create_task(self._review(), name="review")
            group.create_task(self._sweep(), name="sweep")

    async def _read(self) -> None:
        try:
            async for message in self._stub.Subscribe(self._session.subscribe_request()):
                was_synced = self._core.synced
                self._core.apply(message)
                if self._core.synced and not was_synced:
                    _log.info(
                        "synced", nodes=len(self._core.model), pods_waiting=len(self._core.queue)
                    )
                    await self._synced()
                if message.HasField("session"):
                    self._session.take(message.session)
                    self._current_session()
                self._wake()
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        raise UnavailableError("the apiserver ended the subscription")

    def _current_session(self) -> str:
        """Give the id for posts, or "", and let the core know: a renewal may have ended it."""
        self._core.decide_in(self._session.id)
        return self._session.id

    def _wake(self) -> None:
        """Set going what there is to do."""
        if self._core.has_work:
            self._work.set()
        if self._core.has_untold:
            self._verdicts.set()

    async def _place(self) -> None:
        while True:
            await self._work.wait()
            self._current_session()
            started = clock.monotonic()
            batch = self._core.next_batch(BATCH_PODS)
            if not self._core.has_work:
                self._work.clear()
            self._wake()
            if batch:
                await self._post(batch, clock.monotonic() - started)

    async def _post(self, batch: Sequence[Proposal], placing_seconds: float) -> None:
        """Post a batch until each proposal has an answer.

        A proposal whose fate is not known is posted again as it is, which is safe;
        another node could make it two. What the session does not outlive is taken back.
        """
        backoff = Backoff(initial=0.05, maximum=5.0)
        session_id = self._session.id
        while batch:
            if not session_id or self._current_session() != session_id:
                self._core.withdraw(batch)
                self._wake()
                return
            started = clock.monotonic()
            request = PostAssignmentsRequest(
                scheduler_name=self._plan.scheduler_name,
                session_id=session_id,
                assignments=[
                    ProposedAssignment(
                        pod=PodReference(
                            namespace=proposal.entry.namespace,
                            name=proposal.entry.name,
                            uid=proposal.entry.uid,
                        ),
                        node=proposal.node,
                    )
                    for proposal in batch
                ],
            )
            try:
                response = await self._stub.PostAssignments(request, timeout=POST_TIMEOUT_SECONDS)
            except grpc.RpcError as failure:
                error = from_rpc_error(failure)
                if error.reason == SESSION_ENDED:
                    self._session.lose(session_id)
                    continue
                delay = max(backoff.next_delay(), error.retry_after or 0.0)
                _log.warning(
                    "post_failed", pods=len(batch), reason=error.reason, error=error.message
                )
                await asyncio.sleep(delay)
                continue
            if len(response.results) != len(batch):
                raise InternalError("the apiserver did not answer every proposal")
            proposed = len(batch)
            batch, reasons = self._core.answer(batch, response.results)
            if SESSION_ENDED in reasons:
                self._session.lose(session_id)
            _log.info(
                "assignments_posted",
                pods=proposed,
                placing_ms=round(placing_seconds * 1000, 2),
                posting_ms=round((clock.monotonic() - started) * 1000, 2),
                **reasons,
            )
            self._wake()
            if batch:
                await asyncio.sleep(backoff.next_delay())

    async def _explain(self) -> None:
        backoff = Backoff(initial=0.1, maximum=5.0)
        while True:
            await self._verdicts.wait()
            session_id = self._current_session()
            taken = self._core.take_verdicts(BATCH_PODS)
            if not taken:
                self._verdicts.clear()
                continue
            request = PostVerdictsRequest(
                scheduler_name=self._plan.scheduler_name, session_id=session_id
            )
            judged = clock.timestamp()
            for entry, judgement in taken:
                verdict = judgement.to_proto()
                verdict.judge_time.CopyFrom(judged)
                pod = PodReference(namespace=entry.namespace, name=entry.name, uid=entry.uid)
                request.verdicts.append(PodVerdict(pod=pod, verdict=verdict))
            try:
                await self._stub.PostVerdicts(request, timeout=POST_TIMEOUT_SECONDS)
            except grpc.RpcError as failure:
                error = from_rpc_error(failure)
                self._core.verdicts_failed(taken)
                if error.reason == SESSION_ENDED:
                    self._session.lose(session_id)
                    continue
                _log.warning(
                    "verdicts_failed", pods=len(taken), reason=error.reason, error=error.message
                )
                await asyncio.sleep(max(backoff.next_delay(), error.retry_after or 0.0))
                continue
            backoff.reset()
            _log.info("verdicts_posted", pods=len(taken))

    async def _review(self) -> None:
        while True:
            await asyncio.sleep(REVIEW_SECONDS)
            if self._core.synced:
                self._core.review()
                self._wake()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._plan.safety_retry_seconds * random.uniform(0.75, 1.0))  # noqa: S311
            if self._core.synced:
                self._core.sweep()
                self._wake()
