"""S3: what a namespace's pods use equals a recount at every revision; refusals cost nothing."""

import asyncio
import random
from pathlib import Path

from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.model.errors import ResourceExhaustedError, from_status

from tests.support.apiservers import Api, pod
from tests.support.calls import (
    TERMINATED,
    assign,
    create,
    delete,
    make_namespaces,
    reasons,
    report,
    said,
    usage,
)
from tests.support.history import check_sums
from tests.support.store import EtcdServer


async def test_s3_usage_is_exact_while_two_apiservers_create_end_and_delete(
    pair: list[Api], etcd: EtcdServer, certs: Path
) -> None:
    spaces = ("default", "team-a")
    await make_namespaces(pair[0], "team-a")
    await pair[0].register_ready("sim-1", "sim-2", cpu=100_000, pods=1000)

    async def user(number: int) -> None:
        """Create, place, end and delete pods of names that others use too."""
        dice = random.Random(number)
        for _ in range(12):
            here, there = dice.sample(pair, 2)
            batch = [
                pod(
                    f"p-{dice.randrange(8)}", cpu=dice.randrange(500), namespace=dice.choice(spaces)
                )
                for _ in range(4)
            ]
            answer = await here.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=batch))
            assert set(reasons(answer.results)) <= {"", "POD_EXISTS"}
            mine = [r.pod for r in answer.results if r.HasField("pod")]
            if not mine:
                continue
            await assign(there, *((p, "sim-1") for p in mine[::2]))
            ended = await report(here, *(said(p, "sim-1", TERMINATED) for p in mine[:3]))
            assert set(ended) <= {"", "NOT_ASSIGNED", "POD_NOT_FOUND"}
            gone = await delete(there, *mine[:2])
            assert set(reasons(gone.results)) <= {"", "POD_NOT_FOUND"}

    async with asyncio.timeout(20):
        await asyncio.gather(*(user(number) for number in range(6)))
    assert await check_sums(etcd, certs) > 50


async def test_s3_a_refused_create_charges_nothing(api: Api, etcd: EtcdServer, certs: Path) -> None:
    """Field report 14: one pod, and a hundred creates that fail."""
    (made,) = await create(api, pod("p", cpu=250))
    before = await usage(api)
    bad = pod("bad")
    bad.spec.containers[0].name = "NO"
    for wrong in (pod("p", cpu=9), bad, pod("q", namespace="nowhere")):
        answer = await api.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=[wrong] * 33))
        assert all(result.status.code for result in answer.results)
    after = await usage(api)
    assert after == before
    assert (after.stored_pods, after.requested.pods, after.requested.cpu_millicores) == (1, 1, 250)
    assert made.metadata.uid
    await check_sums(etcd, certs)


async def test_s3_an_ended_pod_is_stored_and_asks_for_nothing(api: Api) -> None:
    await api.register_ready("sim-1")
    (made,) = await create(api, pod("p", cpu=250))
    assert reasons(await assign(api, (made, "sim-1"))) == [""]
    assert await report(api, said(made, "sim-1", TERMINATED)) == [""]
    used = await usage(api)
    assert (used.stored_pods, used.requested.pods, used.requested.cpu_millicores) == (1, 0, 0)
    await delete(api, made)
    assert not (await usage(api)).stored_pods


async def test_s3_creates_of_one_namespace_through_two_apiservers_do_not_see_each_other(
    pair: list[Api],
) -> None:
    """Field report 15, without its limit: no conflict of the apiservers reaches a client."""

    async def one(number: int) -> str:
        request = pods_pb2.CreatePodsRequest(pods=[pod(f"p-{number}")])
        answer = await pair[number % 2].pods.CreatePods(request)
        return reasons(answer.results)[0]

    for start in range(0, 400, 40):
        found = await asyncio.gather(*(one(number) for number in range(start, start + 40)))
        assert set(found) == {""}
    assert (await usage(pair[0])).stored_pods == 400


async def test_s3_one_user_cannot_fill_a_namespaces_sum_with_names(api: Api) -> None:
    """Each create rewrites the sum: its size must stay bounded, or nothing ends any more."""
    pods = []
    for number in range(10):
        made = pod(f"p-{number}")
        named = made.spec.containers[0].resources.requests.named_thousandths
        for other in range(16):
            named[f"{'x' * 63}.{number}.{other}/{'y' * 63}"] = 1
        pods.append(made)
    answer = await api.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=pods))
    refused = [from_status(r.status) for r in answer.results if r.status.code]
    assert {(type(f), f.reason) for f in refused} == {
        (ResourceExhaustedError, "TOO_MANY_RESOURCE_NAMES")
    }
    assert len((await usage(api)).requested.named_thousandths) == 64
