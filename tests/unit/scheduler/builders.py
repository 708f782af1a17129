"""Nodes, pods and messages in few words."""

from collections.abc import Iterable, Mapping

from drumline.api.v1.metadata_pb2 import (
    EVENT_TYPE_CHANGED,
    EVENT_TYPE_REMOVED,
    WATCH_MARK_SYNCED,
)
from drumline.api.v1.node_pb2 import NODE_STATE_READY, Node, NodeLoad, Taint
from drumline.api.v1.node_service_pb2 import NodeEvent
from drumline.api.v1.pod_pb2 import TAINT_EFFECT_NO_SCHEDULE, Container, Pod, Toleration
from drumline.api.v1.pod_service_pb2 import PodEvent
from drumline.api.v1.resources_pb2 import Resources
from drumline.model import errors
from drumline.scheduler.core import Core, Proposal
from drumline.scheduler.placement import Scoring
from drumline.scheduling.v1.scheduler_service_pb2 import (
    AssignmentResult,
    NodeLoadChange,
    SubscribeResponse,
)
from google.rpc.status_pb2 import Status

GIB = 2**30


def load(
    generation: int = 1,
    *,
    cpu: int = 4000,
    memory: int = 8 * GIB,
    pods: int = 110,
    named: Mapping[str, int] | None = None,
    promised: Resources | None = None,
    schedulable: bool = True,
) -> NodeLoad:
    return NodeLoad(
        allocatable=amounts(cpu, memory, pods, named),
        promised=promised or Resources(),
        schedulable=schedulable,
        generation=generation,
    )


def amounts(
    cpu: int = 0, memory: int = 0, pods: int = 0, named: Mapping[str, int] | None = None
) -> Resources:
    return Resources(
        cpu_millicores=cpu, memory_bytes=memory, pods=pods, named_thousandths=named or {}
    )


def node(
    name: str,
    its_load: NodeLoad | None = None,
    *,
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    cordoned: bool = False,
    runs_images: bool = False,
) -> Node:
    made = Node()
    made.metadata.name = name
    made.metadata.uid = uid or f"uid-{name}"
    made.metadata.labels.update(labels or {})
    made.spec.unschedulable = cordoned
    made.spec.taints.extend(taints)
    made.info.runs_images = runs_images
    made.status.state = NODE_STATE_READY
    made.load.CopyFrom(its_load or load())
    return made


def taint(key: str, value: str = "") -> Taint:
    return Taint(key=key, value=value, effect=TAINT_EFFECT_NO_SCHEDULE)


def pod(
    name: str,
    *,
    cpu: int = 0,
    memory: int = 0,
    named: Mapping[str, int] | None = None,
    created: int = 0,
    uid: str = "",
    image: str = "",
    selector: Mapping[str, str] | None = None,
    tolerations: Iterable[Toleration] = (),
) -> Pod:
    made = Pod()
    made.metadata.name = name
    made.metadata.namespace = "default"
    made.metadata.uid = uid or f"uid-{name}"
    made.metadata.create_time.seconds = created
    made.spec.node_selector.update(selector or {})
    made.spec.tolerations.extend(tolerations)
    container = Container(name="main", image=image)
    container.resources.requests.CopyFrom(amounts(cpu, memory, 0, named))
    made.spec.containers.append(container)
    return made


def told(
    *,
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    loads: Mapping[str, NodeLoad] | None = None,
    gone_nodes: Iterable[Node] = (),
    gone_pods: Iterable[Pod] = (),
) -> SubscribeResponse:
    message = SubscribeResponse()
    message.nodes.extend(NodeEvent(type=EVENT_TYPE_CHANGED, node=n) for n in nodes)
    message.nodes.extend(NodeEvent(type=EVENT_TYPE_REMOVED, node=n) for n in gone_nodes)
    message.pods.extend(PodEvent(type=EVENT_TYPE_CHANGED, pod=p) for p in pods)
    message.pods.extend(PodEvent(type=EVENT_TYPE_REMOVED, pod=p) for p in gone_pods)
    message.loads.extend(NodeLoadChange(node=n, load=its) for n, its in (loads or {}).items())
    return message


def synced(*messages: SubscribeResponse, scoring: Scoring = "spread") -> Core:
    """A scheduler that has been told these messages as its snapshot, and has the session."""
    core = Core(scoring, 0)
    for message in messages:
        core.apply(message)
    core.apply(SubscribeResponse(mark=WATCH_MARK_SYNCED))
    core.decide_in("session")
    return core


def ok(node_name: str, generation: int) -> AssignmentResult:
    return AssignmentResult(node=node_name, load_generation=generation)


def refused(reason: str) -> AssignmentResult:
    return AssignmentResult(
        status=errors.to_status(errors.FailedPreconditionError("no", reason=reason))
    )


def unavailable() -> AssignmentResult:
    return AssignmentResult(status=errors.to_status(errors.UnavailableError("later")))


def invalid() -> AssignmentResult:
    return AssignmentResult(status=Status(code=3, message="malformed"))


def placed(batch: Iterable[Proposal]) -> list[tuple[str, str]]:
    """(pod, node) of each proposal, in order."""
    return [(proposal.entry.name, proposal.node) for proposal in batch]
