"""What is free on a node: nothing is counted twice for long, and nothing is forgotten."""

from drumline.scheduler.model import Assumption, ClusterModel
from drumline.scheduler.shapes import Shape
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.scheduler.builders import GIB, amounts, load, node, pod, taint

ONE_CPU = Shape.of(pod("p", cpu=1000, memory=GIB).spec)


def free(model: ClusterModel, name: str) -> tuple[int, int, int]:
    model.refresh()
    row = model.row(name)
    assert row is not None
    cpu, memory, pods = model.free[:3, row.index].tolist()
    return cpu, memory, pods


def assume(model: ClusterModel, name: str, shape: Shape = ONE_CPU) -> Assumption:
    row = model.row(name)
    assert row is not None
    [assumption] = model.assume(shape, [row.index])
    return assumption


def test_a_proposal_in_flight_is_counted() -> None:
    model = ClusterModel()
    model.set_node(node("n1"))
    assume(model, "n1")
    assert free(model, "n1") == (3000, 7 * GIB, 109)


def test_a_committed_pod_is_counted_once_whichever_comes_first() -> None:
    contains = load(2, promised=amounts(1000, GIB, 1))
    for answer_first in (True, False):
        model = ClusterModel()
        model.set_node(node("n1"))
        assumption = assume(model, "n1")
        if answer_first:
            model.confirm(assumption, 2)
            assert free(model, "n1") == (3000, 7 * GIB, 109)
            model.set_load("n1", contains)
        else:
            model.set_load("n1", contains)
            assert free(model, "n1") == (2000, 6 * GIB, 108), "not known yet to be the same"
            model.confirm(assumption, 2)
        assert free(model, "n1") == (3000, 7 * GIB, 109)


def test_a_load_from_before_the_commit_keeps_the_assumption() -> None:
    model = ClusterModel()
    model.set_node(node("n1"))
    model.confirm(assume(model, "n1"), 3)
    model.set_load("n1", load(2, promised=amounts(500, 0, 1)))
    assert free(model, "n1") == (2500, 7 * GIB, 108)
    model.set_load("n1", load(3, promised=amounts(1500, GIB, 2)))
    assert free(model, "n1") == (2500, 7 * GIB, 108)


def test_an_older_load_changes_nothing() -> None:
    model = ClusterModel()
    model.set_node(node("n1", load(5, promised=amounts(1000))))
    model.set_load("n1", load(4, promised=amounts(4000)))
    model.set_node(node("n1", load(3, promised=amounts(4000))))
    assert free(model, "n1")[0] == 3000


def test_report_2_a_thousand_failed_posts_leave_no_ghost() -> None:
    model = ClusterModel()
    model.set_node(node("n1"))
    fresh = free(model, "n1")
    for _ in range(1000):
        model.cancel(assume(model, "n1"))
    assert free(model, "n1") == fresh
    assert model.fits(ONE_CPU).tolist() == [True]


def test_a_node_that_refused_is_held_back_until_a_newer_load() -> None:
    model = ClusterModel()
    model.set_node(node("n1"))
    model.cancel(assume(model, "n1"), refused_by_node=True)
    assert model.fits(ONE_CPU).tolist() == [False]
    model.set_load("n1", load(1))
    assert model.fits(ONE_CPU).tolist() == [False], "not newer"
    model.take_improved()
    model.set_load("n1", load(2))
    assert model.fits(ONE_CPU).tolist() == [True]
    assert model.take_improved().tolist() == [0]


def test_a_node_is_not_held_back_when_the_newer_load_came_before_the_refusal() -> None:
    model = ClusterModel()
    model.set_node(node("n1"))
    assumption = assume(model, "n1")
    model.set_load("n1", load(2, promised=amounts(1000)))
    model.cancel(assumption, refused_by_node=True)
    assert model.fits(ONE_CPU).tolist() == [True]


def test_holds_can_be_lifted_without_a_load() -> None:
    model = ClusterModel()
    model.set_node(node("n1"))
    model.cancel(assume(model, "n1"), refused_by_node=True)
    model.lift_holds()
    assert model.fits(ONE_CPU).tolist() == [True]


def test_a_node_of_the_same_name_starts_anew() -> None:
    model = ClusterModel()
    model.set_node(node("n1", load(7, promised=amounts(3000))))
    old = assume(model, "n1")
    model.set_node(node("n1", load(1), uid="another"))
    assert free(model, "n1") == (4000, 8 * GIB, 110)
    model.confirm(old, 8)
    model.cancel(old, refused_by_node=True)
    assert free(model, "n1") == (4000, 8 * GIB, 110)
    assert model.fits(ONE_CPU).tolist() == [True]


def test_rows_of_removed_nodes_are_given_out_again_clean() -> None:
    model = ClusterModel()
    model.set_node(node("n1", load(named={"gpu": 1000}), taints=[taint("t")]))
    assume(model, "n1")
    model.remove_node("n1")
    assert len(model) == 0
    assert model.fits(ONE_CPU).tolist() == [False]
    model.set_node(node("n2"))
    assert model.size == 1
    assert free(model, "n2") == (4000, 8 * GIB, 110)
    assert model.fits(ONE_CPU).tolist() == [True]
    assert model.fits(Shape.of(pod("g", named={"gpu": 1000}).spec)).tolist() == [False]


def test_it_grows_with_the_cluster_and_keeps_what_it_knew() -> None:
    model = ClusterModel()
    shape = Shape.of(pod("g", cpu=1000, named={"gpu": 500}, selector={"zone": "a"}).spec)
    for number in range(300):
        zone = "ab"[number % 2]
        gpus = {"gpu": 1000} if number % 4 == 0 else None
        model.set_node(node(f"n{number}", load(named=gpus), labels={"zone": zone}))
        fits = model.fits(shape).tolist()
        assert fits == [row % 4 == 0 for row in range(number + 1)]


def test_only_what_can_help_counts_as_improved() -> None:
    model = ClusterModel()
    for name in ("n1", "n2", "n3", "n4"):
        model.set_node(node(name, load(promised=amounts(2000))))
    assert model.take_improved().tolist() == [0, 1, 2, 3]
    model.set_load("n1", load(2, promised=amounts(3000)))
    model.set_load("n2", load(2, promised=amounts(1000)))
    model.set_load("n3", load(2, promised=amounts(2000), schedulable=False))
    assert model.take_improved().tolist() == [1, 2]
    model.confirm(assume(model, "n4"), 2)
    model.set_load("n4", load(2, promised=amounts(3000, GIB, 1)))
    assert model.take_improved().tolist() == []


class Truth:
    """A node of 4 cpu as the apiserver knows it, and what of that has reached the model."""

    def __init__(self) -> None:
        self.model = ClusterModel()
        self.model.set_node(node("n1"))
        self.proposed: list[Assumption] = []
        self.answers: list[tuple[Assumption, int]] = []
        self.committed = 0
        self.generation = 1

    def propose(self, _: int) -> None:
        if self.model.fits(ONE_CPU)[0]:
            self.proposed.append(assume(self.model, "n1"))

    def commit(self, number: int) -> None:
        if self.proposed and self.committed < 4:
            self.committed += 1
            self.generation += 1
            self.answers.append((self.proposed.pop(number % len(self.proposed)), self.generation))

    def refuse(self, number: int) -> None:
        if self.proposed:
            self.answers.append((self.proposed.pop(number % len(self.proposed)), 0))

    def deliver_load(self, _: int = 0) -> None:
        pods = self.committed
        promised = amounts(1000 * pods, GIB * pods, pods)
        self.model.set_load("n1", load(self.generation, promised=promised))

    def deliver_answer(self, number: int = 0) -> None:
        if self.answers:
            assumption, contained_from = self.answers.pop(number % len(self.answers))
            if contained_from:
                self.model.confirm(assumption, contained_from)
            else:
                self.model.cancel(assumption, refused_by_node=True)


doings = st.sampled_from(["propose", "commit", "refuse", "deliver_load", "deliver_answer"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(doings, st.integers(0)), max_size=60))
def test_nothing_committed_is_overlooked_and_in_the_end_all_is_as_it_is(
    history: list[tuple[str, int]],
) -> None:
    truth = Truth()
    for doing, number in history:
        getattr(truth, doing)(number)
        assert free(truth.model, "n1")[0] <= 4000 - 1000 * truth.committed
    while truth.proposed:
        truth.refuse(0)
    while truth.answers:
        truth.deliver_answer()
    truth.deliver_load()
    left = 4 - truth.committed
    assert free(truth.model, "n1") == (1000 * left, (4 + left) * GIB, 106 + left)
