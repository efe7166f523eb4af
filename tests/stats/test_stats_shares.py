"""Rates of shares, and paired differences of rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.stats.intervals import proportion
from audit.stats.means import mean
from audit.stats.rates import net, rate, scaled

ALPHAS = (0.05, 0.001)


def rng():
    return np.random.default_rng(0)


def columns(n_documents, per, p_gain, p_loss, seed=0):
    """Rows that are a gain, a loss or neither; half of the documents have twice as many."""
    draw = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_documents), per)
    factor = np.where(draw.random(n_documents) < 0.5, 1.5, 0.5)[clusters]
    drawn = draw.random(len(clusters))
    gained = (drawn < p_gain * factor).astype(float)
    lost = (drawn > 1 - p_loss * factor).astype(float)
    return gained, lost, clusters


def test_a_rate_of_hits_is_the_interval_of_a_proportion():
    gained, _, clusters = columns(60, 3, 0.2, 0)
    assert rate(gained, clusters, rng(), alphas=ALPHAS) == proportion(gained, clusters, alphas=ALPHAS)


def test_a_rate_of_shares_is_a_resampled_mean_where_many_documents_differ():
    shares = np.random.default_rng(1).choice([0, 1 / 3, 2 / 3, 1], 90)
    clusters = np.repeat(np.arange(30), 3)
    assert rate(shares, clusters, rng()) == mean(shares, clusters, rng())


def test_rare_shares_are_taken_for_rare_hits():
    shares = np.zeros(100)
    shares[0] = 0.5
    found = rate(shares, np.arange(100), rng(), alphas=ALPHAS)
    assert found.value == 0.005
    assert found.high == pytest.approx(stats.beta.ppf(0.975, 0.5 + 1, 99.5))
    assert "Clopper-Pearson" in found.method
    nearly_all = rate(1 - shares, np.arange(100), rng())
    assert nearly_all.low == pytest.approx(1 - found.high)


def test_no_difference_among_n_documents_bounds_the_net_like_no_hit():
    found = net(np.zeros(300), np.zeros(300), np.repeat(np.arange(150), 2), rng())
    assert found.value == 0
    assert found.high == -found.low == pytest.approx(1 - 0.025 ** (1 / 150))
    assert found.n == 300
    assert found.clusters == 150


def test_the_net_of_many_differences_is_bca_as_scipy_has_it():
    gained, lost, clusters = columns(200, 1, 0.4, 0.2)
    found = net(gained, lost, clusters, rng())
    expected = stats.bootstrap(
        ((gained - lost),), np.mean, n_resamples=10_000, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    assert found.value == pytest.approx((gained - lost).mean())
    assert found.low == pytest.approx(expected.low, abs=0.01)
    assert found.high == pytest.approx(expected.high, abs=0.01)


def test_a_net_where_every_document_differs_alike_has_a_width():
    found = net(np.ones(40), np.zeros(40), np.arange(40), rng())
    assert found.value == found.high == 1
    # No loss was seen, but there may be some: both rates are unsure.
    assert found.low == pytest.approx(1 - 2**0.5 * (1 - 0.025 ** (1 / 40)))


@pytest.mark.parametrize("n_documents", [15, 120])
@pytest.mark.parametrize("p", [0.01, 0.1])
def test_intervals_of_the_net_hold_the_truth(n_documents, p):
    held = []
    for seed in range(120):
        found = net(*columns(n_documents, 2, p, p, seed), rng())
        held.append(found.low <= 0 <= found.high)
    assert np.mean(held) >= 0.90


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 5)), min_size=1, max_size=30))
def test_the_net_is_odd_and_encloses_its_value(rows):
    first, second, clusters = (np.array(column, float) for column in zip(*rows, strict=True))
    there, back = net(first, second, clusters, rng(), alphas=ALPHAS), net(second, first, clusters, rng())
    assert there.value == pytest.approx(-back.value)
    assert -1 <= there.low <= there.value <= there.high <= 1
    for _, lower, upper in there.bounds:
        assert lower <= there.value <= upper
    if "MOVER" in there.method:
        assert there.low == pytest.approx(-back.high)


def test_scaling_takes_all_bounds_along():
    found = rate([0.0, 1.0, 1.0], [0, 1, 2], rng(), alphas=ALPHAS)
    double = scaled(found, 2.0)
    assert double.value == 2 * found.value
    assert (double.low, double.high) == (2 * found.low, 2 * found.high)
    assert double.bounds[1] == (0.001, 2 * found.bounds[1][1], 2 * found.bounds[1][2])
    with pytest.raises(ValueError, match="positive"):
        scaled(found, 0)


@pytest.mark.parametrize(
    ("shares", "clusters"), [([], []), ([0.5], [0, 1]), ([1.5], [0]), ([-0.1], [0]), ([np.nan], [0])]
)
def test_rows_that_are_no_shares_are_refused(shares, clusters):
    with pytest.raises(ValueError, match=r"row|shares"):
        rate(shares, clusters, rng())
    with pytest.raises(ValueError, match=r"row|shares"):
        net(shares, shares, clusters, rng())
