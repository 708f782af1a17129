"""An apiserver as the nodecontroller sees it, with the faults that a test asks for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from drumline.api.v1.metadata_pb2 import (
    EVENT_TYPE_CHANGED,
    EVENT_TYPE_REMOVED,
    WATCH_MARK_ESTABLISHED,
    WATCH_MARK_SYNCED,
)
from drumline.api.v1.node_pb2 import Node, NodeState
from drumline.api.v1.node_service_pb2 import NodeEvent
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2
from drumline.internal.v1alpha1.node_lifecycle_service_pb2 import (
    NodeTransition,
    PostNodeTransitionsRequest,
    PostNodeTransitionsResponse,
    WatchNodesRequest,
    WatchNodesResponse,
)
from drumline.model.errors import (
    DrumlineError,
    FailedPreconditionError,
    NotFoundError,
    UnavailableError,
    to_status,
)
from drumline.model.names import IDENTITY_NODECONTROLLER, LABEL_SIMULATED
from drumline.process import rpc
from drumline.process.rpc import Call
from drumline.process.tls import TlsFiles
from google.rpc.status_pb2 import Status

_LIFECYCLE = node_lifecycle_service_pb2.DESCRIPTOR.services_by_name["NodeLifecycleService"]


class FakeApiserver:
    """Holds nodes in memory; records what is posted."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.nodes: dict[str, Node] = {}
        self.posts: list[list[NodeTransition]] = []
        self.watches = 0
        self.in_flight = 0
        self.most_in_flight = 0
        # Faults: how many first lists end before their mark, what is answered
        # instead of a transition, and a gate that posts wait at.
        self.cut_lists = 0
        self.refuse: Callable[[NodeTransition], DrumlineError | None] = lambda _: None
        self.gate = asyncio.Event()
        self.gate.set()
        self._streams: set[asyncio.Queue[NodeEvent | None]] = set()

    def add(self, *names: str, uid: str = "", simulated: bool = False) -> None:
        """Register nodes."""
        for name in names:
            node = Node()
            node.metadata.name = name
            node.metadata.uid = uid or f"uid-of-{name}"
            if simulated:
                node.info.labels[LABEL_SIMULATED] = "true"
            self.nodes[name] = node
            self._send(EVENT_TYPE_CHANGED, node)

    def remove(self, name: str) -> None:
        """Delete a node."""
        self._send(EVENT_TYPE_REMOVED, self.nodes.pop(name))

    def cut(self) -> None:
        """End every watch."""
        for stream in self._streams:
            stream.put_nowait(None)

    def states(self) -> dict[str, str]:
        """Give what is stored of each node."""
        return {name: NodeState.Name(n.status.state)[11:] for name, n in self.nodes.items()}

    def posted(self) -> list[tuple[str, str]]:
        """Give all that was ever posted, in order."""
        return [(t.node, NodeState.Name(t.status.state)[11:]) for post in self.posts for t in post]

    def _send(self, kind: "NodeEvent.type.ValueType", node: Node) -> None:  # type: ignore[name-defined]
        event = NodeEvent(type=kind, node=node)
        for stream in self._streams:
            stream.put_nowait(event)

    async def WatchNodes(
        self, request: WatchNodesRequest, call: Call
    ) -> AsyncIterator[WatchNodesResponse]:
        """Serve a watch."""
        call.peer.require(IDENTITY_NODECONTROLLER)
        self.watches += 1
        if request.version != self.version:
            raise FailedPreconditionError(
                f"this apiserver is {self.version}, the caller {request.version}",
                reason="VERSION_MISMATCH",
            )
        stream: asyncio.Queue[NodeEvent | None] = asyncio.Queue()
        self._streams.add(stream)
        try:
            yield WatchNodesResponse(mark=WATCH_MARK_ESTABLISHED)
            yield WatchNodesResponse()
            listed = [NodeEvent(type=EVENT_TYPE_CHANGED, node=n) for n in self.nodes.values()]
            if self.cut_lists:
                self.cut_lists -= 1
                yield WatchNodesResponse(events=listed[: len(listed) // 2])
                raise UnavailableError("the list was cut")
            yield WatchNodesResponse(events=listed, mark=WATCH_MARK_SYNCED)
            while (event := await stream.get()) is not None:
                yield WatchNodesResponse(events=[event])
        finally:
            self._streams.discard(stream)

    async def PostNodeTransitions(
        self, request: PostNodeTransitionsRequest, call: Call
    ) -> PostNodeTransitionsResponse:
        """Take transitions."""
        call.peer.require(IDENTITY_NODECONTROLLER)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.gate.wait()
            self.posts.append(list(request.transitions))
            return PostNodeTransitionsResponse(
                results=[self._take(transition) for transition in request.transitions]
            )
        finally:
            self.in_flight -= 1

    def _take(self, transition: NodeTransition) -> Status:
        node = self.nodes.get(transition.node)
        error = self.refuse(transition)
        if error is None and (node is None or node.metadata.uid != transition.node_uid):
            error = NotFoundError(f'there is no node "{transition.node}" of this uid')
        if error is not None:
            return to_status(error)
        assert node is not None
        node.status.CopyFrom(transition.status)
        self._send(EVENT_TYPE_CHANGED, node)
        return Status()


@contextlib.asynccontextmanager
async def serve(fake: FakeApiserver, tls: TlsFiles, port: int) -> AsyncIterator[None]:
    """Serve `fake` on a port of this host while the block runs."""
    server, _ = rpc.server(tls, f"127.0.0.1:{port}")
    server.add_generic_rpc_handlers((rpc.handlers(_LIFECYCLE, fake),))
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)
