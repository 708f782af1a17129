"""One pod from its creation to its end, as each party sees it through the contracts."""

from drumline.api.v1 import metadata_pb2, pod_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.node.v1 import node_agent_service_pb2 as agent_pb2
from drumline.scheduling.v1 import scheduler_service_pb2 as scheduling_pb2

from tests.support.apiservers import Api, pod


async def test_pod_goes_from_creation_to_its_end(api: Api) -> None:
    await api.register_ready("sim-1")
    subscription = api.scheduler().Subscribe(
        scheduling_pb2.SubscribeRequest(scheduler_name="default", instance_id="test")
    )
    node_names, pending = [], []
    async for message in subscription:
        node_names += [event.node.metadata.name for event in message.nodes]
        if message.mark == metadata_pb2.WATCH_MARK_SYNCED:
            break
    assert node_names == ["sim-1"]

    created = await api.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=[pod("web")]))
    (result,) = created.results
    assert result.status.code == 0
    assert result.pod.status.phase == pod_pb2.PHASE_PENDING
    assert result.pod.status.waiting_on == "scheduler:default"

    session_id = ""
    async for message in subscription:
        session_id = message.session.id or session_id
        pending += [event.pod for event in message.pods]
        if pending:
            break
    assert pending[0].metadata.uid == result.pod.metadata.uid

    reference = metadata_pb2.PodReference(name="web", uid=result.pod.metadata.uid)
    assigned = await api.scheduler().PostAssignments(
        scheduling_pb2.PostAssignmentsRequest(
            scheduler_name="default",
            session_id=session_id,
            assignments=[scheduling_pb2.ProposedAssignment(pod=reference, node="sim-1")],
        )
    )
    assert assigned.results[0].status.code == 0, assigned

    watch = api.agent().WatchAssignedPods(agent_pb2.WatchAssignedPodsRequest(nodes=["sim-1"]))
    seen = []
    async for update in watch:
        seen += [event.pod for event in update.events]
        if update.mark == metadata_pb2.WATCH_MARK_SYNCED:
            break
    assert [p.metadata.name for p in seen] == ["web"]
    assert seen[0].assignment.node == "sim-1"
    assert seen[0].status.waiting_on == "kubelet:sim-1"

    for sequence, phase in enumerate([pod_pb2.PHASE_RUNNING, pod_pb2.PHASE_TERMINATED], 1):
        status = pod_pb2.PodStatus(phase=phase, reason="X", attempt=1, report_sequence=sequence)
        status.start_time.GetCurrentTime()
        report = agent_pb2.PodStatusReport(pod=reference, node="sim-1", status=status)
        reported = await api.agent().ReportPodStatuses(
            agent_pb2.ReportPodStatusesRequest(reports=[report])
        )
        assert reported.results[0].code == 0, reported

    waited = [
        result
        async for message in api.pods.WaitForPods(
            pods_pb2.WaitForPodsRequest(
                pods=[reference], condition=pods_pb2.POD_CONDITION_TERMINATED
            )
        )
        for result in message.results
    ]
    assert waited[0].outcome == pods_pb2.WAIT_OUTCOME_REACHED
    assert waited[0].pod.assignment.released

    deleted = await api.pods.DeletePods(pods_pb2.DeletePodsRequest(pods=[reference]))
    assert deleted.results[0].status.code == 0
    listed = await api.pods.ListPods(pods_pb2.ListPodsRequest())
    assert not listed.pods
    subscription.cancel()
    watch.cancel()
