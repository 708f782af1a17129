"""All pods of a kubelet's nodes, and what is free on each: no clock, no I/O, no gRPC.

What the cluster wants and what the runtime sees come in; actions of
`drumline.kubelet.lifecycle` come out, each with the record that it is about. Times
are seconds of any clock that only goes forward, passed in.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from drumline.api.v1.pod_pb2 import PHASE_RUNNING, PHASE_TERMINATED, Pod
from drumline.kubelet import lifecycle, statuses
from drumline.kubelet.lifecycle import Action, Life, Report, Stage
from drumline.kubelet.runtime import PodState, RecoveredPod
from drumline.model import fit, resources
from drumline.model.names import DEFAULT_GRACE_SECONDS
from drumline.model.resources import Amounts


class Judge(Protocol):
    """What the table asks of a runtime."""

    def refusal(self, pod: Pod) -> str:
        """Say why the runtime cannot run such a pod at all; nothing when it can."""

    def adopt(self, pod: Pod) -> PodState | None:
        """Go on with a pod that was reported running and is unknown here, if possible."""


class Record:
    """One pod: what the cluster wants of it and what it is."""

    __slots__ = ("charged", "deleted", "life", "node", "pod", "seen", "sequence", "since", "uid")

    def __init__(self, uid: str, node: str, pod: Pod | None) -> None:
        self.uid = uid
        self.node = node
        self.pod = pod
        self.life = Life()
        self.charged: Amounts | None = None
        # The cluster has named it since this kubelet started: only then is it reported.
        self.seen = False
        # The cluster has deleted it, so nothing of it is kept.
        self.deleted = False
        # Of the newest report that was sent from here, or that the cluster has.
        self.sequence = 0
        # When it was forgotten.
        self.since = 0.0

    @property
    def grace(self) -> float:
        """Seconds between asking it to end and killing it."""
        if self.pod and self.pod.spec.HasField("termination_grace_period_seconds"):
            return float(self.pod.spec.termination_grace_period_seconds)
        return float(DEFAULT_GRACE_SECONDS)


Actions = list[tuple[Record, Action]]


class PodTable:
    """The pods. `allocatable` is what pods may have, by the name of each node."""

    def __init__(self, allocatable: Mapping[str, Amounts], judge: Judge) -> None:
        self._allocatable = dict(allocatable)
        self._free = dict(allocatable)
        self._judge = judge
        self.records: dict[str, Record] = {}
        # Ended and no longer assigned, the oldest first: kept for their output, and
        # so that a late word of an old assignment starts nothing again.
        self.kept: dict[str, Record] = {}
        self._waiting: dict[str, list[Record]] = {}

    def free(self, node: str) -> Amounts:
        """Give what the node's pods may have and do not use."""
        return self._free[node]

    def recover(self, found: RecoveredPod, node: str) -> Actions:
        """Take in a pod from before the kubelet's start."""
        record = self.records[found.uid] = Record(found.uid, node, found.pod)
        if found.state is None:
            return []
        if found.pod is not None and not found.state.ended:
            self._charge(record)
        return self._with(record, record.life.recover(found.state))

    def assigned(self, pod: Pod, now: float) -> Actions:
        """The cluster says that the pod is assigned here, or how it has changed."""
        uid = pod.metadata.uid
        node = pod.assignment.node
        if node not in self._allocatable:
            return []
        record = self.records.get(uid)
        if record is None and uid in self.kept:
            record = self.records[uid] = self.kept.pop(uid)
            record.life.assigned = True
        if record is None:
            return self._begin(Record(uid, node, pod), pod)
        newest = pod.status.report_sequence >= record.sequence
        record.pod = pod
        record.seen = True
        record.sequence = max(record.sequence, pod.status.report_sequence)
        if record.life.stage is Stage.WAITING and record not in self._waiting.get(node, ()):
            return self._admit(record, pod)
        if record.charged is None and record.life.stage in {Stage.STARTING, Stage.RUNNING}:
            self._charge(record)
        actions: list[Action] = []
        if pod.metadata.HasField("delete_time"):
            actions = record.life.stop(lifecycle.DELETED, record.grace, now)
        if newest and Report() not in actions and _differs(record.life, pod):
            actions.append(Report())
        return self._with(record, actions)

    def removed(self, pod: Pod, now: float) -> Actions:
        """The cluster says that nothing of the pod may run here."""
        uid = pod.metadata.uid
        deleted = pod.metadata.HasField("delete_time")
        record = self.records.get(uid) or (self.kept.pop(uid, None) if deleted else None)
        if record is None:
            return []
        record.deleted = record.deleted or deleted
        return self._with(record, record.life.release(record.grace, now))

    def synced(self, listed: Collection[str], now: float) -> Actions:
        """The cluster has named everything that is assigned here: nothing else may run."""
        actions: Actions = []
        for record in [r for r in self.records.values() if r.uid not in listed]:
            actions += self._with(record, record.life.release(record.grace, now))
        return actions

    def observed(self, state: PodState) -> Actions:
        """The runtime says what a pod is."""
        record = self.records.get(state.uid)
        if record is None:
            return []
        return self._with(record, record.life.observe(state))

    def stop_all(self, reason: str, grace: float, now: float) -> Actions:
        """End every pod, within the shorter of its own grace and `grace` seconds."""
        actions: Actions = []
        for record in list(self.records.values()):
            within = min(grace, record.grace)
            actions += self._with(record, record.life.stop(reason, within, now))
        return actions

    def forget(self, record: Record, now: float) -> None:
        """Keep the record only for its output."""
        self.records.pop(record.uid, None)
        record.since = now
        if not record.deleted:
            self.kept[record.uid] = record

    def expire(self, count: int, age: float, now: float) -> list[str]:
        """Drop what was kept long enough: all but the newest `count`, and what is older.

        Gives the uids.
        """
        gone = [
            uid
            for place, (uid, record) in enumerate(self.kept.items())
            if place < len(self.kept) - count or now - record.since > age
        ]
        for uid in gone:
            del self.kept[uid]
        return gone

    def _begin(self, record: Record, pod: Pod) -> Actions:
        status = pod.status
        if status.phase == PHASE_TERMINATED:
            return []
        record.seen = True
        record.sequence = status.report_sequence
        self.records[record.uid] = record
        if status.phase == PHASE_RUNNING:
            state = self._judge.adopt(pod)
            if state is None:
                why = "the node has no trace of it, though it was reported running"
                return self._with(record, record.life.refuse(lifecycle.LOST_BY_NODE, why))
            self._charge(record)
            record.life.recover(state)
            # It was reported already, unless by other words.
            return self._with(record, [Report()] if _differs(record.life, pod) else [])
        return self._admit(record, pod)

    def _admit(self, record: Record, pod: Pod) -> Actions:
        """Judge whether it runs here: at once, when other pods have left, or never."""
        life = record.life
        if pod.metadata.HasField("delete_time"):
            why = "deletion was asked for before it was started"
            return self._with(record, life.refuse(lifecycle.DELETED, why))
        why = self._judge.refusal(pod)
        if why:
            return self._with(record, life.refuse(lifecycle.REJECTED, why))
        asked = resources.pod_request(pod.spec)
        causes = fit.resource_causes(asked, self._free[record.node])
        if not causes:
            self._charge(record)
            return self._with(record, life.admit())
        room = self._free[record.node]
        for other in self.records.values():
            if other.node == record.node and other.charged and not other.life.assigned:
                room = resources.add(room, other.charged)
        if not fit.resource_causes(asked, room):
            self._waiting.setdefault(record.node, []).append(record)
            return self._with(record, [Report()])
        why = "the pod does not fit on the node: " + "; ".join(c.message for c in causes)
        return self._with(record, life.refuse(lifecycle.REJECTED, why))

    def _charge(self, record: Record) -> None:
        assert record.pod is not None
        record.charged = resources.pod_request(record.pod.spec)
        self._free[record.node] = resources.subtract(self._free[record.node], record.charged)

    def _with(self, record: Record, actions: list[Action]) -> Actions:
        """Put the record to its actions; when it has ended, let others have its room."""
        found: Actions = [(record, action) for action in actions]
        if record.charged is not None and record.life.stage is Stage.ENDED:
            self._free[record.node] = resources.add(self._free[record.node], record.charged)
            record.charged = None
            for waiting in self._waiting.pop(record.node, ()):
                if waiting.life.stage is Stage.WAITING and waiting.pod is not None:
                    found += self._admit(waiting, waiting.pod)
        return found


def _differs(life: Life, pod: Pod) -> bool:
    """Whether the cluster holds something else of the pod than is known here."""
    if life.stage not in {Stage.RUNNING, Stage.ENDED}:
        return False
    ours = statuses.reason_and_message(life)
    return (statuses.PHASES[life.stage], *ours) != (
        pod.status.phase,
        pod.status.reason,
        pod.status.message,
    )
