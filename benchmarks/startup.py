"""`drumline up --detach` on a fresh state folder: how long until a first request is answered."""

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from drumline.api.v1.cluster_service_pb2 import GetVersionRequest
from drumline.api.v1.cluster_service_pb2_grpc import ClusterServiceStub
from drumline.cli.up import certificates
from drumline.cli.up.state import StateFolder
from drumline.process.channels import channel
from drumline.process.tls import TlsFiles

from benchmarks.answers import until_answered, until_listening
from benchmarks.processes import environment

_SECONDS = 90.0
# How often it is tried; the figures are that much too long at most.
_PAUSE_SECONDS = 0.01


async def measure() -> dict[str, Any]:
    """Bring a cluster up and down again, and give the figures."""
    with tempfile.TemporaryDirectory(prefix="drumline-benchmark-") as name:
        folder = StateFolder(Path(name) / "state")
        began = time.perf_counter()
        async with asyncio.timeout(_SECONDS), _up(folder) as returned:
            await _first_answer(folder)
            answered = time.perf_counter()
            await returned
            ready = time.perf_counter()
    return {
        "answered_s": round(answered - began, 2),
        "nodes_ready_s": round(ready - began, 2),
    }


@contextlib.asynccontextmanager
async def _up(folder: StateFolder) -> AsyncIterator["asyncio.Task[None]"]:
    """Call `drumline up`; give what ends when it returns. The cluster is ended with the block."""
    returning = asyncio.create_task(_drumline(folder, "up", "--detach"), name="up")
    try:
        yield returning
    finally:
        returning.cancel()
        await asyncio.gather(returning, return_exceptions=True)
        await _drumline(folder, "down", "--delete")


async def _drumline(folder: StateFolder, *arguments: str) -> None:
    """Run the command. Raises RuntimeError with what it said when it fails."""
    command = [str(Path(sys.executable).with_name("drumline")), *arguments]
    started = await asyncio.create_subprocess_exec(
        *command,
        f"--state-dir={folder.path}",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment(DRUMLINE_CONTEXT=str(folder.path.parent / "context.toml")),
    )
    try:
        said, _ = await started.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            # It then ends the cluster that it was bringing up.
            started.terminate()
        await started.wait()
        raise
    if started.returncode:
        raise RuntimeError(f"drumline {arguments[0]} failed: {said.decode(errors='replace')}")


async def _first_answer(folder: StateFolder) -> None:
    """Wait until the apiserver answers a request."""
    plan = folder.path / "plan.json"
    tls = TlsFiles.in_folder(folder.tls, certificates.USER)
    while not (plan.exists() and tls.certificate.exists()):  # noqa: ASYNC110 - another process's
        await asyncio.sleep(_PAUSE_SECONDS)
    port = json.loads(plan.read_text())["ports"]["apiserver"]
    await until_listening(port)
    async with channel(f"127.0.0.1:{port}", tls) as opened:
        stub = ClusterServiceStub(opened)
        await until_answered(lambda: stub.GetVersion(GetVersionRequest(), timeout=5.0))
