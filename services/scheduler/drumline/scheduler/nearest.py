"""The node that comes closest to taking a pod, what is missing there, and what would help."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from drumline.model import fit
from drumline.model.fit import Cause
from drumline.scheduler.amounts import at_least, at_most, exactly
from drumline.scheduler.rules import CauseTable
from drumline.scheduler.shapes import Shape
from numpy.typing import NDArray

# A sentence names this many things at most.
_MAX_CLAUSES = 4

_READINESS: Final = {
    fit.NODE_NOT_READY: "it is ready",
    fit.NODE_CORDONED: "it is uncordoned",
}


@dataclass(frozen=True, slots=True)
class Closest:
    """The node that comes closest: its place among those that were looked at."""

    place: int
    missing: tuple[tuple[Cause, bool], ...]
    """All that keeps the pod off it, and whether that is for want of a larger node."""
    waits_for: tuple[str, ...]
    """What would have to come about for it to take the pod, of what comes and goes."""
    wants: tuple[str, ...]
    """How the pod would have to be for it ever to take it; empty when it could."""


@dataclass(frozen=True, slots=True)
class _Lack:
    """A resource of which some nodes have too little."""

    cause: Cause
    resource: str
    asked: int
    lacking: NDArray[np.bool_]
    free: NDArray[np.int64]
    whole: NDArray[np.int64]


class Search:
    """Finds the node with the fewest causes and, of these, the least share that is lacking.

    One that could take the pod ready, uncordoned and empty comes before one that never could.
    It is told of causes as they are counted, in vectors over the nodes.
    """

    def __init__(self, nodes: int) -> None:
        self._causes = np.zeros(nodes, np.int64)
        self._share = np.zeros(nodes)
        self._tables: list[tuple[CauseTable, NDArray[np.int32]]] = []
        self._lacks: list[_Lack] = []

    def count(self, table: CauseTable, codes: NDArray[np.int32]) -> None:
        """Count what a table says of each node."""
        self._causes += np.fromiter(map(len, table.known), np.int64)[codes]
        self._tables.append((table, codes))

    def lack(
        self,
        cause: Cause,
        resource: str,
        asked: int,
        lacking: NDArray[np.bool_],
        free: NDArray[np.int64],
        whole: NDArray[np.int64],
    ) -> None:
        """Count those that have too little free of a resource, out of their `whole`."""
        self._causes += lacking
        self._share += np.where(lacking, 1 - np.maximum(free, 0) / asked, 0)
        self._lacks.append(_Lack(cause, resource, asked, lacking, free, whole))

    def found(self, shape: Shape, able: NDArray[np.bool_]) -> Closest:
        """Give the node; `able` says of each whether it could take the pod when it is empty."""
        places = np.flatnonzero(able) if able.any() else np.arange(len(able))
        places = places[self._causes[places] == self._causes[places].min()]
        place = int(places[np.argmin(self._share[places])])
        missing: list[tuple[Cause, bool]] = []
        waits_for, wants = [], []
        for table, codes in self._tables:
            for cause in table.known[codes[place]]:
                missing.append((cause, False))
                if cause.reason in _READINESS:
                    waits_for.append(_READINESS[cause.reason])
                else:
                    wants.append(_want(cause, shape))
        for lack in self._lacks:
            if not lack.lacking[place]:
                continue
            whole, free = int(lack.whole[place]), int(lack.free[place])
            missing.append((lack.cause, whole < lack.asked))
            if whole < lack.asked:
                wants.append(_smaller(lack, whole))
            elif lack.resource == "pods":
                waits_for.append("one of its pods is gone")
            else:
                short = at_least(lack.resource, lack.asked - free)
                waits_for.append(f"{short} more {lack.resource} is free")
        return Closest(place, tuple(missing), tuple(waits_for), tuple(wants))


def help_of(closest: Closest, node: str) -> str:
    """Say in a sentence what would help, given the node that comes closest."""
    if closest.wants:
        return (
            "a change of the pod, or other nodes: none could take it as it is, even ready and"
            f" empty; {node}, which comes closest, could if {_joined(closest.wants, ', and if ')}"
        )
    if closest.waits_for:
        return f"{node} could take it as soon as {_joined(closest.waits_for, ', and ')}"
    return f"{node} will be asked again"


def _want(cause: Cause, shape: Shape) -> str:
    if cause.reason == fit.IMAGES_NOT_SUPPORTED:
        return "it named no image"
    if cause.reason == fit.UNTOLERATED_TAINT:
        return f"it tolerated the {cause.message}"
    for key, value in shape.spec.node_selector.items():
        if fit.selector_cause(key, value) == cause:
            return f"it did not select {key}={value}, or the node had that label"
    return f"this were otherwise: {cause.message}"


def _smaller(lack: _Lack, whole: int) -> str:
    if lack.resource == "pods":
        return "the node took more pods"
    if whole <= 0:
        return f"it asked for no {lack.resource}"
    most, asked = at_most(lack.resource, whole), exactly(lack.resource, lack.asked)
    return f"it asked for at most {most} {lack.resource}, not {asked}"


def _joined(clauses: tuple[str, ...], link: str) -> str:
    text = link.join(clauses[:_MAX_CLAUSES])
    more = len(clauses) - _MAX_CLAUSES
    return f"{text}, and {more} more" if more > 0 else text
