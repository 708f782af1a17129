"""The standard scheduler's deciding alone: rounds of its core, without any process or message."""

import random
import time
from collections.abc import Iterable
from typing import Any

from drumline.api.v1.metadata_pb2 import EVENT_TYPE_CHANGED, WATCH_MARK_SYNCED
from drumline.api.v1.node_pb2 import NODE_STATE_READY, Node, NodeLoad
from drumline.api.v1.node_service_pb2 import NodeEvent
from drumline.api.v1.pod_pb2 import TAINT_EFFECT_NO_SCHEDULE, TOLERATION_OPERATOR_EXISTS, Pod
from drumline.api.v1.pod_service_pb2 import PodEvent
from drumline.scheduler.core import Core
from drumline.scheduling.v1.scheduler_service_pb2 import NodeLoadChange, SubscribeResponse

from benchmarks.report import percentile

_GIB = 1 << 30
_ZONES = ("a", "b", "c", "d")
_NEWCOMERS = 100


async def measure(nodes: int, pods: int, parked: int) -> dict[str, Any]:
    """Give the times of rounds over a cluster that is half full, in milliseconds."""
    dice = random.Random(1)
    figures: dict[str, Any] = {}
    mixed = [_mixed(number, dice) for number in range(pods)]
    milliseconds, placed = _rounds(_core(nodes, dice), mixed)
    figures["mixed_ms"] = milliseconds
    figures["mixed_placed"] = placed
    alike = [_pod(f"alike-{number}", 500, 1) for number in range(pods)]
    milliseconds, placed = _rounds(_core(nodes, dice), alike)
    figures["identical_ms"] = milliseconds
    figures["identical_placed"] = placed
    figures.update(_newcomers(_core(nodes, dice), parked, dice))
    return figures


def _rounds(core: Core, pods: Iterable[Pod]) -> tuple[float, int]:
    """Give how long it takes until each pod has a node or a counted verdict, and how many have."""
    core.apply(_told(pods=pods))
    began, placed = time.perf_counter(), 0
    while core.has_work:
        placed += len(core.next_batch(1000))
    core.take_verdicts(1 << 30)
    return round(1e3 * (time.perf_counter() - began), 1), placed


def _newcomers(core: Core, parked: int, dice: random.Random) -> dict[str, float]:
    """Give how long one pod that has room takes beside many that have none, and that stay so."""
    shapes = 200
    _rounds(core, (_pod(f"huge-{n}", 10**6 + n % shapes, 1) for n in range(parked)))
    taken = []
    for number in range(_NEWCOMERS):
        core.review()
        core.take_verdicts(1000)
        message = _told(pods=[_pod(f"new-{number}", 10, 1)])
        row = core.model.row(f"node-{dice.randrange(len(core.model))}")
        assert row is not None
        load = _load(dice)
        load.generation = row.generation + 1
        message.loads.append(NodeLoadChange(node=row.name, load=load))
        began = time.perf_counter()
        core.apply(message)
        if not core.has_work:
            raise RuntimeError("the scheduler does not see that a pod is new")
        (proposal,) = core.next_batch(1000)
        taken.append(1e3 * (time.perf_counter() - began))
        core.queue.forget(proposal.entry)
    return {
        "newcomer_p50_ms": round(percentile(taken, 0.5), 2),
        "newcomer_max_ms": round(max(taken), 2),
    }


def _core(nodes: int, dice: random.Random) -> Core:
    core = Core("spread", 0)
    made = []
    for number in range(nodes):
        node = Node()
        node.metadata.name, node.metadata.uid = f"node-{number}", f"uid-{number}"
        node.metadata.labels["zone"] = _ZONES[number % len(_ZONES)]
        node.status.state = NODE_STATE_READY
        node.spec.unschedulable = number % 50 == 0
        if number % 5 == 0:
            node.spec.taints.add(key="special", effect=TAINT_EFFECT_NO_SCHEDULE)
        node.load.CopyFrom(_load(dice))
        made.append(node)
    core.apply(_told(nodes=made))
    core.apply(SubscribeResponse(mark=WATCH_MARK_SYNCED))
    core.decide_in("session")
    return core


def _load(dice: random.Random) -> NodeLoad:
    """Make the load of a node with 16 cores, 64 GiB, and half of both promised on average."""
    load = NodeLoad(schedulable=True, generation=1)
    load.allocatable.cpu_millicores, load.allocatable.memory_bytes = 16_000, 64 * _GIB
    load.allocatable.pods = 110
    load.promised.cpu_millicores = dice.randrange(16_000)
    load.promised.memory_bytes = dice.randrange(64) * _GIB
    load.promised.pods = dice.randrange(60)
    return load


def _mixed(number: int, dice: random.Random) -> Pod:
    """Make one of some hundred shapes; one in twenty fits nowhere."""
    pod = _pod(f"mixed-{number}", dice.choice((100, 250, 500, 1000, 4000)), dice.choice((1, 2, 8)))
    if dice.random() < 0.5:
        pod.spec.node_selector["zone"] = dice.choice(_ZONES)
    if dice.random() < 0.3:
        pod.spec.tolerations.add(key="special", operator=TOLERATION_OPERATOR_EXISTS)
    if dice.random() < 0.05:
        pod.spec.containers[0].resources.requests.cpu_millicores = 32_000
    return pod


def _pod(name: str, cpu: int, gibibytes: int) -> Pod:
    pod = Pod()
    pod.metadata.name, pod.metadata.namespace, pod.metadata.uid = name, "default", name
    requests = pod.spec.containers.add(name="main").resources.requests
    requests.cpu_millicores, requests.memory_bytes = cpu, gibibytes * _GIB
    return pod


def _told(nodes: Iterable[Node] = (), pods: Iterable[Pod] = ()) -> SubscribeResponse:
    message = SubscribeResponse()
    message.nodes.extend(NodeEvent(type=EVENT_TYPE_CHANGED, node=node) for node in nodes)
    message.pods.extend(PodEvent(type=EVENT_TYPE_CHANGED, pod=pod) for pod in pods)
    return message
