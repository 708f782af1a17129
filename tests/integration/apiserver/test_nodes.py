"""NodeService and the registration of nodes."""

from pathlib import Path
from typing import Any

from drumline.api.v1 import metadata_pb2, node_pb2, resources_pb2
from drumline.api.v1 import node_service_pb2 as nodes_pb2
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2 as lifecycle_pb2
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2_grpc as lifecycle_grpc
from drumline.model.errors import (
    ConflictError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    from_status,
)
from drumline.model.names import LABEL_SIMULATED
from drumline.node.v1 import node_agent_service_pb2 as agent_pb2
from drumline.process.version import VERSION

from tests.support.apiservers import Api, pod
from tests.support.calls import (
    REMOVED,
    TERMINATED,
    assign,
    cordon,
    create,
    first_refusal,
    following,
    get_node,
    judge,
    place,
    reasons,
    refusal,
    report,
    said,
)
from tests.support.history import check_sums, revision
from tests.support.store import EtcdServer

UNREACHABLE, READY = node_pb2.NODE_STATE_UNREACHABLE, node_pb2.NODE_STATE_READY


async def forget(api: Api, *names: str) -> Any:
    return await api.nodes.DeleteNodes(nodes_pb2.DeleteNodesRequest(names=names))


async def update(api: Api, node: node_pb2.Node, *paths: str) -> Any:
    change = nodes_pb2.NodeUpdate(node=node)
    change.update_mask.paths.extend(paths)
    answer = await api.nodes.UpdateNodes(nodes_pb2.UpdateNodesRequest(updates=[change]))
    return answer.results[0]


async def test_registering_again_writes_nothing_when_nothing_changed(
    pair: list[Api], etcd: EtcdServer, certs: Path
) -> None:
    uids = await pair[0].register_ready("sim-1", "sim-2")
    await cordon(pair[0], "sim-1")
    before = await revision(etcd, certs)
    for api in pair:
        assert await api.register_ready("sim-1", "sim-2") == uids
    assert await revision(etcd, certs) == before
    node = await get_node(pair[1], "sim-1")
    assert node.spec.unschedulable


async def test_a_node_that_changed_keeps_who_it_is_and_what_admins_want(api: Api) -> None:
    uids = await api.register_ready("sim-1", cpu=4000)
    await cordon(api, "sim-1")
    assert await api.register_ready("sim-1", cpu=2000) == uids
    node = await get_node(api, "sim-1")
    assert node.load.allocatable.cpu_millicores == 2000
    assert node.info.allocatable.cpu_millicores == 2000
    assert node.spec.unschedulable
    assert node.status.state == READY


async def test_nothing_is_assigned_to_a_node_that_is_cordoned_unheard_or_gone(
    pair: list[Api],
) -> None:
    uid = (await pair[0].register_ready("sim-1"))["sim-1"]
    made = await create(pair[0], *(pod(f"p-{n}") for n in range(5)))

    async def tried(number: int) -> str:
        return reasons(await assign(pair[number % 2], (made[number], "sim-1")))[0]

    assert await tried(0) == ""
    await cordon(pair[0], "sim-1")
    assert await tried(1) == "NODE_NOT_SCHEDULABLE"
    await judge(pair[1], "sim-1", uid, UNREACHABLE)
    await cordon(pair[0], "sim-1", cordoned=False)
    assert await tried(1) == "NODE_NOT_SCHEDULABLE"
    await judge(pair[1], "sim-1", uid, READY)
    assert await tried(1) == ""
    assert await report(pair[0], *(said(p, "sim-1", TERMINATED) for p in made[:2])) == ["", ""]
    await forget(pair[0], "sim-1")
    assert await tried(2) == "NODE_NOT_FOUND"


async def test_a_new_node_takes_pods_only_once_it_is_heard(api: Api) -> None:
    amount = resources_pb2.Resources(cpu_millicores=1000, pods=9)
    info = node_pb2.NodeInfo(
        capacity=amount, allocatable=amount, runtime="simulated", labels={LABEL_SIMULATED: "true"}
    )
    request = agent_pb2.RegisterNodesRequest()
    request.nodes.add(name="sim-1", info=info)
    await api.agent().RegisterNodes(request)
    (made,) = await create(api, pod("web"))
    assert reasons(await assign(api, (made, "sim-1"))) == ["NODE_NOT_SCHEDULABLE"]


async def test_a_node_in_use_is_not_forgotten_and_its_load_is_given_back_once(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    """Field report 6, as far as it goes without loss of nodes."""
    await api.register_ready("sim-1", "sim-2")
    made = await place(api, pod("web"), "sim-1")
    answer = await forget(api, "sim-1", "sim-2", "sim-3", "NO")
    assert reasons(answer.results) == ["NODE_IN_USE", "", "NODE_NOT_FOUND", "INVALID"]
    assert isinstance(from_status(answer.results[0].status), FailedPreconditionError)
    assert await report(api, said(made, "sim-1", TERMINATED)) == [""]
    assert reasons((await forget(api, "sim-1")).results) == [""]
    listed = await api.nodes.ListNodes(nodes_pb2.ListNodesRequest())
    assert not listed.nodes
    await check_sums(etcd, certs)
    # The pod tells of a node that is gone; a node of the same name begins anew.
    await api.register_ready("sim-1")
    assert not (await get_node(api, "sim-1")).load.promised.pods


async def test_nodes_are_found_by_their_own_labels_and_the_admins(api: Api) -> None:
    await api.register_ready("sim-1", "sim-2", "sim-3")
    change = node_pb2.Node()
    change.metadata.name = "sim-2"
    change.metadata.labels.update({LABEL_SIMULATED: "no", "zone": "z"})
    assert not (await update(api, change, "metadata.labels")).status.code

    async def names(key: str, *values: str) -> list[str]:
        operator = metadata_pb2.LABEL_OPERATOR_IN
        selector = metadata_pb2.LabelSelector()
        selector.requirements.add(key=key, operator=operator, values=values)
        answer = await api.nodes.ListNodes(nodes_pb2.ListNodesRequest(labels=selector))
        return [node.metadata.name for node in answer.nodes]

    assert await names(LABEL_SIMULATED, "true") == ["sim-1", "sim-3"]
    assert await names(LABEL_SIMULATED, "no") == ["sim-2"]
    assert await names("zone", "z") == ["sim-2"]


async def test_nodes_come_in_pages_of_one_version(pair: list[Api]) -> None:
    await pair[0].register_ready(*(f"sim-{n}" for n in range(7)))
    first = await pair[0].nodes.ListNodes(nodes_pb2.ListNodesRequest(page_size=4))
    await forget(pair[0], "sim-6")
    rest = await pair[1].nodes.ListNodes(
        nodes_pb2.ListNodesRequest(page_size=4, page_token=first.next_page_token)
    )
    names = [n.metadata.name for n in [*first.nodes, *rest.nodes]]
    assert names == [f"sim-{n}" for n in range(7)]
    assert not rest.next_page_token
    assert {n.status.state for n in rest.nodes} == {READY}


async def test_node_updates_are_checked_and_guarded(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    await api.register_ready("sim-1")
    node = await get_node(api, "sim-1")
    before = await revision(etcd, certs)
    assert not (await update(api, node, "spec.unschedulable", "spec.taints")).status.code
    assert await revision(etcd, certs) == before
    node.spec.taints.add(key="/", value="!")
    refused = from_status((await update(api, node, "spec.taints")).status)
    assert isinstance(refused, InvalidArgumentError)
    assert [
        v.field.removeprefix("updates[0].node.spec.taints[0].") for v in refused.violations
    ] == [
        "key",
        "value",
        "effect",
    ]
    for path in ("info", "status", "load", "metadata.uid", "spec"):
        refused = from_status((await update(api, node, path)).status)
        assert [v.field for v in refused.violations] == ["updates[0].update_mask"]
    assert await revision(etcd, certs) == before
    await cordon(api, "sim-1")
    stale = from_status((await update(api, node, "metadata.labels")).status)
    assert isinstance(stale, ConflictError)
    missing = node_pb2.Node()
    missing.metadata.name = "none"
    gone = from_status((await update(api, missing, "metadata.labels")).status)
    assert isinstance(gone, NotFoundError)
    assert isinstance(await refusal(get_node(api, "none")), NotFoundError)


async def test_registrations_are_checked_by_field(api: Api, etcd: EtcdServer, certs: Path) -> None:
    before = await revision(etcd, certs)
    request = agent_pb2.RegisterNodesRequest()
    bad = request.nodes.add(name="NO")
    bad.info.allocatable.cpu_millicores = 5
    bad.info.runtime = "x"
    bad.info.address = "nowhere"
    answer = await api.agent().RegisterNodes(request)
    refused = from_status(answer.results[0].status)
    assert {v.field for v in refused.violations} == {
        "nodes[0].name",
        "nodes[0].info.allocatable",
        "nodes[0].info.runtime",
        "nodes[0].info.address",
    }
    assert await revision(etcd, certs) == before


async def test_the_nodecontroller_is_told_of_nodes_and_not_of_loads(api: Api) -> None:
    await api.register_ready("sim-1")
    request = lifecycle_pb2.WatchNodesRequest(version=VERSION, instance_id="test")
    async with following(api.lifecycle.WatchNodes(request)) as watch:
        await watch.until(lambda w: w.synced)
        await place(api, pod("web"), "sim-1")
        await api.register_ready("sim-2")
        await watch.until(lambda w: w.events[-1].node.status.state == READY and len(w.events) > 1)
        await forget(api, "sim-2")
        await watch.until(lambda w: w.events[-1].type == REMOVED)
        assert [name for name, _ in watch.told].count("sim-1") == 1


async def test_the_nodecontroller_must_be_itself_and_of_this_version(api: Api) -> None:
    old = lifecycle_pb2.WatchNodesRequest(version="0.0.0")
    failure = await first_refusal(api.lifecycle.WatchNodes(old))
    assert isinstance(failure, FailedPreconditionError)
    assert failure.reason == "VERSION_MISMATCH"
    assert failure.metadata["apiserver_version"] == VERSION
    stub: Any = lifecycle_grpc.NodeLifecycleServiceStub(api.channel("simulator"))
    current = lifecycle_pb2.WatchNodesRequest(version=VERSION)
    assert isinstance(await first_refusal(stub.WatchNodes(current)), PermissionDeniedError)
    posted = lifecycle_pb2.PostNodeTransitionsRequest()
    posted.transitions.add(node="sim-1")
    assert isinstance(await refusal(stub.PostNodeTransitions(posted)), PermissionDeniedError)


async def test_a_judgement_must_be_one(api: Api) -> None:
    uid = (await api.register_ready("sim-1"))["sim-1"]
    for state in (0, 9):
        assert await judge(api, "sim-1", uid, state) == "INVALID"  # type: ignore[arg-type]
