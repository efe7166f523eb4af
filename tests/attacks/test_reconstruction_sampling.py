"""Steps 3 to 6 of CDMI against values computed by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax as scipy_log_softmax

from audit.attacks.measuring import combine, log_likelihood_of_losses, log_softmax
from audit.attacks.reconstruction.methods import draw, nucleus, temperature_at

scores = arrays(np.float64, st.integers(1, 40), elements=st.floats(-50, 50))


def test_the_temperature_starts_hot_and_is_t_from_the_fourth_token_on():
    found = [temperature_at(step, 0.3, 10.0) for step in range(6)]
    assert (found, temperature_at(0, 0.3, 1.0)) == (
        pytest.approx([3.0, 2.1, 1.2, 0.3, 0.3, 0.3]),
        0.3,
    )


@given(scores)
def test_log_softmax_is_scipys(values):
    assert log_softmax(values) == pytest.approx(scipy_log_softmax(values), abs=1e-9)


def test_losses_are_weighed_by_equation_5():
    losses = np.array([1e-5, 1e-5, 2e-5, 1.0])
    expected = scipy_log_softmax((2 - losses / 1.5e-5) / 0.3)
    likelihood, usable = log_likelihood_of_losses(losses, 0.3)
    assert usable
    assert likelihood == pytest.approx(expected)


@pytest.mark.parametrize("losses", [[0.0, 0.0, 1.0], [0.1, np.nan, 0.2], [np.inf, 1.0, 1.0]])
def test_losses_that_say_nothing_are_uniform_and_told(losses):
    likelihood, usable = log_likelihood_of_losses(np.array(losses), 0.3)
    assert not usable
    assert np.exp(likelihood) == pytest.approx([1 / 3] * 3)


def test_both_means():
    public = np.log([0.8, 0.2])
    target = np.log([0.2, 0.8])
    assert np.exp(combine(public, target, 0.5, "geometric")) == pytest.approx([0.5, 0.5])
    geometric = np.array([0.8**0.6 * 0.2**0.4, 0.2**0.6 * 0.8**0.4])
    assert np.exp(combine(public, target, 0.4, "geometric")) == pytest.approx(
        geometric / geometric.sum()
    )
    assert np.exp(combine(public, target, 0.25, "arithmetic")) == pytest.approx([0.65, 0.35])


def test_the_nucleus_is_the_smallest_set_that_reaches_p_and_ties_go_to_the_lower_id():
    p = np.array([0.05, 0.4, 0.4, 0.15])
    ids = np.array([9, 8, 7, 6])
    assert (nucleus(p, ids, 0.1).tolist(), nucleus(p, ids, 0.5).tolist()) == ([2], [2, 1])
    assert nucleus(p, ids, 1.0).tolist() == [2, 1, 3, 0]


@given(scores, st.floats(0.01, 1.0))
def test_the_nucleus_is_never_empty_and_reaches_p(values, top_p):
    p = np.exp(log_softmax(values))
    kept = nucleus(p, np.arange(len(p)), top_p)
    assert len(kept) >= 1
    assert p[kept].sum() >= top_p - 1e-9
    assert len(kept) == 1 or p[kept[:-1]].sum() < top_p + 1e-9


def test_draws_follow_the_probabilities_within_the_nucleus():
    p = np.array([0.1, 0.6, 0.3])
    kept = np.array([1, 2])
    rng = np.random.default_rng(0)
    drawn = np.array([draw(p, kept, rng) for _ in range(4000)])
    assert (set(drawn), (drawn == 1).mean()) == ({1, 2}, pytest.approx(2 / 3, abs=0.03))
