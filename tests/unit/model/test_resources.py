"""Sums of amounts are exact, and what is missing is said for each resource."""

from drumline.api.v1.pod_pb2 import PodSpec
from drumline.api.v1.resources_pb2 import Resources
from drumline.model.quantity import MAXIMUM
from drumline.model.resources import (
    ZERO,
    Amounts,
    Shortfall,
    add,
    fill_proto,
    from_proto,
    is_zero,
    pod_request,
    shortfalls,
    subtract,
    to_proto,
)
from hypothesis import given
from hypothesis import strategies as st

NAMES = ["example.com/gpu", "example.com/disk", "fpga"]


def _named(values: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[tuple[str, int], ...]]:
    return st.dictionaries(st.sampled_from(NAMES), values).map(
        lambda named: tuple(sorted((name, amount) for name, amount in named.items() if amount))
    )


def _amounts(lowest: int) -> st.SearchStrategy[Amounts]:
    values = st.integers(lowest, lowest + 5) | st.integers(lowest, MAXIMUM) | st.integers(0, 3)
    return st.builds(Amounts, values, values, values, _named(values))


any_amounts = _amounts(-MAXIMUM)
positive_amounts = _amounts(0)


def _every(amounts: Amounts) -> dict[str, int]:
    return {
        "cpu": amounts.cpu_millicores,
        "memory": amounts.memory_bytes,
        "pods": amounts.pods,
        **dict.fromkeys(NAMES, 0),
        **dict(amounts.named),
    }


@given(any_amounts, any_amounts)
def test_add_and_subtract_work_resource_by_resource(left: Amounts, right: Amounts) -> None:
    a, b = _every(left), _every(right)
    assert _every(add(left, right)) == {name: a[name] + b[name] for name in a}
    assert _every(subtract(left, right)) == {name: a[name] - b[name] for name in a}


@given(any_amounts, any_amounts, any_amounts)
def test_sums_do_not_depend_on_order_and_can_be_taken_back(
    a: Amounts, b: Amounts, c: Amounts
) -> None:
    assert add(a, b) == add(b, a)
    assert add(add(a, b), c) == add(a, add(b, c))
    assert subtract(add(a, b), b) == a
    assert add(a, ZERO) == a == subtract(a, ZERO)
    assert is_zero(subtract(a, a))
    assert is_zero(a) == (a == ZERO)


@given(any_amounts)
def test_a_message_says_the_same_as_the_value(amounts: Amounts) -> None:
    assert from_proto(to_proto(amounts)) == amounts
    message = Resources(cpu_millicores=7, pods=3, named_thousandths={"stale": 1, NAMES[0]: 9})
    fill_proto(message, amounts)
    assert message == to_proto(amounts)


def test_a_missing_amount_and_zero_are_the_same() -> None:
    assert from_proto(Resources(named_thousandths={"fpga": 0})) == ZERO == from_proto(Resources())


@given(positive_amounts, any_amounts)
def test_what_is_short_is_exactly_what_is_asked_beyond_what_is_free(
    asked: Amounts, free: Amounts
) -> None:
    there = _every(free)
    assert set(shortfalls(asked, free)) == {
        Shortfall(name, amount, there[name])
        for name, amount in _every(asked).items()
        if amount > there[name] and amount > 0
    }


@given(positive_amounts, any_amounts)
def test_what_fits_leaves_nothing_negative_that_was_asked_for(
    asked: Amounts, free: Amounts
) -> None:
    left = _every(subtract(free, asked))
    fits = all(left[name] >= 0 for name, amount in _every(asked).items() if amount)
    assert (not shortfalls(asked, free)) == fits


def test_shortfalls_come_in_a_fixed_order() -> None:
    asked = Amounts(1, 1, 1, (("a", 1), ("z", 1)))
    found = [shortfall.resource for shortfall in shortfalls(asked, ZERO)]
    assert found == ["cpu", "memory", "pods", "a", "z"]


def test_a_pod_that_asks_for_nothing_fits_an_overcommitted_node_as_far_as_it_asks() -> None:
    assert shortfalls(Amounts(pods=1), Amounts(-500, -1, 1)) == []


def test_a_pod_is_charged_the_sum_over_its_containers_and_one_pod() -> None:
    spec = PodSpec()
    for cpu, gpu in ((100, 0), (250, 1500), (0, 500)):
        requests = spec.containers.add().resources.requests
        requests.cpu_millicores = cpu
        requests.memory_bytes = 2**20
        if gpu:
            requests.named_thousandths["example.com/gpu"] = gpu
    spec.containers.add()
    assert pod_request(spec) == Amounts(350, 3 * 2**20, 1, (("example.com/gpu", 2000),))
    assert not spec.containers[3].HasField("resources")
    assert pod_request(PodSpec()) == Amounts(pods=1)
