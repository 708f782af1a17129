"""NodeAgentService and logs: what kubelets are told, and what is asked of them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from drumline.api.v1 import node_pb2, resources_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.kubelet.v1 import kubelet_service_pb2 as kubelet_pb2
from drumline.model.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    from_status,
)
from drumline.node.v1 import node_agent_service_pb2 as agent_pb2
from drumline.process import rpc
from drumline.process.tls import TlsFiles
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import (
    PENDING,
    RUNNING,
    TERMINATED,
    create,
    delete,
    eventually,
    first_refusal,
    following,
    held_up,
    judge,
    place,
    reasons,
    ref,
    report,
    said,
)
from tests.support.history import revision
from tests.support.store import EtcdServer, free_port


def watch(api: Api, *nodes: str) -> Any:
    return api.agent().WatchAssignedPods(agent_pb2.WatchAssignedPodsRequest(nodes=nodes))


async def test_kubelets_are_told_their_pods_until_they_are_released_or_deleted(
    pair: list[Api],
) -> None:
    await pair[0].register_ready("sim-1", "sim-2", "sim-3")
    there = await place(pair[0], pod("there"), "sim-1")
    async with following(watch(pair[1], "sim-1", "sim-2")) as told:
        await told.until(lambda w: w.synced)
        assert told.told == [("there", "CHANGED")]
        await create(pair[0], pod("nowhere"))
        await place(pair[0], pod("elsewhere"), "sim-3")
        ends = await place(pair[0], pod("ends"), "sim-2")
        await told.until(lambda w: w.told[-1] == ("ends", "CHANGED"))
        await delete(pair[0], there)
        await told.until(lambda w: w.events[-1].pod.metadata.HasField("delete_time"))
        assert await report(pair[1], said(ends, "sim-2", TERMINATED)) == [""]
        await told.until(lambda w: w.told[-1] == ("ends", "REMOVED"))
        assert await report(pair[1], said(there, "sim-1", TERMINATED)) == [""]
        await told.until(lambda w: w.told[-1] == ("there", "REMOVED"))
        assert {name for name, _ in told.told} == {"there", "ends"}
    async with following(watch(pair[0], "sim-1", "sim-2")) as told:
        await told.until(lambda w: w.synced)
        assert not told.events


async def test_a_kubelet_that_starts_is_told_nothing_that_is_over(
    etcd: EtcdServer, certs: Path
) -> None:
    """Field report 24: its pod was deleted and made anew elsewhere, and one replica is behind."""
    async with apiservers(etcd, certs, 2, etcd_timeout=0.5) as (here, behind):
        await here.register_ready("sim-1", "sim-2")
        old = await place(here, pod("p"), "sim-1")
        async with following(watch(behind, "sim-1")) as told:
            await told.until(lambda w: w.told == [("p", "CHANGED")])
        async with held_up(behind):
            assert await report(here, said(old, "sim-1", TERMINATED)) == [""]
            await delete(here, old)
            new = await place(here, pod("p"), "sim-2")
            failure = await first_refusal(watch(behind, "sim-1"))
            assert isinstance(failure, UnavailableError)

        late = said(old, "sim-1", RUNNING, 2)
        assert await eventually(lambda: report(behind, late)) == ["POD_NOT_FOUND"]
        async with following(watch(behind, "sim-1", "sim-2")) as told:
            await told.until(lambda w: w.synced)
            assert [e.pod.metadata.uid for e in told.events] == [new.metadata.uid]


async def test_reports_that_say_nothing_are_refused_by_field(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    await api.register_ready("sim-1")
    made = await place(api, pod("web"), "sim-1")
    bad = said(made, "sim-1", PENDING, 0, attempt=0, why="x" * 5000)
    bad.pod.uid, bad.status.phase = "", 9  # type: ignore[assignment]
    for number in range(17):
        bad.status.containers.add(name=f"c-{number}")
    before = await revision(etcd, certs)
    request = agent_pb2.ReportPodStatusesRequest(reports=[bad, said(made, "sim-1", RUNNING)])
    answer = await api.agent().ReportPodStatuses(request)
    assert reasons(answer.results) == ["INVALID", ""]
    refused = from_status(answer.results[0])
    assert isinstance(refused, InvalidArgumentError)
    assert {v.field.removeprefix("reports[0].") for v in refused.violations} == {
        "pod.uid",
        "status.phase",
        "status.attempt",
        "status.report_sequence",
        "status.containers",
        "status",
    }
    assert await revision(etcd, certs) == before + 1


async def test_reasons_that_nobody_knows_pass_through_unchanged(pair: list[Api]) -> None:
    await pair[0].register_ready("sim-1")
    made = await place(pair[0], pod("web"), "sim-1")
    status = said(made, "sim-1", RUNNING, why="INVENTED_TOMORROW")
    status.status.waiting_on = "moon:full"
    status.status.containers.add(name="main", reason="OTHER", exit_code=0, signal=9)
    assert await report(pair[0], status) == [""]
    async with following(watch(pair[1], "sim-1")) as told:
        await told.until(lambda w: w.synced)
        assert told.events[0].pod.status == status.status


# -- logs ----------------------------------------------------------------------------


class Kubelet:
    """Answers what it was asked for as logs."""

    async def ListPods(self, _: Any, __: Any) -> Any:
        return kubelet_pb2.ListPodsResponse()

    async def StreamLogs(self, request: Any, call: Any) -> AsyncIterator[Any]:
        if request.logs.container == "none":
            raise NotFoundError("there is no such container", reason="CONTAINER_NOT_FOUND")
        if request.logs.container == "monster":
            monster = Status(code=9, message="🥁" * 400)
            info = ErrorInfo(reason="R", metadata={"x": "y" * 3000, "z": "y" * 1500})
            monster.details.add().Pack(info)
            trailer = (("grpc-status-details-bin", monster.SerializeToString()),)
            await call.context.abort(grpc.StatusCode.FAILED_PRECONDITION, "", trailer)
        for text in (call.peer.identity, request.pod_uid, str(request.logs.tail_lines)):
            yield kubelet_pb2.StreamLogsResponse(data=text.encode())


async def node(api: Api, address: str) -> None:
    """Register node-1 and call it ready."""
    amount = resources_pb2.Resources(cpu_millicores=4000, pods=10)
    info = node_pb2.NodeInfo(
        capacity=amount, allocatable=amount, runtime="process", address=address
    )
    request = agent_pb2.RegisterNodesRequest()
    request.nodes.add(name="node-1", info=info)
    (result,) = (await api.agent("node-1").RegisterNodes(request)).results
    await judge(api, "node-1", result.node.metadata.uid, node_pb2.NODE_STATE_READY)


async def logs(api: Api, name: str, **more: Any) -> list[str]:
    request = pods_pb2.StreamLogsRequest(name=name, **more)
    return [part.data.decode() async for part in api.pods.StreamLogs(request)]


async def test_logs_are_asked_of_the_kubelet_that_has_the_pod(api: Api, certs: Path) -> None:
    server, port = rpc.server(TlsFiles.in_folder(certs, "node-1"), "127.0.0.1:0")
    service = kubelet_pb2.DESCRIPTOR.services_by_name["KubeletService"]
    server.add_generic_rpc_handlers((rpc.handlers(service, Kubelet()),))
    await server.start()
    try:
        await node(api, f"127.0.0.1:{port}")
        made = await place(api, pod("web"), "node-1")
        asked = await logs(api, "web", tail_lines=7)
        assert asked == ["system:apiserver", made.metadata.uid, "7"]
        request = pods_pb2.StreamLogsRequest(name="web", container="none")
        failure = await first_refusal(api.pods.StreamLogs(request))
        assert isinstance(failure, NotFoundError)
        assert failure.reason == "CONTAINER_NOT_FOUND"
        # What a kubelet answers is passed on as far as a client can take it.
        request.container = "monster"
        failure = await first_refusal(api.pods.StreamLogs(request))
        assert isinstance(failure, FailedPreconditionError)
        assert failure.reason == "R"
        assert failure.message == "🥁" * 250
    finally:
        await server.stop(None)


async def test_logs_that_cannot_be_had_say_why(api: Api) -> None:
    await node(api, f"127.0.0.1:{free_port()}")
    await place(api, pod("silent"), "node-1")
    await api.register_ready("sim-1")
    await place(api, pod("pretended"), "sim-1")
    (waiting,) = await create(api, pod("waiting"))

    async def failure(name: str, **more: Any) -> Any:
        request = pods_pb2.StreamLogsRequest(name=name, **more)
        return await first_refusal(api.pods.StreamLogs(request))

    silent = await failure("silent")
    assert isinstance(silent, UnavailableError)
    assert (silent.reason, silent.retry_after) == ("KUBELET_UNAVAILABLE", 2.0)
    assert (await failure(waiting.metadata.name)).reason == "NOT_ASSIGNED"
    assert isinstance(await failure("pretended"), FailedPreconditionError)
    assert (await failure("none")).reason == "POD_NOT_FOUND"
    for wrong, field in (({"name": "NO"}, "name"), ({"name": "a", "tail_lines": -1}, "tail_lines")):
        refused = await failure(**wrong)
        assert [v.field for v in refused.violations] == [field]
    assert ref(waiting).uid


@pytest.mark.parametrize("identity", ["admin", "node-1", "scheduler"])
async def test_only_nodes_watch_assignments(api: Api, identity: str) -> None:
    request = agent_pb2.WatchAssignedPodsRequest(nodes=["node-2"])
    failure = await first_refusal(api.agent(identity).WatchAssignedPods(request))
    assert failure.reason == "PERMISSION_DENIED"
