"""Proposals of a request that are made together: groups, as parts of the request."""

from collections.abc import Sequence

from drumline.apiserver.domain.placement import GroupRefusedError, together
from drumline.apiserver.store.committer import Committed, Step
from drumline.model.errors import DrumlineError, InvalidArgumentError

# The places of a request that go together; one that goes by itself is a part of one.
Part = list[int]


def parts(names: Sequence[str]) -> list[Part]:
    """Divide a request by its items' groups; an item without one is a part by itself."""
    found: dict[str | int, Part] = {}
    for place, name in enumerate(names):
        found.setdefault(name or place, []).append(place)
    return list(found.values())


def step(
    part: Part, plans: Sequence[Step[int] | DrumlineError], most: int
) -> Step[list[int]] | DrumlineError:
    """Make the step of a part; gives for each of its places what that place's step gives."""
    if len(part) > most:
        return InvalidArgumentError(
            f"a group of {len(part)} is more than the store takes at once, {most}",
            reason="GROUP_TOO_LARGE",
        )
    steps: list[Step[int]] = []
    for place, index in enumerate(part):
        plan = plans[index]
        if isinstance(plan, DrumlineError):
            return GroupRefusedError(place, plan)
        steps.append(plan)
    return together(steps)


def tell(
    part: Part,
    outcome: Committed[list[int]] | DrumlineError,
    results: list[int | DrumlineError],
) -> None:
    """Write what became of a part to its places among the `results`."""
    if isinstance(outcome, GroupRefusedError):
        for place, index in enumerate(part):
            results[index] = outcome.cause if place == outcome.place else outcome
    elif isinstance(outcome, DrumlineError):
        for index in part:
            results[index] = outcome
    else:
        for index, value in zip(part, outcome.value, strict=True):
            results[index] = value
