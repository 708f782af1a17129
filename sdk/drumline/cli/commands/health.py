"""`drumline health`: asks a process whether it serves; for health checks of containers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from drumline.cli import output
from drumline.cli.failures import UNREACHABLE, CommandError
from drumline.cli.options import Timeout, seconds

if TYPE_CHECKING:
    from drumline.process.tls import TlsFiles


def health(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT")],
    ca: Annotated[Path | None, typer.Option(help="The cluster's CA.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate to show.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    timeout: Timeout = "3s",
) -> None:
    """Ask a process of the cluster whether it serves.

    Ends with 0 when it does and with 5 when it does not. Without certificates those
    of the context are shown.
    """
    import asyncio

    from drumline.client import context
    from drumline.model.errors import DrumlineError
    from drumline.process.tls import TlsFiles

    limit = seconds(timeout)
    try:
        given = (ca, certificate, key)
        if ca and certificate and key:
            tls = TlsFiles(ca, certificate, key)
        elif any(given):
            raise CommandError("--ca, --certificate and --key go together")
        else:
            tls = context.load().tls
        said = asyncio.run(_ask(address, tls, limit))
    except DrumlineError as error:
        raise CommandError(error.message, code=UNREACHABLE) from error
    except OSError as error:
        raise CommandError(f"cannot read {error.filename}: {error.strerror}") from error
    if said != "SERVING":
        raise CommandError(f"{address} answers, and does not serve now", code=UNREACHABLE)
    output.out("serving\n")


async def _ask(address: str, tls: TlsFiles, timeout: float) -> str:
    import grpc
    from drumline.client.policy import connection_trouble
    from drumline.model.errors import UnavailableError
    from drumline.process.channels import channel
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
    from grpc_health.v1.health_pb2_grpc import HealthStub

    async with channel(address, tls) as opened:
        try:
            stub: Any = HealthStub(opened)
            answer = await stub.Check(HealthCheckRequest(), timeout=timeout)
        except grpc.aio.AioRpcError as error:
            why = connection_trouble(error.details() or "")
            raise UnavailableError(f"{address} does not answer: {why}") from error
    return str(HealthCheckResponse.ServingStatus.Name(answer.status))
