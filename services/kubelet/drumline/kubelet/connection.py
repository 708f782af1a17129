"""Keeps in touch with the apiserver: registers the nodes and follows their pods.

A lost watch is opened again at the next address, after a jittered pause; the
kubelet goes on with what it knows meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import grpc
from drumline.kubelet.agent import Agent
from drumline.model.errors import DrumlineError, UnavailableError, from_rpc_error, from_status
from drumline.node.v1.node_agent_service_pb2 import (
    NodeRegistration,
    RegisterNodesRequest,
    WatchAssignedPodsRequest,
    WatchAssignedPodsResponse,
)
from drumline.node.v1.node_agent_service_pb2_grpc import NodeAgentServiceStub
from drumline.process import logs
from drumline.process.backoff import Backoff
from drumline.process.channels import Endpoints

if TYPE_CHECKING:
    from drumline.node.v1.node_agent_service_pb2_grpc import NodeAgentServiceAsyncStub

_log = logs.get(__name__)

_REGISTER_SECONDS = 30.0
# An apiserver that has not sent the next part of the first list by then is left.
_FIRST_LIST_SECONDS = 15.0


class Connection:
    """The kubelet's side of NodeAgentService, but for reports."""

    def __init__(
        self,
        endpoints: Endpoints,
        agent: Agent,
        registrations: Sequence[NodeRegistration],
        set_serving: Callable[[bool], Awaitable[None]],
    ) -> None:
        self._endpoints = endpoints
        self._agent = agent
        self._registrations = {r.name: r for r in registrations}
        self._unregistered = set(self._registrations)
        self._set_serving = set_serving
        self._backoff = Backoff(initial=0.1, maximum=5.0)
        self._register_again = asyncio.Event()
        # Said once, not with every try.
        self._said = ""

    async def run(self) -> None:
        """Stay connected, until cancelled."""
        while True:
            try:
                await self._connect()
            except DrumlineError as error:
                self._explain(error)
                if error.reason == "NODE_NOT_FOUND":
                    self._unregistered = set(self._registrations)
            await self._endpoints.rotate()
            await asyncio.sleep(self._backoff.next_delay())

    def forgotten(self, nodes: Sequence[str]) -> None:
        """The cluster says that it does not know these nodes: register them again."""
        self._unregistered.update(name for name in nodes if name in self._registrations)
        self._register_again.set()

    def _explain(self, error: DrumlineError) -> None:
        said = f"{error.reason}: {error.message}"
        if said != self._said:
            self._said = said
            address = self._endpoints.address
            _log.warning(
                "apiserver_lost", address=address, reason=error.reason, error=error.message
            )

    async def _connect(self) -> None:
        """Register what must be, then follow one watch to its end, which is an error."""
        stub = NodeAgentServiceStub(self._endpoints.channel())
        try:
            await self._register(stub)
            registering = asyncio.create_task(self._register_when_forgotten(stub), name="register")
            try:
                await self._watch(stub)
            finally:
                registering.cancel()
                await asyncio.wait({registering})
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except TimeoutError:
            raise UnavailableError("the apiserver does not send the list of pods") from None

    async def _register(self, stub: "NodeAgentServiceAsyncStub") -> None:
        nodes = [self._registrations[name] for name in sorted(self._unregistered)]
        if not nodes:
            return
        response = await stub.RegisterNodes(
            RegisterNodesRequest(nodes=nodes), timeout=_REGISTER_SECONDS
        )
        refused = []
        for node, result in zip(nodes, response.results, strict=True):
            if result.status.code == 0:
                self._unregistered.discard(node.name)
            else:
                refused.append((node.name, from_status(result.status)))
        if refused:
            name, why = refused[0]
            why.message = f"{len(refused)} nodes were refused, {name} because: {why.message}"
            raise why
        _log.info("nodes_registered", nodes=len(nodes), address=self._endpoints.address)

    async def _register_when_forgotten(self, stub: "NodeAgentServiceAsyncStub") -> None:
        while True:
            await self._register_again.wait()
            self._register_again.clear()
            try:
                await self._register(stub)
            except (grpc.aio.AioRpcError, DrumlineError) as error:
                # The next beat says again which nodes are not known.
                _log.warning("registration_failed", error=str(error))

    async def _watch(self, stub: "NodeAgentServiceAsyncStub") -> None:
        call = stub.WatchAssignedPods(WatchAssignedPodsRequest(nodes=list(self._registrations)))
        self._agent.begin_watch()
        synced = False
        try:
            while True:
                async with asyncio.timeout(None if synced else _FIRST_LIST_SECONDS):
                    response = await call.read()
                if not isinstance(response, WatchAssignedPodsResponse):
                    raise UnavailableError("the apiserver ended the watch of pods")
                if self._agent.take(response):
                    synced = True
                    self._backoff.reset()
                    self._said = ""
                    _log.info("pods_known", address=self._endpoints.address)
                    await self._set_serving(True)
        finally:
            call.cancel()
