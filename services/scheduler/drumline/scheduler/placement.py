"""Where pods of one shape go.

Both ways of choosing look at the share of each node that would be used, summed
over cpu, memory, pods, and whatever else the shape asks for. `spread` gives each
pod to the node that has the least of it used with the pod on it, `pack` to the one
that has the most. One after another, as if each pod were judged on what the
earlier ones left, but in time that grows with the pods, not with pods times nodes.
"""

import heapq
from typing import Literal

import numpy as np
from drumline.scheduler.model import ClusterModel, Rows
from drumline.scheduler.shapes import Shape

Scoring = Literal["spread", "pack"]


def place(model: ClusterModel, shape: Shape, count: int, scoring: Scoring, start: int) -> list[int]:
    """Give a row for each of `count` pods of the shape; fewer rows when no more fit.

    Of equal nodes the first at or after row `start` comes first, going round.
    """
    candidates = model.fits(shape).nonzero()[0]
    if not len(candidates):
        return []
    asked = model.asked(shape) or []
    step = np.zeros(len(candidates))
    cost = model.use[candidates]
    for column, amount in asked:
        share = model.per_unit[column][candidates]
        step += amount * share
        if column > 2:
            cost += 1 - model.free[column][candidates] * share
    cost += step
    if scoring == "pack":
        cost = -cost
    start %= model.size
    chosen = _smallest(cost, min(count, len(candidates)), candidates, start)
    candidates, cost, step = candidates[chosen], cost[chosen], step[chosen]
    if count == 1:
        return [int(candidates[0])]
    room = np.min([model.free[column][candidates] // amount for column, amount in asked], axis=0)
    turn = (candidates - start) % model.size
    if scoring == "pack":
        order = np.lexsort((turn, cost))
        filled = np.repeat(candidates[order], np.minimum(room[order], count))
        return [int(row) for row in filled[:count]]
    heap = list(
        zip(
            cost.tolist(), turn.tolist(), candidates.tolist(), step.tolist(), room.tolist(),
            strict=True,
        )
    )  # fmt: skip
    heapq.heapify(heap)
    rows: list[int] = []
    while heap and len(rows) < count:
        used, order_of, row, more, left = heap[0]
        rows.append(row)
        if left > 1:
            heapq.heapreplace(heap, (used + more, order_of, row, more, left - 1))
        else:
            heapq.heappop(heap)
    return rows


def _smallest(cost: np.ndarray, count: int, candidates: Rows, start: int) -> Rows:
    """Give the positions of the `count` least costs; of equal ones the first from `start` on.

    No other node can be among the first `count` choices: each pod adds to its
    node's use, so a node's first choice comes before all its others.
    """
    if count == len(cost):
        return np.arange(count)
    bound = cost.min() if count == 1 else np.partition(cost, count - 1)[count - 1]
    below = (cost < bound).nonzero()[0]
    equal = (cost == bound).nonzero()[0]
    first = int(candidates[equal].searchsorted(start))
    return np.concatenate((below, equal[first:], equal[:first]))[:count]
