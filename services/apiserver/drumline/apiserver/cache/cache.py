"""Every record of the store, fed by one watch over the whole keyspace.

Changes are applied a revision at a time, so that what readers see is what the
store held at one revision, always. The watch resumes by itself; when the store
has forgotten what lies between, everything is listed again and applied as one
change, so that watchers hear of every deletion.
"""

import asyncio
import contextlib
import heapq
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from aetcd.rpc import rpc_pb2
from drumline.apiserver.cache.index import Change, Index
from drumline.apiserver.cache.objects import (
    NamespaceEntry,
    NodeEntry,
    PodEntry,
    join_namespace,
    join_node,
    join_pod,
)
from drumline.apiserver.cache.versions import epoch_changed, version
from drumline.apiserver.store.etcd import Etcd, KeyValue
from drumline.apiserver.store.kinds import (
    ASSIGNMENTS,
    EPOCH_NAME,
    EPOCHS,
    KINDS,
    NAMESPACES,
    NODE_INFOS,
    NODE_LOADS,
    NODE_STATUSES,
    NODES,
    POD_STATUSES,
    PODS,
    QUOTA_USES,
    Kind,
    Record,
    parse_key,
)
from drumline.apiserver.store.view import Key
from drumline.model.errors import DrumlineError, OutOfRangeError, UnavailableError
from drumline.process import logs
from drumline.process.backoff import Backoff
from drumline.storage.v1 import records_pb2

_log = logs.get(__name__)

_POD_KINDS = frozenset({PODS.prefix, ASSIGNMENTS.prefix, POD_STATUSES.prefix})
_NODE_KINDS = frozenset({NODES.prefix, NODE_INFOS.prefix, NODE_STATUSES.prefix, NODE_LOADS.prefix})
_NAMESPACE_KINDS = frozenset({NAMESPACES.prefix, QUOTA_USES.prefix})

# Revisions before the newest one that a start reads again, so that watches can
# resume over it. One can hold the changes of a thousand pods.
_REPLAYED_REVISIONS = 1000

# Joins an object anew, given its key and which of its records changed.
Joiner = Callable[[str, frozenset[str]], None]

# What a change of a verdict, which is no record, is called among the parts.
VERDICT = "verdict"


# Of pods that end when no node fits.
IMPATIENT = ("impatient", "")


def pod_routes(entry: PodEntry) -> tuple[tuple[str, str], ...]:
    """Give the groups that a pod is in: of its node, of its scheduler, of the impatient."""
    routes = ("node", entry.node), ("scheduler", entry.scheduler_name)
    return (*routes, IMPATIENT) if entry.infeasible_after else routes


class Cache:
    """The newest known state of the store, and the objects joined from it."""

    def __init__(self, etcd: Etcd, *, history: int, patience: float) -> None:
        self._etcd = etcd
        self._history = history
        # How long a reader waits for a revision, in seconds.
        self._patience = patience
        self.epoch = ""
        self.revision = 0
        # The record that names the epoch, as it was when the epoch was last checked.
        self._named_epoch: Record | None = None
        # Whether the store is followed now, and whether that has changed.
        self.live = False
        self.live_changed = asyncio.Event()
        self.pods: Index[PodEntry] = Index(history, pod_routes)
        self.nodes: Index[NodeEntry] = Index(history, lambda _: ())
        self.namespaces: Index[NamespaceEntry] = Index(history, lambda _: ())
        self._tables: dict[str, dict[str, Record]] = {prefix: {} for prefix in KINDS}
        # Nodes before pods: who hears of a placed pod has heard of its node.
        self._joiners: list[Joiner] = [self._join_namespace, self._join_node, self._join_pod]
        self._joiner_of: dict[str, Joiner] = {
            **dict.fromkeys(_NAMESPACE_KINDS, self._join_namespace),
            **dict.fromkeys(_NODE_KINDS, self._join_node),
            **dict.fromkeys(_POD_KINDS, self._join_pod),
        }
        # Who is woken when a record of a kind changes.
        self._wakes: dict[str, set[asyncio.Event]] = {}
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waiter_count = 0
        self._head = 0

    # -- reading ---------------------------------------------------------------

    def record(self, key: Key) -> Record | None:
        """Give a record as of `revision`."""
        return self._tables[key[0].prefix].get(key[1])

    def version(self, revision: int | None = None) -> str:
        """Give the version of a revision, or of the newest known one."""
        return version(self.epoch, self.revision if revision is None else revision)

    async def reached(self, revision: int) -> None:
        """Wait until the cache holds `revision`. Raises UnavailableError when it takes too long."""
        if revision <= self.revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiter_count += 1
        heapq.heappush(self._waiters, (revision, self._waiter_count, future))
        try:
            async with asyncio.timeout(self._patience):
                await future
        except TimeoutError:
            raise UnavailableError(
                "this apiserver is behind the store and cannot answer yet; try again",
                reason="STORE_UNAVAILABLE",
                retry_after=1.0,
            ) from None

    async def reached_by_client(self, revision: int) -> None:
        """Wait for a revision that a client has named; refuse one that the store never had."""
        if revision <= self.revision:
            return
        if revision > await self._etcd.current_revision():
            raise epoch_changed()
        await self.reached(revision)

    async def reached_now(self) -> None:
        """Wait until the cache holds all that was acknowledged before this call."""
        await self.reached(await self._etcd.current_revision())

    @contextlib.contextmanager
    def waking(self, kind: Kind[Any], wake: asyncio.Event) -> Iterator[None]:
        """Set `wake` whenever a record of this kind changes, while the block runs."""
        wakes = self._wakes.setdefault(kind.prefix, set())
        wakes.add(wake)
        try:
            yield
        finally:
            wakes.discard(wake)

    # -- verdicts --------------------------------------------------------------

    def set_verdict(self, key: str, uid: str, verdict: bytes) -> bool:
        """Join a verdict to a pod that waits; False when there is no such pod."""
        old = self.pods.entries.get(key)
        if old is None or old.uid != uid or not old.waits_for_scheduler:
            return False
        if old.verdict != verdict:
            new = join_pod(key, old.pod, old.assignment, old.status, old)
            new.verdict = verdict
            self.pods.commit(key, Change(self.revision, old, new, frozenset({VERDICT})))
        return True

    # -- following the store ---------------------------------------------------

    async def load(self) -> None:
        """Read everything, and the epoch. Raises UnavailableError."""
        self.epoch = await self._read_epoch()
        head = await self._etcd.current_revision()
        # A little of the past, so that watches can resume over a restart.
        start = max(head - min(self._history, _REPLAYED_REVISIONS), 1)
        try:
            await self._load_at(start)
        except OutOfRangeError:
            await self._load_at(head)
        self._head = head

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the store until cancelled; set `ready` when all that was there is known."""
        backoff = Backoff(initial=0.05, maximum=2.0)
        while True:
            try:
                async for revision, items in self._etcd.watch(self.revision + 1):
                    if not revision:
                        await self._check_history()
                        _log.info("store_watched", revision=self.revision)
                        backoff.reset()
                        self._set_live(True)
                    else:
                        self.apply(revision, items)
                        if self.record((EPOCHS, EPOCH_NAME)) is not self._named_epoch:
                            await self._check_history()
                    if self.revision >= self._head and not ready.is_set():
                        ready.set()
            except OutOfRangeError as error:
                _log.warning("store_compacted", error=error.message)
                await self._reload(backoff)
            except DrumlineError as error:
                if self.live:
                    _log.warning("store_lost", error=error.message)
                self._set_live(False)
            await asyncio.sleep(backoff.next_delay())

    def _set_live(self, live: bool) -> None:
        self.live = live
        self.live_changed.set()

    async def _check_history(self) -> None:
        """Start afresh when the store is not the one that was followed."""
        self._named_epoch = self.record((EPOCHS, EPOCH_NAME))
        epoch = await self._read_epoch()
        if epoch == self.epoch:
            if await self._etcd.current_revision() >= self.revision:
                return
            # The store went back, and whoever took it back left its name as it was:
            # revisions of the same name would come to mean something else.
            epoch = await self._read_epoch(other_than=self.epoch)
        _log.warning("store_epoch_changed", before=self.epoch, now=epoch)
        self.epoch, self.revision = epoch, 0
        # Equal revisions of two histories mean nothing: every record is another.
        for table in self._tables.values():
            for name, record in table.items():
                table[name] = Record(record.value, -1)
        for index in (self.pods, self.nodes, self.namespaces):
            index.fail_watchers(epoch_changed())
        raise OutOfRangeError("the store has another history")

    async def _reload(self, backoff: Backoff) -> None:
        """List everything, until it succeeds: following on without would keep what is gone."""
        while True:
            try:
                self._head = await self._etcd.current_revision()
                await self._load_at(self._head)
            except DrumlineError as error:
                _log.warning("store_lost", error=error.message)
                self._set_live(False)
                await asyncio.sleep(backoff.next_delay())
            else:
                return

    async def _load_at(self, revision: int) -> None:
        """List the store at `revision`, and apply what differs as one change."""
        listed = await self._etcd.read(revision=revision)
        found = {item.key: item for item in listed.items}
        gone = [
            KeyValue(KINDS[prefix].key(name), None, revision)
            for prefix, table in self._tables.items()
            for name in table
            if KINDS[prefix].key(name) not in found
        ]
        changed = [
            item for item in found.values() if self._known_revision(item.key) != item.revision
        ]
        for index in (self.pods, self.nodes, self.namespaces):
            index.reset(self.epoch, revision)
        self.apply(revision, gone + changed)

    def _known_revision(self, key: bytes) -> int:
        prefix, name = parse_key(key)
        record = self._tables.get(prefix, {}).get(name)
        return 0 if record is None else record.revision

    def apply(self, revision: int, items: Iterable[KeyValue]) -> None:
        """Take over all that the store changed at one revision."""
        # For each kind of object, which objects changed, and in which records.
        changed: dict[Joiner, dict[str, set[str]]] = {join: {} for join in self._joiners}
        for item in items:
            prefix, name = parse_key(item.key)
            table = self._tables.get(prefix)
            if table is None:
                continue
            if item.value is None:
                table.pop(name, None)
            else:
                table[name] = Record(item.value, item.revision)
            for wake in self._wakes.get(prefix, ()):
                wake.set()
            join = self._joiner_of.get(prefix)
            if join is not None:
                changed[join].setdefault(name, set()).add(prefix)
        self.revision = revision
        for join, names in changed.items():
            for name, parts in names.items():
                join(name, frozenset(parts))
        while self._waiters and self._waiters[0][0] <= revision:
            _, _, future = heapq.heappop(self._waiters)
            if not future.done():
                future.set_result(None)

    def _join_pod(self, name: str, parts: frozenset[str]) -> None:
        old = self.pods.entries.get(name)
        pod = self._tables[PODS.prefix].get(name)
        new = None
        if pod is not None:
            assignment = self._tables[ASSIGNMENTS.prefix].get(name)
            status = self._tables[POD_STATUSES.prefix].get(name)
            new = join_pod(name, pod, assignment, status, old)
        if old is not None or new is not None:
            self.pods.commit(name, Change(self.revision, old, new, parts))

    def _join_node(self, name: str, parts: frozenset[str]) -> None:
        old = self.nodes.entries.get(name)
        node = self._tables[NODES.prefix].get(name)
        info = self._tables[NODE_INFOS.prefix].get(name)
        new = None
        if node is not None and info is not None:
            status = self._tables[NODE_STATUSES.prefix].get(name)
            load = self._tables[NODE_LOADS.prefix].get(name)
            new = join_node(name, node, info, status, load, old)
        if old is not None or new is not None:
            self.nodes.commit(name, Change(self.revision, old, new, parts))

    def _join_namespace(self, name: str, parts: frozenset[str]) -> None:
        old = self.namespaces.entries.get(name)
        namespace = self._tables[NAMESPACES.prefix].get(name)
        new = None
        if namespace is not None:
            usage = self._tables[QUOTA_USES.prefix].get(name)
            new = join_namespace(name, namespace, usage)
        if old is not None or new is not None:
            self.namespaces.commit(name, Change(self.revision, old, new, parts))

    async def _read_epoch(self, other_than: str = "") -> str:
        """Read which history the store is of; begin one when it says nothing, or `other_than`."""
        key = EPOCHS.key(EPOCH_NAME)
        while True:
            revision = 0
            for item in (await self._etcd.range(key, key + b"\0")).items:
                revision = item.revision
                epoch = records_pb2.EpochRecord.FromString(item.value or b"").epoch
                if epoch != other_than:
                    return epoch
            record = records_pb2.EpochRecord(epoch=secrets.token_hex(5))
            request = rpc_pb2.TxnRequest()
            request.compare.add(
                key=key,
                target=rpc_pb2.Compare.MOD,
                result=rpc_pb2.Compare.EQUAL,
                mod_revision=revision,
            )
            put = request.success.add().request_put
            put.key, put.value = key, record.SerializeToString()
            await self._etcd.txn(request.SerializeToString())
