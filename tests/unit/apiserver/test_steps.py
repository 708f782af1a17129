"""The transactions over records in memory: whatever is done in whatever order, the sums hold."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from drumline.api.v1 import metadata_pb2, node_pb2, pod_pb2, resources_pb2
from drumline.apiserver.domain import namespaces, nodes, placement, pods
from drumline.apiserver.store.kinds import KINDS, LEADERS, QUOTA_USES, Record, parse_key
from drumline.apiserver.store.view import Batch, Key, View
from drumline.model.errors import (
    DrumlineError,
    FailedPreconditionError,
    NotFoundError,
    ResourceExhaustedError,
)
from drumline.node.v1.node_agent_service_pb2 import PodStatusReport
from drumline.scheduling.v1.scheduler_service_pb2 import ProposedAssignment
from drumline.storage.v1.records_pb2 import PodStatusRecord, QuotaUseRecord
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.apiservers import pod
from tests.support.history import Recount

NOW = Timestamp(seconds=1_700_000_000)
GPU = "example.com/gpu"
IT = placement.Author("default", "it", "session")


class Store:
    """Records by key, as etcd would hold them; a step a transaction."""

    def __init__(self) -> None:
        leader = LEADERS.schema(session_id=IT.session_id)
        self.records = {"leaders/default": Record(leader.SerializeToString(), 1)}
        self.revision = 1

    def do(self, step: Callable[[View], Any]) -> Any:
        """Carry out a step; a refusal changes nothing."""
        batch = Batch(self._lookup)
        view = View(batch)
        given = step(view)
        batch.add(view)
        self.revision += bool(view.written)
        for kind, name in view.written:
            value = batch.encoded((kind, name))
            if value is None:
                self.records.pop(kind.key(name).decode(), None)
            else:
                self.records[kind.key(name).decode()] = Record(value, self.revision)
        return given

    def _lookup(self, key: Key) -> Record | None:
        return self.records.get(key[0].key(key[1]).decode())

    def state(self) -> dict[str, bytes]:
        return {key: record.value for key, record in self.records.items()}

    def pods(self) -> list[pod_pb2.Pod]:
        """Give all pods that are stored."""
        found = []
        for key in self.records:
            prefix, name = parse_key(key.encode())
            if prefix == "pods":
                parts = (self.records.get(f"{k}/{name}") for k in ("pods", "assignments"))
                found.append(pod_pb2.Pod.FromString(b"".join(part.value for part in parts if part)))
        return found


def ready(store: Store, name: str, cpu: int = 1000) -> None:
    """Register a node and call it ready."""
    amount = resources_pb2.Resources(cpu_millicores=cpu, pods=5)
    amount.named_thousandths[GPU] = 2000
    info = node_pb2.NodeInfo(capacity=amount, allocatable=amount, runtime="process")
    store.do(nodes.register(name, info, f"uid-{name}", NOW, simulator=False))
    status = node_pb2.NodeStatus(state=node_pb2.NODE_STATE_READY)
    store.do(nodes.judge(name, uid_of(store, name), status))


def uid_of(store: Store, node: str) -> str:
    return node_pb2.Node.FromString(store.records[f"nodes/{node}"].value).metadata.uid


def report_of(made: pod_pb2.Pod, phase: int, sequence: int) -> PodStatusReport:
    report = PodStatusReport(node=made.assignment.node)
    report.pod.namespace, report.pod.name = made.metadata.namespace, made.metadata.name
    report.pod.uid = made.metadata.uid
    report.status.phase = phase  # type: ignore[assignment]
    report.status.attempt, report.status.report_sequence = made.assignment.attempt, sequence
    return report


def key_of(made: pod_pb2.Pod) -> str:
    return pods.pod_key(made.metadata.namespace, made.metadata.name)


def new_pod(name: str, namespace: str = "default", cpu: int = 100) -> pod_pb2.Pod:
    made = pod(name, cpu=cpu, namespace=namespace)
    made.spec.scheduler_name = "default"
    return made


def proposal_of(made: pod_pb2.Pod, node: str) -> ProposedAssignment:
    proposal = ProposedAssignment(node=node)
    proposal.pod.namespace, proposal.pod.name = made.metadata.namespace, made.metadata.name
    proposal.pod.uid = made.metadata.uid
    return proposal


class Life:
    """Everybody does anything in any order."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.store = Store()
        self.done: Counter[str] = Counter()
        for name in ("default", "team"):
            self.store.do(namespaces.create(metadata_pb2.ObjectMeta(name=name), name, NOW))

    def act(self) -> None:
        """Try something; what is refused must have changed nothing."""
        what = self.dice.choices(
            [self.create, self.assign, self.report, self.delete, self.remove_ended,
             self.register, self.cordon, self.forget, self.delete_namespace, self.end_infeasible],
            [8, 10, 10, 3, 1, 3, 2, 2, 1, 2],
        )[0]  # fmt: skip
        step = what()
        if step is None:
            return
        before = self.store.state()
        try:
            self.store.do(step)
        except DrumlineError as refusal:
            assert self.store.state() == before
            self.done[f"{what.__name__}: {refusal.reason}"] += 1
        else:
            self.done[what.__name__] += 1

    def some_pod(self) -> pod_pb2.Pod | None:
        there = self.store.pods()
        return self.dice.choice(there) if there else None

    def create(self) -> Callable[[View], Any]:
        namespace = self.dice.choice(["default", "default", "team", "none"])
        made = new_pod(self.dice.choice("abcdef"), namespace, self.dice.choice([0, 300, 600]))
        made.metadata.request_id = self.dice.choice(["", "r"])
        made.spec.infeasible_after.seconds = 5
        if self.dice.random() < 0.5:
            made.spec.containers[0].resources.requests.named_thousandths[GPU] = 1500
        return pods.create(made, f"uid-{self.dice.random()}", NOW)

    def register(self) -> None:
        ready(self.store, self.dice.choice("mn"))

    def cordon(self) -> Callable[[View], Any]:
        node = node_pb2.Node(spec=node_pb2.NodeSpec(unschedulable=self.dice.random() < 0.4))
        node.metadata.name = self.dice.choice("mn")
        return nodes.amend(node, frozenset({"spec.unschedulable"}), pods.Expected(), "node")

    def forget(self) -> Callable[[View], Any]:
        return nodes.forget(self.dice.choice("mn"))

    def delete_namespace(self) -> Callable[[View], Any]:
        return namespaces.delete("team")

    def assign(self) -> Callable[[View], Any] | None:
        made = self.some_pod()
        if made is None:
            return None
        return placement.assign(proposal_of(made, self.dice.choice("mn")), IT, None, NOW)

    def report(self) -> Callable[[View], Any] | None:
        made = self.some_pod()
        if made is None:
            return None
        phase = self.dice.choice([pod_pb2.PHASE_RUNNING, pod_pb2.PHASE_TERMINATED])
        return placement.report(report_of(made, phase, self.dice.randrange(1, 4)))

    def delete(self) -> Callable[[View], Any] | None:
        made = self.some_pod()
        return made and pods.delete(key_of(made), made.metadata.uid, 1, NOW)

    def end_infeasible(self) -> Callable[[View], Any] | None:
        made = self.some_pod()
        return made and placement.end_infeasible(
            key_of(made), made.metadata.uid, made.spec.infeasible_after, "none fits"
        )

    def remove_ended(self) -> Callable[[View], Any] | None:
        made = self.some_pod()
        return made and pods.remove_ended(key_of(made), made.metadata.uid)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_done_the_sums_equal_a_recount(seed: int) -> None:
    life, recount = Life(seed), Recount()
    for _ in range(2500):
        life.act()
        assert not recount.faults(life.store.state()), life.done
        assert {key.partition("/")[0] for key in life.store.records} <= set(KINDS)
    happened = {
        "create", "assign", "report", "delete", "forget", "cordon", "end_infeasible",
        "create: POD_EXISTS", "create: NAMESPACE_NOT_FOUND", "assign: DOES_NOT_FIT",
        "assign: NODE_NOT_SCHEDULABLE", "assign: ALREADY_ASSIGNED", "assign: POD_ENDED",
        "report: NOT_ASSIGNED", "report: STALE_REPORT", "forget: NODE_IN_USE",
    }  # fmt: skip
    assert happened <= set(life.done)


def one_pod_on_a_node() -> tuple[Store, pod_pb2.Pod]:
    store = Store()
    store.do(namespaces.create(metadata_pb2.ObjectMeta(name="default"), "n", NOW))
    ready(store, "m")
    store.do(pods.create(new_pod("a"), "uid-a", NOW))
    (made,) = store.pods()
    store.do(placement.assign(proposal_of(made, "m"), IT, None, NOW))
    return store, store.pods()[0]


def test_registering_again_writes_nothing() -> None:
    store = Store()
    ready(store, "m")
    before = store.revision
    ready(store, "m")
    assert store.revision == before


def test_a_node_with_pods_cannot_be_forgotten_and_one_without_can() -> None:
    store, made = one_pod_on_a_node()
    with pytest.raises(FailedPreconditionError) as caught:
        store.do(nodes.forget("m"))
    assert caught.value.reason == "NODE_IN_USE"
    store.do(placement.report(report_of(made, pod_pb2.PHASE_TERMINATED, 1)))
    store.do(nodes.forget("m"))
    assert not [key for key in store.records if key.endswith("/m")]


def test_a_pod_that_is_being_deleted_goes_with_the_report_of_its_end() -> None:
    store, made = one_pod_on_a_node()
    assert store.do(pods.delete("default/a", "", 5, NOW)) is False
    assert store.pods()[0].spec.termination_grace_period_seconds == 5
    store.do(placement.report(report_of(made, pod_pb2.PHASE_TERMINATED, 1)))
    assert not store.pods()
    with pytest.raises(NotFoundError):
        store.do(placement.report(report_of(made, pod_pb2.PHASE_TERMINATED, 1)))


def test_a_pod_that_fits_nowhere_ends_once_and_gives_back_what_it_asked_for_once() -> None:
    store = Store()
    store.do(namespaces.create(metadata_pb2.ObjectMeta(name="default"), "n", NOW))
    ready(store, "m")
    asked = new_pod("a")
    asked.spec.infeasible_after.seconds = 5
    store.do(pods.create(asked, "uid-a", NOW))
    after, longer = asked.spec.infeasible_after, Duration(seconds=6)
    before = store.state()
    assert not store.do(placement.end_infeasible("default/a", "uid-b", after, "none fits"))
    assert not store.do(placement.end_infeasible("default/a", "uid-a", longer, "none fits"))
    assert not store.do(placement.end_infeasible("default/b", "uid-a", after, "none fits"))
    assert store.state() == before
    step = placement.end_infeasible("default/a", "uid-a", after, "none fits")
    assert store.do(step)
    ended = store.state()
    assert not store.do(step), "it has ended"
    assert store.state() == ended
    status = PodStatusRecord.FromString(ended["podstatus/default/a"]).status
    assert (status.phase, status.reason, status.message, status.attempt) == (
        pod_pb2.PHASE_TERMINATED, "INFEASIBLE", "none fits", 0,
    )  # fmt: skip
    assert not Recount().faults(ended)
    (made,) = store.pods()
    with pytest.raises(FailedPreconditionError) as caught:
        store.do(placement.assign(proposal_of(made, "m"), IT, None, NOW))
    assert caught.value.reason == "POD_ENDED"
    paths = frozenset({"spec.infeasible_after"})
    with pytest.raises(FailedPreconditionError) as caught:
        store.do(pods.amend(made, paths, pods.Expected(), "pod"))
    assert caught.value.reason == "POD_ENDED"
    assert store.do(pods.delete("default/a", "uid-a", None, NOW)), "it is gone at once"
    assert not Recount().faults(store.state())


def test_a_pod_that_is_placed_does_not_end_for_want_of_a_node() -> None:
    store, made = one_pod_on_a_node()
    before = store.state()
    step = placement.end_infeasible("default/a", "uid-a", made.spec.infeasible_after, "none fits")
    assert not store.do(step)
    store.do(placement.report(report_of(made, pod_pb2.PHASE_TERMINATED, 1)))
    assert not store.do(step)
    assert store.state().keys() - before.keys() == {"podstatus/default/a"}


def test_a_node_that_shrank_takes_nothing_until_it_has_room_again() -> None:
    store, _ = one_pod_on_a_node()
    ready(store, "m", cpu=50)
    store.do(pods.create(new_pod("b", cpu=1), "uid-b", NOW))
    second = store.pods()[1]
    with pytest.raises(FailedPreconditionError) as caught:
        store.do(placement.assign(proposal_of(second, "m"), IT, None, NOW))
    assert caught.value.reason == "DOES_NOT_FIT"
    free = new_pod("c", cpu=0)
    store.do(pods.create(free, "uid-c", NOW))
    store.do(placement.assign(proposal_of(store.pods()[2], "m"), IT, None, NOW))


def test_a_sum_that_no_number_holds_is_refused() -> None:
    store = Store()
    store.do(namespaces.create(metadata_pb2.ObjectMeta(name="default"), "n", NOW))
    full = QuotaUseRecord()
    full.usage.requested.memory_bytes = 2**63 - 10
    store.records["quotause/default"] = Record(full.SerializeToString(), 1)
    big = new_pod("a")
    big.spec.containers[0].resources.requests.memory_bytes = 10
    with pytest.raises(ResourceExhaustedError) as caught:
        store.do(pods.create(big, "uid", NOW))
    assert caught.value.reason == "NAMESPACE_SUM_TOO_LARGE"
    big.spec.containers[0].resources.requests.memory_bytes = 9
    store.do(pods.create(big, "uid", NOW))
    assert QUOTA_USES.schema.FromString(store.records["quotause/default"].value).usage.stored_pods
