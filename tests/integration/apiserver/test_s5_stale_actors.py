"""S5, A2: who is stale or speaks for another is refused with a reason, and nothing changes."""

from pathlib import Path
from typing import Any

import pytest
from drumline.api.v1 import node_pb2, node_service_pb2, resources_pb2
from drumline.model.errors import InvalidArgumentError, PermissionDeniedError, from_status
from drumline.model.names import LABEL_SIMULATED
from drumline.node.v1 import node_agent_service_pb2 as agent_pb2
from drumline.scheduling.v1 import scheduler_service_pb2 as scheduling_pb2

from tests.support.apiservers import Api, pod
from tests.support.calls import (
    PENDING,
    RUNNING,
    TERMINATED,
    assign,
    create,
    delete,
    first_refusal,
    get,
    judge,
    place,
    reasons,
    refusal,
    report,
    said,
)
from tests.support.history import revision
from tests.support.store import EtcdServer

READY, UNREACHABLE = node_pb2.NODE_STATE_READY, node_pb2.NODE_STATE_UNREACHABLE


class Unchanged:
    """Sees to it that nothing is written while its block runs."""

    def __init__(self, etcd: EtcdServer, certs: Path) -> None:
        self._store = etcd, certs
        self._before = 0

    async def __aenter__(self) -> None:
        self._before = await revision(*self._store)

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            assert await revision(*self._store) == self._before


@pytest.fixture
def unchanged(etcd: EtcdServer, certs: Path) -> Unchanged:
    return Unchanged(etcd, certs)


async def register(api: Api, name: str, identity: str, *, simulated: bool = False) -> Any:
    """Register one node; give the answer's status."""
    amount = resources_pb2.Resources(cpu_millicores=4000, pods=10)
    info = node_pb2.NodeInfo(capacity=amount, allocatable=amount, runtime="process")
    if simulated:
        info.labels[LABEL_SIMULATED] = "true"
    request = agent_pb2.RegisterNodesRequest()
    request.nodes.add(name=name, info=info)
    answer = await api.agent(identity).RegisterNodes(request)
    return answer.results[0]


async def real_node(api: Api, name: str) -> None:
    """Register a real node and call it ready."""
    result = await register(api, name, name)
    assert await judge(api, name, result.node.metadata.uid, READY) == ""


async def test_s5_a_late_report_for_a_name_created_again_is_refused(
    pair: list[Api], unchanged: Unchanged
) -> None:
    """Field report 39."""
    await pair[0].register_ready("sim-1")
    old = await place(pair[0], pod("web"), "sim-1")
    assert await report(pair[0], said(old, "sim-1", TERMINATED)) == [""]
    await delete(pair[0], old)
    new = await place(pair[1], pod("web"), "sim-1")
    async with unchanged:
        for api in pair:
            late = said(old, "sim-1", TERMINATED, 2)
            assert await report(api, late) == ["POD_NOT_FOUND"]
    assert (await get(pair[1], "web")).status.phase == PENDING
    assert new.metadata.uid != old.metadata.uid


async def test_s5_reports_of_another_attempt_or_an_older_sequence_are_refused(
    pair: list[Api], unchanged: Unchanged
) -> None:
    await pair[0].register_ready("sim-1", "sim-2")
    made = await place(pair[0], pod("web"), "sim-1")
    assert await report(pair[0], said(made, "sim-1", RUNNING, 5)) == [""]
    async with unchanged:
        for api in pair:
            assert await report(
                api,
                said(made, "sim-1", RUNNING, 6, attempt=2),
                said(made, "sim-2", RUNNING, 6),
                said(made, "sim-1", TERMINATED, 5),
                said(made, "sim-1", PENDING, 4),
            ) == ["NOT_ASSIGNED", "NOT_ASSIGNED", "STALE_REPORT", "STALE_REPORT"]
    assert (await get(pair[0], "web")).status.report_sequence == 5


async def test_s5_what_has_ended_does_not_run_again_and_frees_its_room_once(
    pair: list[Api], unchanged: Unchanged
) -> None:
    await pair[0].register_ready("sim-1")
    made = await place(pair[0], pod("web"), "sim-1")
    end = said(made, "sim-1", TERMINATED, 2)
    assert await report(pair[0], end) == [""]
    async with unchanged:
        # The same report again, after its answer was lost, is OK; anything newer is not.
        for api in pair:
            assert await report(api, end, said(made, "sim-1", RUNNING, 3)) == ["", "STALE_REPORT"]
            assert reasons(await assign(api, (made, "sim-1"))) == ["POD_ENDED"]


async def test_s5_a_node_reports_only_what_is_its_own(api: Api, unchanged: Unchanged) -> None:
    """Field report 41."""
    await real_node(api, "node-1")
    await real_node(api, "node-2")
    made = await place(api, pod("web"), "node-1")
    async with unchanged:
        spoken_for = await refusal(report(api, said(made, "node-1", RUNNING), identity="node-2"))
        assert isinstance(spoken_for, PermissionDeniedError)
        own_name = await report(api, said(made, "node-2", RUNNING), identity="node-2")
        assert own_name == ["NOT_ASSIGNED"]
        as_user = await refusal(report(api, said(made, "node-1", RUNNING), identity="admin"))
        assert isinstance(as_user, PermissionDeniedError)
        watched = agent_pb2.WatchAssignedPodsRequest(nodes=["node-2", "node-1"])
        other = await first_refusal(api.agent("node-2").WatchAssignedPods(watched))
        assert isinstance(other, PermissionDeniedError)
    assert await report(api, said(made, "node-1", RUNNING), identity="node-1") == [""]


async def test_s5_a_simulator_speaks_for_no_real_node(api: Api, unchanged: Unchanged) -> None:
    await real_node(api, "node-1")
    made = await place(api, pod("web"), "node-1")
    async with unchanged:
        reported = await refusal(report(api, said(made, "node-1", RUNNING)))
        assert isinstance(reported, PermissionDeniedError)
        watched = agent_pb2.WatchAssignedPodsRequest(nodes=["node-1"])
        followed = await first_refusal(api.agent().WatchAssignedPods(watched))
        assert isinstance(followed, PermissionDeniedError)
        taken = await register(api, "node-1", "simulator", simulated=True)
        assert reasons([taken]) == ["NODE_NAME_TAKEN"]


async def test_s5_nodes_register_under_their_own_name_and_kind_only(
    api: Api, unchanged: Unchanged
) -> None:
    await api.register_ready("node-2")
    async with unchanged:
        assert reasons([await register(api, "node-2", "node-1")]) == ["PERMISSION_DENIED"]
        # A machine cannot take the name of a simulated node, nor pass for one.
        assert reasons([await register(api, "node-2", "node-2")]) == ["NODE_NAME_TAKEN"]
        for identity, simulated in (("node-1", True), ("simulator", False)):
            answer = await register(api, "node-1", identity, simulated=simulated)
            failure = from_status(answer.status)
            assert isinstance(failure, InvalidArgumentError)
            assert [v.field for v in failure.violations] == ["nodes[0].info.labels"]


async def test_s5_a_scheduler_places_and_judges_its_own_pods_only(
    api: Api, unchanged: Unchanged
) -> None:
    await api.register_ready("sim-1")
    (made,) = await create(api, pod("web"))
    verdicts = scheduling_pb2.PostVerdictsRequest(scheduler_name="other")
    verdicts.verdicts.add(pod={"name": "web", "uid": made.metadata.uid}).verdict.reason = "NO"
    await api.session()
    verdicts.session_id = await api.session("other", "scheduler-other")
    async with unchanged:
        foreign = await assign(api, (made, "sim-1"), scheduler="other", identity="scheduler-other")
        assert reasons(foreign) == ["WRONG_SCHEDULER"]
        judged = await api.scheduler("scheduler-other").PostVerdicts(verdicts)
        assert reasons(judged.results) == ["WRONG_SCHEDULER"]
        assert {type(from_status(s)) for s in judged.results} == {PermissionDeniedError}

        verdicts.scheduler_name = "default"
        for identity in ("scheduler-other", "admin", "node-1", "nodecontroller"):
            for call in (
                assign(api, (made, "sim-1"), identity=identity),
                api.scheduler(identity).PostVerdicts(verdicts),
            ):
                assert isinstance(await refusal(call), PermissionDeniedError)
            subscribe = scheduling_pb2.SubscribeRequest(scheduler_name="default")
            failure = await first_refusal(api.scheduler(identity).Subscribe(subscribe))
            assert isinstance(failure, PermissionDeniedError)
    assert not (await get(api, "web")).HasField("verdict")


async def test_s5_a_judgement_of_a_node_that_was_registered_anew_is_refused(
    api: Api, unchanged: Unchanged
) -> None:
    old = (await api.register_ready("sim-1"))["sim-1"]
    await api.nodes.DeleteNodes(node_service_pb2.DeleteNodesRequest(names=["sim-1"]))
    await api.register_ready("sim-1")
    async with unchanged:
        for uid in (old, ""):
            assert await judge(api, "sim-1", uid, UNREACHABLE) == "NODE_NOT_FOUND"
        assert await judge(api, "sim-9", old, UNREACHABLE) == "NODE_NOT_FOUND"


async def test_s5_an_assignment_of_another_uid_is_refused(api: Api, unchanged: Unchanged) -> None:
    await api.register_ready("sim-1")
    (old,) = await create(api, pod("web"))
    await delete(api, old)
    await create(api, pod("web"))
    await api.session()
    async with unchanged:
        assert reasons(await assign(api, (old, "sim-1"))) == ["POD_NOT_FOUND"]
        nameless = pod("web")
        assert reasons(await assign(api, (nameless, "sim-1"))) == ["INVALID"]
