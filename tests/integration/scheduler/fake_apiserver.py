"""A SchedulerService in memory that guards its nodes, and fails as it is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from drumline.api.v1.metadata_pb2 import WATCH_MARK_ESTABLISHED, WATCH_MARK_SYNCED
from drumline.api.v1.node_pb2 import Node, NodeLoad
from drumline.api.v1.pod_pb2 import Pod, Verdict
from drumline.model import resources
from drumline.model.errors import (
    DrumlineError,
    FailedPreconditionError,
    NotFoundError,
    UnavailableError,
    to_status,
)
from drumline.process import rpc
from drumline.process import run as process
from drumline.process.rpc import Call
from drumline.process.tls import TlsFiles
from drumline.scheduling.v1 import scheduler_service_pb2
from drumline.scheduling.v1.scheduler_service_pb2 import (
    AssignmentResult,
    EndSessionRequest,
    EndSessionResponse,
    PostAssignmentsRequest,
    PostAssignmentsResponse,
    PostVerdictsRequest,
    PostVerdictsResponse,
    ProposedAssignment,
    RenewSessionRequest,
    RenewSessionResponse,
    SubscribeRequest,
    SubscribeResponse,
)

from tests.unit.scheduler.builders import told

# How long a session is said to live; it ends only when a test ends it.
_SESSION_MILLISECONDS = 300

_SERVICE = scheduler_service_pb2.DESCRIPTOR.services_by_name["SchedulerService"]


class Subscriber(asyncio.Queue[SubscribeResponse | None]):
    """What a subscriber is told; None breaks it."""

    instance = ""
    session = ""


@dataclass
class FakeApiserver:
    """What is stored, what was posted, and what is to go wrong."""

    nodes: dict[str, Node] = field(default_factory=dict)
    waiting: dict[str, Pod] = field(default_factory=dict)
    """By uid, in the order of creation."""
    assigned: dict[str, str] = field(default_factory=dict)
    """Node by name of the pod, in the order of assignment."""
    charged: dict[str, tuple[str, resources.Amounts]] = field(default_factory=dict)
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    """By name of the pod, in the order in which they came."""
    posts: list[list[tuple[str, str]]] = field(default_factory=list)
    """(pod, node) of the proposals in each post, also of those that failed."""
    refusals: list[str] = field(default_factory=list)
    subscribers: list[Subscriber] = field(default_factory=list)
    session: str = ""
    """The session that lives."""
    sessions: int = 0
    """How many there have been."""
    renewals: int = 0
    refused_renewals: int = 0
    posted_in: list[str] = field(default_factory=list)
    """The session that each post carried, of assignments and of verdicts."""

    fail_posts: int = 0
    """So many posts fail, and nothing is done."""
    lose_replies: int = 0
    """So many posts are carried out, and then fail."""
    refuse_wrongly: int = 0
    """So many proposals are refused although there is room."""
    fail_verdicts: int = 0
    """So many posts of verdicts fail."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Posts wait for it before anything is done."""

    def __post_init__(self) -> None:
        self.gate.set()

    # What users, nodes and time do.

    def add_nodes(self, *nodes: Node) -> None:
        self.nodes.update((node.metadata.name, node) for node in nodes)
        self._tell(told(nodes=nodes))

    def add_pods(self, *pods: Pod) -> None:
        self.waiting.update((pod.metadata.uid, pod) for pod in pods)
        self._tell(told(pods=pods))

    def delete_pod(self, uid: str) -> None:
        self._tell(told(gone_pods=[self.waiting.pop(uid)]))

    def end_pod(self, name: str) -> None:
        node, amounts = self.charged.pop(name)
        self._change_load(node, resources.subtract, amounts)

    def break_subscriptions(self) -> None:
        for subscriber in self.subscribers:
            subscriber.put_nowait(None)

    def depose(self) -> None:
        """End the session; whoever has waited, and did not have it, is given the next."""
        ended, self.session = self.session, ""
        self.subscribers.sort(key=lambda subscriber: subscriber.session == ended)
        self._give()

    def _give(self) -> None:
        if not self.session and self.subscribers:
            self.sessions += 1
            self.subscribers[0].session = self.session = f"session-{self.sessions}"
        active = next((s.instance for s in self.subscribers if s.session == self.session), "")
        for subscriber in self.subscribers:
            told_of = SubscribeResponse()
            told_of.session.active_instance = active
            told_of.session.time_to_live.FromMilliseconds(_SESSION_MILLISECONDS)
            if subscriber.session == self.session:
                told_of.session.id = self.session
            subscriber.put_nowait(told_of)

    def _require(self, session: str) -> None:
        if session != self.session or not session:
            raise FailedPreconditionError("deposed", reason="SESSION_ENDED")

    def load(self, node: str) -> NodeLoad:
        return self.nodes[node].load

    # What the scheduler calls.

    async def Subscribe(
        self, request: SubscribeRequest, call: Call
    ) -> AsyncIterator[SubscribeResponse]:
        call.peer.require_scheduler(request.scheduler_name)
        queue = Subscriber()
        queue.instance, queue.session = request.instance_id, request.session_id
        self.subscribers.append(queue)
        try:
            yield SubscribeResponse(mark=WATCH_MARK_ESTABLISHED)
            snapshot = told(nodes=self.nodes.values(), pods=self.waiting.values())
            snapshot.mark = WATCH_MARK_SYNCED
            yield snapshot
            self._give()
            while (message := await queue.get()) is not None:
                yield message
            raise UnavailableError("the subscription was broken on purpose")
        finally:
            self.subscribers.remove(queue)

    async def PostAssignments(
        self, request: PostAssignmentsRequest, call: Call
    ) -> PostAssignmentsResponse:
        call.peer.require_scheduler(request.scheduler_name)
        self.posted_in.append(request.session_id)
        self.posts.append([(p.pod.name, p.node) for p in request.assignments])
        await self.gate.wait()
        self._require(request.session_id)
        if self.fail_posts:
            self.fail_posts -= 1
            raise UnavailableError("failed on purpose")
        response = PostAssignmentsResponse(results=map(self._assign, request.assignments))
        if self.lose_replies:
            self.lose_replies -= 1
            raise UnavailableError("the reply was lost on purpose")
        return response

    async def RenewSession(self, request: RenewSessionRequest, call: Call) -> RenewSessionResponse:
        call.peer.require_scheduler(request.scheduler_name)
        if request.session_id != self.session:
            self.refused_renewals += 1
        self._require(request.session_id)
        self.renewals += 1
        response = RenewSessionResponse()
        response.time_to_live.FromMilliseconds(_SESSION_MILLISECONDS)
        return response

    async def EndSession(self, request: EndSessionRequest, call: Call) -> EndSessionResponse:
        call.peer.require_scheduler(request.scheduler_name)
        if request.session_id == self.session:
            self.depose()
        return EndSessionResponse()

    async def PostVerdicts(self, request: PostVerdictsRequest, call: Call) -> PostVerdictsResponse:
        call.peer.require_scheduler(request.scheduler_name)
        self.posted_in.append(request.session_id)
        self._require(request.session_id)
        if self.fail_verdicts:
            self.fail_verdicts -= 1
            raise UnavailableError("failed on purpose")
        response = PostVerdictsResponse()
        for said in request.verdicts:
            self.verdicts.setdefault(said.pod.name, []).append(said.verdict)
            response.results.add()
        return response

    def _assign(self, proposal: ProposedAssignment) -> AssignmentResult:
        try:
            return AssignmentResult(node=proposal.node, load_generation=self._commit(proposal))
        except DrumlineError as refusal:
            self.refusals.append(refusal.reason)
            node = self.assigned.get(proposal.pod.name, "")
            return AssignmentResult(status=to_status(refusal), node=node)

    def _commit(self, proposal: ProposedAssignment) -> int:
        there = self.assigned.get(proposal.pod.name)
        if there == proposal.node:
            return self.load(there).generation
        if there is not None:
            raise FailedPreconditionError("assigned", reason="ALREADY_ASSIGNED")
        pod = self.waiting.get(proposal.pod.uid)
        if pod is None:
            raise NotFoundError("gone", reason="POD_NOT_FOUND")
        request = resources.pod_request(pod.spec)
        load = self.load(proposal.node)
        free = resources.subtract(
            resources.from_proto(load.allocatable), resources.from_proto(load.promised)
        )
        if self.refuse_wrongly or resources.shortfalls(request, free):
            self.refuse_wrongly = max(0, self.refuse_wrongly - 1)
            raise FailedPreconditionError("full", reason="DOES_NOT_FIT")
        del self.waiting[proposal.pod.uid]
        self.assigned[proposal.pod.name] = proposal.node
        self.charged[proposal.pod.name] = (proposal.node, request)
        self._tell(told(gone_pods=[pod]))
        self._change_load(proposal.node, resources.add, request)
        return load.generation

    def _change_load(self, node: str, change: object, amounts: resources.Amounts) -> None:
        assert callable(change)
        load = self.load(node)
        promised = change(resources.from_proto(load.promised), amounts)
        resources.fill_proto(load.promised, promised)
        load.generation += 1
        self._tell(told(loads={node: load}))

    def _tell(self, message: SubscribeResponse) -> None:
        for subscriber in self.subscribers:
            subscriber.put_nowait(message)


@contextlib.asynccontextmanager
async def serve(fake: FakeApiserver, tls: TlsFiles, port: int) -> AsyncIterator[None]:
    """Serve on a port of this host while the block runs."""
    handlers = [rpc.handlers(_SERVICE, fake)]
    async with process.serving(f"127.0.0.1:{port}", tls, handlers, grace=0.0):
        yield


def over_promised(nodes: Iterable[Node]) -> list[str]:
    """Nodes that are promised more than they have."""
    return [
        node.metadata.name
        for node in nodes
        if node.load.promised.cpu_millicores > node.load.allocatable.cpu_millicores
        or node.load.promised.pods > node.load.allocatable.pods
    ]
