"""drumline.node.v1.NodeAgentService."""

from collections.abc import AsyncIterator, Collection
from itertools import chain

from drumline.api.v1 import pod_pb2
from drumline.apiserver.domain import nodes, placement
from drumline.apiserver.rpc import common, watches
from drumline.apiserver.rpc.context import Context
from drumline.apiserver.store.committer import Step
from drumline.model import validation
from drumline.model.errors import InvalidArgumentError, PermissionDeniedError, Violation
from drumline.model.names import DEFAULT_NAMESPACE, LABEL_SIMULATED
from drumline.node.v1 import node_agent_service_pb2 as pb
from drumline.process import clock
from drumline.process.peer import Peer
from drumline.process.rpc import Call

_MAX_TEXT = 4096
_MAX_CONTAINERS = 16


class NodeAgentService:
    """What a kubelet asks of the apiserver."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cache = context.cache

    async def RegisterNodes(self, request: pb.RegisterNodesRequest, call: Call) -> bytes:
        """Take over what nodes say of themselves."""
        common.check_request(request, request.nodes, "nodes")
        now = clock.timestamp()

        def register(registration: pb.NodeRegistration, path: str) -> Step[None]:
            name, info = registration.name, registration.info
            common.checked(
                validation.name(name, f"{path}.name") + validation.node_info(info, f"{path}.info")
            )
            _require_node(call.peer, name)
            simulated = info.labels.get(LABEL_SIMULATED) == "true"
            if simulated != call.peer.is_simulator:
                raise InvalidArgumentError.of(
                    [
                        Violation(
                            f"{path}.info.labels",
                            f"{LABEL_SIMULATED} must be true for a simulator's nodes,"
                            " and for no others",
                        )
                    ]
                )
            uid = common.new_uid()
            return nodes.register(name, info, uid, now, simulator=call.peer.is_simulator)

        plans = [
            common.plan(register, registration, f"nodes[{index}]")
            for index, registration in enumerate(request.nodes)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        names = [registration.name for registration in request.nodes]
        return await common.results(self._cache, self._cache.nodes, names, outcomes)

    async def WatchAssignedPods(
        self, request: pb.WatchAssignedPodsRequest, call: Call
    ) -> AsyncIterator[bytes]:
        """Tell which pods are assigned to nodes."""
        common.check_request(request, request.nodes, "nodes")
        names = frozenset(request.nodes)
        for name in names:
            common.checked(validation.name(name, "nodes"))
            _require_node(call.peer, name)
        # Nothing older than now: a pod that has left the node must not start again.
        await self._cache.reached_now()
        if call.peer.is_simulator:
            await self._require_simulated(names)
        watch = watches.Watch(
            self._cache,
            self._cache.pods,
            lambda entry: entry.assigned and entry.node in names,
            routes=[("node", name) for name in names],
            contract=watches.WITHOUT_VERSIONS,
            bookmark_seconds=self._context.bookmark_seconds,
        )
        async for message in watch.messages():
            yield message

    async def _require_simulated(self, names: Collection[str]) -> None:
        if not self._cache.nodes.entries.keys() >= set(names):
            # Another apiserver may know them, and what they are.
            await self._cache.reached_now()
        for name in names:
            entry = self._cache.nodes.entries.get(name)
            if entry is not None and not entry.simulated:
                raise PermissionDeniedError(f'node "{name}" is no simulated node')

    async def ReportPodStatuses(
        self, request: pb.ReportPodStatusesRequest, call: Call
    ) -> pb.ReportPodStatusesResponse:
        """Take over what pods are."""
        common.check_request(request, request.reports, "reports")
        for name in {report.node for report in request.reports}:
            _require_node(call.peer, name)
        if call.peer.is_simulator:
            await self._require_simulated({report.node for report in request.reports})

        def report(said: pb.PodStatusReport, path: str) -> Step[None]:
            said.pod.namespace = said.pod.namespace or DEFAULT_NAMESPACE
            common.checked(_report(said, path))
            return placement.report(said)

        plans = [
            common.plan(report, said, f"reports[{index}]")
            for index, said in enumerate(request.reports)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        return pb.ReportPodStatusesResponse(results=common.statuses(outcomes))


def _require_node(peer: Peer, name: str) -> None:
    if not peer.speaks_for_node(name):
        raise PermissionDeniedError(f'"{peer.identity}" does not speak for node "{name}"')


def _report(said: pb.PodStatusReport, path: str) -> list[Violation]:
    status = said.status
    found = validation.pod_reference(said.pod, f"{path}.pod")
    if not said.pod.uid:
        found.append(Violation(f"{path}.pod.uid", "is required"))
    known = {pod_pb2.PHASE_PENDING, pod_pb2.PHASE_RUNNING, pod_pb2.PHASE_TERMINATED}
    if status.phase not in known:
        found.append(
            Violation(f"{path}.status.phase", "is required, and must be one that is known")
        )
    if status.attempt < 1:
        found.append(Violation(f"{path}.status.attempt", "is required"))
    if status.report_sequence < 1:
        found.append(Violation(f"{path}.status.report_sequence", "is required"))
    if len(status.containers) > _MAX_CONTAINERS:
        found.append(Violation(f"{path}.status.containers", f"at most {_MAX_CONTAINERS}"))
    texts = chain(
        (status.reason, status.message, status.waiting_on),
        *((c.name, c.reason, c.message, c.runtime_id) for c in status.containers),
    )
    if any(len(text) > _MAX_TEXT for text in texts):
        found.append(Violation(f"{path}.status", f"a text has over {_MAX_TEXT} characters"))
    return found
