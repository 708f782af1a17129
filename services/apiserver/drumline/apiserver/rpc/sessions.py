"""Which scheduler decides for a scheduler name: sessions.

A session is an etcd lease, and the record of the leader is tied to it: when nobody
renews it, it goes by itself, whatever has died. Any apiserver renews it, as the session's
id names the lease. Of the schedulers that are connected here the one that has waited
longest is given the session as soon as there is none; between apiservers the first
transaction wins.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from aetcd.rpc import rpc_pb2
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.domain.placement import session_ended
from drumline.apiserver.store.etcd import Etcd
from drumline.apiserver.store.kinds import LEADERS
from drumline.model.errors import DrumlineError
from drumline.process import clock, logs
from drumline.process.backoff import Backoff
from drumline.scheduling.v1 import scheduler_service_pb2 as pb
from drumline.storage.v1 import records_pb2

_log = logs.get(__name__)

# A scheduler whose session has ended is given another only after this long, in seconds.
_REST_SECONDS = 0.5


@dataclass(eq=False, slots=True)
class Candidate:
    """A scheduler that is connected here, and the session that it was given or brought."""

    scheduler_name: str
    instance_id: str
    session_id: str
    # Whether it has been told that it has the session.
    told: bool = False
    # Until when, monotonic, it lets others go first, who may be connected elsewhere.
    rests_until: float | None = None


class Sessions:
    """The sessions of the schedulers that are connected to this apiserver."""

    def __init__(self, etcd: Etcd, cache: Cache, seconds: int) -> None:
        self._etcd = etcd
        self._cache = cache
        self._seconds = seconds
        self._candidates: list[Candidate] = []
        self._wake = asyncio.Event()

    @contextlib.contextmanager
    def candidate(self, scheduler_name: str, instance: str, session: str) -> Iterator[Candidate]:
        """Count a scheduler among those that can be given the session, while the block runs.

        Its connection may break and come back: what it was given lives on for its time.
        """
        made = Candidate(scheduler_name, instance, session)
        self._candidates.append(made)
        self._wake.set()
        try:
            yield made
        finally:
            self._withdraw(made)

    def seen_by(self, candidate: Candidate) -> pb.SchedulerSession:
        """Say who decides, as a subscriber is told."""
        session = pb.SchedulerSession()
        session.time_to_live.seconds = self._seconds
        leader = self._leader(candidate.scheduler_name)
        if leader is not None:
            session.active_instance = leader.instance_id
            if leader.session_id == candidate.session_id:
                session.id = leader.session_id
                candidate.told = True
        return session

    async def require(self, scheduler_name: str, session_id: str) -> None:
        """Raise FailedPreconditionError unless this is the session of that name."""
        if self._is_of(scheduler_name, session_id):
            return
        # It may have begun through another apiserver just now.
        await self._cache.reached_now()
        if not self._is_of(scheduler_name, session_id):
            raise session_ended(scheduler_name)

    async def renew(self, scheduler_name: str, session_id: str) -> int:
        """Let a session live on; give for how many seconds. Raises FailedPreconditionError."""
        await self.require(scheduler_name, session_id)
        if not await self._etcd.keep_lease(_lease(session_id)):
            raise session_ended(scheduler_name)
        return self._seconds

    async def end(self, scheduler_name: str, session_id: str) -> None:
        """End a session, if it is not over; who had it is connected, but wants none any more."""
        for candidate in [c for c in self._candidates if c.session_id == session_id]:
            if candidate.scheduler_name == scheduler_name:
                self._withdraw(candidate)
        if not self._is_of(scheduler_name, session_id):
            await self._cache.reached_now()
        if self._is_of(scheduler_name, session_id):
            await self._etcd.revoke_lease(_lease(session_id))

    async def run(self) -> None:
        """Give sessions to those that wait, until cancelled."""
        backoff = Backoff(initial=0.05, maximum=2.0)
        with self._cache.waking(LEADERS, self._wake):
            while True:
                await self._wake.wait()
                self._wake.clear()
                try:
                    for candidate in self._next():
                        await self._begin(candidate)
                except DrumlineError as error:
                    _log.warning("session_not_begun", error=error.message)
                    await asyncio.sleep(backoff.next_delay())
                    self._wake.set()
                else:
                    backoff.reset()

    def _next(self) -> list[Candidate]:
        """Give for each scheduler name without a session who is to have it.

        Who had one that ended, and is connected all the same, comes last, and a little later.
        """
        chosen: dict[str, Candidate] = {}
        now = clock.monotonic()
        for candidate in sorted(self._candidates, key=lambda c: bool(c.session_id)):
            if self._leader(candidate.scheduler_name) is not None:
                continue
            if candidate.session_id and candidate.rests_until is None:
                candidate.rests_until = now + _REST_SECONDS
                # A little more, so that the rest is over when it is looked at.
                asyncio.get_running_loop().call_later(1.1 * _REST_SECONDS, self._wake.set)
            if candidate.rests_until is None or candidate.rests_until <= now:
                chosen.setdefault(candidate.scheduler_name, candidate)
        return list(chosen.values())

    def _withdraw(self, candidate: Candidate) -> None:
        if candidate in self._candidates:
            self._candidates.remove(candidate)

    async def _begin(self, candidate: Candidate) -> None:
        """Make a session for a scheduler, unless another has been made meanwhile."""
        name = candidate.scheduler_name
        lease = await self._etcd.grant_lease(self._seconds)
        if candidate not in self._candidates:
            await self._etcd.revoke_lease(lease)
            return
        # Set first: the subscriber is woken by the record.
        candidate.session_id = f"{lease:016x}"
        candidate.rests_until = None
        record = records_pb2.LeaderRecord(
            session_id=candidate.session_id, instance_id=candidate.instance_id
        )
        request = rpc_pb2.TxnRequest()
        request.compare.add(
            key=LEADERS.key(name),
            target=rpc_pb2.Compare.MOD,
            result=rpc_pb2.Compare.EQUAL,
            mod_revision=0,
        )
        put = request.success.add().request_put
        put.key, put.value, put.lease = LEADERS.key(name), record.SerializeToString(), lease
        response = await self._etcd.txn(request.SerializeToString())
        await self._cache.reached(response.header.revision)
        if response.succeeded:
            _log.info("session_begun", scheduler=name, instance=candidate.instance_id)
        if not response.succeeded or (candidate not in self._candidates and not candidate.told):
            await self._etcd.revoke_lease(lease)

    def _leader(self, scheduler_name: str) -> records_pb2.LeaderRecord | None:
        record = self._cache.record((LEADERS, scheduler_name))
        return None if record is None else LEADERS.schema.FromString(record.value)

    def _is_of(self, scheduler_name: str, session_id: str) -> bool:
        leader = self._leader(scheduler_name)
        return leader is not None and leader.session_id == session_id


def _lease(session_id: str) -> int:
    return int(session_id, 16)
