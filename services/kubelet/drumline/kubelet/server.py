"""What the node answers to the apiserver, which passes users' requests on."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from drumline.kubelet.agent import Agent
from drumline.kubelet.log_files import PIECE_BYTES
from drumline.kubelet.runtime import Runtime
from drumline.kubelet.v1.kubelet_service_pb2 import (
    ListPodsRequest,
    ListPodsResponse,
    StreamLogsRequest,
    StreamLogsResponse,
)
from drumline.model.errors import InvalidArgumentError, Violation
from drumline.model.names import IDENTITY_APISERVER
from drumline.process.rpc import Call


class KubeletService:
    """KubeletService, for the apiserver only."""

    def __init__(self, agent: Agent, runtime: Runtime) -> None:
        self._agent = agent
        self._runtime = runtime

    async def ListPods(self, request: ListPodsRequest, call: Call) -> ListPodsResponse:  # noqa: ARG002
        """Give the pods as the node knows them."""
        call.peer.require(IDENTITY_APISERVER)
        return ListPodsResponse(pods=self._agent.pods())

    async def StreamLogs(
        self, request: StreamLogsRequest, call: Call
    ) -> AsyncIterator[StreamLogsResponse]:
        """Give a container's output."""
        call.peer.require(IDENTITY_APISERVER)
        asked = request.logs
        tail = asked.tail_lines if asked.HasField("tail_lines") else None
        if tail is not None and tail < 0:
            raise InvalidArgumentError.of(
                [Violation("tail_lines", f"must not be negative, is {tail}")]
            )
        pieces = self._runtime.logs(
            request.pod_uid, asked.container, tail_lines=tail, follow=asked.follow
        )
        async with aclosing(pieces):
            async for piece in pieces:
                assert len(piece) <= PIECE_BYTES
                yield StreamLogsResponse(data=piece)
