"""Documents that hold unequal numbers of fields: what a leak could hide behind, known answers, and what stays."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.stats.intervals import agreement_interval, effective_number, korn_graubard, proportion
from audit.stats.means import mean
from audit.stats.rates import excess_mean, excess_rate, net, rate
from audit.stats.resampling import bootstrap, from_influences, from_unequal

ALPHAS = (0.25, 0.05, 0.01, 0.001)
LIMIT = 0.05
USERS = [f"audit.stats.{name}.effective_number" for name in ("intervals", "resampling", "means", "rates")]
FEW_HOLD_MOST = np.where(np.arange(150) < 8, 60, 1)
"""150 documents of which 8 hold 480 of 622 fields: as good as 13."""


PINNED = {
    "excess_rate": (0.1, -0.11495705735827963, 0.30912137593341427),
    "net": (0.1, -0.10000815817455183, 0.29348402553289715),
    "mean": (0.1625, 0.09375, 0.25),
}


def generator(seed=0):
    return np.random.default_rng(seed)


@contextmanager
def counted_as_they_are():
    """What the intervals are when each document counts as one, whatever its size."""
    patches = [patch(user, lambda sizes: float(np.asarray(sizes).size)) for user in USERS]
    for one in patches:
        one.start()
    yield
    for one in patches:
        one.stop()


def by_document(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


def test_kish_by_hand():
    assert effective_number([1, 3]) == pytest.approx(16 / 10)
    assert effective_number(FEW_HOLD_MOST) == pytest.approx(622**2 / (8 * 3600 + 142))
    assert effective_number([0, 5, 5]) == 2


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("n", [1, 9, 150])
def test_documents_of_one_size_count_exactly_as_one_each(size, n):
    assert effective_number(np.full(n, size)) == n


@pytest.mark.parametrize("sizes", [[], [0, 0], [-1, 2], [[1]]])
def test_sizes_that_count_nothing_are_refused(sizes):
    with pytest.raises(ValueError, match="sizes"):
        effective_number(sizes)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=50))
def test_kish_lies_between_one_and_the_number_of_documents(sizes):
    assert 1 <= effective_number(sizes) <= len(sizes) + 1e-9


def test_no_hit_where_few_documents_hold_most_fields_proves_little():
    """Before: 0.0243, as with 150 documents of one size."""
    found = proportion(np.zeros(622), by_document(FEW_HOLD_MOST))
    assert found.high == pytest.approx(1 - 0.025 ** (1 / effective_number(FEW_HOLD_MOST)))
    assert found.high > 0.2
    assert found.method == "Clopper-Pearson with n = effective number of documents"
    assert (found.n, found.clusters) == (622, 150)


def test_hits_in_small_documents_say_little_of_the_large_ones():
    """7 of 142 documents with one field were memorised, none of the 8 that hold the rest. Before: high = 0.023."""
    documents = by_document(FEW_HOLD_MOST)
    found = proportion((documents >= 8) & (documents < 15), documents)
    assert found.value == pytest.approx(7 / 622)
    assert found.high > 0.15


def test_korn_graubard_by_hand_where_sizes_differ():
    """Two hits in one of ten single fields' documents, and one document of ten without a hit: K = 20^2 / 110."""
    sizes = [10, *[1] * 10]
    hits = np.array([0] * 10 + [1, 1] + [0] * 8)
    kish, share = 400 / 110, 0.1
    # Mean over fields of (share of the field's document - 0.1)^2.
    spread = (10 * 0.01 + 2 * 0.81 + 8 * 0.01) / 20
    variance = spread / (kish - 1)
    n_effective = share * (1 - share) / variance
    found = korn_graubard(hits, by_document(sizes))
    trials = n_effective * (stats.t.ppf(0.025, 19) / stats.t.ppf(0.025, kish - 1)) ** 2
    assert found.high == pytest.approx(stats.beta.ppf(0.975, share * trials + 1, (1 - share) * trials))
    assert found.low == pytest.approx(stats.beta.ppf(0.025, share * trials, (1 - share) * trials + 1), abs=1e-12)


def test_documents_whose_fields_go_together_have_the_variance_of_kish_documents():
    """Whole documents with independent values: the variance of the mean of fields is sigma^2 / K, as simulated."""
    rng = generator(5)
    sizes = np.maximum(1, rng.lognormal(1, 1.2, 60).round()).astype(int)
    values = rng.random((4000, 60))
    means = values @ sizes / sizes.sum()
    assert means.var() == pytest.approx(values.var() / effective_number(sizes), rel=0.08)
    influences = sizes * (values[0] - means[0]) / sizes.sum()
    widened = from_unequal([influences], [sizes.astype(float)])
    weighted = np.average((values[0] - means[0]) ** 2, weights=sizes)
    assert widened.standard_error**2 >= weighted / (effective_number(sizes) - 1) - 1e-12
    assert widened.degrees_of_freedom == pytest.approx(effective_number(sizes) - 1)


def test_one_size_leaves_the_jackknife_as_it_is():
    influences = [generator(1).normal(size=30), generator(2).normal(size=25)]
    assert from_unequal(influences, [np.full(30, 4.0), np.full(25, 3.0)]) == from_influences(influences)


def memorised(sizes, leak, rng, proportional=False):
    """Which fields are given away when whole documents are, any alike or in proportion to their fields."""
    chance = leak * sizes * sizes.mean() / np.mean(sizes**2) if proportional else leak
    return np.repeat(rng.random(len(sizes)) < chance, sizes)


def audits(runs, leak, excess=excess_rate, proportional=False):
    for run in range(runs):
        rng = generator((run, 3))
        columns = []
        for share in (leak, 0.0):
            sizes = np.where(rng.random(150) < 0.05, 60, 1)
            taken = memorised(sizes, share, rng, proportional)
            columns += [taken, np.zeros_like(taken), by_document(sizes)]
        yield excess(*columns, rng, n_resamples=500)


@pytest.mark.parametrize("excess", [excess_rate, excess_mean])
@pytest.mark.parametrize("proportional", [False, True])
@pytest.mark.parametrize(("leak", "passed_at_most"), [(LIMIT, 0.04), (2 * LIMIT, 0.025)])
def test_a_leak_cannot_hide_behind_the_few_documents_that_hold_most_fields(excess, proportional, leak, passed_at_most):
    """Before: a leak of the limit passed in 51 (59 in proportion) of 100 audits, one of twice the limit in 11 (41)."""
    found = list(audits(150, leak, excess, proportional))
    assert np.mean([interval.high <= LIMIT for interval in found]) <= passed_at_most
    assert np.mean([interval.low <= leak <= interval.high for interval in found]) >= 0.93


def test_forms_with_usual_differences_in_size_still_pass_without_a_leak():
    """Like FUNSD: 150 forms that count as 94. Both zeros of MOVER would have to happen together."""
    sizes = np.repeat([5, 10, 20, 40], [40, 60, 35, 15])
    documents, none = by_document(sizes), np.zeros(sizes.sum())
    assert 90 < effective_number(sizes) < 100
    found = excess_rate(none, none, documents, none, none, documents, generator())
    assert found.high == -found.low == pytest.approx(-np.log(0.025) / effective_number(sizes))
    assert found.high <= LIMIT


samples = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 3), st.integers(0, 3)), min_size=22, max_size=40
)  # documents: fields, hits of the attack, hits of the baseline


def columns_of(rows):
    sizes = np.array([row[0] for row in rows])
    documents = by_document(sizes)
    place = np.arange(documents.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    attack, baseline = (place < np.repeat([row[which] for row in rows], sizes) for which in (1, 2))
    return attack.astype(float), baseline.astype(float), documents


def intervals_of(rows):
    attack, baseline, documents = columns_of(rows)
    other = (baseline[::-1], attack[::-1], documents)
    return [
        proportion(attack, documents, alphas=ALPHAS),
        rate(attack * 0.5, documents, generator(), alphas=ALPHAS),
        mean(np.maximum(attack, 0.3), documents, generator(), alphas=ALPHAS),
        net(attack, baseline, documents, generator(), alphas=ALPHAS),
        excess_rate(attack, baseline, documents, *other, generator(), n_resamples=300, alphas=ALPHAS),
        excess_mean(attack * 0.7, baseline, documents, *other, generator(), n_resamples=300, alphas=ALPHAS),
    ]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(samples)
def test_no_interval_is_narrower_than_with_documents_counted_as_they_are(rows):
    found = intervals_of(rows)
    with counted_as_they_are():
        before = intervals_of(rows)
    for wide, narrow in zip(found, before, strict=True):
        assert wide.value == narrow.value
        assert wide.low <= narrow.low + 1e-12
        assert wide.high >= narrow.high - 1e-12
        for (_, lower, upper), (_, lower_before, upper_before) in zip(wide.bounds, narrow.bounds, strict=True):
            assert lower <= lower_before + 1e-12
            assert upper >= upper_before - 1e-12


@settings(max_examples=25, deadline=None, derandomize=True)
@given(samples, st.integers(3, 6))
def test_documents_of_one_size_lose_nothing(rows, size):
    equal = [(size, hits, base) for _, hits, base in rows]
    found = intervals_of(equal)
    with counted_as_they_are():
        assert intervals_of(equal) == found
    assert not any("unequal" in interval.method or "effective" in interval.method for interval in found)


def test_numbers_of_one_size_are_those_of_the_plain_rules():
    """Fixed before documents of unequal sizes were told apart."""
    documents = np.repeat(np.arange(40), 3)
    attack, baseline = (documents % 4 == 0).astype(float), (documents % 7 == 0).astype(float)
    none = np.zeros(120)
    found = excess_rate(attack, baseline, documents, none, none, documents, generator())
    assert (found.value, found.low, found.high) == pytest.approx(PINNED["excess_rate"], rel=1e-12)
    found = net(attack, baseline, documents, generator())
    assert (found.value, found.low, found.high) == pytest.approx(PINNED["net"], rel=1e-12)
    found = mean(0.5 * attack + 0.25 * baseline, documents, generator())
    assert (found.value, found.low, found.high) == pytest.approx(PINNED["mean"], rel=1e-12)


def test_all_documents_that_agree_count_as_they_are_told():
    assert agreement_interval(1.0, n=50, clusters=20, effective=8.0).low == pytest.approx(0.025 ** (1 / 8))


@pytest.mark.parametrize("sizes", [[[1, 2]], [[1] * 29 + [0]], [[1] * 30, [1] * 30]])
def test_sizes_that_fit_no_cluster_are_refused(sizes):
    strata = [generator(0).random((30, 1))]
    with pytest.raises(ValueError, match="sizes"):
        bootstrap(strata, lambda totals: totals[:, 0, 0], generator(), n_resamples=50, sizes=sizes)
