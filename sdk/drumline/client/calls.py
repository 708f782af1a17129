"""What all parts of the client do alike: reads, and writes of many items."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import grpc
from drumline.api.v1.metadata_pb2 import LabelSelector
from drumline.client import policy
from drumline.client.connection import Connection, Request, Response, Stubs
from drumline.client.results import Result, batches
from drumline.model.errors import DrumlineError, InvalidArgumentError, Violation
from drumline.model.labels import parse_selector
from drumline.process import clock
from drumline.process.backoff import Backoff
from google.protobuf.message import Message

M = TypeVar("M", bound=Message | str)
O = TypeVar("O")  # noqa: E741 - an object of the API

# The contract's bound, and one well below that of a message.
_MOST_ITEMS = 5_000
_MOST_BYTES = 16 << 20

Send = Callable[[list[M], float], Awaitable[tuple[list[Result[O]], str]]]
"""Sends some items within so many seconds; gives their results and the version that shows them."""


class Calls:
    """Base of the client's parts."""

    _connection: Connection

    async def _read(
        self,
        method: "Callable[[Stubs], grpc.aio.UnaryUnaryMultiCallable[Request, Response]]",
        request: Callable[[str], Request],
        timeout: float | None = None,
    ) -> Response:
        """Read nothing older than what was written before; `request` is given that version."""
        connection = self._connection
        version = connection.written
        try:
            return await connection.unary(
                method, request(version), repeatable=True, timeout=timeout
            )
        except DrumlineError as error:
            if not version or error.reason != "EPOCH_CHANGED":
                raise
        connection.forget_written()
        return await connection.unary(method, request(""), repeatable=True, timeout=timeout)

    async def _bulk(
        self,
        items: Sequence[M],
        send: Send[M, O],
        *,
        repeatable: bool,
        timeout: float | None,
    ) -> list[Result[O]]:
        """Send items in as few requests as may be; give a result for each, in order.

        A failure before anything was answered is raised; a later one is the error
        of every item that has no answer yet.
        """
        deadline = clock.monotonic() + (self._connection.timeout if timeout is None else timeout)
        results: list[Result[O]] = []
        for part in batches(map(_size, items), _MOST_ITEMS, _MOST_BYTES):
            try:
                results += await self._batch(items[part], send, repeatable, deadline)
            except DrumlineError as error:
                if not results:
                    raise
                results += [Result(error=error)] * (len(items) - len(results))
                break
        return results

    async def _batch(
        self, items: Sequence[M], send: Send[M, O], repeatable: bool, deadline: float
    ) -> list[Result[O]]:
        """Send one request, and again those items whose error says so, while that is allowed."""
        backoff = Backoff(initial=0.05, maximum=2.0)
        results: dict[int, Result[O]] = {}
        pending = list(range(len(items)))
        while True:
            try:
                answers, version = await send(
                    [items[i] for i in pending], max(deadline - clock.monotonic(), 0.01)
                )
            except DrumlineError:
                if not results:
                    raise
                break
            self._connection.wrote(version)
            results.update(zip(pending, answers, strict=True))
            delay = backoff.next_delay()
            waits = {
                index: policy.wait_before_retry(answer.error, repeatable=repeatable, delay=delay)
                for index, answer in zip(pending, answers, strict=True)
                if answer.error is not None
            }
            again = {index: wait for index, wait in waits.items() if wait is not None}
            if not again or clock.monotonic() + max(again.values()) >= deadline:
                break
            await asyncio.sleep(max(again.values()))
            pending = list(again)
        return [results[index] for index in range(len(items))]


def _size(item: Message | str) -> int:
    return item.ByteSize() if isinstance(item, Message) else len(item)


def label_selector(labels: str | LabelSelector) -> LabelSelector:
    """Give the selector that the text means. Raises InvalidArgumentError."""
    if isinstance(labels, LabelSelector):
        return labels
    try:
        return parse_selector(labels)
    except ValueError as error:
        raise InvalidArgumentError.of([Violation("labels", str(error))]) from error
