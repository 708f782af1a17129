"""The scheduler as a state machine: what is told goes in, what to post comes out.

It has no clock and talks to nobody. One object serves one subscription: after a
break a new one is built from the new snapshot, so that nothing doubtful survives.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import grpc
from drumline.api.v1.metadata_pb2 import EVENT_TYPE_REMOVED, WATCH_MARK_SYNCED
from drumline.api.v1.node_pb2 import Node
from drumline.model.errors import from_status
from drumline.scheduler import placement, verdicts
from drumline.scheduler.model import Assumption, ClusterModel
from drumline.scheduler.placement import Scoring
from drumline.scheduler.queue import Entry, Line, PodQueue, State
from drumline.scheduler.verdicts import Judgement
from drumline.schedulers.answers import NOT_TO_PLACE, SESSION_ENDED
from drumline.scheduling.v1.scheduler_service_pb2 import AssignmentResult, SubscribeResponse

# Another node may take it.
_ELSEWHERE = {"NODE_NOT_FOUND", "NODE_NOT_SCHEDULABLE", "DOES_NOT_FIT"}
# The outcome is not known, or may be another next time: the same is proposed again.
_REPEAT = {
    status.value[0]
    for status in (
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
    )
}

# One by one, a round is smaller, so that it does not keep everything else waiting.
_ROUND_IN_ORDER = 200

# At one `review`: verdicts that are said anew, and lines that are looked at.
_REVIEWED_VERDICTS = 1000
_REVIEWED_LINES = 100


@dataclass(slots=True, eq=False)
class Proposal:
    """A pod, and where it is to go."""

    entry: Entry
    assumption: Assumption

    @property
    def node(self) -> str:
        """The node's name."""
        return self.assumption.node.name


class Core:
    """Decides where pods go, and why not."""

    def __init__(self, scoring: Scoring, start: int) -> None:
        """Make one that knows nothing; of equal nodes it takes that in row `start` first."""
        self.model = ClusterModel()
        self.queue = PodQueue()
        self.synced = False
        """Everything that was there has been told."""
        self._session = ""
        self._scoring = scoring
        self._start = start
        self._untold: dict[str, Entry] = {}

    def apply(self, message: SubscribeResponse) -> None:
        """Take in what the apiserver tells."""
        for node_event in message.nodes:
            if node_event.type == EVENT_TYPE_REMOVED:
                self.model.remove_node(node_event.node.metadata.name)
            else:
                # A part of a message would keep the whole message in memory.
                node = Node()
                node.CopyFrom(node_event.node)
                self.model.set_node(node)
        for change in message.loads:
            self.model.set_load(change.node, change.load)
        for pod_event in message.pods:
            if pod_event.type == EVENT_TYPE_REMOVED:
                self.queue.remove(pod_event.pod.metadata.uid)
            else:
                self._tell(self.queue.put(pod_event.pod))
        if message.mark == WATCH_MARK_SYNCED:
            self.synced = True

    def decide_in(self, session: str) -> None:
        """Say which session this scheduler has; "" for none, as at first.

        Without one it takes everything in, and gives nothing to post. With a new one all
        verdicts are due: who had the one before may have said others, or none.
        """
        if session and session != self._session:
            for entry in self.queue.entries():
                entry.told = None
                self._tell(entry)
        self._session = session

    @property
    def has_work(self) -> bool:
        """There are pods to try."""
        if not self.synced or not self._session:
            return False
        self._wake()
        return self.queue.has_open

    @property
    def has_untold(self) -> bool:
        """There are verdicts to post."""
        return bool(self._session) and bool(self._untold)

    def next_batch(self, limit: int) -> list[Proposal]:
        """Place up to `limit` pods, and count on it; pods that fit nowhere are parked.

        Older pods come first. Where all have room their order does not matter, and
        pods of one shape are placed together; where they have not, the round is
        taken back and done one by one.
        """
        if not self._session:
            return []
        self._wake()
        round_ = self.queue.oldest(limit)
        placed, short = self._place_together(round_)
        if short and len(round_) > 1:
            self._take_back(placed)
            hopeless = [line for line in short if not self.model.fits(line.shape).any()]
            for line in hopeless:
                self._park(line)
            round_ = {line: count for line, count in round_.items() if line not in hopeless}
            placed, short = self._place_together(round_)
            if short and len(round_) > 1:
                self._take_back(placed)
                return self._place_in_order(min(limit, _ROUND_IN_ORDER))
        batch: list[Proposal] = []
        for line, assumptions in placed.items():
            batch += map(Proposal, self.queue.take(line, len(assumptions)), assumptions)
        for line in short:
            self._park(line)
        return batch

    def _place_together(
        self, round_: Mapping[Line, int]
    ) -> tuple[dict[Line, list[Assumption]], list[Line]]:
        """Give where pods of each line can go, and the lines of which not all found a place."""
        placed: dict[Line, list[Assumption]] = {}
        short: list[Line] = []
        for line, count in round_.items():
            placed[line] = self._assume(line, count)
            if len(placed[line]) < count:
                short.append(line)
        return placed, short

    def _place_in_order(self, limit: int) -> list[Proposal]:
        batch: list[Proposal] = []
        while len(batch) < limit and (line := self.queue.first_line()) is not None:
            assumptions = self._assume(line, 1)
            if assumptions:
                batch += map(Proposal, self.queue.take(line, 1), assumptions)
            else:
                self._park(line)
        return batch

    def _assume(self, line: Line, count: int) -> list[Assumption]:
        rows = placement.place(self.model, line.shape, count, self._scoring, self._start)
        if not rows:
            return []
        self._start = rows[-1] + 1
        return self.model.assume(line.shape, rows)

    def _take_back(self, placed: Mapping[Line, Sequence[Assumption]]) -> None:
        for assumptions in placed.values():
            for assumption in assumptions:
                self.model.cancel(assumption)

    def answer(
        self, batch: Sequence[Proposal], results: Iterable[AssignmentResult]
    ) -> tuple[list[Proposal], Counter[str]]:
        """Take in what became of a batch: what to propose again as it is, and counts by reason."""
        again: list[Proposal] = []
        reasons: Counter[str] = Counter()
        for proposal, result in zip(batch, results, strict=True):
            if not result.status.code:
                self.model.confirm(proposal.assumption, result.load_generation)
                self.queue.forget(proposal.entry)
                reasons["OK"] += 1
                continue
            reason = from_status(result.status).reason
            reasons[reason] += 1
            if reason in NOT_TO_PLACE:
                self.model.cancel(proposal.assumption)
                self.queue.forget(proposal.entry)
            elif reason == SESSION_ENDED:
                self.withdraw([proposal])
            elif reason in _ELSEWHERE:
                self.model.cancel(proposal.assumption, refused_by_node=True)
                if self.queue.put_back(proposal.entry):
                    self._tell(proposal.entry)
            elif result.status.code in _REPEAT:
                again.append(proposal)
            else:
                self.model.cancel(proposal.assumption)
                self.queue.set_aside(proposal.entry)
        return again, reasons

    def withdraw(self, batch: Iterable[Proposal]) -> None:
        """Take back proposals that were not carried out: their pods wait again."""
        for proposal in batch:
            self.model.cancel(proposal.assumption)
            self.queue.put_back(proposal.entry)

    def take_verdicts(self, limit: int) -> list[tuple[Entry, Judgement]]:
        """Give up to `limit` verdicts to post, those that were due first."""
        taken: list[tuple[Entry, Judgement]] = []
        while self.has_untold and len(taken) < limit:
            entry = self._untold.pop(next(iter(self._untold)))
            judgement = entry.line.judgement
            if entry.state is State.WAITING and judgement is not None and entry.told != judgement:
                entry.told = judgement
                taken.append((entry, judgement))
        return taken

    def verdicts_failed(self, taken: Iterable[tuple[Entry, Judgement]]) -> None:
        """Say that verdicts did not arrive: they are due again."""
        for entry, _ in taken:
            entry.told = None
            self._tell(entry)

    def review(self) -> None:
        """Judge parked pods anew where something has changed; a bounded part at each call.

        So verdicts follow the cluster, and what they cost does not grow with it.
        """
        if len(self._untold) >= _REVIEWED_VERDICTS:
            return
        self.model.refresh()
        version = self.model.version
        stale = [line for line in self.queue.blocked_lines() if line.judged_version != version]
        stale.sort(key=lambda line: line.judged_version)
        for line in stale[:_REVIEWED_LINES]:
            self._judge(line)
            if len(self._untold) >= _REVIEWED_VERDICTS:
                break

    def sweep(self) -> None:
        """Try everything again, whether or not something has changed: a lost wake-up heals."""
        self.model.lift_holds()
        self.queue.open_all()

    def _wake(self) -> None:
        rows = self.model.take_improved()
        if len(rows):
            parked = [line.shape for line in self.queue.blocked_lines()]
            self.queue.open(self.model.helped(parked, rows))

    def _park(self, line: Line) -> None:
        self.queue.block(line)
        if line.judgement is None:
            self._judge(line)
        else:
            # Judging anew at each try would cost most where a long line moves
            # fast; the next review does it.
            line.judged_version = -1

    def _judge(self, line: Line) -> None:
        judgement = verdicts.judge(self.model, line.shape)
        line.judged_version = self.model.version
        if judgement is None:
            self.queue.open([line.shape])
            return
        # The newest also when it is equal: what comes closest may differ, and is told with
        # the verdict of a pod that comes later.
        line.judgement = judgement
        for entry in line.entries():
            self._tell(entry)

    def _tell(self, entry: Entry) -> None:
        """Note that the pod's verdict is due, when it is parked and has another one or none."""
        line = entry.line
        if line.blocked and line.judgement is not None and entry.told != line.judgement:
            self._untold.setdefault(entry.uid, entry)
