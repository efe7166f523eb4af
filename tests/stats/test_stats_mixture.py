"""A test of a whole tail of a ranking: its level, its known answers, and what it finds that a count does not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from audit.stats.mixture import N_DRAWS, _chances_of_at_least, mixture_p, tail_sizes
from audit.stats.ranking import outranking_p


def draw(seed, n_members, n_others, n_shifted=0, shift=0.0):
    """Draw normal scores of both sides; the first members are shifted."""
    rng = np.random.default_rng(seed)
    members = rng.normal(size=n_members)
    members[:n_shifted] += shift
    return members, rng.normal(size=n_others)


def test_the_chance_of_a_count_beyond_an_order_statistic_is_hypergeometric():
    # At least 7 members lie beyond the 3rd largest of 20 others just when at most 2 others are
    # among the first 9.
    assert _chances_of_at_least(30, 20, 3)[7] == pytest.approx(hypergeom.cdf(2, 50, 20, 9))


@pytest.mark.parametrize(("n_members", "n_others"), [(40, 60), (150, 150)])
def test_exchangeable_sides_are_found_at_the_level(n_members, n_others):
    p_values = np.array([mixture_p(*draw(seed, n_members, n_others)) for seed in range(1000)])
    assert (p_values <= 0.05).sum() <= 64
    assert (p_values <= 0.05).sum() >= 25, "the test is not idle"


def test_a_tenth_that_is_known_a_little_is_found_where_none_stands_above_all():
    n_found = {"mixture": 0, "count": 0}
    for seed in range(40):
        members, others = draw(seed, 250, 300, n_shifted=25, shift=2.5)
        n_found["mixture"] += mixture_p(members, others) <= 0.01
        n_found["count"] += outranking_p(members, others) <= 0.01
    assert n_found["mixture"] >= 20
    assert n_found["mixture"] > n_found["count"]


def test_all_members_beyond_all_others_give_the_smallest_p_value():
    assert mixture_p(np.arange(100, 200), np.arange(100)) == pytest.approx(1 / (N_DRAWS + 1))


@pytest.mark.parametrize("n_others", [1, 2, 4])
def test_too_few_others_find_nothing(n_others):
    assert tail_sizes(n_others) == ()
    assert mixture_p(np.arange(100, 200), np.arange(n_others)) == 1.0


def test_ties_count_against_a_finding():
    assert mixture_p(np.zeros(100), np.zeros(100)) == 1.0


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 2**16), st.floats(0.1, 3))
def test_only_ranks_matter_and_a_shift_never_raises_the_p_value(seed, shift):
    members, others = draw(seed, 30, 40)
    p_value = mixture_p(members, others)
    assert mixture_p(np.exp(members), np.exp(others)) == p_value
    assert mixture_p(members + shift, others) <= p_value


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="must be numbers"):
        mixture_p([1.0, np.nan], [0.0, 2.0])
