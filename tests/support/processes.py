"""A real apiserver process, to be killed."""

import asyncio
import subprocess
import sys
from pathlib import Path

from drumline.process.tls import TlsFiles

from tests.support.apiservers import Api


class ApiserverProcess:
    """`drumline-apiserver` with the settings of an `Api`, whose stubs speak to it."""

    def __init__(self, api: Api, log: Path) -> None:
        self.api = api
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        self._launch()
        async with asyncio.timeout(30):
            await self.api.ready()

    def _launch(self) -> None:
        settings = self.api.settings
        own = TlsFiles.in_folder(self.api.certs, "apiserver")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("drumline-apiserver")),
                    f"--listen-address={settings.listen_address}",
                    f"--etcd={','.join(settings.etcd)}",
                    *(f"--{kind}-ca={own.ca}" for kind in ("etcd", "tls")),
                    *(f"--{kind}-certificate={own.certificate}" for kind in ("etcd", "tls")),
                    *(f"--{kind}-key={own.key}" for kind in ("etcd", "tls")),
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def terminate(self) -> int:
        """End it with SIGTERM; give its exit status."""
        assert self._process is not None
        process, self._process = self._process, None
        process.terminate()
        return process.wait(timeout=15)
