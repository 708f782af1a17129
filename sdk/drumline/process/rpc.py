"""gRPC at the edge: servers, handlers and channels, alike in every process.

A service is an object with one method for each RPC of its contract, looked up by
name when the handlers are made, so that a missing one stops the start:

* unary: ``async def Name(self, request, call) -> response``
* server streaming: ``def Name(self, request, call) -> AsyncIterator[response]``
* both streaming: ``def Name(self, requests, call) -> AsyncIterator[response]``

A response is a message, or its bytes where a service passes on what it holds
encoded. A request that cannot be decoded is refused before the method hears of it.
Errors of `drumline.model.errors` reach the caller with their details;
any other exception is logged whole and reaches it as INTERNAL without details.
"""

import asyncio
import contextlib
import resource
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
from drumline.model.errors import (
    DrumlineError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    to_status,
)
from drumline.process import clock, logs
from drumline.process.channels import COMMON_OPTIONS, Endpoints, channel
from drumline.process.peer import Peer, peer_of
from drumline.process.tls import TlsFiles, server_credentials
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message

__all__ = ["Call", "Endpoints", "channel", "handlers", "raise_file_limit", "server"]

_log = logs.get(__name__)

# Servers allow clients of any language to ping this often (docs/clients.md).
_MIN_PING_MILLISECONDS = 5_000

# A stream whose reader takes nothing for this long is ended.
_WRITE_PATIENCE_SECONDS = 60.0

# A failed call's details travel in its trailer, and clients of any language take at
# least 8 KiB of that.
_MAX_DETAILS_BYTES = 4096
_MAX_MESSAGE_BYTES = 1000
_MAX_REASON_CHARACTERS = 100

_SERVER_OPTIONS: tuple[tuple[str, Any], ...] = (
    *COMMON_OPTIONS,
    ("grpc.http2.min_ping_interval_without_data_ms", _MIN_PING_MILLISECONDS),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", 10_000),
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 40_000),
)


@dataclass(frozen=True, slots=True)
class Call:
    """What a method may want to know of the call beside the request."""

    peer: Peer
    context: Any

    @property
    def address(self) -> str:
        """Where the caller is connected from, HOST:PORT."""
        peer = str(self.context.peer()).replace("%5B", "[").replace("%5D", "]")
        return peer.removeprefix("ipv4:").removeprefix("ipv6:")

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline; None without one."""
        remaining: float | None = self.context.time_remaining()
        return remaining


def raise_file_limit() -> None:
    """Let the process hold as many connections as the system allows it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def server(tls: TlsFiles, address: str) -> tuple[grpc.aio.Server, int]:
    """Make a server with mutual TLS on HOST:PORT; give it and its port (0 asks for a free one)."""
    made = grpc.aio.server(options=_SERVER_OPTIONS)
    try:
        port = made.add_secure_port(address, server_credentials(tls))
    except RuntimeError as error:
        raise OSError(
            f"cannot listen on {address}: is the address in use, or not this host's?"
        ) from error
    return made, port


def handlers(
    descriptor: ServiceDescriptor, service: object, guard: Callable[[], None] = lambda: None
) -> grpc.GenericRpcHandler:
    """Make the handlers of `service` for the contract `descriptor`.

    `guard` is called before every method, and raises to refuse.
    """
    made: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in descriptor.methods:
        implementation = getattr(service, method.name)
        # Requests arrive as bytes: what gRPC's own decoding raises reaches clients as
        # UNKNOWN, with a traceback in the log for each.
        arguments: dict[str, Any] = {
            "request_deserializer": None,
            "response_serializer": _serialize,
        }
        if method.server_streaming and method.client_streaming:
            made[method.name] = grpc.stream_stream_rpc_method_handler(
                _streaming(method, implementation, guard), **arguments
            )
        elif method.server_streaming:
            made[method.name] = grpc.unary_stream_rpc_method_handler(
                _streaming(method, implementation, guard), **arguments
            )
        else:
            made[method.name] = grpc.unary_unary_rpc_method_handler(
                _unary(method, implementation, guard), **arguments
            )
    return grpc.method_handlers_generic_handler(descriptor.full_name, made)


def _serialize(response: Message | bytes) -> bytes:
    return response if isinstance(response, bytes) else response.SerializeToString()


def _decoder(method: MethodDescriptor) -> Callable[[bytes], Message]:
    request_class = message_factory.GetMessageClass(method.input_type)

    def decode(data: bytes) -> Message:
        try:
            return request_class.FromString(data)
        except DecodeError as error:
            raise InvalidArgumentError(
                f"the request is no encoded {method.input_type.full_name}"
            ) from error

    return decode


class _Requests:
    """The requests of a stream, each decoded when it is asked for."""

    def __init__(self, encoded: AsyncIterator[bytes], decode: Callable[[bytes], Message]) -> None:
        self._encoded = encoded
        self._decode = decode

    def __aiter__(self) -> "_Requests":
        return self

    async def __anext__(self) -> Message:
        return self._decode(await anext(self._encoded))


def _unary(
    method: MethodDescriptor,
    implementation: Callable[[Any, Call], Awaitable[Any]],
    guard: Callable[[], None],
) -> Any:
    name = f"{method.containing_service.full_name}/{method.name}"
    decode = _decoder(method)

    async def handle(data: bytes, context: Any) -> Any:
        started = clock.monotonic()
        peer = None
        failure: DrumlineError
        # What the line about the call says unless it comes to an end by itself.
        outcome = "CANCELLED"
        try:
            peer = peer_of(context)
            guard()
            response = await implementation(decode(data), Call(peer, context))
            outcome = "OK"
            return response
        except DrumlineError as error:
            failure, outcome = error, error.reason
        except Exception as error:
            failure = _fault(name, error)
            outcome = failure.reason
        finally:
            _log_request(name, peer, outcome, started)
        return await _abort(context, failure)

    return handle


def _streaming(
    method: MethodDescriptor,
    implementation: Callable[[Any, Call], AsyncGenerator[Any, None]],
    guard: Callable[[], None],
) -> Any:
    name = f"{method.containing_service.full_name}/{method.name}"
    decode = _decoder(method)

    async def handle(encoded: Any, context: Any) -> None:
        started = clock.monotonic()
        peer = None
        failure: DrumlineError
        # What the line about the call says unless it comes to an end by itself.
        outcome = "CANCELLED"
        try:
            peer = peer_of(context)
            guard()
            request = _Requests(encoded, decode) if method.client_streaming else decode(encoded)
            async with contextlib.aclosing(implementation(request, Call(peer, context))) as made:
                async for response in made:
                    async with asyncio.timeout(_WRITE_PATIENCE_SECONDS):
                        await context.write(response)
            outcome = "OK"
            return
        except TimeoutError:
            failure = UnavailableError(
                f"nothing was read for {_WRITE_PATIENCE_SECONDS:.0f} seconds; call again",
                reason="SLOW_READER",
            )
            outcome = failure.reason
        except DrumlineError as error:
            failure, outcome = error, error.reason
        except (asyncio.CancelledError, grpc.aio.UsageError, asyncio.InvalidStateError):
            raise
        except Exception as error:
            failure = _fault(name, error)
            outcome = failure.reason
        finally:
            _log_request(name, peer, outcome, started)
        await _abort(context, failure)

    return handle


def _fault(name: str, error: Exception) -> DrumlineError:
    _log.error("request_fault", method=name, exc_info=error)
    return InternalError(f"{name} failed by a fault of the server; its log says more")


async def _abort(context: Any, failure: DrumlineError) -> None:
    details = to_status(failure).SerializeToString()
    if len(details) > _MAX_DETAILS_BYTES or not failure.message.isascii():
        # Beyond ASCII each byte of the sentence takes three in the trailer.
        failure.message = failure.message.encode()[:_MAX_MESSAGE_BYTES].decode(errors="ignore")
        details = to_status(failure).SerializeToString()
    while len(details) > _MAX_DETAILS_BYTES and failure.violations:
        failure.violations = failure.violations[: len(failure.violations) // 2]
        details = to_status(failure).SerializeToString()
    if len(details) > _MAX_DETAILS_BYTES:
        # Only what a peer has answered, and is passed on, can be so large.
        failure.metadata.clear()
        failure.reason = failure.reason[:_MAX_REASON_CHARACTERS]
        details = to_status(failure).SerializeToString()
    await context.abort(failure.code, failure.message, (("grpc-status-details-bin", details),))


def _log_request(name: str, peer: Peer | None, outcome: str, started: float) -> None:
    _log.info(
        "request",
        method=name,
        peer=peer.identity if peer else None,
        reason=outcome,
        milliseconds=round((clock.monotonic() - started) * 1000, 2),
    )
