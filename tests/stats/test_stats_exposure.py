"""Exposure against models whose ranks are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.stats.likelihood_ratio import chance_exposure, exposure

DETERMINISTIC = settings(max_examples=60, deadline=None, derandomize=True)


@pytest.mark.parametrize("place", [1, 2, 8, 1000])
def test_a_model_that_puts_the_canary_at_a_known_place_exposes_it_by_so_many_bits(place):
    likelihoods = -np.arange(1000.0)
    canary = likelihoods[place - 1]
    others = np.random.default_rng(0).permutation(np.delete(likelihoods, place - 1))
    found = exposure(canary, others, enumerated=True)
    assert (found.rank, found.n, found.ties, found.enumerated) == (place, 1000, 0, True)
    assert found.bits == pytest.approx(math.log2(1000 / place))
    assert found.p_value == pytest.approx(place / 1000)


def test_a_canary_that_no_fresh_draw_reaches_has_all_bits_and_the_least_p():
    found = exposure(0.5, np.linspace(-9, 0, 999))
    assert (found.bits, found.rank, found.n) == (pytest.approx(math.log2(999)), 1, 999)
    assert found.p_value == pytest.approx(1 / 1000)


def test_a_canary_behind_every_draw_has_no_bits():
    found = exposure(-10.0, np.linspace(-9, 0, 999))
    assert (found.bits, found.rank, found.p_value) == (0.0, 1000, 1.0)


def test_a_model_that_holds_everything_equally_likely_exposes_nothing():
    found = exposure(1.0, np.ones(500))
    assert (found.bits, found.ties, found.p_value) == (0.0, 500, 1.0)


def test_drawn_and_enumerated_ranks_agree_when_the_draws_are_all_candidates():
    rng = np.random.default_rng(1)
    candidates = rng.normal(size=4096)
    drawn = [exposure(candidates[0], rng.choice(candidates, 2000)).bits for _ in range(200)]
    known = exposure(candidates[0], candidates[1:], enumerated=True).bits
    assert np.mean(drawn) == pytest.approx(known, abs=0.02)


def test_without_memory_p_is_uniform_and_the_mean_exposure_that_of_chance():
    rng = np.random.default_rng(2)
    found = [exposure(rng.normal(), rng.normal(size=99)) for _ in range(4000)]
    p = np.array([one.p_value for one in found])
    for level in (0.05, 0.25, 0.5, 0.9):
        assert np.mean(p <= level) == pytest.approx(level, abs=0.025)
    assert np.mean([one.bits for one in found]) == pytest.approx(chance_exposure(99), abs=0.08)


def test_chance_exposure_tends_to_the_mean_of_an_exponential():
    assert chance_exposure(10**6) == pytest.approx(1 / math.log(2), abs=1e-4)
    assert chance_exposure(3, enumerated=True) == pytest.approx((2 + 1 + (2 - math.log2(3)) + 0) / 4)


@DETERMINISTIC
@given(st.integers(-5, 5), st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_a_likelier_canary_is_never_less_exposed(canary, references):
    lower, higher = exposure(canary, references), exposure(canary + 1, references)
    assert higher.bits >= lower.bits
    assert higher.p_value <= lower.p_value
    assert 0 <= lower.bits <= math.log2(len(references))
    assert lower.p_value == pytest.approx((1 + sum(one >= canary for one in references)) / (len(references) + 1))


def test_no_references_and_scores_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="at least one reference"):
        exposure(0.0, [])
    with pytest.raises(ValueError, match="at least one reference"):
        exposure(0.0, [[1.0]])
    with pytest.raises(ValueError, match="at least one reference"):
        chance_exposure(0)
    for canary, references in ((math.nan, [0.0]), (0.0, [0.0, math.nan])):
        with pytest.raises(ValueError, match="not a number"):
            exposure(canary, references)
