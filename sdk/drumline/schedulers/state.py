"""What a subscription has told, and what is decided and not told yet: a state machine.

It has no clock and talks to nobody; `now` is monotonic, in seconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drumline.api.v1.metadata_pb2 import EVENT_TYPE_REMOVED, WATCH_MARK_SYNCED
from drumline.api.v1.node_pb2 import Node, NodeLoad
from drumline.api.v1.pod_pb2 import Pod
from drumline.model import resources
from drumline.model.errors import from_status
from drumline.schedulers.answers import NOT_TO_PLACE, SESSION_ENDED
from drumline.schedulers.view import Assign, ClusterView, NodeView, PendingPod, Wait
from drumline.scheduling.v1.scheduler_service_pb2 import AssignmentResult, SubscribeResponse

_FIRST_REST_SECONDS = 0.1
_LONGEST_REST_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class _Waiting:
    """A pod that waits."""

    pod: PendingPod
    # The round in which it was last gone through, or which was the last when it came.
    round: int
    rests_until: float = 0.0
    rest: float = 0.0
    told: tuple[str, str] | None = None


@dataclass(slots=True, eq=False)
class _Decided:
    """A pod that is taken to be on a node, until a load contains it."""

    node: str
    node_uid: str
    pod: PendingPod
    contained_from: int | None = None


class State:
    """The nodes, the pods that wait, and what has been decided on them."""

    def __init__(self) -> None:
        self.synced = False
        """Everything that was there has been told."""
        self._nodes: dict[str, Node] = {}
        self._loads: dict[str, NodeLoad] = {}
        self._pods: dict[str, _Waiting] = {}
        self._decided: dict[str, _Decided] = {}
        self._round = 0

    def apply(self, message: SubscribeResponse) -> None:
        """Take in what the apiserver tells."""
        for node_event in message.nodes:
            if node_event.type == EVENT_TYPE_REMOVED:
                name = node_event.node.metadata.name
                self._nodes.pop(name, None)
                self._loads.pop(name, None)
                self._drop_contained(name)
            else:
                self._take_node(node_event.node)
        for change in message.loads:
            self._take_load(change.node, change.load)
        for pod_event in message.pods:
            uid = pod_event.pod.metadata.uid
            if pod_event.type == EVENT_TYPE_REMOVED:
                self._pods.pop(uid, None)
                continue
            # A part of a message would keep the whole message in memory.
            pod = Pod()
            pod.CopyFrom(pod_event.pod)
            pending = PendingPod(pod, resources.pod_request(pod.spec))
            if uid in self._pods:
                self._pods[uid].pod = pending
            else:
                self._pods[uid] = _Waiting(pending, self._round)
        if message.mark == WATCH_MARK_SYNCED:
            self.synced = True

    def _take_node(self, told: Node) -> None:
        node = Node()
        node.CopyFrom(told)
        name = node.metadata.name
        before = self._nodes.get(name)
        self._nodes[name] = node
        if before is not None and before.metadata.uid != node.metadata.uid:
            self._loads.pop(name, None)
            self._drop_contained(name)
        if node.HasField("load"):
            self._take_load(name, node.load)

    def _take_load(self, name: str, load: NodeLoad) -> None:
        known = self._loads.get(name)
        if name in self._nodes and (known is None or load.generation > known.generation):
            self._loads[name] = load
            self._drop_contained(name)

    def _drop_contained(self, name: str) -> None:
        for uid, decided in list(self._decided.items()):
            if decided.node == name and self._is_contained(decided):
                del self._decided[uid]

    def _is_contained(self, decided: _Decided) -> bool:
        """Whether the load contains it, or will never: the node is another of the same name."""
        since = decided.contained_from
        node, load = self._nodes.get(decided.node), self._loads.get(decided.node)
        if since is None:
            return False
        if node is None or node.metadata.uid != decided.node_uid:
            return True
        return load is not None and load.generation >= since

    def pending(self, now: float) -> list[PendingPod]:
        """Give the pods to decide on.

        First come those that the rounds before have left out, then those that were
        created first.
        """
        waiting = [
            waits
            for uid, waits in self._pods.items()
            if uid not in self._decided and waits.rests_until <= now
        ]
        waiting.sort(key=lambda w: (w.round, w.pod.pod.metadata.create_time.ToNanoseconds()))
        return [waits.pod for waits in waiting]

    def went_through(self, pods: Iterable[PendingPod]) -> None:
        """Say which pods a round came to; the others come first in the next."""
        self._round += 1
        for pod in pods:
            if pod.uid in self._pods:
                self._pods[pod.uid].round = self._round

    def next_end_of_rest(self, now: float) -> float | None:
        """Give in how many seconds a pod that was refused has rested; None when none rests."""
        ends = [waits.rests_until for waits in self._pods.values() if waits.rests_until > now]
        return min(ends) - now if ends else None

    def cluster(self) -> ClusterView:
        """Give the nodes as they are with all that has been decided."""
        taken = dict.fromkeys(self._nodes, resources.ZERO)
        for decided in self._decided.values():
            if decided.node in taken:
                taken[decided.node] = resources.add(taken[decided.node], decided.pod.request)
        views = []
        for name, node in self._nodes.items():
            load = self._loads.get(name, NodeLoad())
            allocatable = resources.from_proto(load.allocatable)
            promised = resources.add(resources.from_proto(load.promised), taken[name])
            free = resources.subtract(allocatable, promised)
            views.append(NodeView(node, allocatable, free, load.schedulable))
        return ClusterView.of(views)

    def decide(self, decision: Assign) -> None:
        """Count on an assignment that is about to be posted."""
        node = self._nodes.get(decision.node)
        uid = "" if node is None else node.metadata.uid
        self._decided[decision.pod.uid] = _Decided(decision.node, uid, decision.pod)

    def withdraw(self, decisions: Sequence[Assign]) -> None:
        """Take back what was not carried out."""
        for decision in decisions:
            self._decided.pop(decision.pod.uid, None)

    def answer(self, decision: Assign, result: AssignmentResult, now: float) -> str:
        """Take in what became of an assignment; give the reason of its refusal, or ""."""
        uid = decision.pod.uid
        decided = self._decided[uid]
        if not result.status.code:
            decided.contained_from = result.load_generation
            if self._is_contained(decided):
                del self._decided[uid]
            self._pods.pop(uid, None)
            return ""
        del self._decided[uid]
        reason = from_status(result.status).reason
        waits = self._pods.get(uid)
        if reason in NOT_TO_PLACE:
            self._pods.pop(uid, None)
        elif reason != SESSION_ENDED and waits is not None:
            waits.rest = min(max(2 * waits.rest, _FIRST_REST_SECONDS), _LONGEST_REST_SECONDS)
            waits.rests_until = now + waits.rest
        return reason

    def news(self, decisions: Sequence[Wait]) -> list[Wait]:
        """Give those that say of a pod what has not been said of it."""
        found = []
        for wait in decisions:
            waits = self._pods.get(wait.pod.uid)
            said = (wait.reason, wait.message)
            if waits is not None and waits.told != said:
                waits.told = said
                found.append(wait)
        return found

    def tell_all_again(self) -> None:
        """Forget what has been said of pods: it did not arrive, or was said in another session."""
        for waits in self._pods.values():
            waits.told = None
