"""A scheduler beside an apiserver that is a fake, over mutual TLS on this host."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from drumline.process.tls import TlsFiles
from drumline.scheduler import main
from drumline.scheduler.settings import Settings

from tests.integration.scheduler.fake_apiserver import FakeApiserver, serve
from tests.support.store import free_port, make_certificates

Stop = Callable[[], Awaitable[None]]


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the conditions are of many kinds
            await asyncio.sleep(0.005)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


@dataclasses.dataclass
class Setting:
    """Where everything is; nothing runs until it is started."""

    certificates: Path
    stack: contextlib.AsyncExitStack
    apiserver: FakeApiserver = dataclasses.field(default_factory=FakeApiserver)
    port: int = dataclasses.field(default_factory=free_port)

    def settings(self, **changes: Any) -> Settings:
        tls = TlsFiles.in_folder(self.certificates, "scheduler")
        settings = Settings(
            listen_address=f"127.0.0.1:{free_port()}",
            tls_ca=tls.ca,
            tls_certificate=tls.certificate,
            tls_key=tls.key,
            apiserver=(f"127.0.0.1:{self.port}",),
        )
        return dataclasses.replace(settings, **changes)

    async def start_apiserver(self, port: int | None = None) -> Stop:
        """Serve; call and await what is given to stop it."""
        serving = contextlib.AsyncExitStack()
        tls = TlsFiles.in_folder(self.certificates, "apiserver")
        await serving.enter_async_context(serve(self.apiserver, tls, port or self.port))
        self.stack.push_async_callback(serving.aclose)
        return serving.aclose

    async def start_scheduler(self, **changes: Any) -> Stop:
        """Run a scheduler; call and await what is given to stop it."""
        task = asyncio.create_task(main.run(self.settings(**changes)))

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

        self.stack.push_async_callback(stop)
        return stop


@pytest.fixture
async def setting(certificates: Path) -> AsyncIterator[Setting]:
    async with contextlib.AsyncExitStack() as stack:
        yield Setting(certificates, stack)


@pytest.fixture
async def running(setting: Setting) -> Setting:
    """Apiserver and scheduler run, and the scheduler is subscribed."""
    await setting.start_apiserver()
    await setting.start_scheduler()
    await until(lambda: setting.apiserver.subscribers)
    return setting
