"""Which scheduler decides: sessions begin, live while they are renewed, and are compared."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from drumline.api.v1 import cluster_service_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.model.errors import FailedPreconditionError, PermissionDeniedError
from drumline.scheduling.v1 import scheduler_service_pb2 as pb

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import (
    Follower,
    assign,
    create,
    following,
    get,
    get_node,
    reasons,
    ref,
    refusal,
    until,
)
from tests.support.store import EtcdServer


@pytest.fixture
async def brief(etcd: EtcdServer, certs: Path) -> AsyncIterator[list[Api]]:
    """Two apiservers whose sessions run out soon."""
    async with apiservers(etcd, certs, 2, session_seconds=2) as both:
        yield both


def subscribe(api: Api, instance: str, session: str = "") -> Any:
    request = pb.SubscribeRequest(
        scheduler_name="default", instance_id=instance, session_id=session
    )
    return api.scheduler().Subscribe(request)


def session(subscription: Follower) -> pb.SchedulerSession:
    """Give what a subscriber was told last of who decides."""
    told = [m.session for m in subscription.messages if m.HasField("session")]
    return told[-1] if told else pb.SchedulerSession()


@contextlib.asynccontextmanager
async def renewed(api: Api, session_id: str) -> AsyncIterator[None]:
    """Renew a session while the block runs."""
    request = pb.RenewSessionRequest(scheduler_name="default", session_id=session_id)

    async def renew() -> None:
        while True:
            await api.scheduler().RenewSession(request)
            await asyncio.sleep(0.2)

    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def post(api: Api, session_id: str, *proposals: pb.ProposedAssignment) -> Any:
    request = pb.PostAssignmentsRequest(scheduler_name="default", session_id=session_id)
    request.assignments.extend(proposals)
    return (await api.scheduler().PostAssignments(request)).results


@pytest.mark.parametrize("number", [0, 1])
async def test_one_scheduler_decides_and_the_next_takes_over_when_it_ends(
    pair: list[Api], number: int
) -> None:
    async with following(subscribe(pair[0], "one"), "pods") as one:
        await until(lambda: session(one).id)
        assert session(one).active_instance == "one"
        assert session(one).time_to_live.seconds == 600
        async with following(subscribe(pair[1], "two"), "pods") as two:
            await until(lambda: session(two).active_instance == "one")
            assert not session(two).id
            request = pb.EndSessionRequest(scheduler_name="default", session_id=session(one).id)
            # Through whichever apiserver.
            await pair[number].scheduler().EndSession(request)
            await until(lambda: session(two).id)
            await until(lambda: session(one).active_instance == "two")
            assert not session(one).id


async def test_a_session_that_is_renewed_lives_and_one_that_is_not_goes_to_the_next(
    brief: list[Api],
) -> None:
    async with following(subscribe(brief[0], "one"), "pods") as one:
        await until(lambda: session(one).id)
        first = session(one).id
        async with following(subscribe(brief[1], "two"), "pods") as two:
            async with renewed(brief[1], first):
                await asyncio.sleep(4)  # Twice as long as it lives by itself.
                assert session(one).id == first
            # Still connected, but nothing shows that it works.
            await until(lambda: session(two).id)
            await until(lambda: session(one).active_instance == "two")
            renew = pb.RenewSessionRequest(scheduler_name="default", session_id=first)
            refused = await refusal(brief[0].scheduler().RenewSession(renew))
            assert isinstance(refused, FailedPreconditionError)
            assert refused.reason == "SESSION_ENDED"


async def test_a_session_is_taken_up_again_through_another_apiserver(pair: list[Api]) -> None:
    async with following(subscribe(pair[0], "one"), "pods") as one:
        await until(lambda: session(one).id)
    async with (
        following(subscribe(pair[0], "two"), "pods") as two,
        following(subscribe(pair[1], "one", session(one).id), "pods") as again,
    ):
        await until(lambda: session(again).id and session(two).active_instance)
        assert session(again).id == session(one).id
        assert session(two).active_instance == "one"


async def test_s5_a_scheduler_that_was_deposed_changes_nothing(pair: list[Api]) -> None:
    await pair[0].register_ready("sim-1")
    (made,) = await create(pair[0], pod("web"))
    old = await pair[0].session()
    end = pb.EndSessionRequest(scheduler_name="default", session_id=old)
    await pair[0].scheduler().EndSession(end)
    async with following(subscribe(pair[1], "next"), "pods") as following_one:
        await until(lambda: session(following_one).id)
        for api in pair:
            refused = await refusal(assign(api, (made, "sim-1")))
            assert isinstance(refused, FailedPreconditionError)
            assert refused.reason == "SESSION_ENDED"
            verdicts = pb.PostVerdictsRequest(scheduler_name="default", session_id=old)
            verdicts.verdicts.add(pod=ref(made)).verdict.reason = "NO"
            assert (await refusal(api.scheduler().PostVerdicts(verdicts))).reason == "SESSION_ENDED"
        assert not (await get(pair[0], "web")).HasField("assignment")
        new = session(following_one).id
        proposal = pb.ProposedAssignment(pod=ref(made), node="sim-1")
        assert reasons(await post(pair[0], new, proposal)) == [""]
    placed = await get(pair[0], "web")
    assert placed.assignment.session_id == new


async def test_a_session_is_one_of_its_own_scheduler_name(api: Api) -> None:
    own = await api.session()
    for identity in ("scheduler-other", "admin"):
        for call, request in (
            ("RenewSession", pb.RenewSessionRequest(scheduler_name="default", session_id=own)),
            ("EndSession", pb.EndSessionRequest(scheduler_name="default", session_id=own)),
        ):
            refused = await refusal(getattr(api.scheduler(identity), call)(request))
            assert isinstance(refused, PermissionDeniedError)
    foreign = pb.RenewSessionRequest(scheduler_name="other", session_id=own)
    refused = await refusal(api.scheduler("scheduler-other").RenewSession(foreign))
    assert refused.reason == "SESSION_ENDED"
    await api.scheduler("scheduler-other").EndSession(
        pb.EndSessionRequest(scheduler_name="other", session_id=own)
    )
    await api.scheduler().RenewSession(
        pb.RenewSessionRequest(scheduler_name="default", session_id=own)
    )


async def test_a_session_id_that_is_none_is_refused(api: Api) -> None:
    for named in ("", "no session", "-1", "0" * 16):
        request = pb.RenewSessionRequest(scheduler_name="default", session_id=named)
        refused = await refusal(api.scheduler().RenewSession(request))
        assert refused.reason == "SESSION_ENDED"


async def test_a_group_is_assigned_whole_or_not_at_all(api: Api) -> None:
    await api.register_ready("sim-1", "sim-2", cpu=1000)
    made = await create(api, *(pod(f"g-{n}", cpu=600) for n in range(4)), pod("alone"))
    own = await api.session()

    def proposal(number: int, node: str, group: str) -> pb.ProposedAssignment:
        return pb.ProposedAssignment(pod=ref(made[number]), node=node, group=group)

    results = await post(
        api,
        own,
        proposal(0, "sim-1", "a"),
        proposal(4, "sim-1", ""),
        proposal(1, "sim-1", "a"),
        proposal(2, "sim-2", "b"),
        proposal(3, "none", "b"),
    )
    assert reasons(results) == [
        "GROUP_REFUSED",
        "",
        "DOES_NOT_FIT",
        "GROUP_REFUSED",
        "NODE_NOT_FOUND",
    ]
    for name in ("g-0", "g-1", "g-2", "g-3"):
        assert not (await get(api, name)).HasField("assignment")
    whole = (proposal(0, "sim-1", "a"), proposal(1, "sim-2", "a"))
    assert reasons(await post(api, own, *whole)) == ["", ""]
    # Said again, it is so already.
    assert reasons(await post(api, own, *whole)) == ["", ""]


async def test_a_pod_that_has_changed_since_it_was_looked_at_is_not_placed(api: Api) -> None:
    await api.register_ready("sim-1")
    (made,) = await create(api, pod("web"))
    own = await api.session()
    proposal = pb.ProposedAssignment(
        pod=ref(made), node="sim-1", resource_version=made.metadata.resource_version
    )
    change = pods_pb2.PodUpdate(pod=made)
    change.pod.metadata.labels["app"] = "other"
    change.update_mask.paths.append("metadata.labels")
    await api.pods.UpdatePods(pods_pb2.UpdatePodsRequest(updates=[change]))
    assert reasons(await post(api, own, proposal)) == ["POD_CHANGED"]
    now = await get(api, "web")
    proposal.resource_version = now.metadata.resource_version
    assert reasons(await post(api, own, proposal)) == [""]
    assert reasons(await post(api, own, proposal)) == [""]
    proposal.resource_version = "nonsense"
    assert reasons(await post(api, own, proposal)) == ["INVALID"]


async def test_the_largest_group_is_as_large_as_is_told(api: Api) -> None:
    version = await api.cluster.GetVersion(cluster_service_pb2.GetVersionRequest())
    most = version.largest_atomic_assignment
    await api.register_ready("sim-1", cpu=10_000_000, pods=most)
    made = await create(api, *(pod(f"g-{n}") for n in range(most + 1)))
    own = await api.session()

    def group(members: int) -> list[pb.ProposedAssignment]:
        return [pb.ProposedAssignment(pod=ref(p), node="sim-1", group="g") for p in made[:members]]

    assert set(reasons(await post(api, own, *group(most + 1)))) == {"GROUP_TOO_LARGE"}
    assert set(reasons(await post(api, own, *group(most)))) == {""}
    assert (await get_node(api, "sim-1")).load.promised.pods == most
