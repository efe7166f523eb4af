"""Members that outrank the others, against enumeration and simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from audit.measurements import ALPHAS
from audit.stats.outranking import ALLOWED, count_outranking, outranking_p


def test_p_is_the_share_of_all_orders():
    n, m = 4, 5
    ranks = np.arange(n + m, dtype=float)
    reached = []
    for chosen in combinations(range(n + m), n):
        mask = np.isin(np.arange(n + m), chosen)
        reached.append(int((ranks[mask] > np.sort(ranks[~mask])[-1 - ALLOWED]).sum()))
    for k in range(n + 1):
        # `k` members on top, then one other in two: exactly k rank above all others but one.
        order = ["h"] * ALLOWED + ["m"] * k + ["h"] * (m - ALLOWED) + ["m"] * (n - k)
        scores = -np.arange(n + m, dtype=float)
        members = [score for score, side in zip(scores, order, strict=True) if side == "m"]
        others = [score for score, side in zip(scores, order, strict=True) if side == "h"]
        assert outranking_p(members, others) == pytest.approx(np.mean(np.array(reached) >= k))


@pytest.mark.parametrize(("n", "m"), [(40, 40), (300, 300), (300, 75), (75, 300)])
def test_exchangeable_sides_give_no_p_under_its_level_too_often(n, m):
    rng = np.random.default_rng(n + m)
    found = np.array([outranking_p(rng.standard_t(3, n), rng.standard_t(3, m)) for _ in range(1000)])
    for level in (0.05, 0.01):
        assert (found <= level).mean() <= level + 3 * (level / 1000) ** 0.5
    assert (found <= 0.05).mean() > 0.01  # a test that never rejects would meet the line above


def test_ties_count_for_the_others():
    assert count_outranking(np.ones(50), np.ones(50)).value == 0
    assert outranking_p(np.ones(50), np.ones(50)) == 1.0


@pytest.mark.parametrize("known", [0, 3, 12, 40])
def test_the_lower_bound_holds_whatever_is_known(known):
    rng = np.random.default_rng(known)
    missed = dict.fromkeys(ALPHAS, 0)
    for _ in range(1000):
        members, others = rng.normal(0, 1, 300), rng.normal(0, 1, 300)
        members[:known] = 10 + rng.random(known)
        found = count_outranking(members, others, alphas=ALPHAS)
        assert found.low <= found.value <= found.high
        for alpha, lower, _ in found.bounds:
            missed[alpha] += lower > known
    assert all(times <= 1000 * alpha + 3 * (1000 * alpha) ** 0.5 for alpha, times in missed.items())


def test_thirty_known_documents_are_more_than_ten_at_every_level():
    rng = np.random.default_rng(0)
    members, others = rng.normal(0, 1, 1000), rng.normal(0, 1, 1000)
    members[:30] = 10 + rng.random(30)
    found = count_outranking(members, others, alphas=ALPHAS)
    assert found.low > 20
    assert all(lower > 10 for _, lower, _ in found.bounds)
    assert outranking_p(members, others) < 1e-6
