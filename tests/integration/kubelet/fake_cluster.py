"""A cluster as kubelets see it, in memory: apiserver and nodecontroller, over mutual TLS."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from drumline.api.v1.metadata_pb2 import (
    EVENT_TYPE_CHANGED,
    EVENT_TYPE_REMOVED,
    WATCH_MARK_ESTABLISHED,
    WATCH_MARK_SYNCED,
    EventType,
)
from drumline.api.v1.node_pb2 import NodeInfo
from drumline.api.v1.pod_pb2 import PHASE_TERMINATED, Pod, PodStatus
from drumline.api.v1.pod_service_pb2 import PodEvent
from drumline.model.errors import (
    ConflictError,
    DrumlineError,
    NotFoundError,
    UnavailableError,
    to_status,
)
from drumline.node.v1 import heartbeat_service_pb2, node_agent_service_pb2
from drumline.node.v1.heartbeat_service_pb2 import BeatRequest, BeatResponse
from drumline.node.v1.node_agent_service_pb2 import (
    PodStatusReport,
    RegisterNodesRequest,
    RegisterNodesResponse,
    ReportPodStatusesRequest,
    ReportPodStatusesResponse,
    WatchAssignedPodsRequest,
    WatchAssignedPodsResponse,
)
from drumline.process import rpc
from drumline.process.rpc import Call
from drumline.process.tls import TlsFiles

_AGENT = node_agent_service_pb2.DESCRIPTOR.services_by_name["NodeAgentService"]
_BEATS = heartbeat_service_pb2.DESCRIPTOR.services_by_name["HeartbeatService"]


class FakeCluster:
    """The cluster: its pods, and what its kubelets have said."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, NodeInfo] = {}
        self.registrations = 0
        self.batches: list[list[PodStatusReport]] = []
        self.statuses: dict[str, list[PodStatus]] = {}
        self.beats: list[BeatRequest] = []
        self.beat_streams = 0
        self.watches = 0
        self.interval = 0.1
        # What goes wrong, while it is set.
        self.report_error: DrumlineError | None = None
        self.lose_answers = False
        self.mute_beats = False
        self.refusals = 0
        self._watchers: list[tuple[frozenset[str], asyncio.Queue[PodEvent | None]]] = []

    def assign(self, *pods: Pod) -> None:
        """Say that pods are assigned, or how they have changed."""
        for pod in pods:
            self.pods[pod.metadata.uid] = pod
            self._tell(EVENT_TYPE_CHANGED, pod)

    def delete(self, pod: Pod, grace: int | None = None) -> None:
        """Ask for a pod's deletion."""
        stored = self.pods[pod.metadata.uid]
        if grace is not None:
            stored.spec.termination_grace_period_seconds = grace
        stored.metadata.delete_time.GetCurrentTime()
        self.assign(stored)

    def release(self, pod: Pod) -> None:
        """Take the pod from its node."""
        stored = self.pods.pop(pod.metadata.uid)
        stored.assignment.released = True
        self._tell(EVENT_TYPE_REMOVED, stored)

    def history(self, pod: Pod) -> list[PodStatus]:
        """Give what was reported of a pod and accepted."""
        return self.statuses.get(pod.metadata.uid, [])

    def reasons(self, pod: Pod) -> list[str]:
        """Give the reasons of what was reported of a pod, but for a start that takes long."""
        return [s.reason for s in self.history(pod) if s.reason != "STARTING"]

    def end_watches(self) -> None:
        """End all watches, as an apiserver does that shuts down."""
        for _, queue in self._watchers:
            queue.put_nowait(None)

    async def RegisterNodes(
        self, request: RegisterNodesRequest, call: Call
    ) -> RegisterNodesResponse:
        self.registrations += 1
        response = RegisterNodesResponse()
        for node in request.nodes:
            assert call.peer.speaks_for_node(node.name)
            result = response.results.add()
            if self.refusals:
                self.refusals -= 1
                result.status.CopyFrom(to_status(ConflictError("not this time")))
            else:
                self.nodes[node.name] = node.info
        return response

    async def WatchAssignedPods(
        self,
        request: WatchAssignedPodsRequest,
        call: Call,  # noqa: ARG002
    ) -> AsyncIterator[WatchAssignedPodsResponse]:
        missing = set(request.nodes) - self.nodes.keys()
        if missing:
            raise NotFoundError("a node is not registered", reason="NODE_NOT_FOUND")
        nodes = frozenset(request.nodes)
        queue: asyncio.Queue[PodEvent | None] = asyncio.Queue()
        entry = (nodes, queue)
        self.watches += 1
        self._watchers.append(entry)
        try:
            yield WatchAssignedPodsResponse(mark=WATCH_MARK_ESTABLISHED)
            first = [pod for pod in self.pods.values() if pod.assignment.node in nodes]
            yield WatchAssignedPodsResponse(
                events=[PodEvent(type=EVENT_TYPE_CHANGED, pod=pod) for pod in first],
                mark=WATCH_MARK_SYNCED,
            )
            while True:
                events = [await queue.get()]
                while not queue.empty():
                    events.append(queue.get_nowait())
                yield WatchAssignedPodsResponse(events=[e for e in events if e is not None])
                if None in events:
                    return
        finally:
            self._watchers.remove(entry)

    async def ReportPodStatuses(
        self, request: ReportPodStatusesRequest, call: Call
    ) -> ReportPodStatusesResponse:
        if self.report_error is not None:
            raise self.report_error
        self.batches.append(list(request.reports))
        response = ReportPodStatusesResponse()
        for report in request.reports:
            assert call.peer.speaks_for_node(report.node)
            result = response.results.add()
            try:
                self._accept(report)
            except DrumlineError as error:
                result.CopyFrom(to_status(error))
        if self.lose_answers:
            raise UnavailableError("the answer is lost")
        return response

    async def Beat(
        self, requests: AsyncIterator[BeatRequest], call: Call
    ) -> AsyncIterator[BeatResponse]:
        self.beat_streams += 1
        async for request in requests:
            assert all(call.peer.speaks_for_node(node) for node in request.nodes)
            self.beats.append(request)
            if self.mute_beats:
                continue
            response = BeatResponse(acknowledged_sequence=request.sequence)
            response.next_interval.FromNanoseconds(int(self.interval * 1e9))
            response.unknown_nodes.extend(n for n in request.nodes if n not in self.nodes)
            yield response

    def _accept(self, report: PodStatusReport) -> None:
        pod = self.pods.get(report.pod.uid)
        if pod is None:
            raise NotFoundError("there is no such pod", reason="POD_NOT_FOUND")
        if report.status.report_sequence <= pod.status.report_sequence:
            raise ConflictError("an older report", reason="STALE_REPORT")
        pod.status.CopyFrom(report.status)
        self.statuses.setdefault(report.pod.uid, []).append(report.status)
        if report.status.phase == PHASE_TERMINATED:
            self.release(pod)
        else:
            self._tell(EVENT_TYPE_CHANGED, pod)

    def _tell(self, kind: "EventType.ValueType", pod: Pod) -> None:
        for nodes, queue in self._watchers:
            if pod.assignment.node in nodes:
                copy = Pod()
                copy.CopyFrom(pod)
                queue.put_nowait(PodEvent(type=kind, pod=copy))


@contextlib.asynccontextmanager
async def serve(
    cluster: FakeCluster, certificates: Callable[[str], TlsFiles], port: int = 0
) -> AsyncIterator[str]:
    """Serve both sides on one port while the block runs; give its address."""
    server, port = rpc.server(certificates("apiserver"), f"127.0.0.1:{port}")
    server.add_generic_rpc_handlers(
        (rpc.handlers(_AGENT, cluster), rpc.handlers(_BEATS, cluster)),
    )
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
