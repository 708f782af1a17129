"""A fake apiserver with real connections for the client's tests."""

from collections.abc import AsyncIterator

import pytest
from drumline.client import Client
from drumline.process.tls import TlsFiles

from tests.support.fake_api import FakePods, certificates, serving


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[TlsFiles, TlsFiles]:
    """A server's certificates, and a user's."""
    return certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def pods() -> FakePods:
    """What the fake apiserver holds."""
    return FakePods()


@pytest.fixture
async def address(pods: FakePods, tls: tuple[TlsFiles, TlsFiles]) -> AsyncIterator[str]:
    """Where the fake apiserver is."""
    async with serving(pods, tls[0]) as found:
        yield found


@pytest.fixture
async def client(address: str, tls: tuple[TlsFiles, TlsFiles]) -> AsyncIterator[Client]:
    """A client of it."""
    async with Client([address], tls[1]) as made:
        yield made


@pytest.fixture
def closed_address() -> str:
    """An address where nothing listens."""
    return "127.0.0.1:1"
