"""Group commit: the steps of concurrent calls share one etcd transaction.

Steps are planned one after another on the newest records known. Those that touch
nothing in common become nested transactions of their own inside the one that is
sent, so that a conflict with another apiserver touches only its own part; that
part is planned again when the cache has caught up. A part that has lost before asks
what it lost to in the same transaction: it would otherwise always be late by as
long as a change takes to the cache, and lose again. One transaction is under way at
a time: what comes meanwhile forms the next, so nothing waits for a timer and batches
grow with the load. (Under much load of small calls `pace` holds one back a little.)
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from drumline.apiserver.store import transactions
from drumline.apiserver.store.etcd import Etcd, TooLargeError
from drumline.apiserver.store.kinds import Record
from drumline.apiserver.store.limits import Limits
from drumline.apiserver.store.pace import Pace
from drumline.apiserver.store.view import Batch, Key, View
from drumline.model.errors import (
    ConflictError,
    DrumlineError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from drumline.process import clock, logs

_log = logs.get(__name__)

T = TypeVar("T")

# A step that loses against other apiservers this often is given back. Of three that
# want the same record at once each wins a third of the time.
_MAX_TRIES = 50
# Steps of one transaction: enough to fill etcd, few enough to answer soon.
_MAX_STEPS = 1000
_MAX_WAITING_STEPS = 100_000


class Mirror(Protocol):
    """What the committer needs of the cache: the newest records that etcd has told of."""

    revision: int
    epoch: str

    def record(self, key: Key) -> Record | None:
        """Give a record as of `revision`."""

    async def reached(self, revision: int) -> None:
        """Wait until the mirror holds `revision`."""


class Committed(NamedTuple, Generic[T]):
    """What a step gave, and the revision of the store at which it holds."""

    value: T
    revision: int


Step = Callable[[View], T]


@dataclass(slots=True)
class _Job(Generic[T]):
    """The steps of one call."""

    steps: Sequence[Step[T]]
    done: asyncio.Future[None]
    remaining: int
    outcomes: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Entry:
    """One step of a job, waiting for its transaction."""

    job: _Job[Any]
    index: int
    tries: int = 0
    value: Any = None
    refusal: DrumlineError | None = None

    def settle(self, outcome: object) -> None:
        self.job.outcomes[self.index] = outcome
        self.job.remaining -= 1
        if self.job.remaining == 0 and not self.job.done.done():
            self.job.done.set_result(None)


class Committer:
    """Carries out steps, many a transaction."""

    def __init__(self, etcd: Etcd, mirror: Mirror, limits: Limits) -> None:
        self._etcd = etcd
        self._mirror = mirror
        self._limits = limits
        self._waiting: deque[_Entry] = deque()
        self._wake = asyncio.Event()
        # What was committed here and the mirror does not hold yet.
        self._ahead: dict[Key, tuple[int, Record | None]] = {}
        self._ahead_order: deque[tuple[int, list[Key]]] = deque()
        self._epoch = mirror.epoch
        self._pace = Pace()
        # Steps of the next transaction: fewer after one that etcd found too large.
        self._most_steps = _MAX_STEPS

    async def submit(self, steps: Sequence[Step[T]]) -> list[Committed[T] | DrumlineError]:
        """Carry out `steps`; give for each, in order, what it gave or why it was refused."""
        if not steps:
            return []
        if len(self._waiting) + len(steps) > _MAX_WAITING_STEPS:
            raise UnavailableError(
                "too many changes are waiting for the store; try again", retry_after=1.0
            )
        job: _Job[T] = _Job(steps, asyncio.get_running_loop().create_future(), len(steps))
        job.outcomes = [None] * len(steps)
        self._waiting.extend(_Entry(job, index) for index in range(len(steps)))
        self._wake.set()
        await job.done
        return job.outcomes

    async def one(self, step: Step[T]) -> Committed[T]:
        """Carry out one step; raises its refusal."""
        (outcome,) = await self.submit([step])
        if isinstance(outcome, DrumlineError):
            raise outcome
        return outcome

    async def run(self) -> None:
        """Commit what is submitted, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._collect()
                await self._commit_batch()

    async def _collect(self) -> None:
        """Let what concurrent calls submit in this turn of the loop join in, or a little later."""
        await asyncio.sleep(0)
        while True:
            wait = self._pace.wait(clock.monotonic(), clock.processor(), len(self._waiting))
            if not wait:
                return
            await asyncio.sleep(wait)

    async def _commit_batch(self) -> None:
        batch, entries = self._plan()
        calls = len({id(entry.job) for entry in entries})
        self._pace.begin(clock.monotonic(), clock.processor(), calls)
        components = batch.components()
        parts = [
            transactions.part(batch, component, any(entries[step].tries for step in component))
            for component in components
        ]
        try:
            response = await self._etcd.txn(transactions.whole(parts))
        except TooLargeError:
            self._split(entries)
            return
        except DrumlineError as failure:
            for entry in entries:
                entry.settle(failure)
            return
        self._most_steps = _MAX_STEPS
        revision = response.header.revision
        lost: list[_Entry] = []
        behind = False
        for component, part, answer in zip(components, parts, response.responses, strict=True):
            if answer.response_txn.succeeded:
                self._succeeded(batch, component, entries, revision)
                continue
            lost += [entries[step] for step in component]
            if part.asked:
                self._learn(part.asked, answer.response_txn.responses, revision)
            else:
                behind = True
        if behind:
            await self._caught_up(lost, revision)
        self._plan_again(lost)

    def _split(self, entries: list[_Entry]) -> None:
        """Try what was too large again in smaller parts; refuse what is too large by itself."""
        if len(entries) > 1:
            self._most_steps = len(entries) // 2
            self._waiting.extendleft(reversed(entries))
            return
        entries[0].settle(
            InvalidArgumentError(
                "what would be stored is larger than the store takes at once: make it smaller, or"
                f" raise etcd's --max-request-bytes (now about {self._limits.bytes} bytes) and"
                " start the apiserver again",
                reason="TOO_LARGE",
            )
        )

    def _plan(self) -> tuple[Batch, list[_Entry]]:
        self._forget_what_the_mirror_holds()
        batch = Batch(self._lookup)
        entries: list[_Entry] = []
        operations = size = 0
        # A nested transaction's operations count together with the outer one's;
        # half for each is always within the limit.
        max_operations, max_bytes = self._limits.operations // 2, self._limits.bytes * 3 // 4
        while self._waiting and len(entries) < self._most_steps:
            entry = self._waiting[0]
            view = View(batch)
            entry.refusal = entry.value = None
            try:
                entry.value = entry.job.steps[entry.index](view)
            except DrumlineError as refusal:
                entry.refusal = refusal
                view.written.clear()
            except Exception as fault:
                self._waiting.popleft()
                _log.error("step_fault", exc_info=fault)
                entry.settle(InternalError("the change failed by a fault of the apiserver"))
                continue
            operations += len(view.read) + len(view.written)
            size += sum(m.ByteSize() for m in view.written.values() if m is not None)
            # Compared, and once a step has lost also asked for.
            size += (200 if entry.tries else 100) * len(view.read)
            if entries and (operations > max_operations or size > max_bytes):
                break
            self._waiting.popleft()
            batch.add(view)
            entries.append(entry)
        return batch, entries

    def _lookup(self, key: Key) -> Record | None:
        ahead = self._ahead.get(key)
        return self._mirror.record(key) if ahead is None else ahead[1]

    def _succeeded(
        self, batch: Batch, component: list[int], entries: list[_Entry], revision: int
    ) -> None:
        written: list[Key] = []
        for step in component:
            entry = entries[step]
            entry.settle(entry.refusal or Committed(entry.value, revision))
            for key in batch.touched[step][1]:
                value = batch.encoded(key)
                record = None if value is None else Record(value, revision)
                self._ahead[key] = (revision, record)
                written.append(key)
        if written:
            self._ahead_order.append((revision, written))

    def _forget_what_the_mirror_holds(self) -> None:
        order = self._ahead_order
        if self._epoch != self._mirror.epoch:
            self._epoch = self._mirror.epoch
            self._ahead.clear()
            order.clear()
        while order and order[0][0] <= self._mirror.revision:
            revision, keys = order.popleft()
            for key in keys:
                if key in self._ahead and self._ahead[key][0] <= revision:
                    del self._ahead[key]

    def _learn(self, keys: list[Key], answers: Sequence[Any], revision: int) -> None:
        """Take over the records that the store has answered for `keys`."""
        for key, answer in zip(keys, answers, strict=True):
            found = answer.response_range.kvs
            record = Record(found[0].value, found[0].mod_revision) if found else None
            self._ahead[key] = (revision, record)
        self._ahead_order.append((revision, keys))

    async def _caught_up(self, lost: list[_Entry], revision: int) -> None:
        """Wait until the mirror holds what was lost to; without that, settle and empty `lost`."""
        try:
            await self._mirror.reached(revision)
        except UnavailableError as failure:
            for entry in lost:
                entry.settle(failure)
            lost.clear()

    def _plan_again(self, lost: list[_Entry]) -> None:
        for entry in reversed(lost):
            entry.tries += 1
            if entry.tries < _MAX_TRIES:
                self._waiting.appendleft(entry)
            else:
                entry.settle(
                    ConflictError(
                        "other changes to the same objects kept coming in between; try again",
                        retry_after=0.1,
                    )
                )
