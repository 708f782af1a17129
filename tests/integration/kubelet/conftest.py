"""Kubelets beside a cluster that is a fake, over mutual TLS on this host."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from drumline.process import clock
from drumline.process.pki import CertificateRequest, ensure_certificates
from drumline.process.tls import TlsFiles

from tests.integration.kubelet.fake_cluster import FakeCluster, serve
from tests.integration.kubelet.helpers import processes_of, until

Certificates = Callable[[str], TlsFiles]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    identities = {
        "apiserver": "system:apiserver",
        "admin": "admin",
        "n1": "system:node:n1",
        "simulator": "system:simulator",
    }
    requests = [CertificateRequest(name, identity) for name, identity in identities.items()]
    ensure_certificates(folder, requests, clock.wall())
    return lambda name: TlsFiles.in_folder(folder, name)


@pytest.fixture
async def cluster(certificates: Certificates) -> AsyncIterator["Cluster"]:
    fake = FakeCluster()
    async with serve(fake, certificates) as address:
        yield Cluster(fake, address)


@dataclasses.dataclass
class Cluster:
    """The fake and where it is served."""

    fake: FakeCluster
    address: str


class Kubelet:
    """The kubelet of n1 (or a simulator), as a process that can be killed and started again."""

    def __init__(self, cluster: Cluster, tls: TlsFiles, state_dir: Path, *flags: str) -> None:
        self.cluster = cluster
        self.state_dir = state_dir
        self.flags = [
            *("--node-name", "n1", "--apiserver", cluster.address),
            *("--nodecontroller", cluster.address, "--state-dir", str(state_dir)),
            *("--tls-ca", str(tls.ca), "--tls-certificate", str(tls.certificate)),
            *("--tls-key", str(tls.key), "--log-level", "warning", *flags),
        ]
        self.process: Process | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "drumline.kubelet.main", *self.flags
        )

    async def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)
        return await self.process.wait()


@pytest.fixture
async def kubelet(
    cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[Kubelet]:
    made = Kubelet(cluster, certificates("n1"), tmp_path / "state", "--cpu", "4")
    await made.start()
    try:
        yield made
        for pod in list(cluster.fake.pods.values()):
            cluster.fake.delete(pod, 0)
        await until(lambda: not cluster.fake.pods)
    finally:
        assert made.process is not None
        if made.process.returncode is None:
            await made.stop()
        for pod in cluster.fake.pods.values():
            for pid in processes_of(pod):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
async def simulator(
    cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> AsyncIterator[Kubelet]:
    flags = ("--runtime", "simulated", "--simulated-nodes", "100")
    made = Kubelet(cluster, certificates("simulator"), tmp_path / "state", *flags)
    await made.start()
    try:
        yield made
    finally:
        assert made.process is not None
        if made.process.returncode is None:
            await made.stop()
