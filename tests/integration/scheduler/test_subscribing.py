"""A subscription breaks, an apiserver goes, another takes over: the scheduler goes on."""

import asyncio
from typing import Any

import grpc
import pytest
from drumline.process.channels import channel
from drumline.process.tls import TlsFiles
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.integration.scheduler.conftest import Setting, until
from tests.support.store import free_port
from tests.unit.scheduler.builders import load, node, pod


async def test_after_a_break_everything_is_learnt_and_told_anew(running: Setting) -> None:
    apiserver = running.apiserver
    apiserver.add_nodes(node("n1"))
    apiserver.add_pods(pod("huge", cpu=9000), pod("deleted", cpu=9000))
    await until(lambda: {"huge", "deleted"} == set(apiserver.verdicts))

    del apiserver.waiting["uid-deleted"]
    apiserver.nodes["n2"] = node("n2", load(cpu=5000))
    apiserver.break_subscriptions()
    await until(lambda: len(apiserver.verdicts["huge"]) == 2)
    assert apiserver.verdicts["huge"][-1].nodes == 2
    assert len(apiserver.verdicts["deleted"]) == 1

    apiserver.add_pods(pod("new", cpu=5000))
    await until(lambda: apiserver.assigned == {"new": "n2"})


async def test_a_post_under_way_at_a_break_is_settled_by_the_snapshot(running: Setting) -> None:
    apiserver = running.apiserver
    apiserver.add_nodes(node("n1"))
    apiserver.gate.clear()
    apiserver.add_pods(pod("a", cpu=4000))
    await until(lambda: len(apiserver.posts) == 1)
    apiserver.break_subscriptions()
    await until(lambda: len(apiserver.posts) == 2)
    apiserver.gate.set()
    await until(lambda: "a" in apiserver.assigned)
    apiserver.end_pod("a")
    apiserver.add_pods(pod("b", cpu=4000))
    await until(lambda: "b" in apiserver.assigned)


async def test_it_stops_when_told_to_while_its_subscription_breaks(setting: Setting) -> None:
    await setting.start_apiserver()
    for turns in range(0, 40, 4):
        stop = await setting.start_scheduler()
        await until(lambda: setting.apiserver.subscribers)
        setting.apiserver.break_subscriptions()
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await stop()
        await until(lambda: not setting.apiserver.subscribers)


async def test_l4_an_apiserver_that_is_restarted_is_found_again(setting: Setting) -> None:
    stop = await setting.start_apiserver()
    await setting.start_scheduler()
    setting.apiserver.add_nodes(node("n1"))
    setting.apiserver.add_pods(pod("a"))
    await until(lambda: "a" in setting.apiserver.assigned)
    await stop()
    setting.apiserver.add_pods(pod("b"))
    await setting.start_apiserver()
    await until(lambda: "b" in setting.apiserver.assigned)


async def test_another_apiserver_of_the_list_takes_over(setting: Setting) -> None:
    other = free_port()
    stop = await setting.start_apiserver()
    await setting.start_apiserver(other)
    await setting.start_scheduler(apiserver=(f"127.0.0.1:{setting.port}", f"127.0.0.1:{other}"))
    await until(lambda: setting.apiserver.subscribers)
    await stop()
    setting.apiserver.add_nodes(node("n1"))
    setting.apiserver.add_pods(pod("a"))
    await until(lambda: "a" in setting.apiserver.assigned)


async def test_it_is_healthy_only_while_it_knows_the_cluster(setting: Setting) -> None:
    address = f"127.0.0.1:{free_port()}"
    await setting.start_scheduler(listen_address=address)
    async with channel(address, TlsFiles.in_folder(setting.certificates, "admin")) as opened:
        stub: Any = health_pb2_grpc.HealthStub(opened)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), wait_for_ready=True)

        async def said() -> int:
            message = await watch.read()
            assert isinstance(message, health_pb2.HealthCheckResponse)
            return message.status

        serving = health_pb2.HealthCheckResponse.SERVING
        not_serving = health_pb2.HealthCheckResponse.NOT_SERVING
        assert await said() == not_serving
        stop = await setting.start_apiserver()
        assert await said() == serving
        await stop()
        assert await said() == not_serving
        watch.cancel()


async def test_a1_without_a_certificate_of_the_cluster_nothing_is_answered(
    setting: Setting,
) -> None:
    address = f"127.0.0.1:{free_port()}"
    await setting.start_apiserver()
    await setting.start_scheduler(listen_address=address)
    await until(lambda: setting.apiserver.subscribers)
    async with grpc.aio.insecure_channel(address) as opened:
        stub: Any = health_pb2_grpc.HealthStub(opened)
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
    assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
