"""An etcd a test, and certificates for everyone."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.apiservers import Api, apiservers
from tests.support.store import EtcdServer, make_certificates


@pytest.fixture(scope="session")
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


@pytest.fixture
async def api(etcd: EtcdServer, certs: Path) -> AsyncIterator[Api]:
    async with apiservers(etcd, certs) as (one,):
        yield one


@pytest.fixture
async def pair(etcd: EtcdServer, certs: Path) -> AsyncIterator[list[Api]]:
    async with apiservers(etcd, certs, 2) as both:
        yield both
