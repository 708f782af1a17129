"""Pods are placed, refused, explained and placed again over real connections."""

import asyncio
from collections import Counter

from drumline.api.v1.pod_pb2 import Verdict

from tests.integration.scheduler.conftest import Setting, until
from tests.integration.scheduler.fake_apiserver import FakeApiserver, over_promised
from tests.unit.scheduler.builders import load, node, pod


def causes(verdict: Verdict) -> list[tuple[str, int]]:
    return [(cause.reason, cause.nodes) for cause in verdict.causes]


async def test_many_pods_are_spread_in_few_posts(running: Setting) -> None:
    apiserver = running.apiserver
    apiserver.add_nodes(*(node(f"n{number}") for number in range(50)))
    for first in range(0, 1000, 100):
        apiserver.add_pods(*(pod(f"p{n}", cpu=100) for n in range(first, first + 100)))
    await until(lambda: len(apiserver.assigned) == 1000)
    assert set(Counter(apiserver.assigned.values()).values()) == {20}
    assert not apiserver.refusals
    assert len(apiserver.posts) <= 10


async def test_pack_fills_one_node_after_another(setting: Setting) -> None:
    apiserver = setting.apiserver
    apiserver.add_nodes(*(node(f"n{number}") for number in range(5)))
    apiserver.add_pods(*(pod(f"p{n}", cpu=1000) for n in range(8)))
    await setting.start_apiserver()
    await setting.start_scheduler(scoring="pack")
    await until(lambda: len(apiserver.assigned) == 8)
    assert sorted(Counter(apiserver.assigned.values()).values()) == [4, 4]


async def test_l1_an_unplaceable_pod_is_explained_and_placed_when_a_node_comes(
    running: Setting,
) -> None:
    apiserver = running.apiserver
    apiserver.add_pods(pod("big", cpu=6000))
    await until(lambda: "big" in apiserver.verdicts)
    assert apiserver.verdicts["big"][-1].reason == "NO_NODES"
    apiserver.add_nodes(node("small"))
    await until(lambda: len(apiserver.verdicts["big"]) == 2)
    verdict = apiserver.verdicts["big"][-1]
    assert verdict.message == (
        "0 of 1 node can take it: 1 has too little cpu (asks 6, most free 4)"
    )
    assert (verdict.nodes, causes(verdict)) == (1, [("INSUFFICIENT_CPU", 1)])
    assert verdict.judge_time.seconds
    apiserver.add_nodes(node("large", load(cpu=8000)))
    await until(lambda: apiserver.assigned.get("big") == "large")


async def test_verdicts_that_could_not_be_posted_are_posted_later(running: Setting) -> None:
    running.apiserver.fail_verdicts = 2
    running.apiserver.add_pods(pod("a"), pod("b"))
    await until(lambda: {"a", "b"} == set(running.apiserver.verdicts))


async def test_report_1_a_slow_commit_is_not_overtaken(running: Setting) -> None:
    apiserver = running.apiserver
    apiserver.add_nodes(node("n1"))
    apiserver.gate.clear()
    apiserver.add_pods(pod("a", cpu=3000))
    await until(lambda: apiserver.posts)
    apiserver.add_pods(pod("b", cpu=3000))
    await until(lambda: "b" in apiserver.verdicts)
    assert apiserver.posts == [[("a", "n1")]]
    apiserver.gate.set()
    await until(lambda: apiserver.assigned == {"a": "n1"})
    apiserver.end_pod("a")
    await until(lambda: "b" in apiserver.assigned)
    assert not apiserver.refusals


async def test_report_2_failed_posts_leave_no_ghost(running: Setting) -> None:
    apiserver = running.apiserver
    apiserver.add_nodes(node("n1"), node("n2"))
    for number in range(10):
        apiserver.fail_posts = 2
        name = f"p{number}"
        apiserver.add_pods(pod(name, cpu=4000))
        await until(lambda name=name: name in apiserver.assigned)  # type: ignore[misc]
        apiserver.end_pod(name)
    apiserver.add_pods(pod("a", cpu=4000), pod("b", cpu=4000))
    await until(lambda: {"a", "b"} <= set(apiserver.assigned))
    assert not apiserver.refusals


async def test_report_3_a_lost_reply_is_asked_for_again_on_the_same_node(
    running: Setting,
) -> None:
    apiserver = running.apiserver
    apiserver.lose_replies = 3
    apiserver.add_nodes(*(node(f"n{number}") for number in range(5)))
    apiserver.add_pods(pod("a", cpu=3000))
    await until(lambda: len(apiserver.posts) == 4)
    assert apiserver.posts == [[("a", apiserver.assigned["a"])]] * 4
    apiserver.add_pods(*(pod(f"p{n}", cpu=4000) for n in range(4)), pod("b", cpu=1000))
    await until(lambda: len(apiserver.assigned) == 6)
    assert not apiserver.refusals, "what the lost reply said is counted once"


async def test_report_4_pods_follow_one_another_on_a_node_with_room_for_one(
    running: Setting,
) -> None:
    apiserver = running.apiserver
    apiserver.add_nodes(node("n1", load(cpu=1000)))
    apiserver.add_pods(*(pod(f"p{n}", cpu=1000, created=n) for n in range(200)))
    for number in range(200):
        name = f"p{number}"
        await until(lambda name=name: name in apiserver.charged)  # type: ignore[misc]
        assert list(apiserver.charged) == [name]
        apiserver.end_pod(name)
    assert not apiserver.refusals


async def test_report_7_a_lost_wake_up_heals_within_the_bound(setting: Setting) -> None:
    """The node refuses, has room again at once, and nothing of it is ever heard again."""
    apiserver = setting.apiserver
    apiserver.refuse_wrongly = 1
    apiserver.add_nodes(node("n1"))
    apiserver.add_pods(pod("a"))
    await setting.start_apiserver()
    await setting.start_scheduler(safety_retry_seconds=0.5)
    await until(lambda: "a" in apiserver.assigned)
    assert apiserver.refusals == ["DOES_NOT_FIT"]


async def test_a_refused_pod_goes_elsewhere_at_once(running: Setting) -> None:
    apiserver = running.apiserver
    apiserver.refuse_wrongly = 1
    apiserver.add_nodes(node("n1"), node("n2"))
    apiserver.add_pods(pod("a"))
    await until(lambda: "a" in apiserver.assigned)
    [[(_, first)], [(_, second)]] = apiserver.posts
    assert first != second == apiserver.assigned["a"]


async def test_s1_two_schedulers_fill_the_nodes_and_no_node_too_far(setting: Setting) -> None:
    apiserver = setting.apiserver
    apiserver.add_nodes(*(node(f"n{number}") for number in range(20)))
    await setting.start_apiserver()
    await setting.start_scheduler(instance_id="one")
    await setting.start_scheduler(instance_id="two")
    await until(lambda: len(apiserver.subscribers) == 2)
    for first in range(0, 100, 10):
        apiserver.add_pods(*(pod(f"p{n}", cpu=1000) for n in range(first, first + 10)))
        await asyncio.sleep(0)
    await until(lambda: len(apiserver.assigned) == 80)
    assert not over_promised(apiserver.nodes.values())
    await until(lambda: len(apiserver.waiting.keys() & explained(apiserver)) == 20)


def explained(apiserver: FakeApiserver) -> set[str]:
    return {f"uid-{name}" for name in apiserver.verdicts}
