"""The apiserver fails, lies half, or is of another version: nobody is accused, nothing is lost."""

import asyncio

import pytest
from drumline.model.errors import InvalidArgumentError, UnavailableError
from drumline.process import clock
from google.protobuf.timestamp_pb2 import Timestamp

from tests.integration.nodecontroller.conftest import GRACE, Setting, until
from tests.integration.nodecontroller.kubelets import Beater, beating


def beaters(parts: Setting, *names: str) -> list[Beater]:
    return [Beater(parts.address, parts.certificates(name), [name]) for name in names]


async def test_s6_a_returning_apiserver_is_told_of_no_node_that_beat_meanwhile(
    parts: Setting,
) -> None:
    serving = await parts.start_apiserver()
    await parts.start_controller()
    parts.apiserver.add("n0", "n1")
    kubelets = beaters(parts, "n0", "n1")
    async with beating(*kubelets):
        await until(lambda: set(parts.apiserver.states().values()) == {"READY"})
        await serving.aclose()
        await asyncio.sleep(1.5 * GRACE)
        watches = parts.apiserver.watches
        await parts.start_apiserver()
        await until(lambda: parts.apiserver.watches > watches)
        heard = kubelets[0].acknowledged
        await until(lambda: kubelets[0].acknowledged > heard + 15)
        assert sorted(parts.apiserver.posted()) == [("n0", "READY"), ("n1", "READY")]


async def test_s6_without_the_apiserver_nobody_is_judged(parts: Setting) -> None:
    serving = await parts.start_apiserver()
    await parts.start_controller()
    parts.apiserver.add("n0")
    (kubelet,) = beaters(parts, "n0")
    async with beating(kubelet):
        await until(lambda: parts.apiserver.states()["n0"] == "READY")
        await serving.aclose()
    await asyncio.sleep(1.5 * GRACE)  # silent, but the controller cannot say so
    posts = len(parts.apiserver.posts)
    async with beating(kubelet):
        await parts.start_apiserver()
        heard = kubelet.acknowledged
        await until(lambda: kubelet.acknowledged > heard + 15)
        assert len(parts.apiserver.posts) == posts


async def test_errors_and_cut_lists_remove_nobody(parts: Setting) -> None:
    await parts.start_apiserver()
    await parts.start_controller()
    names = ["n0", "n1", "n2"]
    parts.apiserver.add(*names)
    kubelets = beaters(parts, *names)
    async with beating(*kubelets):
        await until(lambda: set(parts.apiserver.states().values()) == {"READY"})
        watches = parts.apiserver.watches
        parts.apiserver.cut_lists = 3
        parts.apiserver.cut()
        await until(lambda: parts.apiserver.watches >= watches + 4)
        for kubelet in kubelets:
            heard = kubelet.acknowledged
            await until(lambda k=kubelet, h=heard: k.acknowledged > h + 10)  # type: ignore[misc]
            assert kubelet.unknown == []
        assert [state for _, state in parts.apiserver.posted()] == ["READY"] * 3


async def test_a_node_that_a_whole_list_leaves_out_is_forgotten(running: Setting) -> None:
    running.apiserver.add("n0", "n1")
    kubelets = beaters(running, "n0", "n1")
    async with beating(*kubelets):
        await until(lambda: set(running.apiserver.states().values()) == {"READY"})
        del running.apiserver.nodes["n1"]
        running.apiserver.cut()
        await until(lambda: kubelets[1].unknown == ["n1"])
        assert kubelets[0].unknown == []


async def test_another_version_is_waited_out_and_said_once(
    parts: Setting, capfd: pytest.CaptureFixture[str]
) -> None:
    fitting = parts.apiserver.version
    parts.apiserver.version = "0.0.1"
    parts.apiserver.add("n0")
    await parts.start_apiserver()
    await parts.start_controller()
    (kubelet,) = beaters(parts, "n0")
    async with beating(kubelet):
        await until(lambda: parts.apiserver.watches >= 4)
        assert kubelet.unknown == []
        assert parts.apiserver.posts == []
        said = "".join(capfd.readouterr())
        assert said.count("version_mismatch") == 1
        assert fitting in said
        assert "0.0.1" in said
        parts.apiserver.version = fitting
        await until(lambda: parts.apiserver.states()["n0"] == "READY")


async def test_the_next_address_is_tried(parts: Setting) -> None:
    parts.apiserver.add("n0")
    await parts.start_apiserver()
    await parts.start_controller(apiserver=("127.0.0.1:1", *parts.settings.apiserver))
    async with beating(*beaters(parts, "n0")):
        await until(lambda: parts.apiserver.states()["n0"] == "READY")


async def test_one_batch_at_a_time_with_the_newest_of_each_node(running: Setting) -> None:
    names = [f"s{i}" for i in range(300)]
    running.apiserver.add("n0", *names, simulated=True)
    running.apiserver.gate.clear()
    simulator = Beater(running.address, running.certificates("simulator"), names)
    async with beating(simulator, *beaters(running, "n0")):
        await until(lambda: running.apiserver.in_flight)
        await until(lambda: simulator.acknowledged >= 5)
        running.apiserver.gate.set()
        await until(lambda: set(running.apiserver.states().values()) == {"READY"})
    assert running.apiserver.most_in_flight == 1
    assert len(running.apiserver.posts) <= 3


async def test_what_is_refused_for_now_is_sent_again_and_what_is_final_is_not(
    running: Setting,
) -> None:
    refusals = {"n0": 3}

    def refuse(transition: object) -> UnavailableError | InvalidArgumentError | None:
        name = transition.node  # type: ignore[attr-defined]
        if name == "n1":
            return InvalidArgumentError("not this one")
        refusals[name] -= 1
        return UnavailableError("etcd is away") if refusals[name] >= 0 else None

    running.apiserver.refuse = refuse
    running.apiserver.add("n0", "n1")
    async with beating(*beaters(running, "n0", "n1")):
        await until(lambda: running.apiserver.states()["n0"] == "READY")
    assert running.apiserver.posted().count(("n0", "READY")) == 4
    assert running.apiserver.posted().count(("n1", "READY")) == 1


async def test_a_transition_of_a_node_that_is_gone_is_dropped(running: Setting) -> None:
    running.apiserver.add("n0")
    running.apiserver.gate.clear()
    kubelets = beaters(running, "n0", "n1")
    async with beating(*kubelets):
        await until(lambda: running.apiserver.in_flight)
        running.apiserver.add("n0", uid="another")
        running.apiserver.add("n1")
        running.apiserver.gate.set()
        await until(lambda: set(running.apiserver.states().values()) == {"READY"})
    uids = [t.node_uid for post in running.apiserver.posts for t in post if t.node == "n0"]
    assert uids == ["uid-of-n0", "another"]


async def test_a_watch_that_breaks_under_a_post_leaves_reporting_alive(running: Setting) -> None:
    running.apiserver.add("n0")
    running.apiserver.gate.clear()
    async with beating(*beaters(running, "n0", "n1")):
        await until(lambda: running.apiserver.in_flight)
        watches = running.apiserver.watches
        running.apiserver.cut()
        await until(lambda: running.apiserver.watches > watches)
        running.apiserver.add("n1")
        running.apiserver.gate.set()
        await until(lambda: set(running.apiserver.states().values()) == {"READY"})


async def test_wall_clocks_that_jump_change_no_judgement(
    running: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.apiserver.add("n0")
    kubelets = beaters(running, "n0")
    async with beating(*kubelets):
        await until(lambda: running.apiserver.states()["n0"] == "READY")
        real = clock.timestamp
        for hours in (24, -1, 24 * 365):

            def jumped(hours: int = hours) -> Timestamp:
                return Timestamp(seconds=real().seconds + hours * 3600)

            monkeypatch.setattr(clock, "timestamp", jumped)
            heard = kubelets[0].acknowledged
            await until(lambda h=heard: kubelets[0].acknowledged > h + 5)  # type: ignore[misc]
        assert running.apiserver.posted() == [("n0", "READY")]
