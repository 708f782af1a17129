"""Pods that would rather end than wait for ever for a node that fits them."""

import asyncio
from pathlib import Path
from typing import Any

from drumline.api.v1 import pod_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.scheduling.v1 import scheduler_service_pb2 as scheduling_pb2
from google.protobuf.duration_pb2 import Duration

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import (
    RUNNING,
    TERMINATED,
    assign,
    create,
    delete,
    following,
    get,
    post_verdicts,
    reasons,
    ref,
    refusal,
    report,
    said,
    until_answered,
    usage,
    watch_pods,
)
from tests.support.history import check_sums, revision
from tests.support.store import EtcdServer

SOON: dict[str, Any] = {"infeasible_interval": 0.1}


def impatient(name: str, seconds: float = 1, cpu: int = 100) -> pod_pb2.Pod:
    made = pod(name, cpu=cpu)
    made.spec.infeasible_after.FromNanoseconds(int(seconds * 1e9))
    return made


async def judge(api: Api, *judged: pod_pb2.Pod) -> list[str]:
    request = scheduling_pb2.PostVerdictsRequest(scheduler_name="default")
    for each in judged:
        verdict = request.verdicts.add(pod=ref(each)).verdict
        verdict.reason, verdict.message = "NO_NODE_FITS", "0 of 1 node can take it"
        verdict.help = "a larger node"
    return reasons((await post_verdicts(api, request)).results)


async def amend(api: Api, changed: pod_pb2.Pod, *paths: str) -> str:
    update = pods_pb2.PodUpdate(pod=changed)
    update.pod.metadata.resource_version = ""
    update.update_mask.paths.extend(paths)
    answer = await api.pods.UpdatePods(pods_pb2.UpdatePodsRequest(updates=[update]))
    return reasons(answer.results)[0]


async def test_c1_a_pod_that_fits_nowhere_ends_when_its_time_is_over_and_says_why(
    etcd: EtcdServer, certs: Path
) -> None:
    async with apiservers(etcd, certs, 2, **SOON) as (api, other):
        made, patient, unjudged = await create(
            api, impatient("web", cpu=250), pod("patient", cpu=10), impatient("unjudged", cpu=20)
        )
        assert await judge(api, made, patient) == ["", ""]
        wait = pods_pb2.WaitForPodsRequest(
            pods=[ref(made)], condition=pods_pb2.POD_CONDITION_ASSIGNED
        )
        results = [r for m in [m async for m in other.pods.WaitForPods(wait)] for r in m.results]
        why = (
            "on no node 1s after its creation: 0 of 1 node can take it; what would have helped:"
            " a larger node"
        )
        assert [(r.outcome, r.message) for r in results] == [
            (pods_pb2.WAIT_OUTCOME_IMPOSSIBLE, f"the pod ended before: INFEASIBLE: {why}")
        ]
        version = results[0].pod.metadata.resource_version
        ended = await get(api, "web", version=version)
        assert ended == await get(other, "web", version=version)
        status = ended.status
        assert (status.phase, status.reason, status.message) == (TERMINATED, "INFEASIBLE", why)
        assert not status.waiting_on
        assert not ended.HasField("verdict")
        assert not ended.HasField("assignment")
        # Those without a verdict, or that want to wait, do.
        for waits in ("patient", "unjudged"):
            assert (await get(api, waits)).status.reason == "UNSCHEDULED"
        used = await usage(api)
        assert (used.stored_pods, used.requested.pods, used.requested.cpu_millicores) == (3, 2, 30)
        # Nothing becomes of it any more; and it goes at once.
        await api.register_ready("sim-1")
        (refused,) = await assign(api, (made, "sim-1"))
        assert reasons([refused]) == ["POD_ENDED"]
        assert await judge(api, made) == ["POD_NOT_FOUND"]
        ended.spec.infeasible_after.seconds = 60
        assert await amend(api, ended, "spec.infeasible_after") == "POD_ENDED"
        logs = api.pods.StreamLogs(pods_pb2.StreamLogsRequest(name="web"))
        assert (await refusal(logs.read())).reason == "NOT_ASSIGNED"
        assert reasons((await delete(other, made)).results) == [""]
        used = await usage(other)
        assert (used.stored_pods, used.requested.pods) == (2, 2)
        assert unjudged.metadata.uid
    await check_sums(etcd, certs)


async def test_it_ends_with_the_verdict_when_that_comes_late_and_stays_when_it_is_placed(
    etcd: EtcdServer, certs: Path
) -> None:
    async with apiservers(etcd, certs, **SOON) as (api,):
        await api.register_ready("sim-1")
        placed, late = await create(api, impatient("placed"), impatient("late"))
        assert await judge(api, placed) == [""]
        assert reasons(await assign(api, (placed, "sim-1"))) == [""]
        await asyncio.sleep(1.2)
        assert (await get(api, "late")).status.reason == "UNSCHEDULED"
        assert await judge(api, late) == [""]

        async def ended() -> bool:
            return (await get(api, "late")).status.reason == "INFEASIBLE"

        await until_answered(ended)
        assert (await get(api, "placed")).status.reason == "ASSIGNED"
        assert await report(api, said(placed, "sim-1", RUNNING)) == [""]
    await check_sums(etcd, certs)


async def test_the_time_can_be_changed_while_a_pod_waits(etcd: EtcdServer, certs: Path) -> None:
    async with apiservers(etcd, certs, **SOON) as (api,):
        never, sooner = await create(api, impatient("never"), pod("sooner"))
        assert await judge(api, never, sooner) == ["", ""]
        wrong = pod_pb2.Pod()
        wrong.CopyFrom(sooner)
        wrong.spec.infeasible_after.FromNanoseconds(1)
        assert await amend(api, wrong, "spec.infeasible_after") == "INVALID"
        never.spec.ClearField("infeasible_after")
        assert await amend(api, never, "spec.infeasible_after") == ""
        sooner.spec.infeasible_after.seconds = 1
        assert await amend(api, sooner, "spec.infeasible_after") == ""

        async def ended() -> bool:
            return (await get(api, "sooner")).status.phase == TERMINATED

        await until_answered(ended)
        assert (await get(api, "never")).status.reason == "UNSCHEDULED"
        assert (await get(api, "never")).HasField("verdict")


async def test_the_word_of_a_scheduler_that_is_away_ends_nothing(
    etcd: EtcdServer, certs: Path
) -> None:
    async with apiservers(etcd, certs, **SOON) as (api,):
        (made,) = await create(api, impatient("web"))
        assert await judge(api, made) == [""]
        ending = scheduling_pb2.EndSessionRequest(
            scheduler_name="default", session_id=api.sessions.pop("default")
        )
        await api.scheduler().EndSession(ending)
        await asyncio.sleep(1.3)
        assert (await get(api, "web")).HasField("verdict")
        await api.session()

        async def ended() -> bool:
            return (await get(api, "web")).status.reason == "INFEASIBLE"

        await until_answered(ended)


async def test_the_time_goes_on_over_a_restart_and_an_ended_pod_is_kept_and_removed_like_others(
    etcd: EtcdServer, certs: Path
) -> None:
    changes = {**SOON, "ended_pods_age": 0.5, "ended_pods_interval": 0.1}
    async with apiservers(etcd, certs, **changes) as (api,):
        (made,) = await create(api, impatient("web", 1.5))
        await api.session()
        await asyncio.sleep(0.7)
        await api.stop()
        await api.start()
        async with following(watch_pods(api)) as watch:
            assert await judge(api, made) == [""]
            await watch.until(lambda w: ("web", "REMOVED") in w.told)
            reached = [event.pod.status.reason for event in watch.events]
        assert reached[-2:] == ["INFEASIBLE", "INFEASIBLE"]
        assert (await usage(api)).stored_pods == 0
    await check_sums(etcd, certs)


async def test_e1_pods_that_wait_with_a_time_of_their_own_cause_no_write(
    etcd: EtcdServer, certs: Path
) -> None:
    async with apiservers(etcd, certs, 2, **SOON) as (api, _):
        (made, _) = await create(api, impatient("web", 3600), impatient("unjudged"))
        assert await judge(api, made) == [""]
        before = await revision(etcd, certs)
        await asyncio.sleep(1.3)
        assert await revision(etcd, certs) == before
        assert made.spec.infeasible_after == Duration(seconds=3600)
