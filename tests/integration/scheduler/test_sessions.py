"""Of several schedulers one decides; the others stand by, and take over at once."""

from tests.integration.scheduler.conftest import Setting, until
from tests.support.store import free_port
from tests.unit.scheduler.builders import load, node, pod


async def two_schedulers(setting: Setting) -> None:
    """Start the one that decides, then one that stands by."""
    await setting.start_apiserver()
    setting.apiserver.add_nodes(node("n1"))
    await setting.start_scheduler(instance_id="one")
    await until(lambda: setting.apiserver.session)
    await setting.start_scheduler(instance_id="two")
    await until(lambda: len(setting.apiserver.subscribers) == 2)


async def test_who_stands_by_posts_nothing(setting: Setting) -> None:
    await two_schedulers(setting)
    apiserver = setting.apiserver
    apiserver.add_pods(*(pod(f"p{n}") for n in range(20)), pod("huge", cpu=9000))
    await until(lambda: len(apiserver.assigned) == 20 and "huge" in apiserver.verdicts)
    assert set(apiserver.posted_in) == {"session-1"}
    assert len(apiserver.verdicts["huge"]) == 1
    assert not apiserver.refusals


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


async def test_a_scheduler_whose_session_ran_out_posts_nothing_until_the_next(
    setting: Setting,
) -> None:
    """It learns it from the renewal, before anything is told."""
    await setting.start_apiserver()
    apiserver = setting.apiserver
    apiserver.add_nodes(node("n1"))
    apiserver.add_pods(pod("huge", cpu=9000))
    await setting.start_scheduler()
    await until(lambda: "huge" in apiserver.verdicts)
    apiserver.session = "of another"
    await until(lambda: apiserver.refused_renewals)
    apiserver.add_pods(pod("a"), pod("larger", cpu=9500))
    # What is told now comes after that, and so does what is posted on it.
    apiserver.depose()
    await until(lambda: "a" in apiserver.assigned and "larger" in apiserver.verdicts)
    await until(lambda: len(apiserver.verdicts["huge"]) == 2)
    assert apiserver.posted_in[-1] == "session-2"
    assert set(apiserver.posted_in) == {"session-1", "session-2"}


async def test_verdicts_that_are_refused_with_the_session_are_said_in_the_next(
    setting: Setting,
) -> None:
    await setting.start_apiserver()
    apiserver = setting.apiserver
    apiserver.add_nodes(node("n1"))
    await setting.start_scheduler()
    await until(lambda: apiserver.renewals)
    apiserver.session = "of another"
    apiserver.add_pods(pod("huge", cpu=9000))
    await until(lambda: apiserver.posted_in or apiserver.refused_renewals)
    apiserver.depose()
    await until(lambda: "huge" in apiserver.verdicts)
    assert set(apiserver.posted_in) <= {"session-1", "session-2"}


async def test_a_session_is_renewed_while_pods_are_placed(setting: Setting) -> None:
    await setting.start_apiserver()
    apiserver = setting.apiserver
    apiserver.add_nodes(node("n1", load(cpu=1_000_000, pods=1000)))
    await setting.start_scheduler()
    await until(lambda: apiserver.renewals)
    apiserver.gate.clear()
    apiserver.add_pods(*(pod(f"p{n}", cpu=10) for n in range(500)))
    await until(lambda: apiserver.posts)
    before = apiserver.renewals
    await until(lambda: apiserver.renewals >= before + 3)
    assert not apiserver.assigned
    apiserver.gate.set()
    await until(lambda: len(apiserver.assigned) == 500)
    assert apiserver.sessions == 1


async def test_a_session_is_taken_up_again_through_another_apiserver(setting: Setting) -> None:
    other = free_port()
    stop = await setting.start_apiserver()
    await setting.start_apiserver(other)
    apiserver = setting.apiserver
    await setting.start_scheduler(apiserver=(f"127.0.0.1:{setting.port}", f"127.0.0.1:{other}"))
    await until(lambda: apiserver.renewals)
    await stop()
    apiserver.add_nodes(node("n1"))
    apiserver.add_pods(pod("a"))
    await until(lambda: "a" in apiserver.assigned)
    before = apiserver.renewals
    await until(lambda: apiserver.renewals > before)
    assert apiserver.sessions == 1
