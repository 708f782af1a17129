"""gRPC channels, alike in every process; they need nothing of what serves."""

from collections.abc import Iterable, Sequence
from typing import Any

import grpc
from drumline.process.tls import TlsFiles, channel_credentials

# A message is read up to this size on every side; contracts bound the number of
# items, and this bounds the rest.
MAX_MESSAGE_BYTES = 64 << 20

# Both ends ping an idle connection, so that a silent peer is noticed; servers
# allow clients of any language to ping this often (docs/clients.md).
KEEPALIVE_MILLISECONDS = 10_000

COMMON_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MILLISECONDS),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Since gRPC has a time of its own for pings, a minute, the one above alone
    # does not count: a stopped peer was not noticed for as long.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
_CHANNEL_OPTIONS: tuple[tuple[str, Any], ...] = (
    *COMMON_OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


def channel(
    address: str, tls: TlsFiles, options: Iterable[tuple[str, Any]] = ()
) -> grpc.aio.Channel:
    """Make a channel with mutual TLS to HOST:PORT. It connects when it is first used."""
    return grpc.aio.secure_channel(
        address,
        channel_credentials(tls),
        options=list({**dict(_CHANNEL_OPTIONS), **dict(options)}.items()),
    )


class Endpoints:
    """A peer that is a list of addresses: one channel at a time, the next one after a failure."""

    def __init__(
        self, addresses: Sequence[str], tls: TlsFiles, options: Iterable[tuple[str, Any]] = ()
    ) -> None:
        self._addresses = tuple(addresses)
        self._options = tuple(options)
        self._tls = tls
        self._turn = 0
        self._channel: grpc.aio.Channel | None = None

    @property
    def address(self) -> str:
        """The address in use."""
        return self._addresses[self._turn % len(self._addresses)]

    def channel(self) -> grpc.aio.Channel:
        """Give the channel in use, made when first asked for."""
        if self._channel is None:
            self._channel = channel(self.address, self._tls, self._options)
        return self._channel

    async def rotate(self, failed: grpc.aio.Channel | None = None) -> None:
        """Drop the channel; the next one goes to the next address.

        Nothing happens when `failed` is given and no longer in use: another call has
        found the failure before. Calls under way on the channel end with UNAVAILABLE
        or as cancelled.
        """
        if failed is not None and failed is not self._channel:
            return
        dropped, self._channel = self._channel, None
        self._turn += 1
        if dropped is not None:
            await dropped.close()

    async def close(self) -> None:
        """Close the channel."""
        dropped, self._channel = self._channel, None
        if dropped is not None:
            await dropped.close()
