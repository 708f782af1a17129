"""Calls as each party makes them, in a line; and what came of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import grpc
from drumline.api.v1 import metadata_pb2, namespace_service_pb2, node_pb2, pod_pb2
from drumline.api.v1 import node_service_pb2 as nodes_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2 as lifecycle_pb2
from drumline.model.errors import (
    DrumlineError,
    UnavailableError,
    from_rpc_error,
    from_status,
)
from drumline.node.v1 import node_agent_service_pb2 as agent_pb2
from drumline.scheduling.v1 import scheduler_service_pb2 as scheduling_pb2
from google.rpc.status_pb2 import Status

from tests.support.apiservers import Api

T = TypeVar("T")

PENDING, RUNNING, TERMINATED = (
    pod_pb2.PHASE_PENDING,
    pod_pb2.PHASE_RUNNING,
    pod_pb2.PHASE_TERMINATED,
)
CHANGED, REMOVED = metadata_pb2.EVENT_TYPE_CHANGED, metadata_pb2.EVENT_TYPE_REMOVED
SYNCED = metadata_pb2.WATCH_MARK_SYNCED
PATIENCE = 20.0


def reason(status: Status) -> str:
    """Give the stable reason of an item's status; "" for OK."""
    return from_status(status).reason if status.code else ""


def reasons(results: Iterable[Any]) -> list[str]:
    """Give the reason of each result, or of each bare status."""
    return [reason(r if isinstance(r, Status) else r.status) for r in results]


async def refusal(call: Awaitable[Any]) -> DrumlineError:
    """Give the error that a call ends with."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    raise AssertionError(f"the call was not refused: {answer}")


async def first_refusal(stream: AsyncIterator[Any]) -> DrumlineError:
    """Give the error that a stream ends with."""
    try:
        async with asyncio.timeout(PATIENCE):
            async for _ in stream:
                pass
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    raise AssertionError("the stream was not refused")


async def until(condition: Callable[[], Any], so_far: Callable[[], Any] = lambda: None) -> None:
    """Wait until `condition` holds; without that, say what has come so far."""
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it did not come; so far: {so_far()}")


async def until_answered(condition: Callable[[], Awaitable[Any]]) -> None:
    """Ask again until the answer is yes."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)


async def eventually(call: Callable[[], Awaitable[T]], seconds: float = PATIENCE) -> T:
    """Call until it is no longer UNAVAILABLE."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            late = asyncio.get_running_loop().time() > deadline
            if late or error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(0.05)


def ref(pod: pod_pb2.Pod) -> metadata_pb2.PodReference:
    """Name exactly this pod."""
    metadata = pod.metadata
    return metadata_pb2.PodReference(
        namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
    )


async def create(api: Api, *pods: pod_pb2.Pod) -> list[pod_pb2.Pod]:
    """Create pods that are all taken; give them as they are stored."""
    answer = await api.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=pods))
    assert set(reasons(answer.results)) <= {""}, answer
    return [result.pod for result in answer.results]


async def get(api: Api, name: str, *, namespace: str = "", version: str = "") -> pod_pb2.Pod:
    """Read a pod."""
    request = pods_pb2.GetPodRequest(namespace=namespace, name=name, min_resource_version=version)
    pod: pod_pb2.Pod = (await api.pods.GetPod(request)).pod
    return pod


async def get_node(api: Api, name: str, *, version: str = "") -> node_pb2.Node:
    """Read a node."""
    request = nodes_pb2.GetNodeRequest(name=name, min_resource_version=version)
    node: node_pb2.Node = (await api.nodes.GetNode(request)).node
    return node


async def delete(api: Api, *pods: pod_pb2.Pod, grace: int | None = None) -> Any:
    """Delete pods."""
    request = pods_pb2.DeletePodsRequest(
        pods=[ref(pod) for pod in pods], grace_period_seconds=grace
    )
    return await api.pods.DeletePods(request)


async def make_namespaces(api: Api, *names: str) -> Any:
    """Create namespaces."""
    request = namespace_service_pb2.CreateNamespacesRequest()
    for name in names:
        request.namespaces.add().metadata.name = name
    return await api.namespaces.CreateNamespaces(request)


async def usage(api: Api, name: str = "default") -> namespace_service_pb2.NamespaceUsage:
    """Read what the pods of a namespace use."""
    answer = await api.namespaces.GetNamespace(namespace_service_pb2.GetNamespaceRequest(name=name))
    used: namespace_service_pb2.NamespaceUsage = answer.namespace.usage
    return used


async def assign(
    api: Api,
    *places: tuple[pod_pb2.Pod, str],
    scheduler: str = "default",
    identity: str = "scheduler",
) -> Sequence[scheduling_pb2.AssignmentResult]:
    """Propose assignments."""
    request = scheduling_pb2.PostAssignmentsRequest(
        scheduler_name=scheduler, session_id=await api.session(scheduler, identity)
    )
    for pod, node in places:
        request.assignments.add(pod=ref(pod), node=node)
    answer = await api.scheduler(identity).PostAssignments(request)
    results: Sequence[scheduling_pb2.AssignmentResult] = answer.results
    return results


async def post_verdicts(api: Api, request: scheduling_pb2.PostVerdictsRequest) -> Any:
    """Post verdicts as the scheduler whose session the request's name has."""
    request.session_id = await api.session(request.scheduler_name)
    return await api.scheduler().PostVerdicts(request)


async def place(api: Api, pod: pod_pb2.Pod, node: str) -> pod_pb2.Pod:
    """Create a pod and assign it."""
    (made,) = await create(api, pod)
    assert reasons(await assign(api, (made, node))) == [""]
    return made


def said(
    pod: pod_pb2.Pod,
    node: str,
    phase: "pod_pb2.Phase.ValueType",
    sequence: int = 1,
    *,
    attempt: int = 1,
    why: str = "TOLD",
) -> agent_pb2.PodStatusReport:
    """Make a kubelet's report."""
    status = pod_pb2.PodStatus(phase=phase, reason=why, attempt=attempt, report_sequence=sequence)
    if phase != PENDING:
        status.start_time.GetCurrentTime()
    if phase == TERMINATED:
        status.finish_time.GetCurrentTime()
    return agent_pb2.PodStatusReport(pod=ref(pod), node=node, status=status)


async def report(
    api: Api, *reports: agent_pb2.PodStatusReport, identity: str = "simulator"
) -> list[str]:
    """Report statuses; give the reasons of the answers."""
    request = agent_pb2.ReportPodStatusesRequest(reports=reports)
    return reasons((await api.agent(identity).ReportPodStatuses(request)).results)


async def judge(api: Api, name: str, uid: str, state: "node_pb2.NodeState.ValueType") -> str:
    """Post a nodecontroller's judgement; give the reason of the answer."""
    request = lifecycle_pb2.PostNodeTransitionsRequest()
    status = node_pb2.NodeStatus(state=state, reason="JUDGED")
    request.transitions.add(node=name, node_uid=uid, status=status)
    return reasons((await api.lifecycle.PostNodeTransitions(request)).results)[0]


async def cordon(api: Api, name: str, cordoned: bool = True) -> Any:
    """Cordon a node, or uncordon it."""
    update = nodes_pb2.NodeUpdate()
    update.node.metadata.name = name
    update.node.spec.unschedulable = cordoned
    update.update_mask.paths.append("spec.unschedulable")
    return await api.nodes.UpdateNodes(nodes_pb2.UpdateNodesRequest(updates=[update]))


class Follower:
    """Reads a stream of messages to its end, and keeps what it said."""

    def __init__(self, stream: Any, field: str = "events") -> None:
        self._stream = stream
        self._field = field
        self.messages: list[Any] = []
        self.failure: DrumlineError | None = None
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while (message := await self._stream.read()) is not grpc.aio.EOF:
                self.messages.append(message)
        except grpc.aio.AioRpcError as error:
            self.failure = from_rpc_error(error)

    @property
    def events(self) -> list[Any]:
        """All events so far."""
        return [event for message in self.messages for event in getattr(message, self._field)]

    @property
    def told(self) -> list[tuple[str, str]]:
        """Name and type of each event so far, such as ("web", "CHANGED")."""
        prefix = "EVENT_TYPE_"
        names = metadata_pb2.EventType
        return [
            (
                (event.pod if hasattr(event, "pod") else event.node).metadata.name,
                names.Name(event.type).removeprefix(prefix),
            )
            for event in self.events
        ]

    @property
    def synced(self) -> bool:
        """All initial objects have come."""
        return any(message.mark == SYNCED for message in self.messages)

    @property
    def version(self) -> str:
        """The newest version to resume from."""
        return next((m.resource_version for m in reversed(self.messages) if m.resource_version), "")

    async def until(self, condition: Callable[["Follower"], Any]) -> None:
        """Wait until what was read fulfils a condition."""
        await until(lambda: condition(self), lambda: (self.messages[-10:], self.failure))

    async def close(self) -> None:
        """Stop reading."""
        self._stream.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@contextlib.asynccontextmanager
async def following(stream: Any, field: str = "events") -> AsyncIterator[Follower]:
    """Read a watch while the block runs."""
    follower = Follower(stream, field)
    try:
        yield follower
    finally:
        await follower.close()


def watch_pods(api: Api, version: str = "", **selector: Any) -> Any:
    """Open a watch on pods."""
    request = pods_pb2.WatchPodsRequest(
        selector=pods_pb2.PodSelector(**selector), resource_version=version
    )
    return api.pods.WatchPods(request)


@contextlib.asynccontextmanager
async def held_up(api: Api) -> AsyncIterator[None]:
    """Let an apiserver hear nothing of the store while the block runs."""
    assert api.server is not None
    etcd = api.server._etcd
    watch = etcd.watch

    async def nothing(_: int) -> AsyncIterator[Any]:
        for failure in [UnavailableError("held up by a test")]:
            raise failure
        yield

    etcd.watch = nothing  # type: ignore[method-assign, assignment]
    await etcd._endpoints.rotate()
    try:
        yield
    finally:
        etcd.watch = watch  # type: ignore[method-assign]
