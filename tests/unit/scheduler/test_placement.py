"""Which nodes pods of one shape get."""

from collections import Counter

import pytest
from drumline.scheduler.model import ClusterModel
from drumline.scheduler.placement import Scoring, place
from drumline.scheduler.shapes import Shape
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.scheduler.builders import GIB, amounts, load, node, pod

SMALL = Shape.of(pod("p", cpu=500, memory=GIB).spec)


def cluster(*used_cpu: int, cpu: int = 4000) -> ClusterModel:
    model = ClusterModel()
    for number, used in enumerate(used_cpu):
        model.set_node(node(f"n{number}", load(cpu=cpu, promised=amounts(used))))
    return model


def test_identical_pods_spread_evenly_over_equal_nodes() -> None:
    rows = place(cluster(*[0] * 10), SMALL, 35, "spread", 0)
    assert sorted(Counter(rows).values()) == [3] * 5 + [4] * 5


def test_spread_fills_the_least_used_nodes_first() -> None:
    rows = place(cluster(3000, 1000, 2000), SMALL, 3, "spread", 0)
    assert Counter(rows) == {1: 2, 2: 1}


def test_spread_goes_by_share_and_not_by_amount() -> None:
    model = ClusterModel()
    model.set_node(node("small", load(cpu=4000)))
    model.set_node(node("large", load(cpu=16_000)))
    assert Counter(place(model, Shape.of(pod("p", cpu=1000).spec), 10, "spread", 0)) == {0: 2, 1: 8}


def test_pods_that_ask_for_nothing_spread_by_their_number() -> None:
    rows = place(cluster(0, 0, 0, 0), Shape.of(pod("p").spec), 12, "spread", 0)
    assert Counter(rows) == {0: 3, 1: 3, 2: 3, 3: 3}


def test_a_named_resource_counts_for_those_who_ask_for_it() -> None:
    model = ClusterModel()
    for name, promised in (("n0", 3000), ("n1", 1000)):
        its_load = load(named={"gpu": 4000}, promised=amounts(named={"gpu": promised}))
        model.set_node(node(name, its_load))
    asks = Shape.of(pod("p", named={"gpu": 1000}).spec)
    assert place(model, asks, 4, "spread", 0) == [1, 1, 0, 1]
    assert place(model, asks, 4, "pack", 0) == [0, 1, 1, 1]


def test_pack_fills_the_fullest_node_that_has_room() -> None:
    rows = place(cluster(1000, 4000, 3000, 2000), SMALL, 5, "pack", 0)
    assert rows == [2, 2, 3, 3, 3]


@pytest.mark.parametrize("scoring", ["spread", "pack"])
def test_what_does_not_fit_is_left_over(scoring: Scoring) -> None:
    rows = place(cluster(3000, 3500, 4000), SMALL, 1000, scoring, 0)
    assert Counter(rows) == {0: 2, 1: 1}
    assert place(cluster(4000), SMALL, 1, scoring, 0) == []
    assert place(ClusterModel(), SMALL, 1, scoring, 0) == []


@pytest.mark.parametrize("scoring", ["spread", "pack"])
@pytest.mark.parametrize(("start", "first"), [(0, 0), (3, 3), (4, 4), (5, 0), (2**32 + 2, 3)])
def test_equal_nodes_are_taken_in_turn_from_where_it_starts(
    scoring: Scoring, start: int, first: int
) -> None:
    assert place(cluster(*[0] * 5), SMALL, 1, scoring, start) == [first]


def test_a_part_of_equal_nodes_is_taken_in_turn() -> None:
    assert place(cluster(*[0] * 6), SMALL, 3, "spread", 4) == [4, 5, 0]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8), st.integers(0, 4)), min_size=1,
             max_size=8),
    st.integers(0, 3),
    st.integers(1, 30),
    st.sampled_from(["spread", "pack"]),
    st.integers(0, 9),
)  # fmt: skip
@example([(6, 8, 3), (4, 3, 1)], 0, 8, "spread", 0)
def test_many_at_once_go_where_they_would_go_one_by_one(
    nodes: list[tuple[int, int, int]], asks: int, count: int, scoring: Scoring, start: int
) -> None:
    def model() -> ClusterModel:
        made = ClusterModel()
        for number, (cpu, pods, used) in enumerate(nodes):
            its_load = load(cpu=1000 * cpu, pods=pods, promised=amounts(1000 * used))
            made.set_node(node(f"n{number}", its_load))
        return made

    shape = Shape.of(pod("p", cpu=1000 * asks).spec)
    one_by_one = model()
    expected: list[int] = []
    while len(expected) < count and (rows := place(one_by_one, shape, 1, scoring, start)):
        one_by_one.assume(shape, rows)
        expected += rows

    at_once = place(model(), shape, count, scoring, start)

    assert len(at_once) == len(expected)
    if scoring == "pack":
        assert at_once == expected
    else:
        # Equal shares that were added up in another order may differ in their
        # last digit, and then equal choices may swap: what each costs is the same.
        assert costs(model(), shape, at_once) == pytest.approx(
            costs(model(), shape, expected), abs=1e-9
        )


def costs(model: ClusterModel, shape: Shape, rows: list[int]) -> list[float]:
    """Give the use of its node that each choice leads to, in order."""
    found = []
    for row in rows:
        model.assume(shape, [row])
        model.refresh()
        found.append(float(model.use[row]))
    return found
