"""Figures of several runs are put together honestly."""

import json

import pytest

from benchmarks.report import combine, percentile, said, show


def test_one_run_is_given_as_it_is() -> None:
    assert combine([{"a": 1.5, "cpu_s": {"etcd": 2}}]) == {"a": 1.5, "cpu_s": {"etcd": 2}}


def test_of_several_runs_the_median_is_given_with_least_and_greatest() -> None:
    runs = [{"a": a, "cpu_s": {"etcd": 10 * a}} for a in (3, 1, 2)]
    assert combine(runs) == {
        "a": 2,
        "cpu_s": {"etcd": 20},
        "spread": {"a": [1, 3], "cpu_s": {"etcd": [10, 30]}},
        "repeats": 3,
    }


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.5, 1), (2, 0.5, 1), (100, 0.5, 50), (100, 0.99, 99), (1000, 0.99, 990), (10, 0.99, 10)],
)
def test_a_percentile_is_a_value_that_was_measured(count: int, share: float, expected: int) -> None:
    assert percentile(list(range(count, 0, -1)), share) == expected


def test_json_is_one_object_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show("placement", {"create_per_s": 1.0}, as_json=True)
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert json.loads(said) == {"benchmark": "placement", "create_per_s": 1.0}


def test_people_read_nested_figures_with_their_spread(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [{"10x100": {"ratio": ratio, "cpu_s": {"etcd": 1.0}}} for ratio in (1.0, 3.0)]
    show("scale", combine(runs), as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["10x100"] in lines
    assert ["ratio", "2.0", "(1.0", "to", "3.0)"] in lines


def test_of_what_failed_together_the_first_is_said() -> None:
    first = ValueError("no room")
    both = ExceptionGroup("both", [ExceptionGroup("inner", [first]), OSError("later")])
    assert said(both) == "ValueError: no room"
