import math
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from audit.measurements import ALPHAS
from audit.stats.intervals import proportion
from audit.stats.ranking import (
    ALLOWED,
    at,
    at_interval,
    count_outranking,
    depth,
    excess_p,
    outranking_p,
    rank_fields,
)
from benchmarks.calibration.excess_area import excess_area

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
    return st.lists(
        st.tuples(st.integers(0, 3), outcome, st.integers(0, 3)), min_size=1, max_size=max_size
    ).map(lambda rows: tuple(np.array(column, dtype=float) for column in zip(*rows, strict=True)))


def audit(rng, n_documents=60, per_document=3, rate=0.2, strength=1.0):
    """Hits at a rate that varies between documents, and scores that are higher where there is a hit."""
    documents = np.repeat(np.arange(n_documents), per_document)
    hits = (
        rng.random(documents.size) < rng.beta(4 * rate, 4 * (1 - rate), n_documents)[documents]
    ).astype(float)
    return rng.normal(size=hits.size) + strength * hits, hits, documents


@pytest.mark.parametrize(
    ("p", "n_fields", "expected"),
    [
        (0.05, 40, 2),
        (0.051, 40, 3),
        (0.07, 100, 7),
        (0.01, 40, 1),
        (1e-15, 40, 1),
        (1, 7, 7),
        (0.1 + 0.2, 10, 3),
    ],
)
def test_how_many_fields_are_in_the_first_share(p, n_fields, expected):
    assert depth(p, n_fields) == expected


@pytest.mark.parametrize(
    ("scores", "outcomes", "expected_curve", "expected_area"),
    [
        pytest.param([9, 8, 7, 6], [1, 0, 1, 0], [1, "1/2", "2/3", "1/2"], "2/3", id="hits first"),
        pytest.param([6, 7, 8, 9], [1, 0, 1, 0], [0, "1/2", "1/3", "1/2"], "1/3", id="hits last"),
        pytest.param([3, 2, 1], [0, 0.5, 1], [0, "1/4", "1/2"], "1/4", id="halves of hits"),
        # The tied pair comes in either order: (0, 1/2, 1/3) or (0, 0, 1/3).
        pytest.param(
            [2, 1, 1],
            [0, 1, 0],
            [0, "1/4", "1/3"],
            "7/36",
            id="one tie: (0, 1/2, 1/3) or (0, 0, 1/3)",
        ),
        # The tied pair comes first: (1, 1/2, 2/3) or (0, 1/2, 2/3).
        pytest.param(
            [5, 5, -math.inf],
            [1, 0, 1],
            ["1/2", "1/2", "2/3"],
            "5/9",
            id="a tie first: (1, 1/2, 2/3) or (0, 1/2, 2/3)",
        ),
        pytest.param(
            [math.inf, math.inf, 0],
            [0.2, 0.4, 0.9],
            ["3/10", "3/10", "1/2"],
            "11/30",
            id="shares, and two scores without end",
        ),
        pytest.param(
            [4, 4, 4, 4], [1, 0, 0, 0], ["1/4", "1/4", "1/4", "1/4"], "1/4", id="all tied"
        ),
        pytest.param([0], [1], [1], 1, id="one score"),
    ],
)
def test_curves_and_areas_computed_by_hand(scores, outcomes, expected_curve, expected_area):
    assert curve(scores, outcomes) == pytest.approx(
        [float(Fraction(share)) for share in expected_curve]
    )
    assert area(scores, outcomes) == pytest.approx(float(Fraction(expected_area)))


def test_the_share_recovered_among_the_first_fields():
    scores = np.arange(40.0)
    hits = np.zeros(40)
    hits[[39, 37, 0]] = 1
    assert (at(scores, hits, 0.01), at(scores, hits, 0.05), at(scores, hits, 0.06)) == (
        1.0,
        1 / 2,
        2 / 3,
    )
    assert at(scores, hits, 1) == 3 / 40
    assert (
        at(scores // 4, hits, 0.05) == 2 / 4
    )  # the first group holds four fields, two of them hits


@deterministic
@given(fields(SIXTHS, max_size=6))
def test_ties_take_the_mean_over_all_their_orders(rows):
    scores, outcomes, _ = rows
    places = np.arange(1, scores.size + 1)
    orders = [
        list(order)
        for order in permutations(range(scores.size))
        if (np.diff(scores[list(order)]) <= 0).all()
    ]
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


def test_within_the_first_fields_hits_are_a_proportion_clustered_by_document():
    scores, hits, documents = audit(generator(10), 40, 3, rate=0.3)
    first = np.argsort(-scores)[:30]
    interval = at_interval(scores, hits, documents, 0.25)
    expected = proportion(hits[first], documents[first])
    assert (interval.value, interval.low, interval.high) == (
        at(scores, hits, 0.25),
        expected.low,
        expected.high,
    )
    assert (interval.lower, (interval.n, interval.clusters)) == (
        expected.lower,
        (30, expected.clusters),
    )
    assert interval.method == f"{expected.method}, conditional on the ranking"


@pytest.mark.parametrize("outcomes", [[1, 1, 0, 0], [0, 0, 1, 1]])
@pytest.mark.parametrize("documents", [[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 3, 4]])
@pytest.mark.parametrize("p", [0.01, 0.5, 0.75, 1])
def test_a_few_fields_give_a_wide_interval_and_never_a_failure(outcomes, documents, p):
    interval = at_interval([4, 3, 2, 1], outcomes, documents, p)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.high - interval.low > 0.3
    if p == 0.01:
        assert (interval.n, interval.clusters) == (1, 1)
        assert interval.high - interval.low >= 0.95


def attempts(rng, n_documents, attack_rate, baseline_rate, strength=1.0):
    """What `excess_area` takes of one split: scores and hits of attack and baseline, and documents."""
    attack = audit(rng, n_documents, 3, attack_rate, strength)
    baseline = audit(rng, n_documents, 3, baseline_rate, strength)
    return attack[0], attack[1], baseline[0], baseline[1], attack[2]


def test_the_excess_of_the_area_is_the_difference_of_the_differences():
    member = attempts(generator(14), 70, 0.7, 0.1)
    heldout = attempts(generator(15), 40, 0.1, 0.1)
    interval = excess_area(*member, *heldout, generator(), n_resamples=1000)
    by_hand = (area(*member[:2]) - area(*member[2:4])) - (area(*heldout[:2]) - area(*heldout[2:4]))
    assert interval.value == pytest.approx(by_hand)
    assert 0 < interval.low < by_hand < interval.high
    assert (interval.n, interval.clusters) == (330, 110)
    assert interval.method == "BCa bootstrap over independent units, 1,000 resamples, 2 strata"


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([[], [], []], id="nothing"),
        pytest.param([[1, 2], [1], [1, 2]], id="fewer outcomes than scores"),
        pytest.param([[1, 2], [1, 0], [1]], id="fewer clusters than scores"),
        pytest.param([[[1], [2]], [[1], [0]], [[1], [2]]], id="two dimensions"),
        pytest.param([[1, math.nan], [1, 0], [1, 2]], id="a score that is no number"),
        pytest.param([[1, 2], [1, 1.5], [1, 2]], id="an outcome over one"),
        pytest.param([[1, 2], [math.nan, 1], [1, 2]], id="an outcome that is no number"),
    ],
)
def test_what_cannot_be_ranked_is_refused(rows):
    with pytest.raises(ValueError, match=r"one length|must lie in \[0, 1\]"):
        at_interval(*rows, 0.5)


@pytest.mark.parametrize("p", [0, -0.1, 1.01, np.nan])
def test_a_share_outside_zero_to_one_is_refused(p):
    with pytest.raises(ValueError, match="p must lie"):
        at([1, 2], [0, 1], p)


def test_p_is_the_share_of_all_orders():
    n = 4
    m = 5
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
    found = np.array(
        [outranking_p(rng.standard_t(3, n), rng.standard_t(3, m)) for _ in range(1000)]
    )
    for level in (0.05, 0.01):
        assert (found <= level).mean() <= level + 3 * (level / 1000) ** 0.5
    assert (found <= 0.05).mean() > 0.01  # a test that never rejects would meet the line above


def test_ties_count_for_the_others():
    assert (
        count_outranking(np.ones(50), np.ones(50)).value,
        outranking_p(np.ones(50), np.ones(50)),
    ) == (0, 1.0)


@pytest.mark.parametrize("known", [0, 3, 12, 40])
def test_the_lower_bound_holds_whatever_is_known(known):
    rng = np.random.default_rng(known)
    missed = dict.fromkeys(ALPHAS, 0)
    for _ in range(1000):
        members = rng.normal(0, 1, 300)
        others = rng.normal(0, 1, 300)
        members[:known] = 10 + rng.random(known)
        found = count_outranking(members, others)
        assert found.low <= found.value <= found.high
        for alpha, lower, _ in found.bounds:
            missed[alpha] += lower > known
    assert all(times <= 1000 * alpha + 3 * (1000 * alpha) ** 0.5 for alpha, times in missed.items())


def test_thirty_known_documents_are_more_than_ten_at_every_level():
    rng = np.random.default_rng(0)
    members = rng.normal(0, 1, 1000)
    others = rng.normal(0, 1, 1000)
    members[:30] = 10 + rng.random(30)
    found = count_outranking(members, others)
    assert found.low > 20
    assert all(lower > 10 for _, lower, _ in found.bounds)
    assert outranking_p(members, others) < 1e-6


@pytest.mark.parametrize(("found", "others"), [(8, 0), (5, 2), (8, 6), (3, 6), (0, 8)])
def test_p_of_an_excess_is_the_largest_chance_of_as_large_a_difference(found, others):
    n = 8
    n_others = 6
    allowed = 0.05
    others = min(others, n_others)

    shares = np.linspace(0, 1, 401)
    by_hand = sum(
        binom.pmf(x, n, np.minimum(1, shares + allowed)) * binom.pmf(y, n_others, shares)
        for x, y in product(range(n + 1), range(n_others + 1))
        if x / n - y / n_others >= found / n - others / n_others - 1e-9
    ).max()
    assert excess_p(found, n, others, n_others, allowed) == pytest.approx(by_hand)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_an_excess_that_is_allowed_is_seldom_found(share):
    rng = np.random.default_rng(1)
    draws = zip(
        rng.binomial(12, min(1, share + 0.05), 1000), rng.binomial(9, share, 1000), strict=True
    )
    found = np.array([excess_p(int(x), 12, int(y), 9, 0.05) for x, y in draws])
    for level in (0.05, 0.01):
        assert (found <= level).mean() <= level + 3 * (level / 1000) ** 0.5


def test_counts_out_of_range_are_refused():
    for counts in ((9, 8, 0, 8), (0, 0, 0, 8), (0, 8, -1, 8)):
        with pytest.raises(ValueError, match="no more may be found"):
            excess_p(*counts, 0.05)
