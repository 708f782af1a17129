"""drumline.api.v1.PodService."""

from collections.abc import AsyncIterator, Callable, Sequence

from drumline.api.v1 import pod_pb2, pod_service_pb2
from drumline.api.v1.metadata_pb2 import PodReference
from drumline.apiserver.cache import past
from drumline.apiserver.cache.objects import PodEntry, new_pod
from drumline.apiserver.cache.versions import revision_of
from drumline.apiserver.domain import pods
from drumline.apiserver.rpc import common, logs_proxy, waits, watches
from drumline.apiserver.rpc.context import Context
from drumline.apiserver.rpc.lists import page
from drumline.apiserver.store import wire
from drumline.apiserver.store.committer import Committed, Step
from drumline.model import labels, validation
from drumline.model.errors import DrumlineError, InvalidArgumentError, Violation
from drumline.model.names import DEFAULT_NAMESPACE
from drumline.process import clock
from drumline.process.rpc import Call


class PodService:
    """Pods, for users and tools."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cache = context.cache
        self._logs = logs_proxy.LogsProxy(context)

    async def CreatePods(self, request: pod_service_pb2.CreatePodsRequest, _: Call) -> bytes:
        """Store pods."""
        common.check_request(request, request.pods, "pods")
        now = clock.timestamp()
        plans: list[Step[bytes | None] | DrumlineError] = []
        for index, pod in enumerate(request.pods):
            validation.default_pod(pod)
            violations = validation.pod_to_create(pod, f"pods[{index}]")
            if violations:
                plans.append(InvalidArgumentError.of(violations))
            else:
                plans.append(pods.create(pod, common.new_uid(), now))
        outcomes = await common.carry_out(self._context.committer, plans)
        await self._reached_if_repeated(outcomes)
        parts = [
            common.result(self._created(pod, outcome))
            for pod, outcome in zip(request.pods, outcomes, strict=True)
        ]
        return b"".join(parts) + common.holds_at(self._cache, outcomes)

    async def _reached_if_repeated(
        self, outcomes: Sequence[Committed[bytes | None] | DrumlineError]
    ) -> None:
        if any(isinstance(o, Committed) and o.value is None for o in outcomes):
            await self._cache.reached(common.newest_revision(outcomes))

    def _created(
        self, pod: pod_pb2.Pod, outcome: Committed[bytes | None] | DrumlineError
    ) -> bytes | DrumlineError | None:
        if isinstance(outcome, DrumlineError):
            return outcome
        if outcome.value is None:
            return self._current(pods.pod_key(pod.metadata.namespace, pod.metadata.name))
        version = self._cache.version(outcome.revision)
        return new_pod(outcome.value, pod.spec.scheduler_name, version)

    def _current(self, key: str) -> bytes | None:
        entry = self._cache.pods.entries.get(key)
        return None if entry is None else self._cache.pods.whole(entry)

    async def GetPod(self, request: pod_service_pb2.GetPodRequest, _: Call) -> bytes:
        """Read one pod."""
        common.check_known_fields(request)
        reference = PodReference(
            namespace=request.namespace or DEFAULT_NAMESPACE, name=request.name
        )
        found = validation.name(reference.namespace, "namespace", dots=False)
        common.checked(found + validation.name(reference.name, "name"))
        await common.at_least(self._cache, request.min_resource_version)
        key = pods.pod_key(reference.namespace, reference.name)
        entry = self._cache.pods.entries.get(key)
        if entry is None:
            raise pods.not_found(key)
        return wire.message_field(1, self._cache.pods.whole(entry))

    async def ListPods(self, request: pod_service_pb2.ListPodsRequest, _: Call) -> bytes:
        """Read the pods that match."""
        common.check_known_fields(request)

        async def before(revision: int, after: str, limit: int) -> list[PodEntry]:
            return await past.pods_at(self._context.etcd, revision, after, limit)

        return await page(
            self._cache,
            self._cache.pods,
            before,
            selector=request.selector,
            select=pod_selector(request.selector),
            size=request.page_size,
            token=request.page_token,
            min_resource_version=request.min_resource_version,
        )

    async def WatchPods(
        self, request: pod_service_pb2.WatchPodsRequest, _: Call
    ) -> AsyncIterator[bytes]:
        """Follow the pods that match."""
        common.check_known_fields(request)
        select = pod_selector(request.selector)
        after = await watches.resume_point(self._cache, request.resource_version)
        node = request.selector.node
        watch = watches.Watch(
            self._cache,
            self._cache.pods,
            select,
            routes=[("node", node)] if node else (),
            bookmark_seconds=self._context.bookmark_seconds,
        )
        async for message in watch.messages(after):
            yield message

    async def UpdatePods(self, request: pod_service_pb2.UpdatePodsRequest, _: Call) -> bytes:
        """Change pods."""
        common.check_request(request, request.updates, "updates")
        plans = [
            common.plan(self._amend, update, f"updates[{index}]")
            for index, update in enumerate(request.updates)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        keys = [_key(u.pod.metadata.namespace, u.pod.metadata.name) for u in request.updates]
        results = await common.results(self._cache, self._cache.pods, keys, outcomes)
        return results + common.holds_at(self._cache, outcomes)

    def _amend(self, update: pod_service_pb2.PodUpdate, path: str) -> Step[None]:
        metadata = update.pod.metadata
        metadata.namespace = metadata.namespace or DEFAULT_NAMESPACE
        reference = PodReference(namespace=metadata.namespace, name=metadata.name)
        common.checked(validation.pod_reference(reference, f"{path}.pod.metadata"))
        paths = frozenset(update.update_mask.paths)
        pods.check_paths(
            paths, pods.ALWAYS_MUTABLE | pods.MUTABLE_UNTIL_ASSIGNED, f"{path}.update_mask"
        )
        field = f"{path}.pod.metadata.resource_version"
        revision = revision_of(metadata.resource_version, self._cache.epoch, field)
        return pods.amend(update.pod, paths, pods.Expected(metadata.uid, revision), f"{path}.pod")

    async def DeletePods(self, request: pod_service_pb2.DeletePodsRequest, _: Call) -> bytes:
        """Delete pods."""
        common.check_request(request, request.pods, "pods")
        grace = None
        if request.HasField("grace_period_seconds"):
            grace = request.grace_period_seconds
            common.checked(validation.grace_seconds(grace, "grace_period_seconds"))
        now = clock.timestamp()

        def delete(reference: PodReference, path: str) -> Step[bool]:
            common.checked(validation.pod_reference(reference, path))
            key = _key(reference.namespace, reference.name)
            return pods.delete(key, reference.uid, grace, now)

        plans = [
            common.plan(delete, reference, f"pods[{index}]")
            for index, reference in enumerate(request.pods)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        keys = [_key(reference.namespace, reference.name) for reference in request.pods]
        results = await common.results(self._cache, self._cache.pods, keys, outcomes, is_gone=bool)
        return results + common.holds_at(self._cache, outcomes)

    async def WaitForPods(
        self, request: pod_service_pb2.WaitForPodsRequest, _: Call
    ) -> AsyncIterator[bytes]:
        """Wait until pods have come as far as asked."""
        common.check_request(request, request.pods, "pods")
        common.checked(waits.violations(request))
        await common.at_least(self._cache, request.min_resource_version)
        async for message in waits.wait(self._cache, request):
            yield message

    async def StreamLogs(
        self, request: pod_service_pb2.StreamLogsRequest, _: Call
    ) -> AsyncIterator[pod_service_pb2.StreamLogsResponse]:
        """Pass on what a container has written."""
        common.check_known_fields(request)
        async for message in self._logs.stream(request):
            yield message


def _key(namespace: str, name: str) -> str:
    return pods.pod_key(namespace or DEFAULT_NAMESPACE, name)


def pod_selector(selector: pod_service_pb2.PodSelector) -> Callable[[PodEntry], bool]:
    """Make the function that picks pods. Raises InvalidArgumentError for a bad selector."""
    found: list[Violation] = []
    if selector.namespace:
        found += validation.name(selector.namespace, "selector.namespace", dots=False)
    if selector.node:
        found += validation.name(selector.node, "selector.node")
    found += validation.label_selector(selector.labels, "selector.labels")
    for phase in selector.phases:
        if phase not in pod_pb2.Phase.values():
            found.append(Violation("selector.phases", f"{phase} is no phase"))
    common.checked(found)
    namespace, node = selector.namespace, selector.node
    phases = frozenset(selector.phases) - {pod_pb2.PHASE_UNSPECIFIED}
    required = selector.labels if selector.labels.requirements else None

    def select(entry: PodEntry) -> bool:
        return (
            (not namespace or entry.namespace == namespace)
            and (not node or entry.node == node)
            and (not phases or entry.phase in phases)
            and (required is None or labels.matches(required, entry.labels))
        )

    return select
