"""The apiserver's process."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from drumline.api.v1 import (
    cluster_service_pb2,
    metadata_pb2,
    namespace_service_pb2,
    node_service_pb2,
    pod_service_pb2,
)
from drumline.apiserver import upkeep
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.domain import namespaces
from drumline.apiserver.rpc.cluster_service import ClusterService
from drumline.apiserver.rpc.common import new_uid
from drumline.apiserver.rpc.components import Components
from drumline.apiserver.rpc.context import Context
from drumline.apiserver.rpc.namespace_service import NamespaceService
from drumline.apiserver.rpc.node_agent_service import NodeAgentService
from drumline.apiserver.rpc.node_lifecycle_service import NodeLifecycleService
from drumline.apiserver.rpc.node_service import NodeService
from drumline.apiserver.rpc.pod_service import PodService
from drumline.apiserver.rpc.scheduler_service import SchedulerService
from drumline.apiserver.rpc.sessions import Sessions
from drumline.apiserver.settings import Settings
from drumline.apiserver.store import limits
from drumline.apiserver.store.committer import Committer
from drumline.apiserver.store.etcd import Etcd
from drumline.apiserver.store.kinds import NAMESPACES
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2
from drumline.model.errors import DrumlineError, UnavailableError
from drumline.model.names import DEFAULT_NAMESPACE, IDENTITY_APISERVER
from drumline.node.v1 import node_agent_service_pb2
from drumline.process import clock, logs, rpc
from drumline.process.backoff import Backoff
from drumline.process.run import Health, serving
from drumline.process.run import main as run_process
from drumline.process.version import VERSION
from drumline.scheduling.v1 import scheduler_service_pb2

_log = logs.get(__name__)


class Apiserver:
    """Its parts, put together.

    It serves at once, and answers that it is starting until the store has been read.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._etcd = Etcd(settings.etcd, settings.etcd_tls, settings.etcd_timeout)
        self._cache = Cache(
            self._etcd, history=settings.watch_history, patience=settings.etcd_timeout
        )
        self._limits = limits.Limits()
        self._committer = Committer(self._etcd, self._cache, self._limits)
        self._sessions = Sessions(self._etcd, self._cache, settings.session_seconds)
        self._loaded = asyncio.Event()
        self._ready = False
        self._components = Components(
            cluster_service_pb2.Component(
                kind="apiserver",
                instance=settings.instance_id,
                identity=IDENTITY_APISERVER,
                version=VERSION,
                address=settings.listen_address,
                since=clock.timestamp(),
            )
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        settings = self._settings
        context = Context(
            self._etcd, self._cache, self._committer, settings.tls, settings.bookmark_interval
        )
        services = [
            (pod_service_pb2, "PodService", PodService(context)),
            (node_service_pb2, "NodeService", NodeService(context)),
            (namespace_service_pb2, "NamespaceService", NamespaceService(context)),
            (
                cluster_service_pb2,
                "ClusterService",
                ClusterService(self._components, self._limits),
            ),
            (
                scheduler_service_pb2,
                "SchedulerService",
                SchedulerService(context, self._components, self._sessions, self._limits),
            ),
            (node_agent_service_pb2, "NodeAgentService", NodeAgentService(context)),
            (
                node_lifecycle_service_pb2,
                "NodeLifecycleService",
                NodeLifecycleService(context, self._components),
            ),
        ]
        handlers = [
            rpc.handlers(module.DESCRIPTOR.services_by_name[name], service, self._require_ready)
            for module, name, service in services
        ]
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._etcd.close)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            health, _ = await stack.enter_async_context(
                serving(settings.listen_address, settings.tls, handlers)
            )
            await self._start(tasks)
            await self._report_health(health)

    async def _start(self, tasks: asyncio.TaskGroup) -> None:
        settings = self._settings
        await _patiently(self._read_store)
        tasks.create_task(self._cache.run(self._loaded), name="cache")
        tasks.create_task(self._committer.run(), name="committer")
        await self._loaded.wait()
        await _patiently(self._make_default_namespace)
        self._ready = True
        tasks.create_task(self._sessions.run(), name="sessions")
        retention = upkeep.Retention(settings.ended_pods_age, settings.ended_pods_count)
        tasks.create_task(
            upkeep.remove_ended_pods(
                self._cache, self._committer, retention, settings.ended_pods_interval
            ),
            name="ended-pods",
        )
        tasks.create_task(
            upkeep.end_infeasible_pods(self._cache, self._committer, settings.infeasible_interval),
            name="infeasible-pods",
        )
        tasks.create_task(
            upkeep.compact(
                self._etcd, self._cache, settings.compaction_interval, settings.compaction_keep
            ),
            name="compaction",
        )

    async def _read_store(self) -> None:
        """Find out what the store takes, and read it."""
        await self._limits.probe(self._etcd)
        await self._cache.load()

    async def _make_default_namespace(self) -> None:
        if self._cache.record((NAMESPACES, DEFAULT_NAMESPACE)) is None:
            metadata = metadata_pb2.ObjectMeta(name=DEFAULT_NAMESPACE, request_id="default")
            await self._committer.one(namespaces.create(metadata, new_uid(), clock.timestamp()))

    def _require_ready(self) -> None:
        if not self._ready:
            raise UnavailableError(
                "the apiserver is starting: it waits for etcd; try again",
                reason="STARTING",
                retry_after=1.0,
            )

    async def _report_health(self, health: Health) -> None:
        serving = False
        while True:
            if serving != self._cache.live:
                serving = self._cache.live
                await health.set_serving(serving)
                _log.info("serving" if serving else "not_serving", revision=self._cache.revision)
            await self._cache.live_changed.wait()
            self._cache.live_changed.clear()


async def _patiently(work: Callable[[], Awaitable[None]]) -> None:
    """Do something with the store, however long the store stays away."""
    backoff = Backoff(initial=0.05, maximum=1.0)
    told = False
    while True:
        try:
            await work()
        except DrumlineError as error:
            if not told:
                _log.warning("store_unavailable", error=error.message)
                told = True
            await asyncio.sleep(backoff.next_delay())
        else:
            return


async def serve(settings: Settings) -> None:
    """Run the apiserver until cancelled."""
    await Apiserver(settings).run()


def main() -> int:
    """Run the process; give its exit status."""
    return run_process("apiserver", Settings, serve)
