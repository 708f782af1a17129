"""Beats of nodes that the controller does not know (yet), or that are not the caller's."""

from drumline.nodecontroller.rules import Rules

from tests.unit.nodecontroller.observer import Observer


def connected() -> Observer:
    observer = Observer()
    observer.connect()
    return observer


def test_a_node_that_beats_before_the_apiserver_tells_of_it_is_ready_at_once() -> None:
    observer = connected()
    heard = observer.beat("a")
    assert heard.unknown == []
    assert heard.expected
    observer.now += 0.01
    observer.register("a")
    assert observer.take() == [("a", "READY")]


def test_a_node_that_stays_unknown_is_told_so() -> None:
    observer = connected()
    observer.register("known")
    observer.beat("known", "a")
    observer.now += 1.0
    heard = observer.beat("known", "a")
    assert heard.unknown == ["a"]
    assert not heard.expected


def test_a_deleted_node_that_goes_on_beating_is_told_to_register_again() -> None:
    observer = connected()
    observer.register("a")
    observer.beat("a")
    observer.liveness.remove("a")
    observer.now += 10
    assert observer.beat("a").expected
    observer.now += 1
    assert observer.beat("a").unknown == ["a"]
    observer.take()
    observer.register("a", uid="new")
    assert observer.take() == [("a", "READY")]


def test_nobody_is_called_unknown_while_the_apiserver_is_away() -> None:
    observer = Observer()
    observer.beat("a")
    observer.now += 60
    heard = observer.beat("a")
    assert heard.unknown == []
    assert not heard.expected
    observer.connect()
    assert observer.beat("a").unknown == []


def test_a_name_that_no_node_can_have_is_unknown_at_once() -> None:
    assert connected().beat("No Such").unknown == ["No Such"]


def test_what_is_remembered_of_strangers_is_bounded() -> None:
    observer = connected()
    for batch in range(10):
        observer.beat(*(f"s{batch}-{i}" for i in range(5000)))
    heard = observer.beat("one-more")
    assert heard.unknown == ["one-more"]
    observer.now += 60
    assert observer.beat("another").unknown == []


def test_a_simulator_does_not_make_a_real_node_ready() -> None:
    observer = connected()
    observer.beat("a", "b", simulated=True)
    observer.register("a", simulated=True)
    observer.register("b", simulated=False)
    assert observer.take() == [("a", "READY")]
    assert observer.liveness.unentitled(["a", "b", "c"]) == ["b"]


def test_intervals_grow_with_the_nodes_and_stay_within_a_tenth() -> None:
    rules = Rules(beat_interval=10, beats_per_second_bound=1000)
    assert rules.next_interval(1, 0.0) == 9.0
    assert rules.next_interval(10_000, 0.5) == 10.0
    assert rules.next_interval(30_000, 0.5) == 30.0
    assert 32.9 < rules.next_interval(30_000, 0.999) <= 33.0
