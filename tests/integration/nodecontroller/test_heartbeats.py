"""Beats over real connections: what they cause, and who may send them."""

import asyncio
import logging
from typing import Any

import grpc
import pytest
from drumline.model.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    from_rpc_error,
)
from drumline.node.v1.heartbeat_service_pb2 import DESCRIPTOR as BEATS
from drumline.process.rpc import channel

from tests.integration.nodecontroller.conftest import Setting, until
from tests.integration.nodecontroller.kubelets import Beater, beating, line


async def test_e3_beats_are_reported_on_transitions_only(running: Setting) -> None:
    running.apiserver.add("n0")
    beater = Beater(running.address, running.certificates("n0"), ["n0"])
    async with beating(beater):
        await until(lambda: beater.acknowledged >= 20)
        assert running.apiserver.posted() == [("n0", "READY")]
    await until(lambda: running.apiserver.states()["n0"] == "UNREACHABLE")
    status = running.apiserver.nodes["n0"].status
    assert status.reason == "HEARTBEATS_MISSING"
    assert status.HasField("transition_time")
    async with beating(beater):
        await until(lambda: running.apiserver.states()["n0"] == "READY")
    assert running.apiserver.posted() == [("n0", "READY"), ("n0", "UNREACHABLE"), ("n0", "READY")]


async def test_an_answer_tells_when_to_beat_again(running: Setting) -> None:
    running.apiserver.add("n0")
    async with line(running.address, running.certificates("n0")) as kubelet:
        answer = await kubelet.beat("n0")
        assert 0.09 <= answer.next_interval.ToNanoseconds() / 1e9 <= 0.11


async def test_a_node_that_is_not_known_is_told_to_register(running: Setting) -> None:
    beater = Beater(running.address, running.certificates("n0"), ["n0"])
    async with beating(beater):
        await until(lambda: beater.unknown == ["n0"])
        running.apiserver.add("n0")
        await until(lambda: beater.unknown == [])
        await until(lambda: running.apiserver.states()["n0"] == "READY")


async def test_a2_a_kubelet_speaks_for_its_own_node_only(running: Setting) -> None:
    running.apiserver.add("n0", "n1")
    async with line(running.address, running.certificates("n1")) as kubelet:
        with pytest.raises(PermissionDeniedError, match='may not speak for node "n0"'):
            await kubelet.beat("n1", "n0")
    async with line(running.address, running.certificates("admin")) as admin:
        with pytest.raises(PermissionDeniedError):
            await admin.beat("n0")
    assert running.apiserver.posts == []


async def test_a2_a_simulator_speaks_for_simulated_nodes_only(running: Setting) -> None:
    names = [f"s{i}" for i in range(5000)]
    running.apiserver.add(*names, simulated=True)
    running.apiserver.add("n0")
    beater = Beater(running.address, running.certificates("simulator"), names)
    async with beating(beater):
        await until(lambda: list(running.apiserver.states().values()).count("READY") == 5000)
    async with line(running.address, running.certificates("simulator")) as simulator:
        with pytest.raises(PermissionDeniedError, match='"n0"'):
            await simulator.beat("s1", "n0")
    assert running.apiserver.states()["n0"] == "UNSPECIFIED"


@pytest.mark.parametrize(
    ("nodes", "sequence", "field"),
    [([], 1, "nodes"), (["n0"] * 5001, 1, "nodes"), (["n0"], 0, "sequence")],
)
async def test_a5_a_beat_out_of_range_is_refused_by_field(
    running: Setting, nodes: list[str], sequence: int, field: str
) -> None:
    async with line(running.address, running.certificates("n0")) as kubelet:
        with pytest.raises(InvalidArgumentError) as refusal:
            await kubelet.beat(*nodes, sequence=sequence)
        assert [v.field for v in refusal.value.violations] == [field]


async def test_a5_a_beat_that_cannot_be_decoded_is_refused(
    running: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    service = BEATS.services_by_name["HeartbeatService"].full_name
    async with channel(running.address, running.certificates("n0")) as opened:
        stream: Any = opened.stream_stream(f"/{service}/Beat")()
        await stream.write(b"\xff\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stream.read()
    assert isinstance(from_rpc_error(refusal.value), InvalidArgumentError)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_sequence_that_does_not_grow_is_refused(running: Setting) -> None:
    async with line(running.address, running.certificates("n0")) as kubelet:
        await kubelet.beat("n0", sequence=5)
        with pytest.raises(InvalidArgumentError, match="does not follow 5"):
            await kubelet.beat("n0", sequence=5)


async def test_a5_beats_sent_without_pause_are_held_back(running: Setting) -> None:
    running.apiserver.add("n0")
    async with line(running.address, running.certificates("n0")) as kubelet:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(11):
            await kubelet.beat("n0")
        assert loop.time() - started >= 0.2
