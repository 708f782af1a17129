"""Whether a watch has shown everything is judged by each change and each removal."""

from benchmarks.changes import CREATE, DELETE, UPDATE, Tick, Verdict, groups, judge, ticks


def lags(verdict: Verdict) -> list[float]:
    return [round(lag, 6) for lag in verdict.lags]


def test_each_pod_is_changed_in_turn_and_as_many_are_made_as_deleted() -> None:
    made = list(ticks(groups(pods=20, a_call=2), count=40, a_call=2))
    kinds = [tick.kind for tick in made]
    assert (kinds.count(CREATE), kinds.count(DELETE), kinds.count(UPDATE)) == (4, 4, 32)
    gone = [name for tick in made if tick.kind == DELETE for name in tick.names]
    assert len(set(gone)) == len(gone) == 8
    for tick in made:
        later = [t for t in made if t.number > tick.number and set(t.names) & set(tick.names)]
        assert tick.kind != DELETE or later == []


def test_a_change_that_is_shown_lags_by_the_time_since_it_was_due() -> None:
    made = [Tick(1, UPDATE, ["a", "b"], due=10.0), Tick(2, DELETE, ["a"], due=11.0)]
    verdict = judge(made, [("a", 1, 10.5), ("b", 1, 10.25)], [("a", 11.125)])
    assert lags(verdict) == [0.5, 0.25, 0.125]
    assert (verdict.lost, verdict.skipped, verdict.disordered) == (0, 0, 0)


def test_a_state_that_a_later_one_replaced_is_skipped_and_not_lost() -> None:
    made = [
        Tick(1, UPDATE, ["a"], due=1.0),
        Tick(2, UPDATE, ["a"], due=2.0),
        Tick(3, UPDATE, ["b"], due=3.0),
        Tick(4, DELETE, ["b"], due=4.0),
    ]
    verdict = judge(made, [("a", 2, 5.0)], [("b", 6.0)])
    assert lags(verdict) == [4.0, 3.0, 3.0, 2.0]
    assert (verdict.lost, verdict.skipped) == (0, 2)


def test_a_newest_state_or_a_removal_that_never_came_is_lost() -> None:
    made = [
        Tick(1, CREATE, ["a", "b"], due=1.0),
        Tick(2, UPDATE, ["a"], due=2.0),
        Tick(3, DELETE, ["b"], due=3.0),
    ]
    verdict = judge(made, [("a", 1, 1.5), ("b", 1, 1.5)], [])
    assert verdict.lost == 2


def test_what_goes_back_or_comes_twice_is_disorder() -> None:
    made = [Tick(1, UPDATE, ["a"]), Tick(2, UPDATE, ["a"]), Tick(3, DELETE, ["a"])]
    shown = [("a", 2, 1.0), ("a", 1, 2.0), ("a", 2, 3.0), ("a", 2, 9.0)]
    verdict = judge(made, shown, [("a", 4.0), ("a", 5.0)])
    assert verdict.disordered >= 4
