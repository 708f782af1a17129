"""Of several schedulers one decides; the others stand by, and take over at once."""

import asyncio

from tests.integration.scheduler.conftest import Setting, until
from tests.unit.scheduler.builders import node, pod


async def two_schedulers(setting: Setting) -> None:
    """Start the one that decides, then one that stands by."""
    await setting.start_apiserver()
    setting.apiserver.add_nodes(
        node(
            "n1",
        )
    )
    await setting.start_scheduler(instance_id="one")
    await until(lambda: setting.apiserver.session)
    await setting.start_scheduler(instance_id="two")
    await until(lambda: len(setting.apiserver.subscribers) == 2)


async def test_a_deposed_scheduler_stops_and_the_next_goes_on(setting: Setting) -> None:
    await two_schedulers(setting)
    apiserver = setting.apiserver
    apiserver.add_pods(pod("a"))
    await until(lambda: "a" in apiserver.assigned)
    apiserver.gate.clear()
    apiserver.add_pods(pod("b"))
    await until(lambda: len(apiserver.posts) == 2)
    # What was posted before is refused, as what decided it is over.
    apiserver.depose()
    apiserver.gate.set()
    await until(lambda: "b" in apiserver.assigned)
    assert apiserver.sessions == 2
    apiserver.add_pods(pod("c"))
    await until(lambda: "c" in apiserver.assigned)
    assert len([p for p in apiserver.posts if ("c", "n1") in p]) == 1, "one of the two decides"


async def test_who_takes_over_says_all_verdicts_again(setting: Setting) -> None:
    await two_schedulers(setting)
    apiserver = setting.apiserver
    apiserver.add_pods(pod("huge", cpu=9000))
    await until(lambda: "huge" in apiserver.verdicts)
    assert len(apiserver.verdicts["huge"]) == 1
    apiserver.depose()
    await until(lambda: len(apiserver.verdicts["huge"]) == 2)


async def test_a_scheduler_that_is_stopped_gives_its_session_up(setting: Setting) -> None:
    await setting.start_apiserver()
    stop = await setting.start_scheduler(instance_id="one")
    await until(lambda: setting.apiserver.session)
    await setting.start_scheduler(instance_id="two")
    await until(lambda: len(setting.apiserver.subscribers) == 2)
    await stop()
    await until(lambda: setting.apiserver.sessions == 2)
    assert [s.instance for s in setting.apiserver.subscribers] == ["two"]


async def test_a_session_is_renewed_and_taken_up_again_after_a_break(setting: Setting) -> None:
    await setting.start_apiserver()
    await setting.start_scheduler()
    await until(lambda: setting.apiserver.renewals >= 3)
    setting.apiserver.break_subscriptions()
    await until(lambda: not setting.apiserver.subscribers)
    await until(lambda: setting.apiserver.subscribers)
    before = setting.apiserver.renewals
    await until(lambda: setting.apiserver.renewals > before)
    setting.apiserver.add_nodes(node("n1"))
    setting.apiserver.add_pods(pod("a"))
    await until(lambda: "a" in setting.apiserver.assigned)
    assert setting.apiserver.sessions == 1


async def test_a_scheduler_whose_session_ran_out_waits_for_the_next(setting: Setting) -> None:
    """It learns it from the renewal, before anything is told."""
    await setting.start_apiserver()
    setting.apiserver.add_nodes(node("n1"))
    await setting.start_scheduler()
    await until(lambda: setting.apiserver.renewals)
    setting.apiserver.session = "of another"
    setting.apiserver.add_pods(pod("a"))
    await asyncio.sleep(0.3)  # The renewal that is refused, and posts that would be.
    assert not setting.apiserver.assigned
    setting.apiserver.depose()
    await until(lambda: "a" in setting.apiserver.assigned)
