"""The smallest leak that a plan promises to confirm, held against the intervals that audits draw."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.stats.detection import confirmed_from
from audit.stats.power import DIFFERING
from audit.stats.rates import excess_rate, net
from audit.stats.roc import auc_interval

N_AUDITS = 400
TAIL = 0.005
POWER = 0.8
TOLERANCE = 0.08
"""About four standard errors of a share of 400 audits."""


def hits(rng, n, rate):
    return (rng.random(n) < rate).astype(float)


def drawn_interval(kind, n, leak, rng):
    """The interval of one audit of a model that leaks so much, with n units a side."""
    if kind == "auc" and leak == 1:
        return auc_interval(1 + rng.random(n), rng.random(n))
    if kind == "auc":
        # Exponential scores whose members are larger: the AUC is the ratio of a rate to the sum of
        # both.
        return auc_interval(rng.exponential(leak / (1 - leak), size=n), rng.exponential(size=n))
    if kind == "paired difference":
        chance = rng.random(n)
        return net(chance < leak + DIFFERING, chance > 1 - DIFFERING, np.arange(n), rng)
    member_hits = hits(rng, n, leak + DIFFERING)
    other_hits = hits(rng, n, DIFFERING)
    if kind == "plain difference":
        return excess_rate(
            [(member_hits, None, np.arange(n)), (other_hits, None, np.arange(n))], rng
        )
    return excess_rate(
        [(member_hits, np.zeros(n), np.arange(n)), (other_hits, np.zeros(n), np.arange(n))], rng
    )


@pytest.mark.parametrize("n", [20, 40, 60])
@pytest.mark.parametrize(
    ("kind", "limit"),
    [("auc", 0.65), ("difference", 0.05), ("plain difference", 0.05), ("paired difference", 0.05)],
)
def test_audits_confirm_the_promised_leak_as_often_as_planned(kind, limit, n):
    rng = np.random.default_rng(n)
    leak = confirmed_from(kind, n, n, limit, TAIL, POWER)
    assert leak is not None
    bounds = []
    for _ in range(N_AUDITS):
        interval = drawn_interval(kind, n, leak, rng)
        bounds.append(next(lower for tail, lower, _ in interval.bounds if tail == TAIL))
    share = np.mean(np.array(bounds) > limit)
    assert share >= POWER - TOLERANCE


def test_five_documents_a_side_confirm_no_area():
    assert confirmed_from("auc", 5, 5, 0.65, TAIL) is None


def test_low_advantages_are_not_planned():
    assert confirmed_from("low advantage", 60, 60, 0.2, TAIL) is None


@given(st.sampled_from(["auc", "plain difference"]), st.integers(10, 80), st.integers(1, 60))
def test_more_documents_confirm_smaller_leaks(kind, n, more):
    few = confirmed_from(kind, n, n, 0.6, TAIL)
    many = confirmed_from(kind, n + more, n + more, 0.6, TAIL)
    # Hits are whole, so that power falls by a little now and then.
    assert few is None or (many is not None and many <= few + 0.02)


@pytest.mark.parametrize(("tail", "power"), [(0, 0.8), (1, 0.8), (0.05, 0), (0.05, 1)])
def test_a_level_that_is_none_is_refused(tail, power):
    with pytest.raises(ValueError, match="between 0 and 1"):
        confirmed_from("auc", 20, 20, 0.6, tail, power)
