"""The transactions over records in memory: whatever is done in whatever order, the sums hold."""

from collections.abc import Callable
from typing import Any

import pytest
from drumline.api.v1 import metadata_pb2, node_pb2, pod_pb2, resources_pb2
from drumline.apiserver.domain import namespaces, nodes, placement, pods
from drumline.apiserver.store.kinds import KINDS, QUOTA_USES, Record, parse_key
from drumline.apiserver.store.view import Batch, Key, View
from drumline.model.errors import (
    DrumlineError,
    FailedPreconditionError,
    NotFoundError,
    ResourceExhaustedError,
)
from drumline.node.v1.node_agent_service_pb2 import PodStatusReport
from drumline.scheduling.v1.scheduler_service_pb2 import ProposedAssignment
from drumline.storage.v1.records_pb2 import QuotaUseRecord
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.apiservers import pod
from tests.support.history import Recount

NOW = Timestamp(seconds=1_700_000_000)
GPU = "example.com/gpu"


class Store:
    """Records by key, as etcd would hold them; a step a transaction."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.revision = 0

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


def new_pod(name: str, namespace: str = "default", cpu: int = 100) -> pod_pb2.Pod:
    made = pod(name, cpu=cpu, namespace=namespace)
    made.spec.scheduler_name = "default"
    return made


def proposal_of(made: pod_pb2.Pod, node: str) -> ProposedAssignment:
    proposal = ProposedAssignment(node=node)
    proposal.pod.namespace, proposal.pod.name = made.metadata.namespace, made.metadata.name
    proposal.pod.uid = made.metadata.uid
    return proposal


class Life(RuleBasedStateMachine):
    """Everybody does anything in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.recount = Recount()
        self.uids = 0
        for name in ("default", "team"):
            self.store.do(namespaces.create(metadata_pb2.ObjectMeta(name=name), name, NOW))

    def attempt(self, step: Callable[[View], Any]) -> None:
        before = self.store.state()
        try:
            self.store.do(step)
        except DrumlineError:
            assert self.store.state() == before

    @rule(
        name=st.sampled_from("ab"), namespace=st.sampled_from(["default", "team", "none"]),
        cpu=st.sampled_from([0, 300, 600]), gpu=st.sampled_from([0, 1500]),
        request_id=st.sampled_from(["", "r"]),
    )  # fmt: skip
    def create(self, name: str, namespace: str, cpu: int, gpu: int, request_id: str) -> None:
        made = new_pod(name, namespace, cpu)
        made.metadata.request_id = request_id
        if gpu:
            made.spec.containers[0].resources.requests.named_thousandths[GPU] = gpu
        self.uids += 1
        self.attempt(pods.create(made, f"uid-{self.uids}", NOW))

    @rule(name=st.sampled_from("mn"), cpu=st.sampled_from([500, 1000]))
    def register(self, name: str, cpu: int) -> None:
        """A node that shrinks below what it has promised is the only way beyond its amounts."""
        known = self.store.records.get(f"nodeload/{name}")
        if known is None or cpu == 1000:
            ready(self.store, name, cpu)

    @rule(name=st.sampled_from("mn"), cordoned=st.booleans())
    def cordon(self, name: str, cordoned: bool) -> None:
        node = node_pb2.Node(spec=node_pb2.NodeSpec(unschedulable=cordoned))
        node.metadata.name = name
        paths = frozenset({"spec.unschedulable"})
        self.attempt(nodes.amend(node, paths, pods.Expected(), "node"))

    @rule(name=st.sampled_from("mn"))
    def forget(self, name: str) -> None:
        self.attempt(nodes.forget(name))

    @rule(which=st.integers(0, 3), node=st.sampled_from("mn"))
    def assign(self, which: int, node: str) -> None:
        for made in self.store.pods()[which : which + 1]:
            self.attempt(placement.assign(proposal_of(made, node), "default", "it", NOW))

    @rule(which=st.integers(0, 3), phase=st.sampled_from([2, 3]), sequence=st.integers(1, 4))
    def report(self, which: int, phase: int, sequence: int) -> None:
        for made in self.store.pods()[which : which + 1]:
            self.attempt(placement.report(report_of(made, phase, sequence)))

    @rule(which=st.integers(0, 3))
    def delete(self, which: int) -> None:
        for made in self.store.pods()[which : which + 1]:
            key = pods.pod_key(made.metadata.namespace, made.metadata.name)
            self.attempt(pods.delete(key, made.metadata.uid, 1, NOW))

    @rule(which=st.integers(0, 3))
    def remove_ended(self, which: int) -> None:
        for made in self.store.pods()[which : which + 1]:
            key = pods.pod_key(made.metadata.namespace, made.metadata.name)
            self.attempt(pods.remove_ended(key, made.metadata.uid))

    @rule()
    def delete_namespace(self) -> None:
        self.attempt(namespaces.delete("team"))

    @invariant()
    def sums_equal_a_recount(self) -> None:
        assert not self.recount.faults(self.store.state())

    @invariant()
    def records_are_of_known_kinds(self) -> None:
        assert {key.partition("/")[0] for key in self.store.records} <= set(KINDS)


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLife = Life.TestCase


def one_pod_on_a_node() -> tuple[Store, pod_pb2.Pod]:
    store = Store()
    store.do(namespaces.create(metadata_pb2.ObjectMeta(name="default"), "n", NOW))
    ready(store, "m")
    store.do(pods.create(new_pod("a"), "uid-a", NOW))
    (made,) = store.pods()
    store.do(placement.assign(proposal_of(made, "m"), "default", "it", NOW))
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


def test_a_node_that_shrank_takes_nothing_until_it_has_room_again() -> None:
    store, _ = one_pod_on_a_node()
    ready(store, "m", cpu=50)
    store.do(pods.create(new_pod("b", cpu=1), "uid-b", NOW))
    second = store.pods()[1]
    with pytest.raises(FailedPreconditionError) as caught:
        store.do(placement.assign(proposal_of(second, "m"), "default", "it", NOW))
    assert caught.value.reason == "DOES_NOT_FIT"
    free = new_pod("c", cpu=0)
    store.do(pods.create(free, "uid-c", NOW))
    store.do(placement.assign(proposal_of(store.pods()[2], "m"), "default", "it", NOW))


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
