"""Which pods are changed when, and whether a watch has shown it all. Pure.

Changes come in ticks: one call that changes some pods at once. A pod's annotation holds
the tick of its last change, so that a watch shows how far it is.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

ANNOTATION = "change"

CREATE, UPDATE, DELETE = "create", "update", "delete"
# Of ten ticks one creates pods and one deletes as many.
_KINDS = (CREATE, *[UPDATE] * 4, DELETE, *[UPDATE] * 4)


@dataclass(slots=True)
class Tick:
    """One call, and when it was meant to be sent, was sent and was answered, in seconds."""

    number: int
    kind: str
    names: Sequence[str]
    due: float = 0.0
    sent: float = 0.0
    answered: float = 0.0


def groups(pods: int, a_call: int) -> list[list[str]]:
    """Give the names of the pods that are there at first, as they are changed together."""
    names = [f"pod-{number}" for number in range(pods)]
    return [names[first : first + a_call] for first in range(0, pods, a_call)]


def ticks(first: Sequence[Sequence[str]], count: int, a_call: int) -> Iterator[Tick]:
    """Give ticks: those longest unchanged are changed, or deleted, next."""
    there = deque(first)
    for number in range(1, count + 1):
        kind = _KINDS[number % len(_KINDS)]
        if kind == CREATE:
            names: Sequence[str] = [f"more-{number}-{one}" for one in range(a_call)]
        else:
            names = there.popleft()
        if kind != DELETE:
            there.append(names)
        yield Tick(number, kind, names)


@dataclass(slots=True)
class Verdict:
    """What a watch has shown of the changes.

    `lags` are the seconds from when each change was due until the watch showed it or
    what came of it later; `lost` are changes of which it never showed either.
    """

    lags: list[float] = field(default_factory=list)
    lost: int = 0
    skipped: int = 0
    """States that were never shown, a later one of the same pod was: a watch may do so."""
    disordered: int = 0
    """States shown after a later one, or twice."""


def judge(
    made: Sequence[Tick],
    shown: Sequence[tuple[str, int, float]],
    removed: Sequence[tuple[str, float]],
) -> Verdict:
    """Compare what was done with what a watch has shown: pods' ticks and removals, with times."""
    verdict = Verdict()
    states: dict[str, list[tuple[int, float]]] = {}
    gone: dict[str, float] = {}
    for name, at in removed:
        verdict.disordered += name in gone
        gone[name] = at
    for name, number, at in shown:
        known = states.setdefault(name, [])
        if (known and known[-1][0] >= number) or at > gone.get(name, at):
            verdict.disordered += 1
        else:
            known.append((number, at))
    for tick in made:
        for name in tick.names:
            _compare(verdict, tick, states.get(name, []), gone, name)
    return verdict


def _compare(
    verdict: Verdict,
    tick: Tick,
    known: Sequence[tuple[int, float]],
    gone: Mapping[str, float],
    name: str,
) -> None:
    # The first state that is not older than the change.
    place = bisect_left(known, (tick.number, 0.0)) if tick.kind != DELETE else len(known)
    if place < len(known):
        number, at = known[place]
        verdict.skipped += number != tick.number
    elif name in gone:
        at = gone[name]
        verdict.skipped += tick.kind != DELETE
    else:
        verdict.lost += 1
        return
    verdict.lags.append(at - tick.due)
