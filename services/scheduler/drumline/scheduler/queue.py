"""Pods that wait, in lines of equal shape; first come, first served.

A line is open, when its shape has not been tried on what is free now, or blocked,
when no node took it: then nothing of it is looked at, however long it is, until
something changes that could help.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from drumline.api.v1.pod_pb2 import Pod
from drumline.scheduler.shapes import Shape, ShapeKey
from drumline.scheduler.verdicts import Judgement


class State(Enum):
    """Where a pod is."""

    WAITING = "waiting"
    IN_FLIGHT = "in flight"
    SET_ASIDE = "set aside"
    GONE = "gone"


@dataclass(slots=True, eq=False)
class Entry:
    """A pod that wants a node."""

    uid: str
    namespace: str
    name: str
    created: int
    """Nanoseconds since 1970, by the apiserver's clock."""
    line: "Line"
    state: State = State.GONE
    ticket: int = -1
    """Its place in the line; one in the heap that differs is void."""
    told: Judgement | None = None
    """The verdict that the apiserver has of it, as far as is known."""


@dataclass(slots=True, eq=False)
class Line:
    """Pods of one shape that wait."""

    shape: Shape
    blocked: bool = False
    judgement: Judgement | None = None
    """Why it is blocked, as of the last look."""
    judged_version: int = -1
    """Of the model, at the last look."""
    members: int = 0
    """Pods of this shape, in whatever state."""
    waiting: int = 0
    heap: list[tuple[int, int, Entry]] = field(default_factory=list)

    def first(self) -> Entry | None:
        """Give the pod that has waited longest."""
        heap = self.heap
        while heap:
            _, ticket, entry = heap[0]
            if entry.ticket == ticket:
                return entry
            heapq.heappop(heap)
        return None

    def entries(self) -> Iterator[Entry]:
        """Give all that wait, in no order."""
        return (entry for _, ticket, entry in self.heap if entry.ticket == ticket)


class PodQueue:
    """All pods that the apiserver has told of and that are not known to be placed."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._lines: dict[ShapeKey, Line] = {}
        self._open: dict[ShapeKey, Line] = {}
        self._set_aside: list[Entry] = []
        self._tickets = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def has_open(self) -> bool:
        """Some pod waits to be tried."""
        return bool(self._open)

    def put(self, pod: Pod) -> Entry:
        """Take in a pod that is new or has changed; give its entry.

        One that is in flight stays so; its new shape counts when it comes back.
        """
        meta = pod.metadata
        shape = Shape.of(pod.spec)
        entry = self._entries.get(meta.uid)
        if entry is None:
            line = self._line(shape)
            created = meta.create_time.seconds * 10**9 + meta.create_time.nanos
            entry = Entry(meta.uid, meta.namespace, meta.name, created, line)
            self._entries[meta.uid] = entry
            line.members += 1
            self._join(entry)
        elif entry.line.shape.key != shape.key:
            waits = entry.state in {State.WAITING, State.SET_ASIDE}
            self._leave(entry)
            self._resign(entry)
            entry.line = self._line(shape)
            entry.line.members += 1
            if waits:
                self._join(entry)
        return entry

    def remove(self, uid: str) -> None:
        """Forget a pod."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._leave(entry)
            entry.state = State.GONE
            self._resign(entry)

    def forget(self, entry: Entry) -> None:
        """Forget a pod, unless it has been told of anew since the entry was made."""
        if self._entries.get(entry.uid) is entry:
            self.remove(entry.uid)

    def entries(self) -> Iterable[Entry]:
        """Give all pods, wherever they are."""
        return self._entries.values()

    def oldest(self, limit: int) -> dict[Line, int]:
        """Say how many of each open line are among the `limit` that were created first."""
        lines = list(self._open.values())
        if sum(line.waiting for line in lines) <= limit:
            return {line: line.waiting for line in lines}
        if len(lines) == 1:
            return {lines[0]: limit}
        held = (held for line in lines for held in line.heap if held[2].ticket == held[1])
        return dict(Counter(entry.line for _, _, entry in heapq.nsmallest(limit, held)))

    def first_line(self) -> Line | None:
        """Give the open line whose first pod was created first."""
        firsts = [first for line in self._open.values() if (first := line.first()) is not None]
        if not firsts:
            return None
        return min(firsts, key=lambda entry: (entry.created, entry.ticket)).line

    def blocked_lines(self) -> list[Line]:
        """Give the lines of which no pod fits."""
        return [line for line in self._lines.values() if line.blocked and line.waiting]

    def take(self, line: Line, count: int) -> list[Entry]:
        """Put the first `count` of a line in flight; as many must wait in it."""
        taken = []
        for _ in range(count):
            entry = line.first()
            assert entry is not None
            self._leave(entry)
            entry.state = State.IN_FLIGHT
            taken.append(entry)
        return taken

    def put_back(self, entry: Entry) -> bool:
        """Let a pod that was in flight wait again, in its old place; false when it is gone."""
        if entry.state is not State.IN_FLIGHT:
            return False
        self._join(entry)
        return True

    def set_aside(self, entry: Entry) -> None:
        """Let a pod that was in flight rest until `open_all`."""
        if entry.state is State.IN_FLIGHT:
            entry.state = State.SET_ASIDE
            self._set_aside.append(entry)

    def block(self, line: Line) -> None:
        """No node takes the shape of this line."""
        line.blocked = True
        self._open.pop(line.shape.key, None)

    def open(self, shapes: Iterable[Shape]) -> None:
        """Something has changed that helps these shapes."""
        for shape in shapes:
            line = self._lines.get(shape.key)
            if line is not None and line.blocked:
                line.blocked = False
                if line.waiting:
                    self._open[shape.key] = line

    def open_all(self) -> None:
        """Try everything again."""
        rested, self._set_aside = self._set_aside, []
        for entry in rested:
            if entry.state is State.SET_ASIDE:
                self._join(entry)
        self.open([line.shape for line in self.blocked_lines()])

    def _line(self, shape: Shape) -> Line:
        line = self._lines.get(shape.key)
        if line is None:
            line = self._lines[shape.key] = Line(shape.to_keep())
        return line

    def _join(self, entry: Entry) -> None:
        line = entry.line
        entry.state = State.WAITING
        entry.ticket = next(self._tickets)
        heapq.heappush(line.heap, (entry.created, entry.ticket, entry))
        line.waiting += 1
        if not line.blocked:
            self._open[line.shape.key] = line

    def _leave(self, entry: Entry) -> None:
        if entry.state is not State.WAITING:
            return
        line = entry.line
        entry.ticket = -1
        line.waiting -= 1
        if not line.waiting:
            line.heap.clear()
            line.blocked, line.judgement = False, None
            self._open.pop(line.shape.key, None)
        elif len(line.heap) > 2 * line.waiting + 64:
            line.heap = [held for held in line.heap if held[2].ticket == held[1]]
            heapq.heapify(line.heap)

    def _resign(self, entry: Entry) -> None:
        line = entry.line
        line.members -= 1
        if not line.members:
            self._lines.pop(line.shape.key, None)
            self._open.pop(line.shape.key, None)
