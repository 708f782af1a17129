"""What bulk methods answer for each item."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from drumline.model.errors import DrumlineError, InternalError, from_status
from google.rpc.status_pb2 import Status

T = TypeVar("T")


@dataclass(frozen=True)
class Result(Generic[T]):
    """What became of one item: its value as it is now, or the error that it was refused with.

    Both are None for an object that is gone, as asked.
    """

    value: T | None = None
    error: DrumlineError | None = None

    def unwrap(self) -> T:
        """Give the value; raise the error instead when the item was refused."""
        if self.error is not None:
            raise self.error
        if self.value is None:
            raise InternalError("the apiserver answered without the object")
        return self.value

    def check(self) -> T | None:
        """Give the value, None when the object is gone; raise the error when it was refused."""
        if self.error is not None:
            raise self.error
        return self.value


class Answer(Protocol):
    """An item of a bulk answer, without its object."""

    @property
    def status(self) -> Status:
        """OK, or why the item was refused."""


def error_in(answer: Answer) -> DrumlineError | None:
    """Give the error in an item's status; None when it is OK."""
    return from_status(answer.status) if answer.status.code else None


def batches(sizes: Iterable[int], most_items: int, most_bytes: int) -> list[slice]:
    """Cut items of these sizes into runs that a single request may carry, in order."""
    found: list[slice] = []
    start = end = total = 0
    for size in sizes:
        if end > start and (end - start >= most_items or total + size > most_bytes):
            found.append(slice(start, end))
            start, total = end, 0
        end += 1
        total += size
    if end > start:
        found.append(slice(start, end))
    return found
