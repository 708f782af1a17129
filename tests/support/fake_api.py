"""A tiny apiserver of pods over real connections, whose behaviour tests script call by call."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drumline.api.v1 import cluster_service_pb2, metadata_pb2, pod_pb2, pod_service_pb2
from drumline.model.errors import DrumlineError, NotFoundError, UnavailableError, to_status
from drumline.process import clock, pki, rpc
from drumline.process.rpc import Call
from drumline.process.tls import TlsFiles
from google.rpc.status_pb2 import Status

Script = deque[Any]


def certificates(folder: Path) -> tuple[TlsFiles, TlsFiles]:
    """Make a server's and a user's certificates; give both."""
    requests = [
        pki.CertificateRequest("apiserver", "system:apiserver"),
        pki.CertificateRequest("admin", "admin", groups=("admin",)),
    ]
    pki.ensure_certificates(folder, requests, clock.wall())
    return TlsFiles.in_folder(folder, "apiserver"), TlsFiles.in_folder(folder, "admin")


@dataclass
class FakePods:
    """PodService over a dictionary. Each entry of `scripts[RPC]` changes one call of that RPC.

    An error is raised before anything is done; ("after", error) is raised when
    everything is done; ("then break", n) breaks a stream after n messages; a
    callable is called with the request, and what it returns is the answer.
    """

    stored: dict[tuple[str, str], pod_pb2.Pod] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)
    requests: dict[str, list[Any]] = field(default_factory=dict)
    epoch: str = "e"
    revision: int = 1
    history: list[tuple[int, int, pod_pb2.Pod]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def version(self) -> str:
        return f"{self.epoch}-{self.revision}"

    def put(self, name: str, namespace: str = "default", **labels: str) -> pod_pb2.Pod:
        """Store a pod, or change its labels."""
        self.revision += 1
        pod = pod_pb2.Pod()
        before = self.stored.get((namespace, name))
        pod.metadata.name = name
        pod.metadata.namespace = namespace
        pod.metadata.uid = before.metadata.uid if before else f"uid-{self.revision}"
        pod.metadata.labels.update(labels)
        pod.metadata.resource_version = self.version
        self.stored[namespace, name] = pod
        self._happened(metadata_pb2.EVENT_TYPE_CHANGED, pod)
        return pod

    def remove(self, name: str, namespace: str = "default") -> None:
        """Remove a pod."""
        self.revision += 1
        pod = self.stored.pop((namespace, name))
        self._happened(metadata_pb2.EVENT_TYPE_REMOVED, pod)

    def _happened(self, kind: int, pod: pod_pb2.Pod) -> None:
        self.history.append((self.revision, kind, pod_pb2.Pod.FromString(pod.SerializeToString())))
        self.changed.set()
        self.changed = asyncio.Event()

    def _next(self, rpc_name: str, request: Any) -> Any:
        self.requests.setdefault(rpc_name, []).append(request)
        script = self.scripts.get(rpc_name)
        step = script.popleft() if script else None
        if isinstance(step, DrumlineError):
            raise step
        return step

    async def CreatePods(self, request: Any, _: Call) -> Any:
        step = self._next("CreatePods", request)
        if callable(step):
            return step(request)
        answer = pod_service_pb2.CreatePodsResponse()
        for pod in request.pods:
            key = (pod.metadata.namespace or "default", pod.metadata.name)
            there = self.stored.get(key)
            if there is None:
                self.put(key[1], key[0])
                there = self.stored[key]
                there.metadata.request_id = pod.metadata.request_id
            if there.metadata.request_id != pod.metadata.request_id:
                answer.results.add(status=Status(code=6, message="there already"))
            else:
                answer.results.add(pod=there)
        answer.resource_version = self.version
        if step is not None:
            raise step[1]
        return answer

    async def GetPod(self, request: Any, _: Call) -> Any:
        step = self._next("GetPod", request)
        if callable(step):
            return step(request)
        pod = self.stored.get((request.namespace or "default", request.name))
        if pod is None:
            raise NotFoundError(f'there is no pod "{request.name}"')
        return pod_service_pb2.GetPodResponse(pod=pod)

    async def ListPods(self, request: Any, _: Call) -> Any:
        self._next("ListPods", request)
        names = sorted(self.stored)
        start = int(request.page_token or 0)
        size = request.page_size or 500
        answer = pod_service_pb2.ListPodsResponse(
            pods=[self.stored[name] for name in names[start : start + size]],
            resource_version=self.version,
        )
        if start + size < len(names):
            answer.next_page_token = str(start + size)
        return answer

    async def WatchPods(self, request: Any, _: Call) -> AsyncIterator[Any]:
        step = self._next("WatchPods", request)
        left = step[1] if step else 0
        async for message in self._messages(request):
            yield message
            left -= 1
            if left == 0:
                raise UnavailableError("it goes down")

    async def _messages(self, request: Any) -> AsyncIterator[Any]:
        response = pod_service_pb2.WatchPodsResponse
        at = int(request.resource_version.rpartition("-")[2] or self.revision)
        yield response(mark=metadata_pb2.WATCH_MARK_ESTABLISHED)
        if not request.resource_version:
            for pod in list(self.stored.values()):
                yield response(events=[_event(metadata_pb2.EVENT_TYPE_CHANGED, pod)])
            yield response(
                mark=metadata_pb2.WATCH_MARK_SYNCED, resource_version=f"{self.epoch}-{at}"
            )
        while True:
            changed = self.changed
            for revision, kind, pod in list(self.history):
                if revision > at:
                    at = revision
                    yield response(
                        events=[_event(kind, pod)], resource_version=f"{self.epoch}-{at}"
                    )
            await changed.wait()

    async def UpdatePods(self, request: Any, _: Call) -> Any:
        step = self._next("UpdatePods", request)
        answer = pod_service_pb2.UpdatePodsResponse()
        for update in request.updates:
            meta = update.pod.metadata
            answer.results.add(pod=self.put(meta.name, meta.namespace, **meta.labels))
        answer.resource_version = self.version
        if step is not None:
            raise step[1]
        return answer

    async def DeletePods(self, request: Any, _: Call) -> Any:
        step = self._next("DeletePods", request)
        answer = pod_service_pb2.DeletePodsResponse()
        for reference in request.pods:
            key = (reference.namespace or "default", reference.name)
            pod = self.stored.get(key)
            if pod is None or (reference.uid and reference.uid != pod.metadata.uid):
                answer.results.add(status=to_status(NotFoundError("no such pod")))
            else:
                self.remove(key[1], key[0])
                answer.results.add()
        answer.resource_version = self.version
        if step is not None:
            raise step[1]
        return answer

    async def WaitForPods(self, request: Any, _: Call) -> AsyncIterator[Any]:
        step = self._next("WaitForPods", request)
        answers: list[pod_service_pb2.WaitResult] = step(request) if step else []
        for answer in answers:
            yield pod_service_pb2.WaitForPodsResponse(results=[answer])
        if len(answers) < len(request.pods):
            raise UnavailableError("it goes down")

    async def StreamLogs(self, request: Any, _: Call) -> AsyncIterator[Any]:
        step = self._next("StreamLogs", request)
        for piece in step(request):
            yield pod_service_pb2.StreamLogsResponse(data=piece)


class FakeCluster:
    """ClusterService."""

    async def GetVersion(self, _request: Any, call: Call) -> Any:
        return cluster_service_pb2.GetVersionResponse(
            version="1.2.3", identity=call.peer.identity, groups=call.peer.groups
        )

    async def ListComponents(self, _request: Any, _call: Call) -> Any:
        return cluster_service_pb2.ListComponentsResponse()


@contextlib.asynccontextmanager
async def serving(pods: FakePods, tls: TlsFiles, port: int = 0) -> AsyncIterator[str]:
    """Serve while the block runs; give HOST:PORT."""
    server, bound = rpc.server(tls, f"127.0.0.1:{port}")
    services = [
        (pod_service_pb2, "PodService", pods),
        (cluster_service_pb2, "ClusterService", FakeCluster()),
    ]
    server.add_generic_rpc_handlers(
        tuple(
            rpc.handlers(module.DESCRIPTOR.services_by_name[name], service)
            for module, name, service in services
        )
    )
    await server.start()
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        await server.stop(0)


def _event(kind: int, pod: pod_pb2.Pod) -> pod_service_pb2.PodEvent:
    return pod_service_pb2.PodEvent(type=kind, pod=pod)  # type: ignore[arg-type]


Handler = Callable[[Any], Any]
