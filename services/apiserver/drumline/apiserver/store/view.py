"""What a transaction's step sees and changes: records as they were, changes on top.

A step is a plain function of a `View`: it reads records, decides, and either puts
records and gives a result, or raises a `DrumlineError` and changes nothing. The
committer compares everything that was read, so that a step, refusals included, is
decided on what the store held at the revision of its transaction.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from drumline.apiserver.store.kinds import Kind, Record
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)

Key = tuple[Kind, str]  # type: ignore[type-arg]

# Gives the newest record known, or None where there is none.
Lookup = Callable[[Key], Record | None]


class View:
    """The records as one step sees them.

    Messages that are read are shared: change a copy. What is put belongs to the
    view from then on.
    """

    def __init__(self, batch: "Batch") -> None:
        self._batch = batch
        self.read: set[Key] = set()
        self.written: dict[Key, Message | None] = {}

    def get(self, kind: Kind[M], name: str) -> M | None:
        """Read a record; None where there is none."""
        key = (kind, name)
        self.read.add(key)
        if key in self.written:
            return self.written[key]  # type: ignore[return-value]
        return self._batch.message(key)  # type: ignore[return-value]

    def version(self, name: str, *kinds: Kind[Any]) -> int:
        """Give the version of an object: the newest revision of its records, 0 without any.

        -1, which no version is, when a step of the same transaction changed it.
        """
        newest = 0
        for kind in kinds:
            self.get(kind, name)
            if self._batch.is_changed((kind, name)):
                return -1
            record = self._batch.base[kind, name]
            newest = max(newest, record.revision if record else 0)
        return newest

    def put(self, kind: Kind[M], name: str, message: M) -> None:
        """Write a record that was read before."""
        key = (kind, name)
        assert key in self.read, "what is written must be compared, so it is read first"
        self.written[key] = message

    def delete(self, kind: Kind[Any], name: str) -> None:
        """Remove a record, if it is there."""
        if self.get(kind, name) is not None:
            self.written[kind, name] = None


class Batch:
    """The records that the steps of one transaction have read and written so far."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        # What each key held when the batch was made: the revisions to compare.
        self.base: dict[Key, Record | None] = {}
        self.messages: dict[Key, Message | None] = {}
        # Which steps belong together: those of which one writes what the other
        # reads or writes.
        self._parents: list[int] = []
        self._writer: dict[Key, int] = {}
        self._readers: dict[Key, list[int]] = {}
        self._encoded: dict[Key, bytes | None] = {}
        # For each step, what it has read and written.
        self.touched: list[tuple[set[Key], dict[Key, Message | None]]] = []

    def message(self, key: Key) -> Message | None:
        """Give a record as the steps before have left it."""
        if key in self.messages:
            return self.messages[key]
        record = self._lookup(key)
        self.base[key] = record
        message = None if record is None else key[0].schema.FromString(record.value)
        self.messages[key] = message
        return message

    def is_changed(self, key: Key) -> bool:
        """Say whether a step before has written a record."""
        return key in self._writer

    def add(self, view: View) -> None:
        """Take over what a step has read and written."""
        step = len(self._parents)
        self._parents.append(step)
        self.touched.append((view.read, view.written))
        self.messages.update(view.written)
        for key in view.read:
            writer = self._writer.get(key)
            if writer is not None:
                self._join(step, writer)
            if key in view.written:
                for reader in self._readers.get(key, ()):
                    self._join(step, reader)
                self._readers[key] = []
                self._writer[key] = step
            else:
                self._readers.setdefault(key, []).append(step)

    def encoded(self, key: Key) -> bytes | None:
        """Give the value of a record as the steps have left it; encoded once."""
        if key not in self._encoded:
            message = self.messages[key]
            self._encoded[key] = None if message is None else message.SerializeToString()
        return self._encoded[key]

    def components(self) -> list[list[int]]:
        """Give the steps, by their place in the batch, grouped by what they share."""
        groups: dict[int, list[int]] = {}
        for step in range(len(self._parents)):
            groups.setdefault(self._root(step), []).append(step)
        return list(groups.values())

    def _root(self, step: int) -> int:
        parents = self._parents
        while parents[step] != step:
            parents[step] = parents[parents[step]]
            step = parents[step]
        return step

    def _join(self, first: int, second: int) -> None:
        self._parents[self._root(first)] = self._root(second)
