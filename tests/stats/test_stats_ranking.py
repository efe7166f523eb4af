from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from audit.stats.intervals import clopper_pearson, proportion
from audit.stats.ranking import at, at_interval, depth, rank_fields
from benchmarks.excess_area import RankedFields, excess_area

ALPHAS = (0.25, 0.05, 0.01, 0.001)
deterministic = settings(max_examples=60, deadline=None, derandomize=True)
SIXTHS = st.integers(0, 6).map(lambda value: value / 6)


def curve(scores, outcomes):
    return rank_fields(scores, outcomes).curve()


def area(scores, outcomes):
    return float(curve(scores, outcomes).mean())


def generator(seed=0):
    return np.random.default_rng(seed)


def fields(outcome, max_size=7):
    """Scores that often agree, an outcome each, and documents."""
    return st.lists(st.tuples(st.integers(0, 3), outcome, st.integers(0, 3)), min_size=1, max_size=max_size).map(
        lambda rows: tuple(np.array(column, dtype=float) for column in zip(*rows, strict=True))
    )


def audit(rng, n_documents=60, per_document=3, rate=0.2, strength=1.0):
    """Hits at a rate that varies between documents, and scores that are higher where there is a hit."""
    documents = np.repeat(np.arange(n_documents), per_document)
    hits = (rng.random(documents.size) < rng.beta(4 * rate, 4 * (1 - rate), n_documents)[documents]).astype(float)
    return rng.normal(size=hits.size) + strength * hits, hits, documents


@pytest.mark.parametrize(
    ("p", "n_fields", "expected"),
    [(0.05, 40, 2), (0.051, 40, 3), (0.07, 100, 7), (0.01, 40, 1), (1e-15, 40, 1), (1, 7, 7), (0.1 + 0.2, 10, 3)],
)
def test_how_many_fields_are_in_the_first_share(p, n_fields, expected):
    assert depth(p, n_fields) == expected


@pytest.mark.parametrize(
    ("scores", "outcomes", "expected_curve", "expected_area"),
    [
        ([9, 8, 7, 6], [1, 0, 1, 0], [1, 1 / 2, 2 / 3, 1 / 2], 2 / 3),
        ([6, 7, 8, 9], [1, 0, 1, 0], [0, 1 / 2, 1 / 3, 1 / 2], 1 / 3),
        ([3, 2, 1], [0, 0.5, 1], [0, 1 / 4, 1 / 2], 1 / 4),
        # The tied pair comes in either order: (0, 1/2, 1/3) or (0, 0, 1/3).
        ([2, 1, 1], [0, 1, 0], [0, 1 / 4, 1 / 3], 7 / 36),
        # The tied pair comes first: (1, 1/2, 2/3) or (0, 1/2, 2/3).
        ([5, 5, -np.inf], [1, 0, 1], [1 / 2, 1 / 2, 2 / 3], 5 / 9),
        ([np.inf, np.inf, 0], [0.2, 0.4, 0.9], [0.3, 0.3, 0.5], 11 / 30),
        ([4, 4, 4, 4], [1, 0, 0, 0], [1 / 4] * 4, 1 / 4),
        ([0], [1], [1], 1),
    ],
)
def test_curves_and_areas_computed_by_hand(scores, outcomes, expected_curve, expected_area):
    assert curve(scores, outcomes) == pytest.approx(expected_curve)
    assert area(scores, outcomes) == pytest.approx(expected_area)


def test_the_share_recovered_among_the_first_fields():
    scores, hits = np.arange(40.0), np.zeros(40)
    hits[[39, 37, 0]] = 1
    assert at(scores, hits, 0.01) == 1.0
    assert at(scores, hits, 0.05) == 1 / 2
    assert at(scores, hits, 0.06) == 2 / 3
    assert at(scores, hits, 1) == 3 / 40
    assert at(scores // 4, hits, 0.05) == 2 / 4  # the first group holds four fields, two of them hits


@deterministic
@given(fields(SIXTHS, max_size=6))
def test_ties_take_the_mean_over_all_their_orders(rows):
    scores, outcomes, _ = rows
    places = np.arange(1, scores.size + 1)
    orders = [list(order) for order in permutations(range(scores.size)) if (np.diff(scores[list(order)]) <= 0).all()]
    running = [np.cumsum(outcomes[order]) / places for order in orders]
    assert curve(scores, outcomes) == pytest.approx(np.mean(running, axis=0))
    assert area(scores, outcomes) == pytest.approx(np.mean(running))


@deterministic
@given(fields(SIXTHS, max_size=30), st.floats(0.001, 1))
def test_all_fields_together_give_the_mean_and_the_order_of_rows_does_not_matter(rows, p):
    scores, outcomes, _ = rows
    assert at(scores, outcomes, 1) == pytest.approx(outcomes.mean())
    shuffled = generator(scores.size).permutation(scores.size)
    assert at(scores[shuffled], outcomes[shuffled], p) == at(scores, outcomes, p)
    assert area(scores[shuffled], outcomes[shuffled]) == area(scores, outcomes)


@deterministic
@given(fields(SIXTHS, max_size=25), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_the_area_of_weighted_documents_is_that_of_repeated_rows(rows, times):
    scores, outcomes, documents = rows
    ranking = RankedFields.of(scores, outcomes, documents)
    weights = np.array(times[: ranking.n_documents], dtype=float)
    assume(weights.any())
    repeats = weights[np.unique(documents, return_inverse=True)[1]].astype(int)
    expanded = area(np.repeat(scores, repeats), np.repeat(outcomes, repeats))
    assert ranking.areas(weights[None]) == pytest.approx(expanded)


def test_within_the_first_fields_hits_are_a_proportion_clustered_by_document():
    scores, hits, documents = audit(generator(10), 40, 3, rate=0.3)
    first = np.argsort(-scores)[:30]
    interval = at_interval(scores, hits, documents, 0.25, alphas=ALPHAS, unit="receipt")
    expected = proportion(hits[first], documents[first], alphas=ALPHAS, unit="receipt")
    assert (interval.value, interval.low, interval.high) == (at(scores, hits, 0.25), expected.low, expected.high)
    assert interval.bounds == expected.bounds
    assert (interval.n, interval.clusters) == (30, expected.clusters)
    assert interval.method == f"{expected.method}, conditional on the ranking"
    assert "receipt" in interval.method


def test_equal_scores_at_the_border_leave_the_interval_as_open_as_the_set():
    """The second of two fields is any of 39, of which one is a hit: the expected value is (1 + 1/39) / 2."""
    scores, hits = np.array([1.0, *np.zeros(39)]), np.zeros(40)
    hits[[0, 5]] = 1
    interval = at_interval(scores, hits, np.arange(40), 0.05)
    assert interval.value == pytest.approx((1 + 1 / 39) / 2)
    assert (interval.low, interval.high) == (clopper_pearson(1, 2).low, clopper_pearson(2, 2).high)
    assert "outer over orders of equal scores" in interval.method
    assert interval.n == 2
    whole = at_interval(scores, hits, np.arange(40), 1)
    assert (whole.low, whole.high) == (clopper_pearson(2, 40).low, clopper_pearson(2, 40).high)


@pytest.mark.parametrize("outcomes", [[1, 1, 0, 0], [0, 0, 1, 1]])
@pytest.mark.parametrize("documents", [[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 3, 4]])
@pytest.mark.parametrize("p", [0.01, 0.5, 0.75, 1])
def test_a_few_fields_give_a_wide_interval_and_never_a_failure(outcomes, documents, p):
    interval = at_interval([4, 3, 2, 1], outcomes, documents, p, alphas=ALPHAS)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.high - interval.low > 0.3
    if p == 0.01:
        assert (interval.n, interval.clusters) == (1, 1)
        assert interval.high - interval.low >= 0.95


@deterministic
@given(fields(SIXTHS, max_size=25), st.floats(0.01, 1))
def test_intervals_at_a_share_enclose_the_value(rows, p):
    scores, outcomes, documents = rows
    interval = at_interval(scores, outcomes > 0.5, documents, p, alphas=ALPHAS)
    assert interval.value == at(scores, outcomes > 0.5, p)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.low < interval.high
    assert interval.n == depth(p, scores.size)
    assert interval.bounds[-1][1] <= interval.low
    assert interval.bounds[-1][2] >= interval.high


def attempts(rng, n_documents, attack_rate, baseline_rate, strength=1.0):
    """What `excess_area` takes of one split: scores and hits of attack and baseline, and documents."""
    attack = audit(rng, n_documents, 3, attack_rate, strength)
    baseline = audit(rng, n_documents, 3, baseline_rate, strength)
    return attack[0], attack[1], baseline[0], baseline[1], attack[2]


def test_the_excess_of_the_area_is_the_difference_of_the_differences():
    member, heldout = attempts(generator(14), 70, 0.7, 0.1), attempts(generator(15), 40, 0.1, 0.1)
    interval = excess_area(*member, *heldout, generator(), alphas=ALPHAS, n_resamples=1000)
    by_hand = (area(*member[:2]) - area(*member[2:4])) - (area(*heldout[:2]) - area(*heldout[2:4]))
    assert interval.value == pytest.approx(by_hand)
    assert 0 < interval.low < by_hand < interval.high
    assert (interval.n, interval.clusters) == (330, 110)
    assert interval.method == "BCa bootstrap over documents, 1,000 resamples, 2 strata"


@pytest.mark.parametrize(
    "rows",
    [
        ([], [], []),
        ([1, 2], [1], [1, 2]),
        ([1, 2], [1, 0], [1]),
        ([[1], [2]], [[1], [0]], [[1], [2]]),
        ([1, np.nan], [1, 0], [1, 2]),
        ([1, 2], [1, 1.5], [1, 2]),
        ([1, 2], [np.nan, 1], [1, 2]),
    ],
)
def test_what_cannot_be_ranked_is_refused(rows):
    with pytest.raises(ValueError, match=r"one length|must lie in \[0, 1\]"):
        at_interval(*rows, 0.5)


@pytest.mark.parametrize("p", [0, -0.1, 1.01, np.nan])
def test_a_share_outside_zero_to_one_is_refused(p):
    with pytest.raises(ValueError, match="p must lie"):
        at([1, 2], [0, 1], p)
