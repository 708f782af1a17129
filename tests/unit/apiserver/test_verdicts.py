"""What a scheduler may say of a pod is bounded in every field."""

from collections.abc import Callable

import pytest
from drumline.api.v1.pod_pb2 import Verdict
from drumline.apiserver.rpc.verdicts import check


def verdict(causes: int = 64) -> Verdict:
    """Make one at its bounds."""
    longest = "x" * 4096
    made = Verdict(reason=longest, message=longest, help=longest)
    made.nearest.node = longest
    for into in (made.causes, made.nearest.missing):
        for _ in range(causes):
            into.add(reason=longest, message=longest, example_node=longest, decided_by=longest)
    return made


def test_a_verdict_at_its_bounds_is_taken() -> None:
    assert not check(verdict(), "verdicts[0].verdict")


CASES: dict[str, Callable[[Verdict], object]] = {
    "reason": lambda v: setattr(v, "reason", "x" * 4097),
    "message": lambda v: setattr(v, "message", "x" * 4097),
    "help": lambda v: setattr(v, "help", "x" * 4097),
    "nearest.node": lambda v: setattr(v.nearest, "node", "x" * 4097),
    "causes": lambda v: v.causes.add(),
    "causes[3].reason": lambda v: setattr(v.causes[3], "reason", "x" * 4097),
    "causes[0].decided_by": lambda v: setattr(v.causes[0], "decided_by", "x" * 4097),
    "nearest.missing": lambda v: v.nearest.missing.add(),
    "nearest.missing[63].message": lambda v: setattr(v.nearest.missing[63], "message", "x" * 4097),
    "nearest.missing[1].example_node": lambda v: setattr(
        v.nearest.missing[1], "example_node", "x" * 4097
    ),
}


@pytest.mark.parametrize("field", CASES)
def test_what_is_beyond_its_bounds_is_refused_by_its_field(field: str) -> None:
    made = verdict()
    CASES[field](made)
    assert [violation.field for violation in check(made, "verdict")] == [f"verdict.{field}"]


def test_a_verdict_without_a_reason_is_refused() -> None:
    assert [violation.field for violation in check(Verdict(), "verdict")] == ["verdict.reason"]


def test_a_hostile_verdict_is_answered_in_proportion() -> None:
    made = Verdict(reason="x")
    for _ in range(10_000):
        made.causes.add(reason="x" * 4097)
    assert len(check(made, "verdict")) == 65
