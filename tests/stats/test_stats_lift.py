"""The share told of what is left untold, and the class that is told best."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from audit.stats.lift import lift_share, worst_class

ALPHAS = (0.05, 0.001)


def rows(n_documents=100, per=5):
    return np.repeat(np.arange(n_documents), per)


def test_it_is_0_for_naming_the_commonest_and_1_for_telling_all_however_common_the_commonest_is():
    for rare in (0.05, 0.5):
        known = np.random.default_rng(0).random(2000) >= rare
        none = lift_share(known, known, rows(400), alphas=ALPHAS)
        assert none.value == 0.0
        assert none.low < 0 < none.high
        everything = lift_share(np.ones(2000), known, rows(400), alphas=ALPHAS)
        assert (everything.value, everything.high) == (1.0, 1.0)
        assert everything.low > 0.8


def test_its_value_is_the_lift_over_what_the_blind_one_leaves():
    rng = np.random.default_rng(1)
    known, right = rng.random(500) < 0.7, rng.random(500) < 0.8
    found = lift_share(right, known, rows())
    assert found.value == pytest.approx((right.mean() - known.mean()) / (1 - known.mean()))
    assert (found.n, found.clusters) == (500, 100)


def test_without_a_difference_the_documents_with_something_untold_bound_it():
    known = np.ones(500, bool)
    known[::25] = False  # in 20 documents
    found = lift_share(known, known, rows())
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert found.low < 0


def test_rows_of_one_document_are_not_independent():
    rng = np.random.default_rng(2)
    known = rng.random(500) < 0.5
    right = np.repeat(rng.random(100) < 0.6, 5)
    apart = lift_share(right, known, np.arange(500))
    together = lift_share(right, known, rows())
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_nothing_untold_is_refused():
    with pytest.raises(ValueError, match="untold"):
        lift_share(np.ones(10), np.ones(10), np.arange(10))
    with pytest.raises(ValueError, match="two classes"):
        worst_class(np.zeros(10), np.zeros(10), np.arange(10))


def test_whoever_does_not_look_tells_no_class():
    classes = np.random.default_rng(3).choice(3, 600, p=(0.8, 0.15, 0.05))
    for said in (np.zeros(600, int), np.random.default_rng(4).choice(3, 600, p=(0.8, 0.15, 0.05))):
        found = worst_class(classes, said, np.arange(600), alphas=ALPHAS).interval
        assert found.low <= 0.0 <= found.high
        assert abs(found.value) < 0.1
    with_one_answer = worst_class(classes, np.zeros(600, int), np.arange(600)).interval
    assert with_one_answer.value == 0.0


def test_a_rare_class_that_is_told_cannot_hide_behind_a_common_one():
    classes = np.repeat([0, 1, 2], [500, 80, 20])
    said = np.where(classes == 2, 2, 0)
    found = worst_class(classes, said, np.arange(600))
    assert found.index == 2
    assert found.interval.value == 1.0
    assert found.interval.low > 0.7


def test_the_lower_bound_pays_for_the_choice_of_the_largest_and_the_upper_one_does_not():
    """The classes' own intervals: recall of one class, false calls of none."""
    classes = np.repeat(np.arange(4), 50)
    said = np.where(np.arange(200) % 50 < 30, classes, 9)
    found = worst_class(classes, said, np.arange(200), alphas=(0.05,)).interval
    recall = stats.binomtest(30, 50)
    assert found.high == pytest.approx(recall.proportion_ci(0.95, method="exact").high, abs=1e-6)
    # Each side reaches as far as its Clopper-Pearson bounds: at alpha / 4.
    miss = 1 - (0.025 / 4) ** (1 / 150)
    reach = 0.6 - recall.proportion_ci(1 - 2 * 0.025 / 4, method="exact").low
    assert found.low == pytest.approx(0.6 - np.hypot(reach, miss), abs=1e-6)
