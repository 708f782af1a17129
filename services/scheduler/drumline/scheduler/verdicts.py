"""Why pods of one shape are not placed: counted over all nodes, and told in a sentence."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from drumline.api.v1.pod_pb2 import Verdict, VerdictCause
from drumline.model import fit
from drumline.model.fit import Cause
from drumline.scheduler.amounts import at_most, exactly
from drumline.scheduler.model import ClusterModel
from drumline.scheduler.nearest import Search, help_of
from drumline.scheduler.rules import CauseTable
from drumline.scheduler.shapes import Shape

NO_NODE_FITS: Final = "NO_NODE_FITS"
NO_NODES: Final = "NO_NODES"

# A verdict stays small when every node has a cause of its own.
_MAX_CAUSES = 32
_MAX_TOLD = 8

# Of one node, of several.
_PHRASES = {
    fit.NODE_NOT_READY: ("{number} is not ready ({rest})", "{number} are not ready ({rest})"),
    fit.NODE_CORDONED: ("{number} is cordoned", "{number} are cordoned"),
    fit.IMAGES_NOT_SUPPORTED: (
        "{number} cannot run the image that it names",
        "{number} cannot run the image that it names",
    ),
    fit.NODE_SELECTOR_MISMATCH: (
        "{number} has not the label that it selects ({rest})",
        "{number} have not the label that it selects ({rest})",
    ),
    fit.UNTOLERATED_TAINT: (
        "{number} has a taint that it does not tolerate ({rest})",
        "{number} have a taint that it does not tolerate ({rest})",
    ),
    fit.INSUFFICIENT_PODS: (
        "{number} has no room for another pod",
        "{number} have no room for another pod",
    ),
}
_TOO_LITTLE = (
    "{number} has too little {resource} (asks {asks}, most free {most})",
    "{number} have too little {resource} (asks {asks}, most free {most})",
)
_HELD = (
    "{number} has just turned it down and will be asked again",
    "{number} have just turned it down and will be asked again",
)

USER: Final = "user"
ADMIN: Final = "admin"
NODECONTROLLER: Final = "nodecontroller"
PODS: Final = "pods"
NODES: Final = "nodes"

# Who can change it; amounts depend on whether the node is large enough.
_DECIDED_BY = {
    fit.NODE_NOT_READY: NODECONTROLLER,
    fit.NODE_CORDONED: ADMIN,
    fit.IMAGES_NOT_SUPPORTED: NODES,
    fit.NODE_SELECTOR_MISMATCH: USER,
    fit.UNTOLERATED_TAINT: USER,
}
_ORDER = {reason: place for place, reason in enumerate(fit.REASONS)}


@dataclass(frozen=True, slots=True)
class CountedCause:
    """A cause, how many nodes have it, and one of them."""

    cause: Cause
    nodes: int
    example: str
    decided_by: str


@dataclass(frozen=True, slots=True)
class Nearest:
    """The node that comes closest, and what keeps the pod off it."""

    node: str
    missing: tuple[CountedCause, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a verdict says, but for when; equal when the sentence is the same."""

    reason: str
    message: str
    nodes: int
    causes: tuple[CountedCause, ...] = field(compare=False)
    permanent: bool = False
    # With each change of a load another node may come closest: no news by itself.
    nearest: Nearest | None = field(default=None, compare=False)
    help: str = field(default="a node that registers, and is called ready", compare=False)

    def to_proto(self) -> Verdict:
        """Give the message, without its time."""
        verdict = Verdict(
            permanent=self.permanent,
            help=self.help,
            reason=self.reason,
            message=self.message,
            nodes=self.nodes,
            causes=map(_cause, self.causes),
        )
        if self.nearest is not None:
            verdict.nearest.node = self.nearest.node
            verdict.nearest.missing.extend(map(_cause, self.nearest.missing))
        return verdict


def _cause(counted: CountedCause) -> VerdictCause:
    return VerdictCause(
        reason=counted.cause.reason,
        message=counted.cause.message,
        nodes=counted.nodes,
        example_node=counted.example,
        decided_by=counted.decided_by,
    )


def judge(model: ClusterModel, shape: Shape) -> Judgement | None:
    """Say why no node takes a pod of the shape; None when some node does."""
    if not len(model):
        return Judgement(NO_NODES, "there are no nodes: none has registered yet", 0, ())
    if model.fits(shape).any():
        return None
    there = np.flatnonzero(model.there[: model.size])
    search = Search(len(there))
    able = model.static(shape).codes[there] == 0
    larger: set[Cause] = set()
    nodes: Counter[Cause] = Counter()
    examples: dict[Cause, int] = {}
    most_free: dict[Cause, int] = {}
    refused = model.held[there]
    for table in (model.readiness, model.static(shape)):
        codes = table.codes[there]
        refused = refused & (codes == 0)
        search.count(table, codes)
        _count(table, codes, nodes, examples)
    for resource, amount in shape.asks:
        column = model.column(resource)
        nothing = np.zeros(len(there), np.int64)
        free = model.free[column][there] if column is not None else nothing
        whole = model.allocatable[column][there] if column is not None else nothing
        able &= whole >= amount
        lacking = free < amount
        refused = refused & ~lacking
        number = int(np.count_nonzero(lacking))
        if number:
            cause = fit.resource_cause(resource, amount)
            nodes[cause] = number
            search.lack(cause, resource, amount, lacking, free, whole)
            if not (whole[lacking] >= amount).any():
                larger.add(cause)
            examples[cause] = int(np.argmax(lacking))
            most_free[cause] = max(0, int(free[lacking].max()))
    ordered = sorted(nodes, key=lambda cause: (-nodes[cause], _ORDER[cause.reason], cause.message))
    told = [_phrase(cause, nodes[cause], shape, most_free) for cause in ordered[:_MAX_TOLD]]
    if len(ordered) > _MAX_TOLD:
        told.append(f"and {len(ordered) - _MAX_TOLD} causes more")
    held = int(np.count_nonzero(refused))
    if held:
        told.append(_HELD[held > 1].format(number=held))
    total = len(model)

    def counted(cause: Cause, too_small: bool) -> CountedCause:
        decided_by = _DECIDED_BY.get(cause.reason, NODES if too_small else PODS)
        example = model.name(int(there[examples[cause]]))
        return CountedCause(cause, nodes[cause], example, decided_by)

    closest = search.found(shape, able)
    name = model.name(int(there[closest.place]))
    missing = tuple(counted(*known) for known in closest.missing[:_MAX_CAUSES])
    plural = "node" if total == 1 else "nodes"
    return Judgement(
        NO_NODE_FITS,
        f"0 of {total} {plural} can take it: {', '.join(told)}",
        total,
        tuple(counted(cause, cause in larger) for cause in ordered[:_MAX_CAUSES]),
        permanent=not able.any(),
        nearest=Nearest(name, missing),
        help=help_of(closest, name),
    )


def _count(
    table: CauseTable, codes: np.ndarray, nodes: Counter[Cause], examples: dict[Cause, int]
) -> None:
    found, first, counts = np.unique(codes, return_index=True, return_counts=True)
    for code, example, number in zip(found.tolist(), first.tolist(), counts.tolist(), strict=True):
        for cause in table.known[code]:
            nodes[cause] += number
            examples[cause] = min(example, examples.get(cause, example))


def _phrase(cause: Cause, number: int, shape: Shape, most_free: dict[Cause, int]) -> str:
    singular, plural = _PHRASES.get(cause.reason, _TOO_LITTLE)
    phrase = singular if number == 1 else plural
    if cause not in most_free:
        rest = cause.message.removeprefix("the node's label ").removeprefix("taint ")
        return phrase.format(number=number, rest=rest)
    for resource, amount in shape.asks:
        if fit.resource_cause(resource, amount) == cause:
            asks, most = exactly(resource, amount), at_most(resource, most_free[cause])
            return phrase.format(number=number, resource=resource, asks=asks, most=most)
    raise ValueError(f"{cause} is of no resource that the shape asks for")
