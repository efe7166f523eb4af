"""LiRA against the exact likelihood ratio on simulated Gaussians."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from audit.stats import likelihood_ratio as likelihood
from audit.stats.roc import auc

DETERMINISTIC = settings(max_examples=60, deadline=None, derandomize=True)
UNIT = st.floats(0.01, 1.0)


@DETERMINISTIC
@given(st.floats(1e-6, 30))
def test_the_logit_of_the_confidence_is_log_p_over_one_minus_p(loss):
    p = np.exp(-loss)
    assert likelihood.logit_confidence(loss) == pytest.approx(
        np.log(p) - np.log1p(-p), rel=1e-6, abs=1e-6
    )


def test_extreme_losses_keep_their_order_and_stay_finite():
    values = likelihood.logit_confidence([0.0, likelihood.LOWEST_LOSS, 1e-3, 1.0, 1e3])
    assert np.isfinite(values).all()
    assert values[0] == values[1]
    assert (np.diff(values[1:]) < 0).all()
    assert values[-1] == pytest.approx(-1e3)


def simulated(n, k, leak, seed=0, spread=1.0):
    """Logits of a target and of k models a side for n documents, half of them members."""
    rng = np.random.default_rng(seed)
    member = np.arange(n) % 2 == 0
    mean = rng.normal(0, 3, n)
    inside = mean[:, None] + leak + rng.normal(0, spread, (n, k))
    outside = mean[:, None] + rng.normal(0, spread, (n, k))
    observed = mean + leak * member + rng.normal(0, spread, n)
    exact = norm.logpdf(observed, mean + leak, spread) - norm.logpdf(observed, mean, spread)
    return member, observed, inside, outside, exact


def test_lira_comes_to_the_exact_likelihood_ratio_with_many_models():
    member, observed, inside, outside, exact = simulated(400, 4000, 1.5)
    found = likelihood.lira_online(observed, inside, outside)
    np.testing.assert_allclose(found, exact, atol=0.35)
    assert np.corrcoef(found, exact)[0, 1] > 0.999
    truth = norm.cdf(1.5 / 2**0.5)
    assert auc(found[member], found[~member]) == pytest.approx(truth, abs=0.05)


def test_offline_lira_is_the_distance_from_the_models_that_do_not_know_the_document():
    _, observed, _, outside, _ = simulated(200, 64, 1.0)
    mean = outside.mean(axis=1)
    deviation = outside.std(axis=1, ddof=1)
    np.testing.assert_allclose(
        likelihood.lira_offline(observed, outside), (observed - mean) / deviation
    )


@pytest.mark.parametrize(("k", "shared"), [(15, True), (16, False)])
def test_variances_are_shared_under_sixteen_models_a_side(k, shared):
    rng = np.random.default_rng(0)
    observed = rng.normal(0, 1, 50)
    outside = rng.normal(0, 1, (50, k)) * np.linspace(0.5, 2, 50)[:, None]
    score = likelihood.lira_offline(observed, outside)
    deviations = (observed - outside.mean(axis=1)) / score
    assert (np.ptp(deviations) < 1e-12) == shared
    if shared:
        assert deviations[0] == pytest.approx(np.sqrt(outside.var(axis=1, ddof=1).mean()))


def test_models_that_agree_to_the_digit_give_finite_scores():
    assert np.isfinite(likelihood.lira_online([0.0, 1.0], np.ones((2, 3)), np.zeros((2, 3)))).all()


def test_every_document_is_judged_by_equally_many_models_of_a_side_and_no_model_is_preferred():
    rng = np.random.default_rng(0)
    k = 8
    n = 400
    trained = np.zeros((n, k), bool)
    trained[: n // 2] = rng.permuted(np.tile(np.arange(k) < k // 2, (n // 2, 1)), axis=1)
    columns = np.tile(np.arange(k, dtype=float), (n, 1))
    inside, outside = likelihood.sides(columns, trained)
    assert inside is None  # no model was trained on the held-out half
    assert outside.shape == (n, k // 2)
    for row, taken in zip(outside, trained, strict=True):
        assert len(set(row)) == k // 2
        assert not taken[row.astype(int)].any()
    for half in (outside[: n // 2], outside[n // 2 :]):
        shares = np.bincount(half.astype(int).ravel(), minlength=k) / half.size
        np.testing.assert_allclose(shares, 1 / k, atol=0.04)


def test_a_side_with_fewer_than_two_models_is_none():
    trained = np.array([[True, True, False], [True, True, True]])
    inside, outside = likelihood.sides(np.zeros((2, 3)), trained)
    assert inside.shape == (2, 2)
    assert outside is None


@pytest.mark.parametrize(
    ("values", "trained"),
    [(np.zeros((2, 3)), np.ones((3, 2), bool)), (np.full((1, 2), np.nan), np.ones((1, 2), bool))],
)
def test_tables_that_do_not_fit_are_refused(values, trained):
    with pytest.raises(ValueError, match=r"shape|finite"):
        likelihood.sides(values, trained)


@pytest.mark.parametrize("place", [1, 2, 8, 1000])
def test_a_model_that_puts_the_canary_at_a_known_place_exposes_it_by_so_many_bits(place):
    likelihoods = -np.arange(1000.0)
    canary = likelihoods[place - 1]
    others = np.random.default_rng(0).permutation(np.delete(likelihoods, place - 1))
    found = likelihood.exposure(canary, others, enumerated=True)
    assert (found.rank, found.n, found.ties, found.enumerated) == (place, 1000, 0, True)
    assert (found.bits, found.p_value) == (
        pytest.approx(math.log2(1000 / place)),
        pytest.approx(place / 1000),
    )


@pytest.mark.parametrize(
    ("canary", "references", "bits", "rank", "ties"),
    [
        (0.5, np.linspace(-9, 0, 999), math.log2(999), 1, 0),
        (-10.0, np.linspace(-9, 0, 999), 0, 1000, 0),
        (1.0, np.ones(500), 0, 501, 500),
    ],
)
def test_exposure_by_hand(canary, references, bits, rank, ties):
    found = likelihood.exposure(canary, references)
    assert (found.bits, found.rank, found.ties) == (pytest.approx(bits), rank, ties)
    assert found.p_value == pytest.approx(rank / (len(references) + 1))


def test_drawn_and_enumerated_ranks_agree_when_the_draws_are_all_candidates():
    rng = np.random.default_rng(1)
    candidates = rng.normal(size=4096)
    drawn = [
        likelihood.exposure(candidates[0], rng.choice(candidates, 2000)).bits for _ in range(200)
    ]
    known = likelihood.exposure(candidates[0], candidates[1:], enumerated=True).bits
    assert np.mean(drawn) == pytest.approx(known, abs=0.02)


def test_without_memory_p_is_uniform_and_the_mean_exposure_that_of_chance():
    rng = np.random.default_rng(2)
    found = [likelihood.exposure(rng.normal(), rng.normal(size=99)) for _ in range(4000)]
    p = np.array([one.p_value for one in found])
    for level in (0.05, 0.25, 0.5, 0.9):
        assert np.mean(p <= level) == pytest.approx(level, abs=0.025)
    assert np.mean([one.bits for one in found]) == pytest.approx(
        likelihood.chance_exposure(99), abs=0.08
    )


def test_chance_exposure_tends_to_the_mean_of_an_exponential():
    assert likelihood.chance_exposure(10**6) == pytest.approx(1 / math.log(2), abs=1e-4)
    assert likelihood.chance_exposure(3, enumerated=True) == pytest.approx(
        (2 + 1 + (2 - math.log2(3)) + 0) / 4
    )


@DETERMINISTIC
@given(st.integers(-5, 5), st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_a_likelier_canary_is_never_less_exposed(canary, references):
    lower = likelihood.exposure(canary, references)
    higher = likelihood.exposure(canary + 1, references)
    assert higher.bits >= lower.bits
    assert higher.p_value <= lower.p_value
    assert 0 <= lower.bits <= math.log2(len(references))
    assert lower.p_value == pytest.approx(
        (1 + sum(one >= canary for one in references)) / (len(references) + 1)
    )


def test_no_references_and_scores_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="at least one reference"):
        likelihood.exposure(0.0, [])
    with pytest.raises(ValueError, match="at least one reference"):
        likelihood.exposure(0.0, [[1.0]])
    with pytest.raises(ValueError, match="at least one reference"):
        likelihood.chance_exposure(0)
    for canary, references in ((math.nan, [0.0]), (0.0, [0.0, math.nan])):
        with pytest.raises(ValueError, match="not a number"):
            likelihood.exposure(canary, references)
