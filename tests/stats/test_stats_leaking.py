"""Units that leak, counted out of all that a data set holds: by hand, and on planted numbers of values."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import hypergeom

from audit.attacks.budget import sample
from audit.engine.interface import Trial
from audit.stats.leaking import (
    chance_of_value,
    chances_to_be_tried,
    count_leaking,
    leaking_p,
    scale_lower,
    scale_upper,
)
from audit.stats.ranking import count_outranking


def test_chances_by_hand():
    """Of documents with 3, 2 and 1 rows one row each was tried, and of one of the first two a second."""
    chances = chances_to_be_tried([3, 2, 1], [2, 1, 1])
    assert chances.tolist() == [1.0, 0.5, 0.0]
    assert [chance_of_value(rows, 1, chances) for rows in (3, 2, 1)] == pytest.approx(
        [0.5, 0.75, 1.0]
    )
    assert chance_of_value(3, 2, chances) == pytest.approx((2 / 3 + 1) / 2)
    assert chance_of_value(3, 3, chances) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "limits", [{"share": 0.3}, {"share": 0.4, "part": 0.7}, {"share": 0.5, "documents": 12}]
)
def test_the_draw_of_a_budget_favours_short_documents_and_the_chances_know_it(limits):
    sizes = np.array([1, 2, 4, 9] * 5)
    trials = [
        Trial(f"{unit}/{row}", str(unit), "member")
        for unit in range(20)
        for row in range(sizes[unit])
    ]
    tried = np.zeros(20)
    expected = np.zeros(20)
    for seed in range(400):
        taken = Counter(trial.cluster for trial in sample(trials, seed=seed, **limits))
        numbers = [taken[str(unit)] for unit in range(20)]
        chances = chances_to_be_tried(sizes.tolist(), numbers)
        expected += [chance_of_value(int(size), 1, chances) for size in sizes]
        tried += numbers / sizes
    by_size = [tried[sizes == size].mean() / 400 for size in (1, 2, 4, 9)]
    assert by_size == pytest.approx(
        [expected[sizes == size].mean() / 400 for size in (1, 2, 4, 9)], abs=0.02
    )
    assert by_size[0] > 1.5 * by_size[3]


def test_without_luck_every_leaking_document_is_counted_and_certain():
    interval = count_leaking([4] * 30 + [0] * 120, [0] * 150, 4, 150, complete=True)
    assert (interval.value, interval.high) == (30, 30)
    assert 22 < interval.low < 30
    assert leaking_p([4] * 30 + [0] * 120, [0] * 150, 4) < 1e-6


def test_what_luck_explains_is_no_leak():
    found = count_leaking([1] * 40 + [0] * 110, [1] * 40 + [0] * 110, 2, 150, complete=True)
    assert (found.value, found.low) == (0, 0)
    assert found.high > 10
    reverse = count_leaking([1] * 10 + [0] * 110, [1] * 60 + [0] * 60, 2, 120, complete=True)
    assert (reverse.value, reverse.low, reverse.high >= 0) == (0, 0, True)
    assert leaking_p([1] * 40 + [0] * 110, [1] * 40 + [0] * 110, 2) == 1.0


@pytest.mark.parametrize(("per_document", "luck"), [(1, 0.1), (4, 0.02), (8, 0.1)])
def test_bounds_keep_their_level_where_nothing_leaks_and_where_something_does(per_document, luck):
    draw = np.random.default_rng(per_document)
    outside = Counter()
    for _ in range(150):
        member, heldout = (draw.binomial(per_document, luck, 100) for _ in range(2))
        nothing = count_leaking(member, heldout, per_document, 100, complete=True)
        outside["false leak"] += nothing.low > 0
        member[:20] = np.maximum(member[:20], 1)
        some = count_leaking(member, heldout, per_document, 100, complete=True)
        outside["too many"] += some.low > 20
        outside["too few"] += some.high < 20
    assert max(outside.values()) <= 10  # 97.5 % quantile of 150 at 2.5 %: 8


def test_a_draw_is_scaled_by_its_exact_bounds():
    tails = np.array([0.025, 0.05])
    lower = scale_lower([10, 10], 50, 200, tails)
    upper = scale_upper([10, 10], 50, 200, tails)
    for bound, tail in zip(lower, tails, strict=True):
        assert (
            hypergeom.sf(9, 200, int(bound), 50) > tail >= hypergeom.sf(9, 200, int(bound) - 1, 50)
        )
    for bound, tail in zip(upper, tails, strict=True):
        assert (
            hypergeom.cdf(10, 200, int(bound), 50)
            > tail
            >= hypergeom.cdf(10, 200, int(bound) + 1, 50)
        )
    assert scale_lower([7, 0], 50, 50, tails).tolist() == [7, 0]


def test_members_that_outrank_are_scaled_to_all_and_bounded_from_below_alone():
    members = np.r_[np.full(20, 9.0), np.linspace(-1, 1, 30)]
    others = np.linspace(-1, 1, 50)
    half = count_outranking(members, others, 100)
    whole = count_outranking(members, others)
    assert half.value == 2 * whole.value
    assert whole.low < half.low < 2 * whole.low
    assert whole.high == 21
    assert half.high > 42
    with pytest.raises(ValueError, match="at least the members"):
        count_outranking(members, others, 49)


def test_luck_of_nearly_every_unit_does_not_blow_up_the_number_that_leaks() -> None:
    # 146 of 150 training documents and 145 of 150 unseen ones give a value by luck: one document
    # of excess is no sign of 30 that leak, and four values show that none does.
    members = np.repeat([0, 1, 2, 4], [4, 36, 104, 6])
    others = np.repeat([0, 1, 2, 4], [5, 40, 95, 10])
    interval = count_leaking(members, others, 5, 150, complete=True)
    assert (interval.value, interval.low) == (0.0, 0.0)
