"""Kill -9 of the scheduler that decides, and of the apiserver that it is connected to."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from drumline.process.tls import TlsFiles

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import create, eventually, get, until_answered
from tests.support.store import EtcdServer, free_port, make_certificates

COMMANDS = Path(sys.executable).parent


@dataclass
class Cluster:
    """Two apiservers and two schedulers, as processes; scheduler `n` prefers apiserver `n`."""

    apis: list[Api]
    apiservers: list["subprocess.Popen[bytes]"]
    schedulers: list["subprocess.Popen[bytes]"]

    async def active(self) -> int:
        """Give which scheduler decides, once one does."""

        async def decides() -> bool:
            return bool((await self.apis[0].leader()).session_id)

        await until_answered(decides)
        return int((await self.apis[0].leader()).instance_id)

    async def places(self, api: Api, name: str) -> None:
        """Wait until a new pod is placed."""
        await eventually(lambda: create(api, pod(name, request_id=name)))

        async def placed() -> bool:
            return (await get(api, name)).HasField("assignment")

        await until_answered(placed)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_certificates(folder)
    return folder


@pytest.fixture
def etcd(tmp_path: Path, certs: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path, certs)
    server.start()
    server.wait()
    yield server
    server.stop()


def flags(tls: TlsFiles) -> list[str]:
    return [
        f"--tls-ca={tls.ca}",
        f"--tls-certificate={tls.certificate}",
        f"--tls-key={tls.key}",
    ]


@pytest.fixture
async def cluster(etcd: EtcdServer, certs: Path) -> AsyncIterator[Cluster]:
    own, placing = TlsFiles.in_folder(certs, "apiserver"), TlsFiles.in_folder(certs, "scheduler")
    async with contextlib.AsyncExitStack() as stack:

        def start(*command: str) -> "subprocess.Popen[bytes]":
            child = subprocess.Popen(
                [COMMANDS / command[0], *command[1:]], stderr=subprocess.DEVNULL
            )
            stack.callback(child.wait)
            stack.callback(child.kill)
            return child

        apis = await stack.enter_async_context(apiservers(etcd, certs, 2, started=False))
        servers = [
            start(
                "drumline-apiserver",
                f"--listen-address={api.settings.listen_address}",
                f"--etcd={etcd.address}",
                f"--etcd-ca={own.ca}",
                f"--etcd-certificate={own.certificate}",
                f"--etcd-key={own.key}",
                *flags(own),
            )
            for api in apis
        ]
        for api in apis:
            await api.ready()
        await apis[0].register_ready("sim-1")
        addresses = [api.settings.listen_address for api in apis]
        schedulers = [
            start(
                "drumline-scheduler",
                f"--listen-address=127.0.0.1:{free_port()}",
                f"--instance-id={number}",
                f"--apiserver={','.join(order)}",
                *flags(placing),
            )
            for number, order in enumerate((addresses, addresses[::-1]))
        ]
        yield Cluster(apis, servers, schedulers)


async def test_l4_the_scheduler_that_stands_by_takes_over(cluster: Cluster) -> None:
    first = await cluster.active()
    await cluster.places(cluster.apis[0], "before")
    cluster.schedulers[first].send_signal(signal.SIGKILL)
    await cluster.places(cluster.apis[0], "after")
    assert await cluster.active() == 1 - first


async def test_l4_a_scheduler_that_is_stopped_hands_over(cluster: Cluster) -> None:
    first = await cluster.active()
    cluster.schedulers[first].terminate()
    assert cluster.schedulers[first].wait() == 0
    await cluster.places(cluster.apis[0], "after")
    assert await cluster.active() == 1 - first


async def test_s5_a_scheduler_that_was_paused_decides_no_more(cluster: Cluster) -> None:
    """A stuck process answers pings, but does not renew its session."""
    first = await cluster.active()
    cluster.schedulers[first].send_signal(signal.SIGSTOP)
    await cluster.places(cluster.apis[0], "meanwhile")
    assert await cluster.active() == 1 - first
    cluster.schedulers[first].send_signal(signal.SIGCONT)
    await cluster.places(cluster.apis[0], "after")
    assert await cluster.active() == 1 - first


async def test_l4_a_session_outlives_its_apiserver(cluster: Cluster) -> None:
    first = await cluster.active()
    session = (await cluster.apis[0].leader()).session_id
    cluster.apiservers[first].send_signal(signal.SIGKILL)
    other = cluster.apis[1 - first]
    await cluster.places(other, "after")
    assert (await get(other, "after")).assignment.session_id == session
