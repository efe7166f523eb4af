"""Which trials a budget takes: a smaller one is the beginning of a larger one, and units take turns."""

import math
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.attacks.budget import FOLDS, SECONDS, SHARES, choose_shares, read_shares, sample
from audit.engine.interface import Trial

shares = st.floats(0.01, 1.0)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def many_trials(draw: st.DrawFn) -> list[Trial]:
    units = draw(
        st.lists(
            st.tuples(st.sampled_from(["member", "heldout", ""]), st.integers(1, 7)), max_size=12
        )
    )
    return [
        Trial(f"u{unit}/e{number}", f"u{unit}", stratum)
        for unit, (stratum, count) in enumerate(units)
        for number in range(count)
    ]


def by_stratum(trials: list[Trial]) -> dict[str, list[Trial]]:
    strata: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        strata[trial.stratum].append(trial)
    return strata


@given(many_trials(), shares, shares, seeds)
def test_a_smaller_share_is_the_beginning_of_a_larger_one(trials, a, b, seed):
    small, large = (by_stratum(sample(trials, share, seed)) for share in sorted((a, b)))
    for stratum, members in small.items():
        assert large[stratum][: len(members)] == members


@given(many_trials(), shares, seeds)
def test_each_stratum_gives_its_share_rounded_up(trials, share, seed):
    taken = sample(trials, share, seed)
    assert len(set(taken)) == len(taken)
    assert set(taken) <= set(trials)
    assert {stratum: len(members) for stratum, members in by_stratum(taken).items()} == {
        stratum: math.ceil(share * len(members)) for stratum, members in by_stratum(trials).items()
    }


@given(many_trials(), shares, seeds)
def test_no_unit_has_a_second_turn_before_every_other_had_its_first(trials, share, seed):
    available = Counter(trial.cluster for trial in trials)
    for taken in by_stratum(sample(trials, share, seed)).values():
        stratum = {trial.cluster for trial in trials if trial.stratum == taken[0].stratum}
        turns: Counter[str] = Counter()
        for trial in taken:
            waiting = [
                unit for unit in stratum if turns[unit] < min(turns[trial.cluster], available[unit])
            ]
            assert not waiting
            turns[trial.cluster] += 1


@given(many_trials(), seeds, st.randoms())
def test_the_order_of_the_trials_does_not_matter(trials, seed, random):
    shuffled = list(trials)
    random.shuffle(shuffled)
    assert sample(shuffled, 0.6, seed) == sample(trials, 0.6, seed)


@given(many_trials(), seeds)
def test_one_stratum_does_not_change_another(trials, seed):
    members = [trial for trial in trials if trial.stratum == "member"]
    assert by_stratum(sample(trials, 0.5, seed))["member"] == sample(members, 0.5, seed)


def test_the_seed_decides_which_units_and_which_of_their_trials():
    trials = [
        Trial(f"u{unit}/e{number}", f"u{unit}", "member")
        for unit in range(20)
        for number in range(4)
    ]
    taken = [sample(trials, 0.25, seed) for seed in range(200)]
    assert all(
        {trial.cluster for trial in trials} == {trial.cluster for trial in some} for some in taken
    )
    first = Counter(some[0] for some in taken)
    assert len(first) > 60  # of 80: no trial is preferred
    assert taken[3] == sample(trials, 0.25, 3)


def test_budgets_are_shares():
    assert SHARES["quick"] < SHARES["standard"] == SHARES["full"] == 1.0


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({}, {}),
        ({"a": 90}, {"a": 1.0}),
        ({"a": 91}, {"a": 0.5}),
        ({"a": 180}, {"a": 0.5}),
        ({"a": 181}, {"a": 0.25}),
        # What is cheap is taken whole, however dear the others are.
        ({"a": 9000, "b": 60, "c": 0}, {"a": 0.25, "b": 1.0, "c": 1.0}),
        # The cheapest first, whatever their order: 50 s and 40 s are as much as there is.
        ({"a": 60, "b": 50, "c": 40}, {"a": 0.25, "b": 1.0, "c": 1.0}),
        # The whole sets of two are too much for the third, whose half still fits.
        ({"a": 60, "b": 30, "c": 20}, {"a": 0.5, "b": 1.0, "c": 1.0}),
        # Of two dear ones the cheaper takes its half where the time that their quarters leave is
        # enough.
        ({"a": 70, "b": 51, "c": 50}, {"a": 0.25, "b": 0.25, "c": 1.0}),
        ({"a": 72, "b": 48, "c": 46}, {"a": 0.25, "b": 0.5, "c": 1.0}),
        # So much is taken whole that the quarters of the others are already too much.
        ({"a": 300, "b": 95, "c": 80}, {"a": 0.25, "b": 0.25, "c": 1.0}),
    ],
)
def test_what_is_cheap_is_taken_whole_and_what_is_dear_as_far_as_time_is_left(seconds, chosen):
    assert choose_shares(seconds, 0.25) == chosen


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1e6), max_size=9))
def test_no_attack_takes_less_than_a_quarter_and_more_only_within_the_time(seconds):
    chosen = choose_shares(seconds, 0.25)
    assert chosen.keys() == seconds.keys()
    assert {*chosen.values()} <= {0.25, 0.5, 1.0}
    whole = []
    others = []
    in_all = 0.0
    for name, share in chosen.items():
        in_all += share * seconds[name]
        if share == 1.0:
            whole.append(seconds[name])
        else:
            others.append(seconds[name])
    assert sum(whole) <= SECONDS * (1 + 1e-9)
    assert max(whole, default=0.0) <= min(others, default=math.inf)
    assert 0.5 not in chosen.values() or in_all <= SECONDS * (1 + 1e-9)


@given(many_trials(), shares, seeds, st.integers(1, 6))
def test_folds_are_taken_whole_whatever_the_share(trials, share, seed, n_folds):
    folds = [Trial(f"fold {number}", f"fold {number}", FOLDS) for number in range(n_folds)]
    taken = sample([*trials, *reversed(folds)], share, seed)
    assert [trial for trial in taken if trial.stratum == FOLDS] == folds
    assert [trial for trial in taken if trial.stratum != FOLDS] == sample(trials, share, seed)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.001, 500.0)))
def test_the_shares_that_time_chose_are_read_again(seconds):
    chosen = choose_shares(seconds, SHARES["quick"])
    assert read_shares(chosen) == chosen


@pytest.mark.parametrize("share", [0.0, 0.01, 0.517, 1.5])
def test_a_stored_share_that_time_never_chooses_is_refused(share):
    with pytest.raises(ValueError, match="the least one, half or all"):
        read_shares({"reconstruction": share})
