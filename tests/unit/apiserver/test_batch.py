"""Steps of one transaction: grouped by what they share, they do what they would do one by one."""

from collections.abc import Callable

import pytest
from drumline.apiserver.store.kinds import QUOTA_USES, Record
from drumline.apiserver.store.view import Batch, Key, View
from drumline.model.errors import ConflictError
from drumline.storage.v1.records_pb2 import QuotaUseRecord
from hypothesis import given
from hypothesis import strategies as st

NAMES = "abcde"
# What a step does: reads, and of what it writes its new value, or a removal.
Plan = tuple[frozenset[str], dict[str, int | None], bool]

plans = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from(NAMES), max_size=3),
        st.dictionaries(st.sampled_from(NAMES), st.none() | st.integers(1, 9), max_size=2),
        st.booleans(),
    ),
    max_size=12,
)
stores = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9))


def value(number: int) -> QuotaUseRecord:
    record = QuotaUseRecord()
    record.usage.stored_pods = number
    return record


def step(plan: Plan) -> Callable[[View], int]:
    """Make a step that gives the sum of what it read, and adds it to what it writes."""
    reads, writes, refuses = plan

    def run(view: View) -> int:
        found = [view.get(QUOTA_USES, name) for name in sorted(reads | writes.keys())]
        total = sum(record.usage.stored_pods for record in found if record is not None)
        for name, number in writes.items():
            if number is None:
                view.delete(QUOTA_USES, name)
            else:
                view.put(QUOTA_USES, name, value(number + total))
        if refuses:
            raise ConflictError("refused")
        return total

    return run


def run_one(batch: Batch, plan: Plan) -> int | None:
    view = View(batch)
    try:
        return step(plan)(view)
    except ConflictError:
        view.written.clear()
        return None
    finally:
        batch.add(view)


def lookup_in(store: dict[str, int]) -> Callable[[Key], Record | None]:
    def lookup(key: Key) -> Record | None:
        number = store.get(key[1])
        return None if number is None else Record(value(number).SerializeToString(), 1)

    return lookup


def one_by_one(store: dict[str, int], steps: list[Plan]) -> tuple[dict[str, int], list[int | None]]:
    """Run each plan in a transaction of its own."""
    store, outcomes = dict(store), []
    for plan in steps:
        batch = Batch(lookup_in(store))
        outcomes.append(run_one(batch, plan))
        apply(store, batch, [0])
    return store, outcomes


def apply(store: dict[str, int], batch: Batch, component: list[int]) -> None:
    """Write what the steps of a component have left."""
    for number in component:
        for key in batch.touched[number][1]:
            encoded = batch.encoded(key)
            if encoded is None:
                store.pop(key[1], None)
            else:
                store[key[1]] = QuotaUseRecord.FromString(encoded).usage.stored_pods


@given(stores, plans, st.randoms())
def test_components_in_any_order_equal_the_steps_one_by_one(
    store: dict[str, int], steps: list[Plan], dice: "object"
) -> None:
    batch = Batch(lookup_in(store))
    outcomes = [run_one(batch, plan) for plan in steps]
    components = batch.components()
    assert sorted(number for component in components for number in component) == list(
        range(len(steps))
    )
    dice.shuffle(components)  # type: ignore[attr-defined]
    after = dict(store)
    for component in components:
        apply(after, batch, component)
    assert (after, outcomes) == one_by_one(store, steps)


@given(stores, plans)
def test_components_share_nothing_that_one_of_them_writes(
    store: dict[str, int], steps: list[Plan]
) -> None:
    batch = Batch(lookup_in(store))
    for plan in steps:
        run_one(batch, plan)
    touched = [
        (
            {key for number in component for key in batch.touched[number][0]},
            {key for number in component for key in batch.touched[number][1]},
        )
        for component in batch.components()
    ]
    for place, (_, written) in enumerate(touched):
        for other, (read, put) in enumerate(touched):
            assert place == other or not written & (read | put)


def test_what_is_written_must_have_been_read() -> None:
    view = View(Batch(lambda _: None))
    with pytest.raises(AssertionError):
        view.put(QUOTA_USES, "a", value(1))


def test_the_version_of_what_the_same_transaction_changed_is_none_that_exists() -> None:
    batch = Batch(lookup_in({"a": 1}))
    assert View(batch).version("a", QUOTA_USES) == 1
    assert View(batch).version("b", QUOTA_USES) == 0
    run_one(batch, (frozenset(), {"a": 5}, False))
    assert View(batch).version("a", QUOTA_USES) == -1
