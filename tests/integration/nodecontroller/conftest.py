"""A nodecontroller beside an apiserver that is a fake, over mutual TLS on this host."""

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from drumline.nodecontroller import main
from drumline.nodecontroller.settings import Settings
from drumline.process import clock
from drumline.process.pki import CertificateRequest, ensure_certificates
from drumline.process.tls import TlsFiles
from drumline.process.version import VERSION

from tests.integration.nodecontroller.fake_apiserver import FakeApiserver, serve

# Times are scaled down: nodes beat every tenth of a second.
GRACE = 1.0
BEAT_INTERVAL = 0.1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the conditions are of many kinds
            await asyncio.sleep(0.01)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TlsFiles]:
    folder = tmp_path_factory.mktemp("certificates")
    identities = {
        "apiserver": "system:apiserver",
        "nodecontroller": "system:nodecontroller",
        "simulator": "system:simulator",
        "admin": "admin",
        "n0": "system:node:n0",
        "n1": "system:node:n1",
        "n2": "system:node:n2",
    }
    requests = [CertificateRequest(name, identity) for name, identity in identities.items()]
    ensure_certificates(folder, requests, clock.wall())
    return lambda name: TlsFiles.in_folder(folder, name)


@dataclasses.dataclass
class Setting:
    """Where everything is."""

    apiserver: FakeApiserver
    apiserver_port: int
    settings: Settings
    certificates: Callable[[str], TlsFiles]
    stack: contextlib.AsyncExitStack

    @property
    def address(self) -> str:
        return self.settings.listen_address

    async def start_apiserver(self) -> contextlib.AsyncExitStack:
        """Serve; close what is given to stop."""
        running = contextlib.AsyncExitStack()
        await running.enter_async_context(
            serve(self.apiserver, self.certificates("apiserver"), self.apiserver_port)
        )
        self.stack.push_async_callback(running.aclose)
        return running

    async def start_controller(self, **changes: Any) -> Callable[[], Any]:
        """Run the controller; call and await what is given to stop it."""
        task = asyncio.create_task(main.run(dataclasses.replace(self.settings, **changes)))

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

        self.stack.push_async_callback(stop)
        return stop


@pytest.fixture
async def parts(certificates: Callable[[str], TlsFiles]) -> AsyncIterator[Setting]:
    """Nothing runs yet."""
    tls, port = certificates("nodecontroller"), free_port()
    settings = Settings(
        listen_address=f"127.0.0.1:{free_port()}",
        tls_ca=Path(tls.ca),
        tls_certificate=Path(tls.certificate),
        tls_key=Path(tls.key),
        apiserver=(f"127.0.0.1:{port}",),
        grace=GRACE,
        beat_interval=BEAT_INTERVAL,
    )
    async with contextlib.AsyncExitStack() as stack:
        yield Setting(FakeApiserver(VERSION), port, settings, certificates, stack)


@pytest.fixture
async def running(parts: Setting) -> Setting:
    """Apiserver and controller run, and the controller knows the nodes."""
    await parts.start_apiserver()
    await parts.start_controller()
    await until(lambda: parts.apiserver.watches)
    return parts
