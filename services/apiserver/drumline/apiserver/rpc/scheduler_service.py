"""drumline.scheduling.v1.SchedulerService."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from drumline.api.v1 import metadata_pb2, pod_pb2
from drumline.apiserver.cache.index import CHANGED, Pending, Watcher
from drumline.apiserver.cache.objects import NodeEntry, PodEntry
from drumline.apiserver.cache.versions import revision_of
from drumline.apiserver.domain import placement
from drumline.apiserver.domain.placement import Author
from drumline.apiserver.domain.pods import not_found, pod_key
from drumline.apiserver.rpc import common, groups, verdicts, watches
from drumline.apiserver.rpc.components import Components
from drumline.apiserver.rpc.context import Context
from drumline.apiserver.rpc.node_service import LOAD_ONLY
from drumline.apiserver.rpc.sessions import Candidate, Sessions
from drumline.apiserver.store import wire
from drumline.apiserver.store.committer import Step
from drumline.apiserver.store.kinds import LEADERS
from drumline.apiserver.store.limits import Limits
from drumline.model import validation
from drumline.model.errors import DrumlineError, PermissionDeniedError, Violation, to_status
from drumline.model.names import DEFAULT_NAMESPACE
from drumline.process import clock
from drumline.process.rpc import Call
from drumline.scheduling.v1 import scheduler_service_pb2 as pb
from drumline.storage.v1 import records_pb2

# Field numbers of SubscribeResponse.
_PODS = 1
_NODES = 2
_LOADS = 3
_MARK = 4
_SESSION = 5


class SchedulerService:
    """How any program places pods."""

    def __init__(
        self, context: Context, components: Components, sessions: Sessions, limits: Limits
    ) -> None:
        self._context = context
        self._cache = context.cache
        self._components = components
        self._sessions = sessions
        self._limits = limits

    async def Subscribe(self, request: pb.SubscribeRequest, call: Call) -> AsyncIterator[bytes]:
        """Tell what is to be placed and where it could go."""
        name = request.scheduler_name
        common.check_known_fields(request)
        common.checked(
            validation.name(name, "scheduler_name")
            + verdicts.texts(
                instance_id=request.instance_id,
                version=request.version,
                session_id=request.session_id,
            )
        )
        call.peer.require_scheduler(name)
        await self._cache.reached_now()
        instance = f"{name}/{request.instance_id}"
        with (
            self._components.connected("scheduler", instance, request.version, call),
            self._sessions.candidate(name, request.instance_id, request.session_id) as candidate,
        ):
            async for message in self._follow(candidate):
                yield message

    async def _follow(self, candidate: Candidate) -> AsyncIterator[bytes]:
        name = candidate.scheduler_name
        cache = self._cache
        wake = asyncio.Event()
        pods: Watcher[PodEntry] = Watcher(
            lambda e: e.scheduler_name == name and e.waits_for_scheduler, wake
        )
        nodes: Watcher[NodeEntry] = Watcher(lambda _: True, wake)
        route = [("scheduler", name)]
        cache.pods.attach(pods, route)
        cache.nodes.attach(nodes)
        waking = contextlib.ExitStack()
        try:
            waiting = [
                e
                for e in cache.pods.entries.values()
                if e.scheduler_name == name and e.waits_for_scheduler
            ]
            present = list(cache.nodes.entries.values())
            yield wire.number_field(_MARK, metadata_pb2.WATCH_MARK_ESTABLISHED)
            for message in watches.batches(watches.initial(cache.nodes, present, _NODES)):
                yield message
            for message in watches.batches(watches.initial(cache.pods, waiting, _PODS)):
                yield message
            del waiting, present
            yield wire.number_field(_MARK, metadata_pb2.WATCH_MARK_SYNCED)
            told = None
            waking.enter_context(cache.waking(LEADERS, wake))
            wake.set()
            while True:
                await wake.wait()
                wake.clear()
                # Nodes first: a pod may wait for just these.
                parts = [
                    *self._nodes(nodes.drain(len(nodes))),
                    *watches.events(cache.pods, pods.drain(len(pods)), _PODS),
                ]
                for message in watches.batches(parts):
                    yield message
                # After what has changed: who begins knows all that there is.
                session = self._sessions.seen_by(candidate)
                if session != told:
                    told = session
                    yield wire.message_field(_SESSION, session.SerializeToString())
        finally:
            waking.close()
            cache.pods.detach(pods, route)
            cache.nodes.detach(nodes)

    def _nodes(self, taken: Iterable[Pending[NodeEntry]]) -> Iterator[bytes]:
        for pending in taken:
            load = pending.entry.load
            if pending.type == CHANGED and pending.parts <= LOAD_ONLY and load is not None:
                change = pb.NodeLoadChange(
                    node=pending.entry.key,
                    load=records_pb2.NodeLoadRecord.FromString(load.value).load,
                )
                yield wire.message_field(_LOADS, change.SerializeToString())
            else:
                yield wire.message_field(_NODES, self._cache.nodes.event(pending))

    async def RenewSession(
        self, request: pb.RenewSessionRequest, call: Call
    ) -> pb.RenewSessionResponse:
        """Let a session live on."""
        common.check_known_fields(request)
        call.peer.require_scheduler(request.scheduler_name)
        response = pb.RenewSessionResponse()
        response.time_to_live.seconds = await self._sessions.renew(
            request.scheduler_name, request.session_id
        )
        return response

    async def EndSession(self, request: pb.EndSessionRequest, call: Call) -> pb.EndSessionResponse:
        """End a session."""
        common.check_known_fields(request)
        call.peer.require_scheduler(request.scheduler_name)
        await self._sessions.end(request.scheduler_name, request.session_id)
        return pb.EndSessionResponse()

    async def PostAssignments(
        self, request: pb.PostAssignmentsRequest, call: Call
    ) -> pb.PostAssignmentsResponse:
        """Assign pods to nodes."""
        name = request.scheduler_name
        common.check_request(request, request.assignments, "assignments")
        call.peer.require_scheduler(name)
        await self._sessions.require(name, request.session_id)
        author = Author(name, call.peer.identity, request.session_id)
        outcomes = await self._assign(request.assignments, author)
        response = pb.PostAssignmentsResponse()
        for proposal, outcome in zip(request.assignments, outcomes, strict=True):
            result = response.results.add()
            if isinstance(outcome, DrumlineError):
                result.status.CopyFrom(to_status(outcome))
                result.node = outcome.metadata.get("node", "")
            else:
                result.node, result.load_generation = proposal.node, outcome
        return response

    async def _assign(
        self, proposals: Sequence[pb.ProposedAssignment], author: Author
    ) -> list[int | DrumlineError]:
        """Give for each proposal the load's generation that contains it, or its refusal."""
        now = clock.timestamp()

        def assign(proposal: pb.ProposedAssignment, path: str) -> Step[int]:
            common.checked(
                _reference(proposal.pod, f"{path}.pod")
                + validation.name(proposal.node, f"{path}.node")
                + verdicts.texts(**{f"{path}.group": proposal.group})
            )
            seen_at = None
            if proposal.resource_version:
                seen_at = revision_of(
                    proposal.resource_version, self._cache.epoch, f"{path}.resource_version"
                )
            return placement.assign(proposal, author, seen_at, now)

        plans = [
            common.plan(assign, proposal, f"assignments[{index}]")
            for index, proposal in enumerate(proposals)
        ]
        parts = groups.parts([proposal.group for proposal in proposals])
        outcomes = await common.carry_out(
            self._context.committer,
            [groups.step(part, plans, self._limits.largest_atomic_assignment) for part in parts],
        )
        given: list[int | DrumlineError] = [0] * len(proposals)
        for part, outcome in zip(parts, outcomes, strict=True):
            groups.tell(part, outcome, given)
        return given

    async def PostVerdicts(
        self, request: pb.PostVerdictsRequest, call: Call
    ) -> pb.PostVerdictsResponse:
        """Say why pods are not placed."""
        common.check_request(request, request.verdicts, "verdicts")
        call.peer.require_scheduler(request.scheduler_name)
        await self._sessions.require(request.scheduler_name, request.session_id)
        response = pb.PostVerdictsResponse()
        for index, said in enumerate(request.verdicts):
            status = response.results.add()
            try:
                self._judge(said, request.scheduler_name, f"verdicts[{index}]")
            except DrumlineError as refusal:
                status.CopyFrom(to_status(refusal))
        return response

    def _judge(self, said: pb.PodVerdict, scheduler_name: str, path: str) -> None:
        common.checked(
            _reference(said.pod, f"{path}.pod") + verdicts.check(said.verdict, f"{path}.verdict")
        )
        key = pod_key(said.pod.namespace or DEFAULT_NAMESPACE, said.pod.name)
        pod = self._cache.pods.entries.get(key)
        if pod is not None and pod.scheduler_name != scheduler_name:
            raise PermissionDeniedError(
                f'the pod is scheduled by "{pod.scheduler_name}"', reason="WRONG_SCHEDULER"
            )
        encoded = pod_pb2.Pod(verdict=said.verdict).SerializeToString()
        if not self._cache.set_verdict(key, said.pod.uid, encoded):
            raise not_found(key)


def _reference(reference: metadata_pb2.PodReference, path: str) -> list[Violation]:
    reference.namespace = reference.namespace or DEFAULT_NAMESPACE
    found = validation.pod_reference(reference, path)
    if not reference.uid:
        found.append(Violation(f"{path}.uid", "is required"))
    return found
