"""The client of a Drumline cluster."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from drumline.api.v1.cluster_service_pb2 import (
    Component,
    GetVersionRequest,
    GetVersionResponse,
    ListComponentsRequest,
)
from drumline.client import context
from drumline.client.connection import Connection
from drumline.client.namespaces import NamespaceCalls
from drumline.client.nodes import NodeCalls
from drumline.client.pods import PodCalls
from drumline.process.tls import TlsFiles

DEFAULT_TIMEOUT_SECONDS = 10.0


class Client(PodCalls, NodeCalls, NamespaceCalls):
    """Talks to a cluster, through any of its apiservers. Use it with ``async with``.

    **Errors.** Everything that goes wrong is raised as one of
    `drumline.model.errors`: the same type that the cluster raised, with its stable
    `reason`, its violations and its advice. Methods that take many items raise only
    when nothing of the request was answered; otherwise they give a `Result` for
    each item, in order, which holds the object or the error. Methods for one item
    raise its error.

    **Deadlines.** Every call has one, `timeout` seconds from its start, all its
    tries together; DeadlineExceededError when the last try was still under way, so
    that the outcome of a write is not known. Watches and logs have none; waits have
    their own.

    **What is tried again**, until the deadline, with growing random delays, and
    never sooner than the server advises:

    =========================  ======================================================
    connecting                 always: nothing has been sent. At every address, at
                               most for `connect_timeout` seconds
    reads                      when the apiserver is not available or breaks off, or a
                               limit is reached that comes with advice when to ask again
    creates                    the same: each object carries a request id, so that the
                               second create of one request answers with the object
    deletes of pods by uid     the same: a later pod of the name is not meant
    updates, other deletes     never once sent: another's change between the two would
                               be undone. UnavailableError then leaves the outcome open
    =========================  ======================================================

    Everything else is raised at once. After a failure the next address is used.

    **Read your writes.** Reads, and waits, are never older than what this client
    wrote before, through whichever apiserver they go.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        tls: TlsFiles,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        connect_timeout: float | None = None,
    ) -> None:
        """Take apiservers (HOST:PORT), the user's certificate, and times in seconds.

        `connect_timeout` is `timeout` when left out. Nothing is opened yet.
        """
        limit = timeout if connect_timeout is None else connect_timeout
        self._connection = Connection(addresses, tls, timeout, limit)

    @classmethod
    def from_context(
        cls,
        path: Path | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        connect_timeout: float | None = None,
    ) -> "Client":
        """Make a client for the cluster that a context file names (`drumline.client.context`)."""
        found = context.load(path)
        return cls(found.addresses, found.tls, timeout=timeout, connect_timeout=connect_timeout)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._connection.close()

    async def version(self, *, timeout: float | None = None) -> GetVersionResponse:
        """Ask the apiserver for its version, its limits, and who it takes the user for."""
        return await self._connection.unary(
            lambda stubs: stubs.cluster.GetVersion,
            GetVersionRequest(),
            repeatable=True,
            timeout=timeout,
        )

    async def components(self, *, timeout: float | None = None) -> list[Component]:
        """List the control plane's processes that the apiserver knows."""
        answer = await self._connection.unary(
            lambda stubs: stubs.cluster.ListComponents,
            ListComponentsRequest(),
            repeatable=True,
            timeout=timeout,
        )
        return list(answer.components)
