#!/opt/drumline/bin/python
"""Ask a process for its health over mutual TLS: ``healthcheck.py HOST:PORT FOLDER NAME``.

FOLDER has ca.crt, NAME.crt and NAME.key. Exit status 0 when the process serves.
"""

import asyncio
import sys
from pathlib import Path

import grpc
from drumline.process import channels
from drumline.process.tls import TlsFiles
from grpc_health.v1 import health_pb2

TIMEOUT_SECONDS = 2.0


async def ask(address: str, tls: TlsFiles) -> str:
    """Give the name of the status that the process answers with, or why there is no answer."""
    channel = channels.channel(address, tls)
    try:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        answer = await check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_SECONDS)
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    except grpc.aio.AioRpcError as error:
        return f"no answer: {error.details()}"
    finally:
        await channel.close()


def main() -> int:
    """Print what the process at the address says of itself."""
    address, folder, name = sys.argv[1:]
    try:
        answer = asyncio.run(ask(address, TlsFiles.in_folder(Path(folder), name)))
    except OSError as error:
        answer = f"not asked: {error}"
    print(f"{address}: {answer}")
    return 0 if answer == "SERVING" else 1


if __name__ == "__main__":
    sys.exit(main())
