"""Apiservers inside the test's own event loop, over a real etcd and real connections."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import grpc
from drumline.api.v1 import (
    cluster_service_pb2,
    cluster_service_pb2_grpc,
    namespace_service_pb2_grpc,
    node_pb2,
    node_service_pb2_grpc,
    pod_pb2,
    pod_service_pb2_grpc,
    resources_pb2,
)
from drumline.apiserver.main import Apiserver
from drumline.apiserver.settings import Settings
from drumline.apiserver.store.etcd import Etcd
from drumline.apiserver.store.kinds import LEADERS
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2 as lifecycle_pb2
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2_grpc
from drumline.model.names import LABEL_SIMULATED
from drumline.node.v1 import node_agent_service_pb2 as agent_pb2
from drumline.node.v1 import node_agent_service_pb2_grpc
from drumline.process.rpc import channel
from drumline.process.tls import TlsFiles
from drumline.scheduling.v1 import scheduler_service_pb2_grpc
from drumline.scheduling.v1.scheduler_service_pb2 import SubscribeRequest
from drumline.storage.v1.records_pb2 import LeaderRecord

from tests.support.store import EtcdServer, free_port, is_listening

S = TypeVar("S")


@dataclass
class Api:
    """One apiserver, and stubs to speak to it as anybody."""

    settings: Settings
    certs: Path
    task: asyncio.Task[None] | None = None
    server: Apiserver | None = None
    # Of each scheduler name the session, shared by the apiservers of one store.
    sessions: dict[str, str] = field(default_factory=dict)
    _channels: dict[str, grpc.aio.Channel] = field(default_factory=dict)

    def channel(self, identity: str = "admin") -> grpc.aio.Channel:
        """Give the connection of whoever has the certificate of this name."""
        if identity not in self._channels:
            tls = TlsFiles.in_folder(self.certs, identity)
            self._channels[identity] = channel(self.settings.listen_address, tls)
        return self._channels[identity]

    @property
    def pods(self) -> Any:
        """PodService, as the admin."""
        return pod_service_pb2_grpc.PodServiceStub(self.channel())

    @property
    def nodes(self) -> Any:
        """NodeService, as the admin."""
        return node_service_pb2_grpc.NodeServiceStub(self.channel())

    @property
    def namespaces(self) -> Any:
        """NamespaceService, as the admin."""
        return namespace_service_pb2_grpc.NamespaceServiceStub(self.channel())

    @property
    def cluster(self) -> Any:
        """ClusterService, as the admin."""
        return cluster_service_pb2_grpc.ClusterServiceStub(self.channel())

    def scheduler(self, identity: str = "scheduler") -> Any:
        """SchedulerService, as a scheduler."""
        return scheduler_service_pb2_grpc.SchedulerServiceStub(self.channel(identity))

    async def session(self, scheduler: str = "default", identity: str = "scheduler") -> str:
        """Give the id of a scheduler name's session, whoever has it; begun if there is none."""
        if scheduler not in self.sessions:
            request = SubscribeRequest(scheduler_name=scheduler, instance_id="test")
            stream = self.scheduler(identity).Subscribe(request)
            async for message in stream:
                if message.session.active_instance:
                    break
            stream.cancel()
            self.sessions[scheduler] = (await self.leader(scheduler)).session_id
        return self.sessions[scheduler]

    async def leader(self, scheduler: str = "default") -> LeaderRecord:
        """Give who decides for a scheduler name, as it is stored; empty when nobody does."""
        settings = self.settings
        store = Etcd(settings.etcd, settings.etcd_tls, settings.etcd_timeout)
        key = LEADERS.key(scheduler)
        try:
            found = (await store.range(key, key + b"\0")).items
        finally:
            await store.close()
        return LeaderRecord.FromString(found[0].value or b"") if found else LeaderRecord()

    def agent(self, identity: str = "simulator") -> Any:
        """NodeAgentService, as a kubelet."""
        return node_agent_service_pb2_grpc.NodeAgentServiceStub(self.channel(identity))

    @property
    def lifecycle(self) -> Any:
        """NodeLifecycleService, as the nodecontroller."""
        return node_lifecycle_service_pb2_grpc.NodeLifecycleServiceStub(
            self.channel("nodecontroller")
        )

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        self.server = Apiserver(self.settings)
        self.task = asyncio.create_task(self.server.run())
        await self.ready()

    async def ready(self) -> None:
        """Wait until it answers."""
        while not is_listening(self.settings.listen_address):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.005)
        request = cluster_service_pb2.GetVersionRequest()
        while True:
            try:
                await self.cluster.GetVersion(request, wait_for_ready=True, timeout=20)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(0.02)
            else:
                return

    async def stop(self) -> None:
        """Stop it."""
        for opened in self._channels.values():
            await opened.close()
        self._channels.clear()
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
            self.task = None

    async def register_ready(
        self, *names: str, cpu: int = 4000, memory: int = 8 << 30, pods: int = 110
    ) -> dict[str, str]:
        """Register simulated nodes and call them ready; give their uids."""
        amount = resources_pb2.Resources(cpu_millicores=cpu, memory_bytes=memory, pods=pods)
        info = node_pb2.NodeInfo(
            capacity=amount,
            allocatable=amount,
            labels={LABEL_SIMULATED: "true"},
            runtime="simulated",
            runs_images=True,
        )
        registered = await self.agent().RegisterNodes(
            agent_pb2.RegisterNodesRequest(
                nodes=[agent_pb2.NodeRegistration(name=name, info=info) for name in names]
            )
        )
        uids = {r.node.metadata.name: r.node.metadata.uid for r in registered.results}
        ready = node_pb2.NodeStatus(state=node_pb2.NODE_STATE_READY, reason="HEARD")
        await self.lifecycle.PostNodeTransitions(
            lifecycle_pb2.PostNodeTransitionsRequest(
                transitions=[
                    lifecycle_pb2.NodeTransition(node=name, node_uid=uid, status=ready)
                    for name, uid in uids.items()
                ]
            )
        )
        return uids


def pod(name: str, *, cpu: int = 100, namespace: str = "", **metadata: Any) -> pod_pb2.Pod:
    """Make a small pod."""
    made = pod_pb2.Pod()
    made.metadata.name, made.metadata.namespace = name, namespace
    made.metadata.MergeFrom(type(made.metadata)(**metadata))
    container = made.spec.containers.add(name="main", command=["true"])
    container.resources.requests.cpu_millicores = cpu
    return made


@contextlib.asynccontextmanager
async def apiservers(
    etcd: EtcdServer, certs: Path, count: int = 1, *, started: bool = True, **changes: Any
) -> AsyncIterator[list[Api]]:
    """Run apiservers over one etcd while the block runs; it may start them itself."""
    made: list[Api] = []
    sessions: dict[str, str] = {}
    for number in range(count):
        own = TlsFiles.in_folder(certs, "apiserver")
        settings = Settings(
            listen_address=f"127.0.0.1:{free_port()}",
            instance_id=f"apiserver-{number}",
            etcd=(etcd.address,),
            etcd_ca=own.ca,
            etcd_certificate=own.certificate,
            etcd_key=own.key,
            tls_ca=own.ca,
            tls_certificate=own.certificate,
            tls_key=own.key,
            # Longer than a test takes: who wants to see one run out says so.
            session_seconds=600,
        )
        made.append(Api(replace(settings, **changes), certs, sessions=sessions))
    try:
        for api in made:
            if started:
                await api.start()
        yield made
    finally:
        for api in made:
            await api.stop()
