"""S1: whatever several schedulers post through several apiservers, no node is promised too much."""

import asyncio
import random
from pathlib import Path

from drumline.api.v1 import pod_pb2
from drumline.model.errors import from_status

from tests.support.apiservers import Api, pod
from tests.support.calls import TERMINATED, assign, create, get_node, reasons, report, said
from tests.support.history import check_sums
from tests.support.store import EtcdServer

NODES = [f"sim-{number}" for number in range(6)]


async def test_s1_two_schedulers_filling_nodes_through_two_apiservers_never_overcommit(
    pair: list[Api], etcd: EtcdServer, certs: Path
) -> None:
    await pair[0].register_ready(*NODES, cpu=1000, pods=6)
    dice = random.Random(1)
    made: dict[str, list[pod_pb2.Pod]] = {}
    for scheduler in ("default", "other"):
        pods = [pod(f"{scheduler}-{n}", cpu=dice.choice([100, 250, 400])) for n in range(60)]
        for each in pods:
            each.spec.scheduler_name = scheduler
        made[scheduler] = await create(pair[0], *pods)

    async def fill(api: Api, scheduler: str, identity: str) -> dict[str, str]:
        """Post every pod again and again, on any node, until nothing more fits."""
        waiting = {p.metadata.name: p for p in made[scheduler]}
        placed: dict[str, str] = {}
        own = random.Random(scheduler)
        for _ in range(8):
            proposals = [(p, own.choice(NODES)) for p in waiting.values()]
            for start in range(0, len(proposals), 5):
                some = proposals[start : start + 5]
                results = await assign(api, *some, scheduler=scheduler, identity=identity)
                for (p, node), why in zip(some, reasons(results), strict=True):
                    assert why in {"", "DOES_NOT_FIT"}, why
                    if not why:
                        placed[p.metadata.name] = node
                        del waiting[p.metadata.name]
        return placed

    placed: dict[str, str] = {}
    for some in await asyncio.gather(
        fill(pair[0], "default", "scheduler"), fill(pair[1], "other", "scheduler-other")
    ):
        placed |= some

    assert await check_sums(etcd, certs) > 10
    promised = [(await get_node(pair[1], name)).load.promised for name in NODES]
    assert sum(load.pods for load in promised) == len(placed)
    # The nodes did become full: nothing of 400 fits anywhere any more, in cpu or in number.
    assert all(load.cpu_millicores > 600 or load.pods == 6 for load in promised)


async def test_s1_room_is_given_out_once_while_pods_end_and_start_through_two_apiservers(
    pair: list[Api], etcd: EtcdServer, certs: Path
) -> None:
    """Field report 4: one place, many pods, one at a time."""
    await pair[0].register_ready("sim-1", cpu=1000)
    made = await create(pair[0], *(pod(f"p-{n}", cpu=1000) for n in range(30)))
    waiting = {p.metadata.name: p for p in made}

    async def scheduler(api: Api) -> None:
        while waiting:
            for p in list(waiting.values()):
                (why,) = reasons(await assign(api, (p, "sim-1")))
                assert why in {"", "DOES_NOT_FIT", "POD_ENDED"}, why
                if not why and waiting.pop(p.metadata.name, None) is not None:
                    assert await report(api, said(p, "sim-1", TERMINATED)) == [""]

    async with asyncio.timeout(20):
        await asyncio.gather(scheduler(pair[0]), scheduler(pair[1]))
    await check_sums(etcd, certs)
    load = (await get_node(pair[0], "sim-1")).load
    assert not load.promised.pods
    assert not load.promised.cpu_millicores


async def test_s1_a_reply_that_was_lost_can_be_asked_for_again(pair: list[Api]) -> None:
    """Field report 3: the same node again is OK; another one is told where the pod is."""
    await pair[0].register_ready("sim-1", "sim-2")
    (made,) = await create(pair[0], pod("web"))
    assert reasons(await assign(pair[0], (made, "sim-1"))) == [""]
    before = (await get_node(pair[0], "sim-1")).load
    for api in pair:
        (again,) = await assign(api, (made, "sim-1"))
        assert (again.status.code, again.node) == (0, "sim-1")
        (elsewhere,) = await assign(api, (made, "sim-2"))
        assert reasons([elsewhere]) == ["ALREADY_ASSIGNED"]
        assert elsewhere.node == "sim-1"
    assert (await get_node(pair[0], "sim-1")).load == before
    assert not (await get_node(pair[0], "sim-2")).load.promised.pods


async def test_s1_what_is_missing_is_told_by_resource(api: Api) -> None:
    await api.register_ready("sim-1", cpu=1000, memory=1 << 20, pods=1)
    big = pod("big", cpu=1500)
    requests = big.spec.containers[0].resources.requests
    requests.memory_bytes = 2 << 20
    requests.named_thousandths["example.com/gpu"] = 1000
    small, other = pod("small"), pod("other")
    made = await create(api, big, small, other)
    first, second, third = await assign(api, *((p, "sim-1") for p in made))
    assert reasons([first, second, third]) == ["DOES_NOT_FIT", "", "DOES_NOT_FIT"]
    assert second.load_generation == (await get_node(api, "sim-1")).load.generation
    lacking = [v.field for v in from_status(first.status).violations]
    assert lacking == ["sim-1/cpu", "sim-1/memory", "sim-1/example.com/gpu"]
    assert [v.field for v in from_status(third.status).violations] == ["sim-1/pods"]
