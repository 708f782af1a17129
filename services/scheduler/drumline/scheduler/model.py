"""The cluster as the scheduler sees it: amounts and states of all nodes in arrays.

Arrays of amounts have the shape (columns, capacity), int64, in the units of
`drumline.model.resources.Amounts`: a column for cpu, memory and pods, then one
for each other resource that some node has. A node keeps its row while it is
there; rows are given out again.

What is free on a node is what pods may have, less what its newest known load
promises, less what is assumed: proposals that are not answered yet, or that are
committed in a load which has not come yet. So nothing is counted twice for long,
nothing is forgotten, and a refused proposal gives back exactly what it took.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from drumline.api.v1.node_pb2 import Node, NodeLoad
from drumline.api.v1.pod_pb2 import PodSpec
from drumline.model import fit, resources
from drumline.model.resources import Amounts
from drumline.scheduler.rules import CauseTable, NodeKinds
from drumline.scheduler.shapes import Shape
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

_BASE = {"cpu": 0, "memory": 1, "pods": 2}
_FIRST_CAPACITY = 64
# Judgements by static shape that are kept; the one used longest ago goes first.
_KEPT_JUDGEMENTS = 512


@dataclass(slots=True, eq=False)
class NodeRow:
    """A node and its place in the arrays."""

    name: str
    uid: str
    index: int
    there: bool = True
    generation: int = 0
    """Of the newest load that has come; 0 before the first."""
    schedulable: bool = False
    allocatable: Amounts = resources.ZERO
    promised: Amounts = resources.ZERO
    held: bool = False
    """The node refused what fitted: it gets nothing until a newer load comes."""
    committed: "list[Assumption]" = field(default_factory=list)
    """Assumptions that a load to come will contain."""


@dataclass(slots=True, eq=False)
class Assumption:
    """A pod that is taken to be on a node."""

    node: NodeRow
    shape: Shape
    generation: int
    """Of the node's load, when it was made."""
    contained_from: int = 0
    """Generation of the first load that contains it, once committed."""


class ClusterModel:
    """Nodes, their loads, and what is assumed on them.

    Changes are taken in at once and counted at the next `refresh`, all together;
    the methods that answer questions call it.
    """

    def __init__(self) -> None:
        self.size = 0
        """Rows in use lie below this."""
        self.version = 0
        """Grows with every change that a verdict may tell."""
        self.free: Ints = np.zeros((len(_BASE), _FIRST_CAPACITY), np.int64)
        self.per_unit: NDArray[np.float64] = np.zeros(self.free.shape)
        """Share of a node that one unit is; 0 where the node has none."""
        self.use: NDArray[np.float64] = np.zeros(_FIRST_CAPACITY)
        """Sum of the used shares of cpu, memory and pods, 0 to 3."""
        self.there: Mask = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.held: Mask = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.readiness = CauseTable(_FIRST_CAPACITY)
        self._open: Mask = np.zeros(_FIRST_CAPACITY, np.bool_)
        self.allocatable: Ints = np.zeros_like(self.free)
        """What pods may have, in the shape and units of `free`."""
        self._promised: Ints = np.zeros_like(self.free)
        self._assumed: Ints = np.zeros_like(self.free)
        self._named: dict[str, int] = {}
        self._rows: dict[str, NodeRow] = {}
        self._by_index: list[NodeRow] = []
        self._nodes: list[Node] = []
        self._unused: list[int] = []
        self._kinds = NodeKinds(_FIRST_CAPACITY)
        self._judgements: OrderedDict[Hashable, tuple[PodSpec, CauseTable]] = OrderedDict()
        self._stale: set[int] = set()
        self._improved: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, name: str) -> NodeRow | None:
        """Give what is known of a node; None when it is not there."""
        return self._rows.get(name)

    def name(self, index: int) -> str:
        """Give the name of the node in a row that is in use."""
        return self._by_index[index].name

    # What is told of nodes.

    def set_node(self, node: Node) -> None:
        """Take in a node that is new or has changed."""
        name, uid = node.metadata.name, node.metadata.uid
        row = self._rows.get(name)
        if row is not None and row.uid != uid:
            self.remove_node(name)
            row = None
        if row is None:
            row = self._add(name, uid)
        self._nodes[row.index] = node
        self._kinds.set(row.index, node)
        for spec, table in self._judgements.values():
            table.set(row.index, fit.static_causes(spec, node))
        if node.HasField("load"):
            self._take_load(row, node.load)
        self._judge_readiness(row)
        self._improved.add(row.index)
        self.version += 1

    def set_load(self, name: str, load: NodeLoad) -> None:
        """Take in the load of a node, unless it is older than what is known."""
        row = self._rows.get(name)
        if row is None:
            return
        was_schedulable = row.schedulable
        self._take_load(row, load)
        if row.schedulable != was_schedulable:
            self._judge_readiness(row)
            self._improved.add(row.index)

    def remove_node(self, name: str) -> None:
        """Forget a node, and whatever was assumed on it."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        row.there = False
        for array in (self.allocatable, self._promised, self._assumed, self.free, self.per_unit):
            array[:, row.index] = 0
        for flags in (self.there, self.held, self._open):
            flags[row.index] = False
        self.use[row.index] = 0
        self._stale.discard(row.index)
        self._improved.discard(row.index)
        self._unused.append(row.index)
        self.version += 1

    def _add(self, name: str, uid: str) -> NodeRow:
        if self._unused:
            row = NodeRow(name, uid, self._unused.pop())
            self._by_index[row.index] = row
        else:
            if self.size == len(self.there):
                self._grow(2 * self.size)
            row = NodeRow(name, uid, self.size)
            self._by_index.append(row)
            self._nodes.append(Node())
            self.size += 1
        self._rows[name] = row
        self.there[row.index] = True
        return row

    def _take_load(self, row: NodeRow, load: NodeLoad) -> None:
        if load.generation <= row.generation:
            return
        allocatable = resources.from_proto(load.allocatable)
        promised = resources.from_proto(load.promised)
        index = row.index
        if allocatable != row.allocatable:
            self._add_columns(name for name, _ in allocatable.named)
            self._write(self.allocatable, index, allocatable)
            amounts = self.allocatable[:, index]
            self.per_unit[:, index] = np.where(amounts > 0, 1 / np.maximum(amounts, 1), 0)
        if promised != row.promised:
            self._add_columns(name for name, _ in promised.named)
            self._write(self._promised, index, promised)
        row.allocatable, row.promised = allocatable, promised
        row.schedulable, row.generation = load.schedulable, load.generation
        waiting, row.committed = row.committed, []
        for assumption in waiting:
            if assumption.contained_from <= row.generation:
                self._drop(assumption)
            else:
                row.committed.append(assumption)
        if row.held:
            self._set_held(row, False)
        self._stale.add(index)

    def _write(self, array: Ints, index: int, amounts: Amounts) -> None:
        cpu, memory, pods, named = amounts
        array[:, index] = 0
        array[0, index], array[1, index], array[2, index] = cpu, memory, pods
        for name, amount in named:
            array[self._named[name], index] = amount

    def _add_columns(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._named:
                self._named[name] = len(self.free)
                empty = np.zeros((1, len(self.there)), np.int64)
                self.free = np.vstack((self.free, empty))
                self.per_unit = np.vstack((self.per_unit, empty.astype(np.float64)))
                self.allocatable = np.vstack((self.allocatable, empty))
                self._promised = np.vstack((self._promised, empty))
                self._assumed = np.vstack((self._assumed, empty))

    def _grow(self, capacity: int) -> None:
        more = capacity - len(self.there)
        wide, flags = ((0, 0), (0, more)), (0, more)
        self.free = np.pad(self.free, wide)
        self.per_unit = np.pad(self.per_unit, wide)
        self.allocatable = np.pad(self.allocatable, wide)
        self._promised = np.pad(self._promised, wide)
        self._assumed = np.pad(self._assumed, wide)
        self.use = np.pad(self.use, flags)
        self.there = np.pad(self.there, flags)
        self.held = np.pad(self.held, flags)
        self._open = np.pad(self._open, flags)
        self.readiness.grow(capacity)
        self._kinds.grow(capacity)
        for _, table in self._judgements.values():
            table.grow(capacity)

    def _judge_readiness(self, row: NodeRow) -> None:
        causes = fit.readiness_causes(self._nodes[row.index])
        if not causes and not row.schedulable:
            causes = [fit.CLOSED]
        self.readiness.set(row.index, causes)
        self._judge_open(row)
        self.version += 1

    def _set_held(self, row: NodeRow, held: bool) -> None:
        row.held = held
        self.held[row.index] = held
        self._judge_open(row)
        if not held:
            self._improved.add(row.index)
        self.version += 1

    def _judge_open(self, row: NodeRow) -> None:
        self._open[row.index] = not row.held and self.readiness.codes[row.index] == 0

    # What is assumed.

    def assume(self, shape: Shape, rows: Sequence[int]) -> list[Assumption]:
        """Take one pod of `shape` to be on each of `rows`, all of which have room for it."""
        indices = np.array(rows, np.intp)
        for column, amount in self.asked(shape) or ():
            np.add.at(self._assumed[column], indices, amount)
        self._stale.update(rows)
        nodes = [self._by_index[row] for row in rows]
        return [Assumption(node, shape, node.generation) for node in nodes]

    def confirm(self, assumption: Assumption, load_generation: int) -> None:
        """The pod was assigned; the node's loads contain it from `load_generation` on."""
        node = assumption.node
        if not node.there:
            return
        if node.generation >= load_generation:
            self._drop(assumption)
        else:
            assumption.contained_from = load_generation
            node.committed.append(assumption)

    def cancel(self, assumption: Assumption, *, refused_by_node: bool = False) -> None:
        """The pod was not assigned.

        When the node is the reason, and nothing newer is known of it than what
        the proposal was made on, the node is held back until its next load.
        """
        node = assumption.node
        if not node.there:
            return
        self._drop(assumption)
        if refused_by_node and node.generation == assumption.generation and not node.held:
            self._set_held(node, True)

    def lift_holds(self) -> None:
        """Give nodes that are held back another chance, in case no newer load comes."""
        for index in np.flatnonzero(self.held).tolist():
            self._set_held(self._by_index[index], False)

    def _drop(self, assumption: Assumption) -> None:
        index = assumption.node.index
        for column, amount in self.asked(assumption.shape) or ():
            self._assumed[column, index] -= amount
        self._stale.add(index)

    # Questions.

    def refresh(self) -> None:
        """Count what is free where something has changed."""
        if not self._stale:
            return
        rows = np.fromiter(self._stale, np.intp, len(self._stale))
        self._stale.clear()
        allocatable = self.allocatable[:, rows]
        free = allocatable - self._promised[:, rows] - self._assumed[:, rows]
        more = (free > self.free[:, rows]).any(axis=0)
        self._improved.update(rows[more].tolist())
        self.free[:, rows] = free
        base = slice(len(_BASE))
        self.use[rows] = ((allocatable[base] - free[base]) * self.per_unit[base, rows]).sum(axis=0)
        self.version += 1

    def asked(self, shape: Shape) -> list[tuple[int, int]] | None:
        """Give (column, amount) of what the shape asks for; None when no node has any of some."""
        asked = []
        for resource, amount in shape.asks:
            column = self.column(resource)
            if column is None:
                return None
            asked.append((column, amount))
        return asked

    def column(self, resource: str) -> int | None:
        """Give the column of a resource; None when no node has any of it."""
        base = _BASE.get(resource)
        return self._named.get(resource) if base is None else base

    def static(self, shape: Shape) -> CauseTable:
        """Give what keeps the shape off each row, whatever is free there."""
        found = self._judgements.get(shape.static_key)
        if found is None:
            rows = np.flatnonzero(self.there)
            found = (shape.spec, self._kinds.judge(shape.spec, self._nodes, rows))
            self._judgements[shape.static_key] = found
            if len(self._judgements) > _KEPT_JUDGEMENTS:
                self._judgements.popitem(last=False)
        else:
            self._judgements.move_to_end(shape.static_key)
        return found[1]

    def fits(self, shape: Shape, rows: Rows | None = None) -> Mask:
        """Say of each row (below `size`, or of `rows`) whether a pod of the shape fits there.

        A node that is held back fits nothing.
        """
        self.refresh()
        where = slice(self.size) if rows is None else rows
        asked = self.asked(shape)
        if asked is None:
            return np.zeros(len(self._open[where]), np.bool_)
        fits: Mask = self._open[where] & (self.static(shape).codes[where] == 0)
        for column, amount in asked:
            fits &= self.free[column][where] >= amount
        return fits

    def take_improved(self) -> Rows:
        """Give the rows that may take more than before; each is given once."""
        self.refresh()
        rows = np.array(sorted(self._improved), np.intp)
        self._improved.clear()
        return rows

    def helped(self, shapes: Iterable[Shape], rows: Rows) -> list[Shape]:
        """Give those of `shapes` that fit on one of `rows`."""
        if not len(rows):
            return []
        self.refresh()
        most = self.free[:, rows].max(axis=1).tolist()
        found = []
        for shape in shapes:
            asked = self.asked(shape)
            if asked is None or any(most[column] < amount for column, amount in asked):
                continue
            if self.fits(shape, rows).any():
                found.append(shape)
        return found
