"""Keeps in touch with the apiserver: learns which nodes there are, and reports to it."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
from drumline.api.v1.metadata_pb2 import EVENT_TYPE_REMOVED, WATCH_MARK_SYNCED
from drumline.api.v1.node_pb2 import Node
from drumline.api.v1.node_service_pb2 import NodeEvent
from drumline.internal.v1alpha1.node_lifecycle_service_pb2 import (
    WatchNodesRequest,
    WatchNodesResponse,
)
from drumline.internal.v1alpha1.node_lifecycle_service_pb2_grpc import NodeLifecycleServiceStub
from drumline.model.errors import DrumlineError, UnavailableError, from_rpc_error
from drumline.model.names import LABEL_SIMULATED
from drumline.nodecontroller.liveness import KnownNode, Liveness
from drumline.nodecontroller.reporter import Reporter
from drumline.process import clock, logs
from drumline.process.backoff import Backoff
from drumline.process.channels import Endpoints
from drumline.process.version import VERSION

_log = logs.get(__name__)

VERSION_MISMATCH = "VERSION_MISMATCH"

# An apiserver that has not sent the next part of the first list by then is left.
_SNAPSHOT_TIMEOUT_SECONDS = 10.0


class Watcher:
    """Feeds `liveness` with nodes, and lets `reporter` send while the apiserver is in sight."""

    def __init__(
        self,
        endpoints: Endpoints,
        instance: str,
        liveness: Liveness,
        reporter: Reporter,
        set_serving: Callable[[bool], Awaitable[None]],
    ) -> None:
        self._endpoints = endpoints
        self._request = WatchNodesRequest(version=VERSION, instance_id=instance)
        self._liveness = liveness
        self._reporter = reporter
        self._set_serving = set_serving
        self._backoff = Backoff(initial=0.1, maximum=5.0)
        # Said once, not with every try.
        self._said = ""

    async def run(self) -> None:
        """Stay connected, until cancelled; judge nothing while that fails."""
        while True:
            try:
                await self._watch()
            except DrumlineError as error:
                self._explain(error)
            await self._set_serving(False)
            await self._endpoints.rotate()
            await asyncio.sleep(self._backoff.next_delay())

    def _explain(self, error: DrumlineError) -> None:
        said = f"{error.reason}: {error.message}"
        if said == self._said:
            return
        self._said = said
        address = self._endpoints.address
        if error.reason == VERSION_MISMATCH:
            _log.error(
                "version_mismatch",
                address=address,
                version=VERSION,
                error=error.message,
                help="upgrade the apiservers first, then this; until then no node is judged",
            )
        else:
            _log.warning(
                "apiserver_lost", address=address, reason=error.reason, error=error.message
            )

    async def _watch(self) -> None:
        """Follow one watch to its end, which is always an error."""
        stub = NodeLifecycleServiceStub(self._endpoints.channel())
        call = stub.WatchNodes(self._request)
        # Names in the first list, until that is whole.
        listed: set[str] | None = set()
        try:
            while True:
                timeout = None if listed is None else _SNAPSHOT_TIMEOUT_SECONDS
                async with asyncio.timeout(timeout):
                    response = await call.read()
                if not isinstance(response, WatchNodesResponse):
                    raise UnavailableError("the apiserver ended the watch of nodes")
                for event in response.events:
                    self._apply(event, listed)
                if response.mark == WATCH_MARK_SYNCED and listed is not None:
                    # Only now is it known which nodes are gone: an error, a cut or an
                    # empty message before this mark says nothing of those not listed.
                    self._liveness.retain(listed)
                    listed = None
                    self._reporter.attach(stub)
                    self._reporter.add(self._liveness.regain_sight(clock.monotonic()))
                    await self._in_sight()
        except grpc.aio.AioRpcError as failure:
            raise from_rpc_error(failure) from failure
        except TimeoutError as failure:
            raise UnavailableError("the apiserver does not send the list of nodes") from failure
        finally:
            self._liveness.lose_sight()
            self._reporter.detach()
            call.cancel()

    async def _in_sight(self) -> None:
        self._backoff.reset()
        self._said = ""
        _log.info("nodes_known", address=self._endpoints.address, nodes=self._liveness.nodes)
        await self._set_serving(True)

    def _apply(self, event: NodeEvent, listed: set[str] | None) -> None:
        name = event.node.metadata.name
        if event.type == EVENT_TYPE_REMOVED:
            self._liveness.remove(name)
            if listed is not None:
                listed.discard(name)
            return
        if listed is not None:
            listed.add(name)
        self._reporter.add(self._liveness.put(known_node(event.node), clock.monotonic()))


def known_node(node: Node) -> KnownNode:
    """Give what matters here of a node."""
    return KnownNode(
        name=node.metadata.name,
        uid=node.metadata.uid,
        state=node.status.state,
        simulated=node.info.labels.get(LABEL_SIMULATED) == "true",
    )
