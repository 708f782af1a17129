"""The rules that do not depend on amounts, over many nodes: judged once for each kind of node.

`drumline.model.fit` judges one pod on one node. What it looks at is the same for
most nodes, so nodes are sorted into kinds and one of each kind is judged.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from drumline.api.v1.node_pb2 import Node
from drumline.api.v1.pod_pb2 import PodSpec
from drumline.model import fit, labels
from drumline.model.fit import Cause
from numpy.typing import NDArray

Causes = tuple[Cause, ...]


class CauseTable:
    """What keeps pods off each row, as a small number; 0 says that nothing does."""

    def __init__(self, capacity: int) -> None:
        self.codes: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.known: list[Causes] = [()]
        """The causes that a number stands for."""
        self._code_of: dict[Causes, int] = {(): 0}

    def set(self, row: int, causes: Iterable[Cause]) -> None:
        """Say what keeps pods off a row."""
        self.codes[row] = self.code(causes)

    def code(self, causes: Iterable[Cause]) -> int:
        """Give the number of these causes; each of them counts once."""
        unique = tuple(dict.fromkeys(causes))
        code = self._code_of.setdefault(unique, len(self.known))
        if code == len(self.known):
            self.known.append(unique)
        return code

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`."""
        more = capacity - len(self.codes)
        self.codes = np.concatenate((self.codes, np.zeros(more, np.int32)))


class NodeKinds:
    """What the static rules look at in each node."""

    def __init__(self, capacity: int) -> None:
        self._kinds: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._kind_of: dict[tuple[object, ...], int] = {}
        self._labels: list[dict[str, str]] = [{}] * capacity

    def set(self, row: int, node: Node) -> None:
        """Take in a node that is new or has changed."""
        taints = labels.effective_taints(node) if node.info.taints or node.spec.taints else ()
        kind = (node.info.runs_images, *((t.key, t.value, t.effect) for t in taints))
        self._kinds[row] = self._kind_of.setdefault(kind, len(self._kind_of))
        self._labels[row] = labels.effective_labels(node)

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`."""
        more = capacity - len(self._kinds)
        self._kinds = np.concatenate((self._kinds, np.zeros(more, np.int32)))
        self._labels += [{}] * more

    def judge(self, spec: PodSpec, nodes: Sequence[Node], rows: NDArray[np.intp]) -> CauseTable:
        """Judge `spec` on the nodes in `rows`; `nodes` holds one for each row."""
        table = CauseTable(len(self._kinds))
        if not len(rows):
            return table
        kinds = self._kinds[rows].astype(np.int64)
        for key, value in spec.node_selector.items():
            has = (self._labels[row].get(key) == value for row in rows.tolist())
            _, kinds = np.unique(kinds * 2 + np.fromiter(has, bool, len(rows)), return_inverse=True)
        _, first, kinds = np.unique(kinds, return_index=True, return_inverse=True)
        causes = (fit.static_causes(spec, nodes[row]) for row in rows[first].tolist())
        codes = np.fromiter(map(table.code, causes), np.int32, len(first))
        table.codes[rows] = codes[kinds]
        return table
