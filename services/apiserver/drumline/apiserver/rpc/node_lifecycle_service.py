"""drumline.internal.v1alpha1.NodeLifecycleService."""

from collections.abc import AsyncIterator

from drumline.api.v1 import node_pb2
from drumline.apiserver.domain import nodes
from drumline.apiserver.rpc import common, watches
from drumline.apiserver.rpc.components import Components
from drumline.apiserver.rpc.context import Context
from drumline.apiserver.rpc.node_service import LOAD_ONLY
from drumline.apiserver.store.committer import Step
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2 as pb
from drumline.model import validation
from drumline.model.errors import FailedPreconditionError, Violation
from drumline.model.names import IDENTITY_NODECONTROLLER
from drumline.process.rpc import Call
from drumline.process.version import VERSION


class NodeLifecycleService:
    """Between the nodecontroller and the apiserver."""

    def __init__(self, context: Context, components: Components) -> None:
        self._context = context
        self._cache = context.cache
        self._components = components

    async def WatchNodes(self, request: pb.WatchNodesRequest, call: Call) -> AsyncIterator[bytes]:
        """Tell which nodes there are."""
        call.peer.require(IDENTITY_NODECONTROLLER)
        if request.version != VERSION:
            raise FailedPreconditionError(
                f'the apiserver is of version {VERSION}, the nodecontroller of "{request.version}";'
                " they must be the same: upgrade one of them",
                reason="VERSION_MISMATCH",
                metadata={"apiserver_version": VERSION},
            )
        await self._cache.reached_now()
        instance = request.instance_id[:253]
        with self._components.connected("nodecontroller", instance, request.version, call):
            watch = watches.Watch(
                self._cache,
                self._cache.nodes,
                lambda _: True,
                ignore=LOAD_ONLY,
                contract=watches.WITHOUT_VERSIONS,
                bookmark_seconds=self._context.bookmark_seconds,
            )
            async for message in watch.messages():
                yield message

    async def PostNodeTransitions(
        self, request: pb.PostNodeTransitionsRequest, call: Call
    ) -> pb.PostNodeTransitionsResponse:
        """Take over the states of nodes."""
        call.peer.require(IDENTITY_NODECONTROLLER)
        common.check_request(request, request.transitions, "transitions")

        def judge(transition: pb.NodeTransition, path: str) -> Step[None]:
            found = validation.name(transition.node, f"{path}.node")
            if transition.status.state not in {
                node_pb2.NODE_STATE_READY,
                node_pb2.NODE_STATE_UNREACHABLE,
            }:
                found.append(Violation(f"{path}.status.state", "is required"))
            common.checked(found)
            return nodes.judge(transition.node, transition.node_uid, transition.status)

        plans = [
            common.plan(judge, transition, f"transitions[{index}]")
            for index, transition in enumerate(request.transitions)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        return pb.PostNodeTransitionsResponse(results=common.statuses(outcomes))
