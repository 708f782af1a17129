"""SchedulerService: what a scheduler is told, and what becomes of its verdicts."""

from pathlib import Path
from typing import Any

from drumline.api.v1 import cluster_service_pb2, pod_pb2
from drumline.api.v1 import node_service_pb2 as nodes_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.model.errors import InvalidArgumentError, from_status
from drumline.scheduling.v1 import scheduler_service_pb2 as scheduling_pb2

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import (
    CHANGED,
    PENDING,
    REMOVED,
    TERMINATED,
    Follower,
    assign,
    cordon,
    create,
    delete,
    first_refusal,
    following,
    get,
    place,
    post_verdicts,
    reasons,
    ref,
    refusal,
    report,
    said,
    until_answered,
    watch_pods,
)
from tests.support.history import revision
from tests.support.store import EtcdServer


def subscribe(api: Api, scheduler: str = "default", identity: str = "scheduler") -> Any:
    request = scheduling_pb2.SubscribeRequest(
        scheduler_name=scheduler, instance_id="test", version="1"
    )
    return api.scheduler(identity).Subscribe(request)


def nodes(subscription: Follower) -> list[Any]:
    return [event for message in subscription.messages for event in message.nodes]


def loads(subscription: Follower) -> list[Any]:
    return [change for message in subscription.messages for change in message.loads]


def verdict_on(*pods: pod_pb2.Pod, scheduler: str = "default") -> Any:
    request = scheduling_pb2.PostVerdictsRequest(scheduler_name=scheduler)
    for each in pods:
        said_of = request.verdicts.add(pod=ref(each)).verdict
        said_of.reason, said_of.message, said_of.nodes = "NO_NODE_FITS", "0/1 nodes fit", 1
        said_of.causes.add(reason="INSUFFICIENT_CPU", nodes=1, example_node="sim-1")
    return request


async def test_a_subscriber_is_told_all_nodes_with_loads_then_the_pods_that_wait(
    pair: list[Api],
) -> None:
    await pair[0].register_ready("sim-1", "sim-2")
    placed = await place(pair[0], pod("placed"), "sim-1")
    other = pod("other")
    other.spec.scheduler_name = "other"
    waiting, _ = await create(pair[0], pod("waiting"), other)
    async with following(subscribe(pair[1]), "pods") as subscription:
        await subscription.until(lambda s: s.synced)
        assert {e.node.metadata.name: e.node.load.promised.pods for e in nodes(subscription)} == {
            "sim-1": 1,
            "sim-2": 0,
        }
        assert [e.pod for e in subscription.events] == [waiting]
        first_pod = next(n for n, m in enumerate(subscription.messages) if m.pods)
        assert all(not m.nodes for m in subscription.messages[first_pod + 1 :])
    assert placed.metadata.uid


async def test_pods_leave_when_they_are_placed_by_anybody_deleted_or_another_schedulers(
    pair: list[Api],
) -> None:
    await pair[0].register_ready("sim-1")
    async with (
        following(subscribe(pair[0]), "pods") as subscription,
        following(subscribe(pair[1], "other", "scheduler-other"), "pods") as other,
    ):
        await subscription.until(lambda s: s.synced)
        await other.until(lambda s: s.synced)
        made = await create(pair[1], pod("placed"), pod("deleted"), pod("moved"))
        await subscription.until(lambda s: len(s.events) == 3)
        assert {e.type for e in subscription.events} == {CHANGED}
        # Through the other apiserver, as by another replica of the scheduler.
        await assign(pair[1], (made[0], "sim-1"))
        await delete(pair[1], made[1])
        change = pods_pb2.PodUpdate(pod=made[2])
        change.pod.spec.scheduler_name = "other"
        change.update_mask.paths.append("spec.scheduler_name")
        await pair[1].pods.UpdatePods(pods_pb2.UpdatePodsRequest(updates=[change]))
        await subscription.until(lambda s: len(s.events) == 6)
        assert [(e.pod.metadata.name, e.type) for e in subscription.events[3:]] == [
            ("placed", REMOVED),
            ("deleted", REMOVED),
            ("moved", REMOVED),
        ]
        await other.until(lambda s: s.told == [("moved", "CHANGED")])
        # What has ended does not come back to be placed.
        assert await report(pair[0], said(made[0], "sim-1", TERMINATED)) == [""]
        await create(pair[0], pod("last"))
        await subscription.until(lambda s: len(s.events) == 7)
        assert subscription.told[-1] == ("last", "CHANGED")


async def test_changes_of_loads_alone_come_as_loads_and_in_order(pair: list[Api]) -> None:
    uid = (await pair[0].register_ready("sim-1"))["sim-1"]
    async with following(subscribe(pair[0]), "pods") as subscription:
        await subscription.until(lambda s: s.synced)
        made = await place(pair[1], pod("web"), "sim-1")
        await subscription.until(loads)
        assert loads(subscription)[0].node == "sim-1"
        assert loads(subscription)[0].load.promised.pods == 1
        assert len(nodes(subscription)) == 1
        await report(pair[1], said(made, "sim-1", TERMINATED))
        await subscription.until(lambda s: len(loads(s)) == 2)
        # A cordon is more than a load, and holds its load too.
        await cordon(pair[1], "sim-1")
        await subscription.until(lambda s: len(nodes(s)) == 2)
        cordoned = nodes(subscription)[1].node
        assert cordoned.spec.unschedulable
        assert not cordoned.load.schedulable
        generations = [c.load.generation for c in loads(subscription)]
        assert generations == sorted(set(generations))
        assert cordoned.load.generation > generations[-1]
        await pair[1].nodes.DeleteNodes(nodes_pb2.DeleteNodesRequest(names=["sim-1"]))
        await subscription.until(lambda s: nodes(s)[-1].type == REMOVED)
        assert nodes(subscription)[-1].node.metadata.uid == uid


async def test_a_subscription_says_what_it_cannot_be(api: Api) -> None:
    failure = await first_refusal(subscribe(api, "NO"))
    assert isinstance(failure, InvalidArgumentError)
    assert [v.field for v in failure.violations] == ["scheduler_name"]


async def test_schedulers_are_listed_while_they_are_connected(api: Api) -> None:
    async def schedulers() -> list[str]:
        answer = await api.cluster.ListComponents(cluster_service_pb2.ListComponentsRequest())
        return [c.instance for c in answer.components if c.kind == "scheduler"]

    async def none() -> bool:
        return not await schedulers()

    async with following(subscribe(api), "pods") as subscription:
        await subscription.until(lambda s: s.synced)
        assert await schedulers() == ["default/test"]
    await until_answered(none)


async def test_a_verdict_is_told_with_the_pod_and_never_stored(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    await api.register_ready("sim-1")
    (made,) = await create(api, pod("web"))
    await api.session()
    async with following(watch_pods(api)) as watch:
        await watch.until(lambda w: w.synced and w.events)
        before = await revision(etcd, certs)
        answer = await post_verdicts(api, verdict_on(made))
        assert reasons(answer.results) == [""]
        assert await revision(etcd, certs) == before
        await watch.until(lambda w: w.events[-1].pod.HasField("verdict"))
        got = await get(api, "web")
        listed = (await api.pods.ListPods(pods_pb2.ListPodsRequest())).pods
        assert [got] == list(listed) == [watch.events[-1].pod]
        assert got.verdict.causes[0].reason == "INSUFFICIENT_CPU"
        assert got.metadata.resource_version == made.metadata.resource_version
        assert got.status.phase == PENDING
        # Said again it is no news.
        told = len(watch.events)
        await post_verdicts(api, verdict_on(made))
        assert reasons(await assign(api, (made, "sim-1"))) == [""]
        await watch.until(lambda w: w.events[-1].pod.assignment.node)
        assert not watch.events[-1].pod.HasField("verdict")
        assert len(watch.events) == told + 1


async def test_a_verdict_does_not_outlive_what_it_was_said_of(api: Api) -> None:
    old, moved = await create(api, pod("web"), pod("moved"))
    await post_verdicts(api, verdict_on(old, moved))
    await delete(api, old)
    (new,) = await create(api, pod("web"))
    now = await get(api, "web", version=new.metadata.resource_version)
    assert not now.HasField("verdict")
    change = pods_pb2.PodUpdate(pod=moved)
    change.pod.spec.scheduler_name = "other"
    change.update_mask.paths.append("spec.scheduler_name")
    answer = await api.pods.UpdatePods(pods_pb2.UpdatePodsRequest(updates=[change]))
    assert not answer.results[0].pod.HasField("verdict"), "it is not that scheduler's to judge"


async def test_verdicts_that_concern_nobody_are_refused(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    await api.register_ready("sim-1")
    placed = await place(api, pod("placed"), "sim-1")
    gone, nameless = (
        pod(
            "gone",
        ),
        pod("placed"),
    )
    gone.metadata.uid = "x"
    (other,) = await create(api, pod("other"))
    other.metadata.uid = "another"
    before = await revision(etcd, certs)
    request = verdict_on(placed, gone, nameless, other)
    request.verdicts[1].verdict.reason = ""
    request.verdicts[1].verdict.message = "x" * 5000
    answer = await post_verdicts(api, request)
    assert reasons(answer.results) == ["POD_NOT_FOUND", "INVALID", "INVALID", "POD_NOT_FOUND"]
    fields = {v.field for s in answer.results[1:3] for v in from_status(s).violations}
    assert fields == {
        "verdicts[1].verdict.reason",
        "verdicts[1].verdict.message",
        "verdicts[2].pod.uid",
    }
    assert await revision(etcd, certs) == before
    empty = scheduling_pb2.PostVerdictsRequest(scheduler_name="default")
    assert isinstance(await refusal(post_verdicts(api, empty)), InvalidArgumentError)


async def test_proposals_are_checked_by_field(api: Api) -> None:
    await api.register_ready("sim-1")
    (made,) = await create(api, pod("web"))
    bad = pod("NO", namespace="a.b")
    results = await assign(api, (bad, "sim-1"), (made, "NO"), (made, "none"), (made, "sim-1"))
    assert reasons(results) == ["INVALID", "INVALID", "NODE_NOT_FOUND", ""]
    assert {v.field for v in from_status(results[0].status).violations} == {
        "assignments[0].pod.name",
        "assignments[0].pod.namespace",
        "assignments[0].pod.uid",
    }
    assert [v.field for v in from_status(results[1].status).violations] == ["assignments[1].node"]


async def test_a_pod_being_deleted_or_twice_in_a_batch_is_placed_once(api: Api) -> None:
    await api.register_ready("sim-1", "sim-2")
    (made,) = await create(api, pod("web"))
    results = await assign(api, (made, "sim-1"), (made, "sim-2"), (made, "sim-1"))
    assert reasons(results) == ["", "ALREADY_ASSIGNED", ""]
    assert [r.node for r in results] == ["sim-1"] * 3


async def test_the_subscription_ends_when_the_store_is_another(
    etcd: EtcdServer, certs: Path, tmp_path: Path
) -> None:
    """What a scheduler holds would otherwise be of a cluster that is no more."""
    async with apiservers(etcd, certs) as (api,):
        await api.register_ready("sim-1")
        async with following(subscribe(api), "pods") as subscription:
            await subscription.until(lambda s: s.synced)
            etcd.stop()
            (tmp_path / "etcd").rename(tmp_path / "lost")
            etcd.start()
            await subscription.until(lambda s: s.failure is not None)
            assert subscription.failure is not None
            assert subscription.failure.reason == "EPOCH_CHANGED"
        async with following(subscribe(api), "pods") as subscription:
            await subscription.until(lambda s: s.synced)
            assert not nodes(subscription)
