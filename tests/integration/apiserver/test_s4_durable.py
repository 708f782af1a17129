"""S4: what was acknowledged is there after the apiserver was killed."""

import asyncio
import contextlib
from pathlib import Path

import grpc
from drumline.api.v1 import pod_service_pb2 as pods_pb2

from tests.support.apiservers import apiservers, pod
from tests.support.calls import (
    RUNNING,
    following,
    get,
    place,
    reasons,
    report,
    said,
    until,
    watch_pods,
)
from tests.support.history import check_sums
from tests.support.processes import ApiserverProcess
from tests.support.store import EtcdServer


async def test_s4_acknowledged_writes_survive_kill_9(
    etcd: EtcdServer, certs: Path, tmp_path: Path
) -> None:
    async with apiservers(etcd, certs, started=False) as (api,):
        process = ApiserverProcess(api, tmp_path / "apiserver.log")
        await process.start()
        try:
            await api.register_ready("sim-1")
            running = await place(api, pod("running"), "sim-1")
            assert await report(api, said(running, "sim-1", RUNNING)) == [""]
            acknowledged: list[str] = []

            async def writer(number: int) -> None:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    for turn in range(1000):
                        name = f"p-{number}-{turn}"
                        answer = await api.pods.CreatePods(
                            pods_pb2.CreatePodsRequest(pods=[pod(name)])
                        )
                        if reasons(answer.results) == [""]:
                            acknowledged.append(name)

            async with following(watch_pods(api)) as watch:
                writers = [asyncio.create_task(writer(number)) for number in range(8)]
                await until(lambda: len(acknowledged) > 100)
                process.kill()
                await asyncio.gather(*writers)
                version = watch.version
                known = {name for name, _ in watch.told}

            await process.start()
            listed = await api.pods.ListPods(pods_pb2.ListPodsRequest(page_size=5000))
            there = {p.metadata.name for p in listed.pods}
            assert set(acknowledged) <= there
            kept = await get(api, "running")
            assert kept.assignment.node == "sim-1"
            assert kept.status.reason == "TOLD"

            # The watch goes on where it stood: what it had not heard of, each once.
            async with following(watch_pods(api, version)) as watch:
                missing = there - known
                await watch.until(lambda w: len(w.told) >= len(missing))
                told = [name for name, _ in watch.told]
                assert sorted(told) == sorted(missing)
            assert process.terminate() == 0
        finally:
            process.kill()
    await check_sums(etcd, certs)
