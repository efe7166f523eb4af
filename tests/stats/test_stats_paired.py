"""Differences of two scans of the same units: planted ones are covered, identical scans differ by nothing."""

import dataclasses

import numpy as np
import pytest

from audit.measurements import ALPHAS
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval, proportion
from audit.stats.paired import (
    Ratios,
    UnitScores,
    joined_difference,
    paired_difference,
    ratio_difference,
)

RNG = np.random.default_rng


def scores(values, member, kind="mean", clusters=None, limits=(-1.0, 1.0)):
    names = [f"u{row}" for row in range(len(values))]
    return UnitScores(
        names, clusters or names, np.array(member, bool), np.array(values, float), kind, limits
    )


def share(hits) -> Interval:
    return proportion(hits, np.arange(len(hits)))


def of_share(hits):
    return estimate("share", share(hits), "documents", 0.0, "chance")


def planted(seed: int, n: int = 60):
    """Members that are given away with chance 0.5 before and 0.2 after, others with chance 0.1: difference -0.3."""
    rng = RNG(seed)
    member = np.arange(2 * n) < n
    before = rng.random(2 * n) < np.where(member, 0.5, 0.1)
    kept = rng.random(2 * n) < np.where(member, 0.4, 1.0)
    return scores(before, member), scores(before & kept, member)


def test_a_planted_difference_of_means_is_covered_and_tighter_than_from_both_intervals() -> None:
    runs = [paired_difference(*planted(seed), RNG(seed)) for seed in range(60)]
    assert all(run is not None and run.paired for run in runs)
    covered = [run.interval.low <= -0.3 <= run.interval.high for run in runs]
    assert np.mean(covered) >= 0.9
    assert np.mean([run.p < 0.05 for run in runs]) > 0.95


def test_p_holds_its_level_where_the_countermeasure_changes_nothing_on_average() -> None:
    low = 0
    for seed in range(100):
        rng = RNG(seed)
        member = np.arange(80) < 40
        pair = [scores(rng.random(80) < 0.3, member) for _ in range(2)]
        low += paired_difference(*pair, rng).p <= 0.05
    assert low <= 11


@pytest.mark.parametrize("kind", ["mean", "auc"])
def test_identical_scans_differ_by_nothing(kind: str) -> None:
    member = np.arange(80) < 40
    same = scores(RNG(0).random(80), member, kind)
    found = paired_difference(same, same, RNG(1))
    assert (found.interval.value, found.p, found.paired) == (0, 1, True)
    assert found.interval.low < 0 < found.interval.high


def test_units_go_together_by_their_documents() -> None:
    member = np.ones(200, bool)
    gone = np.repeat(RNG(3).random(20) < 0.5, 10)
    pair = np.ones(200), np.where(gone, 0.0, 1.0)
    alone, together = (
        paired_difference(*(scores(side, member, clusters=clusters) for side in pair), RNG(0))
        for clusters in (None, [f"d{row // 10}" for row in range(200)])
    )
    assert together.interval.high - together.interval.low > 2 * (
        alone.interval.high - alone.interval.low
    )


def test_only_units_of_both_scans_are_compared() -> None:
    member = np.arange(60) < 30
    before = scores(np.ones(60), member)
    after = scores(np.ones(60), member)
    after = dataclasses.replace(
        after, units=[*after.units[:59], "new"], values=np.r_[np.ones(59), 0.0]
    )
    assert paired_difference(before, after, RNG(0)).interval.value == 0


def test_a_planted_difference_of_areas_is_covered() -> None:
    from scipy.stats import norm

    truth = norm.cdf(0.3 / np.sqrt(2)) - norm.cdf(1.2 / np.sqrt(2))
    covered = 0
    wide = []
    tight = []
    for seed in range(40):
        rng = RNG(seed)
        member = np.arange(160) < 80
        own = rng.normal(size=160)
        pair = [
            scores(
                scale * (0.8**0.5 * own + 0.2**0.5 * rng.normal(size=160) + shift * member),
                member,
                "auc",
            )
            for shift, scale in ((1.2, 1.0), (0.3, 7.0))
        ]
        found = paired_difference(*pair, rng)
        covered += found.interval.low <= truth <= found.interval.high
        tight.append(found.interval.high - found.interval.low)
        from audit.stats.roc import auc_interval

        sides = [auc_interval(one.values[member], one.values[~member]) for one in pair]
        joined = joined_difference(
            *(estimate("auc", side, "documents", 0.5, "chance") for side in sides)
        )
        wide.append(joined.interval.high - joined.interval.low)
        assert not joined.paired
    assert covered >= 35
    assert np.mean(tight) < 0.8 * np.mean(wide)


def moved_by_few(seed: int, share: float, n: int = 60):
    """Scores of an area before and after; a share of members jumps above all others.

    The model tells members apart well before, so that the area grows by little.
    """
    rng = RNG(seed)
    member = np.arange(2 * n) < n
    before = rng.normal(size=2 * n) + member
    jumps = (rng.random(2 * n) < share) & member
    return scores(before, member, "auc"), scores(before + 9 * jumps, member, "auc")


@pytest.mark.parametrize("share", [0.0, 0.03])
def test_a_change_of_an_area_by_few_units_is_covered_and_paired(share: float) -> None:
    from scipy.stats import norm

    truth = share * (1 - norm.cdf(1 / np.sqrt(2)))
    reaches = []
    for seed in range(20):
        difference = paired_difference(*moved_by_few(seed, share), RNG(seed))
        assert difference.paired
        assert difference.interval.low <= truth
        assert difference.interval.high >= truth
        reaches.append(difference.interval.high - difference.interval.value)
    # Both intervals of such areas, joined, reach about 0.12 to either side.
    assert np.mean(reaches) < 0.1


def test_the_mean_of_members_alone_and_values_of_any_span() -> None:
    rng = RNG(0)
    values = rng.uniform(0, 8, 50)
    pair = [
        scores(own, np.ones(50), limits=(0.0, 8.0)) for own in (values, values - 2 * (values > 2))
    ]
    found = paired_difference(*pair, rng)
    assert found.interval.value == pytest.approx(-2 * np.mean(values > 2))
    assert found.interval.high < 0


def test_two_units_of_a_side_are_needed() -> None:
    assert paired_difference(*[scores([1, 0, 1], [1, 0, 0])] * 2, RNG(0)) is None
    assert paired_difference(*[scores([0, 0, 1], [0, 0, 0])] * 2, RNG(0)) is None


def test_usefulness_is_compared_by_document() -> None:
    rng = RNG(0)
    names = [f"d{row}" for row in range(60)]
    total = np.full(60, 10.0)
    before = rng.binomial(9, 0.8, 60).astype(float)
    after = None
    after = before - rng.binomial(1, 0.6, 60)
    items = tuple(of_share(rng.random(60) < p) for p in (0.7, 0.6))
    found = ratio_difference(
        Ratios(names, before, total), Ratios(names, after, total), items, RNG(1)
    )
    assert found.interval.low <= -0.06 <= found.interval.high
    assert found.p < 0.01
    same = ratio_difference(
        Ratios(names, before, total), Ratios(names, before, total), items[:1] * 2, RNG(1)
    )
    assert (same.interval.value, same.p) == (0, 1)
    assert (
        ratio_difference(
            Ratios(names, before, total), Ratios([], total[:0], total[:0]), items, RNG(1)
        )
        is None
    )


def test_a_difference_of_older_records_has_no_bound_that_these_do_not_give() -> None:
    """Both lack 0.00005, so that nothing is said there.

    At 0.0005 and 0.0002 the bounds of 0.0001 hold all the more.
    """
    new = of_share(np.arange(40) < 20)
    levels = (0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001, 0.0001)
    older_bounds = filter(lambda bound: bound.alpha in levels, new.bounds)
    old = dataclasses.replace(new, bounds=tuple(older_bounds))
    change = estimate("change", joined_difference(old, new).interval, "documents", 0.0, "chance")
    newer = estimate("change", joined_difference(new, new).interval, "documents", 0.0, "chance")
    assert ALPHAS[-1] == 0.00005
    assert len(change.bounds) == len(newer.bounds) - 1
    for wider, bound in zip(change.bounds, newer.bounds[:-1], strict=True):
        assert wider.alpha == bound.alpha
        assert wider.lower <= bound.lower
        assert wider.upper >= bound.upper


def test_means_that_differ_in_their_last_bits_do_not_differ() -> None:
    item = of_share(np.arange(40) < 20)
    assert (
        joined_difference(item, dataclasses.replace(item, value=item.value - 2**-53)).interval.value
        == 0
    )
