"""The exact test of two shares, against enumeration and simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from audit.stats.outranking import excess_p


@pytest.mark.parametrize(("found", "others"), [(8, 0), (5, 2), (3, 6), (0, 8)])
def test_p_is_the_largest_chance_of_as_large_a_difference(found, others):
    n, n_others, allowed = 8, 6, 0.05
    others = min(others, n_others)

    def chance(share):
        return sum(
            binom.pmf(x, n, min(1, share + allowed)) * binom.pmf(y, n_others, share)
            for x, y in product(range(n + 1), range(n_others + 1))
            if x / n - y / n_others >= found / n - others / n_others - 1e-9
        )

    by_hand = max(chance(share) for share in np.linspace(0, 1, 401))
    assert excess_p(found, n, others, n_others, allowed) == pytest.approx(by_hand)


def test_all_of_eight_against_none_is_hardly_chance():
    assert excess_p(8, 8, 0, 8, 0.05) < 1e-4
    assert excess_p(8, 8, 8, 8, 0.05) == 1.0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_an_excess_that_is_allowed_is_seldom_found(share):
    rng = np.random.default_rng(1)
    draws = zip(rng.binomial(12, min(1, share + 0.05), 1000), rng.binomial(9, share, 1000), strict=True)
    found = np.array([excess_p(int(x), 12, int(y), 9, 0.05) for x, y in draws])
    for level in (0.05, 0.01):
        assert (found <= level).mean() <= level + 3 * (level / 1000) ** 0.5


def test_counts_out_of_range_are_refused():
    for counts in ((9, 8, 0, 8), (0, 0, 0, 8), (0, 8, -1, 8)):
        with pytest.raises(ValueError, match="no more may be found"):
            excess_p(*counts, 0.05)
