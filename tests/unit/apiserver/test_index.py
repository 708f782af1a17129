"""What watchers are told: a queue with one entry an object, and a history to resume from."""

import asyncio
from collections.abc import Hashable

import pytest
from drumline.apiserver.cache.index import CHANGED, REMOVED, Change, Index, Watcher
from drumline.apiserver.cache.objects import PodEntry, join_pod
from drumline.apiserver.store.kinds import Record
from drumline.model.errors import OutOfRangeError, UnavailableError
from drumline.storage.v1.records_pb2 import PodRecord
from hypothesis import given
from hypothesis import strategies as st

PARTS = frozenset({"pods"})
# Of each step: which of a few pods, and what becomes of it: a label, gone, or made anew.
Step = tuple[str, str]
steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "gone", "anew", "drain"])),
    max_size=40,
)


class Model:
    """Pods that change a revision at a time."""

    def __init__(self, history: int = 100) -> None:
        self.index: Index[PodEntry] = Index(history, lambda entry: [("label", entry.labels["l"])])
        self.revision = 0
        self.uids = 0

    def set(self, name: str, label: str, *, anew: bool = False) -> None:
        self.revision += 1
        old = self.index.entries.get(name)
        if old is None or anew:
            self.uids += 1
        record = PodRecord()
        record.metadata.name = name
        record.metadata.uid = old.uid if old is not None and not anew else f"uid-{self.uids}"
        record.metadata.labels["l"] = label
        new = join_pod(name, Record(record.SerializeToString(), self.revision), None, None, None)
        self.index.commit(name, Change(self.revision, old, new, PARTS))

    def remove(self, name: str) -> None:
        old = self.index.entries.get(name)
        if old is not None:
            self.revision += 1
            self.index.commit(name, Change(self.revision, old, None, PARTS))

    def watcher(self, label: str = "") -> Watcher[PodEntry]:
        return Watcher(lambda e: not label or e.labels["l"] == label, asyncio.Event())


class Reader:
    """Holds what it was told, and checks the order of it."""

    def __init__(self, watcher: Watcher[PodEntry]) -> None:
        self.watcher = watcher
        self.held: dict[str, int] = {}
        self.newest: dict[str, int] = {}
        self.revision = 0

    def read(self, limit: int) -> None:
        for pending in self.watcher.drain(limit):
            uid, version = pending.entry.uid, pending.entry.version
            assert pending.revision >= self.revision
            self.revision = pending.revision
            assert version > self.newest.get(uid, 0)
            self.newest[uid] = version
            if pending.type == CHANGED:
                self.held[uid] = version
            else:
                assert pending.type == REMOVED
                self.held.pop(uid, None)


def run(model: Model, step: Step) -> None:
    name, what = step
    if what == "gone":
        model.remove(name)
    elif what == "anew":
        model.set(name, "x", anew=True)
    elif what != "drain":
        model.set(name, what)


@given(steps, st.sampled_from(["", "x"]), st.integers(1, 4))
def test_whenever_a_watcher_reads_it_ends_with_what_is_there(
    plan: list[Step], label: str, limit: int
) -> None:
    model = Model()
    reader = Reader(model.watcher(label))
    routes: list[Hashable] = [("label", label)] if label else []
    model.index.attach(reader.watcher, routes)
    for step in plan:
        run(model, step)
        if step[1] == "drain":
            reader.read(limit)
        assert len(reader.watcher) <= model.uids, "the queue holds one entry an object"
    while len(reader.watcher):
        reader.read(limit)
    there = model.index.entries.values()
    assert reader.held == {e.uid: e.version for e in there if label in {"", e.labels["l"]}}
    model.index.detach(reader.watcher, routes)
    model.set("a", "x", anew=True)
    assert not len(reader.watcher)


@given(steps, st.data())
def test_resumed_at_any_version_nothing_is_missing_and_nothing_comes_twice(
    plan: list[Step], data: st.DataObject
) -> None:
    model = Model()
    states: list[dict[str, int]] = [{}]
    for step in plan:
        before = model.revision
        run(model, step)
        if model.revision != before:
            states.append({e.uid: e.version for e in model.index.entries.values()})
    after = data.draw(st.integers(0, model.revision))
    reader = Reader(model.watcher())
    reader.held = dict(states[after])
    reader.newest = dict(states[after])
    model.index.attach(reader.watcher, after=after)
    while len(reader.watcher):
        reader.read(3)
    assert reader.held == states[-1]


@given(steps, st.integers(1, 5))
def test_what_is_no_longer_kept_cannot_be_resumed_from(plan: list[Step], history: int) -> None:
    model = Model(history)
    for step in plan:
        run(model, step)
    floor = model.index.floor
    assert model.revision - floor <= 2 * history
    model.index.attach(model.watcher(), after=floor)
    if floor:
        with pytest.raises(OutOfRangeError):
            model.index.attach(model.watcher(), after=floor - 1)


def test_a_reader_is_given_a_revision_whole() -> None:
    model = Model()
    watcher = model.watcher()
    model.index.attach(watcher)
    for name in "abc":
        model.set(name, "x")
        model.revision -= 1
    model.revision += 1
    model.set("d", "x")
    assert [p.entry.key for p in watcher.drain(1)] == ["a", "b", "c"]
    assert [p.entry.key for p in watcher.drain(1)] == ["d"]


def test_changes_of_parts_that_do_not_matter_are_left_out() -> None:
    model = Model()
    model.set("a", "x")
    wake = asyncio.Event()
    watcher: Watcher[PodEntry] = Watcher(lambda _: True, wake, ignore=frozenset({"load"}))
    model.index.attach(watcher)
    entry = model.index.entries["a"]
    model.index.commit("a", Change(2, entry, entry, frozenset({"load"})))
    assert not len(watcher)
    assert not wake.is_set()
    model.index.commit("a", Change(3, entry, entry, frozenset({"load", "spec"})))
    assert len(watcher) == 1
    assert wake.is_set()


def test_a_failure_reaches_every_watcher_before_anything_else() -> None:
    model = Model()
    every, routed = model.watcher(), model.watcher("x")
    model.index.attach(every)
    model.index.attach(routed, [("label", "x")])
    model.set("a", "x")
    model.index.fail_watchers(UnavailableError("gone"))
    for watcher in (every, routed):
        with pytest.raises(UnavailableError):
            watcher.drain(1)
