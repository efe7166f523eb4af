import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit.stats.intervals import clopper_pearson, cluster_sums, korn_graubard, proportion

ALPHAS = (0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001, 0.0001)
deterministic = settings(max_examples=60, deadline=None, derandomize=True)
samples = st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=1, max_size=60)


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 72), (1, 1), (3, 150), (75, 150), (149, 150), (150, 150)])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_clopper_pearson_agrees_with_scipy(hits, n, level):
    ours = clopper_pearson(hits, n, level, alphas=(0.05,))
    exact = stats.binomtest(hits, n).proportion_ci(level, method="exact")
    assert (ours.low, ours.high) == pytest.approx((exact.low, exact.high), abs=1e-10)
    lower = stats.binomtest(hits, n, alternative="greater").proportion_ci(0.95, method="exact").low
    upper = stats.binomtest(hits, n, alternative="less").proportion_ci(0.95, method="exact").high
    assert ours.bounds[0] == pytest.approx((0.05, lower, upper), abs=1e-10)


@pytest.mark.parametrize(("hits", "n", "level"), [(1, 0, 0.95), (-1, 5, 0.95), (6, 5, 0.95), (1, 5, 1.0), (1, 5, 0.0)])
def test_clopper_pearson_refuses_what_is_no_proportion(hits, n, level):
    with pytest.raises(ValueError, match=r"hits between 0 and n|level"):
        clopper_pearson(hits, n, level)


def test_korn_graubard_by_hand():
    # Four documents of three fields with 3, 0, 1, 0 hits: p = 1/3; residuals (2, -1, 0, -1) / 12, so variance
    # 4/3 * 6/144 = 1/18 and n_eff = (2/9) / (1/18) = 4 of 12; times (t_11 / t_3)^2 = (2.200985 / 3.182446)^2.
    hits = [1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    documents = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    trials = 4 * (2.200985 / 3.182446) ** 2
    interval = korn_graubard(hits, documents)
    assert interval.value == pytest.approx(1 / 3)
    assert interval.low == pytest.approx(stats.beta.ppf(0.025, trials / 3, 2 * trials / 3 + 1), rel=1e-5)
    assert interval.high == pytest.approx(stats.beta.ppf(0.975, trials / 3 + 1, 2 * trials / 3), rel=1e-5)
    assert (interval.n, interval.clusters, interval.method) == (12, 4, "Korn-Graubard, clustered by document")


def test_fields_that_all_agree_within_their_document_count_as_documents():
    """150 documents of 4 equal fields carry what 150 fields carry: n_eff = 600 / 4, apart from the t correction."""
    by_document = np.arange(150) % 10 == 0
    interval = korn_graubard(np.repeat(by_document, 4), np.repeat(np.arange(150), 4))
    exact = stats.binomtest(15, 150).proportion_ci(method="exact")
    assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high), abs=2e-3)


def test_documents_that_agree_to_the_digit_prove_no_more_than_independent_rows():
    interval = korn_graubard(np.tile([1, 0], 50), np.repeat(np.arange(50), 2))
    exact = stats.binomtest(50, 100).proportion_ci(method="exact")
    assert interval.low <= exact.low < exact.high <= interval.high


def test_korn_graubard_refuses_what_has_no_design_effect():
    for hits, documents in (([0, 0, 0], [0, 0, 1]), ([1, 1, 1], [0, 0, 1]), ([1, 0, 1], [4, 4, 4])):
        with pytest.raises(ValueError, match="design effect"):
            korn_graubard(hits, documents)


@pytest.mark.parametrize("hit", [0, 1])
def test_no_hit_or_all_hits_are_judged_by_the_number_of_documents(hit):
    interval = proportion(np.full(288, hit), np.arange(288) % 72)
    exact = stats.binomtest(72 * hit, 72).proportion_ci(method="exact")
    assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high), abs=1e-10)
    assert (interval.n, interval.clusters) == (288, 72)
    assert interval.method == "Clopper-Pearson with n = number of documents"


def test_zero_hits_pass_a_limit_of_5_percent_from_72_documents_on():
    assert proportion(np.zeros(72), np.arange(72)).high <= 0.05 < proportion(np.zeros(71), np.arange(71)).high


def test_one_field_a_document_is_plain_clopper_pearson():
    hits = np.arange(40) < 3
    interval = proportion(hits, np.arange(40), alphas=ALPHAS)
    plain = clopper_pearson(3, 40, alphas=ALPHAS)
    assert (interval.low, interval.high, interval.method) == (plain.low, plain.high, "Clopper-Pearson")
    assert interval.bounds == plain.bounds


def test_a_single_document_says_almost_nothing_however_many_fields_it_has():
    interval = proportion([1, 1, 0, 1] * 25, np.zeros(100, dtype=int))
    assert interval.high - interval.low > 0.9


def test_the_method_names_the_unit():
    assert proportion([0, 0], [1, 1], unit="provider").method.endswith("number of providers")
    assert proportion([0, 1, 0], [1, 1, 2], unit="provider").method == "Korn-Graubard, clustered by provider"


@pytest.mark.parametrize(
    ("hits", "documents"), [([], []), ([1, 0], [1]), ([0.5, 1], [1, 2]), ([math.nan, 1.0], [1, 2]), ([[1]], [[1]])]
)
def test_proportion_refuses_what_it_cannot_average(hits, documents):
    with pytest.raises(ValueError, match=r"hits must be|one value for each"):
        proportion(hits, documents)


@pytest.mark.parametrize("alpha", [0.0, 0.5, -0.1])
def test_alphas_outside_the_tail_are_refused(alpha):
    with pytest.raises(ValueError, match="alpha"):
        proportion([0, 1], [0, 1], alphas=(alpha,))


@deterministic
@given(samples)
def test_a_proportion_lies_in_its_interval_and_the_interval_in_0_and_1(rows):
    hits, documents = zip(*rows, strict=True)
    interval = proportion(hits, documents, alphas=ALPHAS)
    assert 0.0 <= interval.low <= interval.value <= interval.high <= 1.0
    assert interval.low < interval.high
    for _, lower, upper in interval.bounds:
        assert 0.0 <= lower <= interval.value <= upper <= 1.0


@deterministic
@given(samples)
def test_intervals_widen_with_confidence(rows):
    hits, documents = zip(*rows, strict=True)
    interval = proportion(hits, documents, alphas=ALPHAS)
    lowers, uppers = [bound[1] for bound in interval.bounds], [bound[2] for bound in interval.bounds]
    assert lowers == sorted(lowers, reverse=True)
    assert uppers == sorted(uppers)
    assert (interval.low, interval.high) == pytest.approx(interval.bounds[3][1:], abs=1e-12)
    narrow = proportion(hits, documents, level=0.8)
    assert interval.low <= narrow.low
    assert narrow.high <= interval.high


@deterministic
@given(samples, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    first = proportion(*zip(*rows, strict=True), alphas=ALPHAS)
    second = proportion(*zip(*shuffled, strict=True), alphas=ALPHAS)
    assert (first.low, first.high, first.method) == pytest.approx((second.low, second.high, second.method))


@deterministic
@given(st.integers(3, 40), st.integers(2, 6), st.data())
def test_hits_that_come_in_documents_give_a_wider_interval_than_scattered_ones(n_documents, size, data):
    hit_documents = data.draw(st.integers(1, n_documents - 1))
    documents = np.repeat(np.arange(n_documents), size)
    together = documents < hit_documents
    scattered = np.zeros_like(together)
    scattered.reshape(n_documents, size).T.flat[: hit_documents * size] = True  # one a document, then a second
    clustered, spread = proportion(together, documents), proportion(scattered, documents)
    assert clustered.value == spread.value
    assert clustered.high - clustered.low > spread.high - spread.low


def test_cluster_sums_add_up_each_document():
    sums = cluster_sums([[1.0, 2.0, 4.0], [1, 1, 1]], [9, 3, 9])
    assert sums.tolist() == [[2.0, 1.0], [5.0, 2.0]]


def test_importing_the_package_loads_no_scipy():
    code = "import sys, audit.stats.distances, audit.stats.rates; print('scipy' in sys.modules, 'numpy' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.split() == ["False", "True"]
