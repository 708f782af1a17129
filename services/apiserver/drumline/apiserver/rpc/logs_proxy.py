"""Logs: asked of the kubelet that has the pod, and passed on."""

from collections.abc import AsyncIterator

import grpc
from drumline.api.v1 import pod_service_pb2
from drumline.apiserver.domain.pods import not_found, pod_key
from drumline.apiserver.rpc import common
from drumline.apiserver.rpc.context import Context
from drumline.kubelet.v1 import kubelet_service_pb2, kubelet_service_pb2_grpc
from drumline.model import validation
from drumline.model.errors import (
    FailedPreconditionError,
    UnavailableError,
    Violation,
    from_rpc_error,
)
from drumline.model.names import DEFAULT_NAMESPACE
from drumline.process import rpc


class LogsProxy:
    """Asks kubelets, over a connection for each call."""

    def __init__(self, context: Context) -> None:
        self._cache = context.cache
        self._tls = context.tls

    async def stream(
        self, request: pod_service_pb2.StreamLogsRequest
    ) -> AsyncIterator[pod_service_pb2.StreamLogsResponse]:
        """Pass on what a container has written. Raises what keeps the kubelet from answering."""
        request.namespace = request.namespace or DEFAULT_NAMESPACE
        found = validation.name(request.namespace, "namespace", dots=False)
        found += validation.name(request.name, "name")
        if request.HasField("tail_lines") and request.tail_lines < 0:
            found.append(Violation("tail_lines", "must not be negative"))
        common.checked(found)
        key = pod_key(request.namespace, request.name)
        pod = self._cache.pods.entries.get(key)
        if pod is None:
            raise not_found(key)
        if not pod.node:
            raise FailedPreconditionError(
                f'pod "{request.name}" has been on no node, so nothing has been written',
                reason="NOT_ASSIGNED",
            )
        node = self._cache.nodes.entries.get(pod.node)
        if node is None or not node.address:
            raise FailedPreconditionError(
                f'node "{pod.node}", which ran the pod, is not there to be asked',
                reason="NODE_NOT_FOUND",
            )
        asked = kubelet_service_pb2.StreamLogsRequest(pod_uid=pod.uid, logs=request)
        try:
            async with rpc.channel(node.address, self._tls) as channel:
                stub = kubelet_service_pb2_grpc.KubeletServiceStub(channel)
                async for part in stub.StreamLogs(asked):
                    yield pod_service_pb2.StreamLogsResponse(data=part.data)
        except grpc.aio.AioRpcError as error:
            failure = from_rpc_error(error)
            if isinstance(failure, UnavailableError):
                raise UnavailableError(
                    f'the kubelet of node "{pod.node}" at {node.address} does not answer;'
                    " try again when the node is back",
                    reason="KUBELET_UNAVAILABLE",
                    retry_after=2.0,
                ) from error
            raise failure from error
