from dataclasses import astuple
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from audit.stats.intervals import clopper_pearson, proportion
from audit.stats.means import mean
from audit.stats.ranking import area, area_interval, at, at_interval, curve, curve_points, depth, rank_fields
from benchmarks.excess_area import excess_area

ALPHAS = (0.25, 0.05, 0.01, 0.001)
deterministic = settings(max_examples=60, deadline=None, derandomize=True)
SIXTHS = st.integers(0, 6).map(lambda value: value / 6)


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
@given(fields(SIXTHS, max_size=8))
def test_the_first_property_no_order_beats_the_best_outcomes_first(rows):
    """CDMI section 5.3, property 1: of all rankings of the same attempts the perfect one has the best area."""
    scores, outcomes, _ = rows
    assert area(scores, outcomes) <= area(outcomes, outcomes) + 1e-12  # AccAUC, of hits
    assert 1 - area(scores, outcomes) <= 1 - area(-outcomes, outcomes) + 1e-12  # HamAAC, of distances
    assert area(-outcomes, outcomes) - 1e-12 <= area(scores, outcomes)


@deterministic
@given(st.lists(SIXTHS, min_size=2, max_size=20), st.data())
def test_the_first_property_putting_two_fields_right_improves_the_score(outcomes, data):
    """The step of the paper's proof: swapping a worse field with a better one further down (appendix B)."""
    better = data.draw(st.integers(1, len(outcomes) - 1))
    worse = data.draw(st.integers(0, better - 1))
    assume(outcomes[worse] > outcomes[better])  # distances: the worse is ranked before the better
    swapped = list(outcomes)
    swapped[worse], swapped[better] = swapped[better], swapped[worse]
    scores = -np.arange(len(outcomes))
    assert 1 - area(scores, swapped) > 1 - area(scores, outcomes)


@deterministic
@given(fields(SIXTHS, max_size=20), st.data())
def test_the_second_property_a_better_attempt_improves_the_score(rows, data):
    """CDMI section 5.3, property 2, for a fixed ranking, with or without ties: strictly for HamAAC."""
    scores, distances, _ = rows
    field = data.draw(st.integers(0, scores.size - 1))
    assume(distances[field] > 0)
    improved = distances.copy()
    improved[field] -= data.draw(st.integers(1, round(distances[field] * 6))) / 6
    assert 1 - area(scores, np.maximum(improved, 0)) > 1 - area(scores, distances)
    exact_before, exact_after = distances < 0.01, improved < 0.01
    assert area(scores, exact_after) >= area(scores, exact_before)


def test_the_accuracy_does_not_see_an_attempt_that_is_better_but_not_exact():
    scores, before, after = [3, 2, 1], np.array([1.0, 0.0, 0.6]), np.array([0.2, 0.0, 0.6])
    assert 1 - area(scores, after) > 1 - area(scores, before)
    assert area(scores, after == 0) == area(scores, before == 0)


@deterministic
@given(fields(SIXTHS, max_size=25), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_the_area_of_weighted_documents_is_that_of_repeated_rows(rows, times):
    scores, outcomes, documents = rows
    ranking = rank_fields(scores, outcomes, documents)
    weights = np.array(times[: ranking.n_documents], dtype=float)
    assume(weights.any())
    repeats = weights[np.unique(documents, return_inverse=True)[1]].astype(int)
    expanded = area(np.repeat(scores, repeats), np.repeat(outcomes, repeats))
    assert ranking.areas(weights[None]) == pytest.approx(expanded)


def test_many_resamples_in_blocks_are_each_their_own():
    scores, hits, documents = audit(generator(1), 40, 50)
    ranking = rank_fields(scores, hits, documents)
    weights = generator(2).multinomial(40, np.full(40, 1 / 40), size=1000).astype(float)
    together = ranking.areas(weights)
    assert together.shape == (1000,)
    assert together[[0, 499, 999]] == pytest.approx([ranking.areas(weights[[i]])[0] for i in (0, 499, 999)], abs=1e-14)


@deterministic
@given(fields(SIXTHS, max_size=40), st.booleans())
def test_intervals_of_the_area_enclose_it_and_widen_with_confidence(rows, complement):
    scores, outcomes, documents = rows
    interval = area_interval(
        scores, outcomes, documents, generator(), complement=complement, alphas=ALPHAS, n_resamples=100
    )
    expected = 1 - area(scores, outcomes) if complement else area(scores, outcomes)
    lowers, uppers = [bound[1] for bound in interval.bounds], [bound[2] for bound in interval.bounds]
    assert interval.value == pytest.approx(expected)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.low < interval.high
    assert lowers == sorted(lowers, reverse=True)
    assert uppers == sorted(uppers)
    assert (interval.n, interval.clusters) == (scores.size, np.unique(documents).size)


@pytest.mark.parametrize(("n_documents", "per_document", "rate"), [(60, 3, 0.2), (40, 1, 0.5), (30, 4, 0.1)])
def test_nominal_intervals_of_the_area_hold_the_truth(n_documents, per_document, rate):
    """200 audits with 500 resamples each, against the area of a very large audit."""
    truth = area(*audit(generator(0), 100_000, per_document, rate)[:2])
    audits = [audit(generator((seed, 1)), n_documents, per_document, rate) for seed in range(200)]
    intervals = [area_interval(*rows, generator(seed), n_resamples=500) for seed, rows in enumerate(audits)]
    assert np.mean([interval.low <= truth <= interval.high for interval in intervals]) >= 0.9
    assert np.median([interval.high - interval.low for interval in intervals]) < 0.4
    assert any("BCa bootstrap over documents, 500" in interval.method for interval in intervals)


def test_rows_of_one_document_are_not_independent():
    scores, hits, documents = audit(generator(3), 50, 1)
    once = area_interval(scores, hits, documents, generator())
    copied = area_interval(np.repeat(scores, 4), np.repeat(hits, 4), np.repeat(documents, 4), generator())
    assert copied.n == 4 * once.n
    assert copied.high - copied.low == pytest.approx(once.high - once.low, rel=0.1)


def test_the_order_of_rows_does_not_change_an_interval():
    scores, hits, documents = audit(generator(4))
    distances = np.where(hits, 0.0, generator(5).integers(1, 7, hits.size) / 7)
    shuffled = generator(6).permutation(scores.size)
    for outcomes in (hits, distances):
        for tied in (scores, np.round(scores)):
            rows = tied, outcomes, documents
            moved = [column[shuffled] for column in rows]
            assert area_interval(*moved, generator(7), alphas=ALPHAS, n_resamples=200) == area_interval(
                *rows, generator(7), alphas=ALPHAS, n_resamples=200
            )
            assert at_interval(*moved, 0.13, generator(7)) == at_interval(*rows, 0.13, generator(7))


def test_the_area_above_the_curve_mirrors_the_area_under_it():
    scores, hits, documents = audit(generator(8))
    distances = np.where(hits, 0.0, 0.8)
    above = area_interval(scores, distances, documents, generator(), complement=True, alphas=(0.05,))
    below = area_interval(scores, distances, documents, generator(), alphas=(0.05,))
    assert above.value == pytest.approx(1 - below.value)
    assert (above.low, above.high) == pytest.approx((1 - below.high, 1 - below.low), abs=2e-3)


def test_no_hit_at_all_proves_no_more_than_the_documents_do():
    scores, documents = generator(9).normal(size=300), np.repeat(np.arange(100), 3)
    none = area_interval(scores, np.zeros(300), documents, generator(), alphas=(0.05,))
    rate = clopper_pearson(0, 100, alphas=(0.05,))
    assert (none.value, none.low, none.bounds[0][1]) == (0.0, 0.0, 0.0)
    assert none.high == pytest.approx(rate.high * (1 - np.log(rate.high)))
    assert none.bounds[0][2] == pytest.approx(rate.bounds[0][2] * (1 - np.log(rate.bounds[0][2])))
    assert "any ranking" in none.method
    everything = area_interval(scores, np.ones(300), documents, generator())
    assert (everything.value, everything.high) == (1.0, 1.0)
    assert everything.low == pytest.approx(1 - none.high)
    missed = area_interval(scores, np.ones(300), documents, generator(), complement=True)
    assert (missed.value, missed.low, missed.high) == pytest.approx((0.0, 0.0, none.high))


def test_one_hit_is_not_a_narrower_interval_than_none():
    scores, documents = np.arange(300.0), np.repeat(np.arange(100), 3)
    widths = []
    for n_hits in (0, 1, 2):
        hits = np.zeros(300)
        hits[[30, 150][:n_hits]] = 1
        interval = area_interval(scores, hits, documents, generator())
        widths.append(interval.high - interval.low)
    assert widths == sorted(widths)


def test_one_document_says_almost_nothing_and_does_not_fail():
    for outcomes in ([1, 0, 1], [0.2, 0.4, 0.9], [0.5, 0.5, 0.5]):
        interval = area_interval([3, 2, 1], outcomes, [7, 7, 7], generator())
        assert interval.low < 0.1
        assert interval.high > 0.9


@deterministic
@given(fields(SIXTHS, max_size=30))
def test_bounds_for_any_ranking_hold_for_every_ranking(rows):
    """q + (1 - q) ln(1 - q) <= area <= q (1 - ln q), nearly reached by the perfect ranking of many fields."""
    scores, outcomes, _ = rows
    share = outcomes.mean()
    assume(0 < share < 1)
    assert area(scores, outcomes) <= share * (1 - np.log(share)) + 1e-12
    assert area(scores, outcomes) >= share + (1 - share) * np.log(1 - share) - 1e-12
    hits = np.arange(5000) < 5000 * share
    assert area(hits, hits) == pytest.approx(hits.mean() * (1 - np.log(hits.mean())), abs=1e-3)


def test_within_the_first_fields_hits_are_a_proportion_clustered_by_document():
    scores, hits, documents = audit(generator(10), 40, 3, rate=0.3)
    first = np.argsort(-scores)[:30]
    interval = at_interval(scores, hits, documents, 0.25, generator(), alphas=ALPHAS, unit="receipt")
    expected = proportion(hits[first], documents[first], alphas=ALPHAS, unit="receipt")
    assert (interval.value, interval.low, interval.high) == (at(scores, hits, 0.25), expected.low, expected.high)
    assert interval.bounds == expected.bounds
    assert (interval.n, interval.clusters) == (30, expected.clusters)
    assert interval.method == f"{expected.method}, conditional on the ranking"
    assert "receipt" in interval.method


def test_within_the_first_fields_distances_are_a_mean_clustered_by_document():
    rng = generator(11)
    scores, distances, documents = rng.normal(size=120), rng.random(120), np.repeat(np.arange(40), 3)
    order = np.argsort(-scores)[:60]
    interval = at_interval(scores, distances, documents, 0.5, generator(1), alphas=ALPHAS)
    expected = mean(distances[order], documents[order], generator(1), alphas=ALPHAS)
    assert interval.value == pytest.approx(expected.value)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert interval.method == f"{expected.method}, conditional on the ranking"


def test_equal_scores_at_the_border_leave_the_interval_as_open_as_the_set():
    """The second of two fields is any of 39, of which one is a hit: the expected value is (1 + 1/39) / 2."""
    scores, hits = np.array([1.0, *np.zeros(39)]), np.zeros(40)
    hits[[0, 5]] = 1
    interval = at_interval(scores, hits, np.arange(40), 0.05, generator())
    assert interval.value == pytest.approx((1 + 1 / 39) / 2)
    assert (interval.low, interval.high) == (clopper_pearson(1, 2).low, clopper_pearson(2, 2).high)
    assert "outer over orders of equal scores" in interval.method
    assert interval.n == 2
    whole = at_interval(scores, hits, np.arange(40), 1, generator())
    assert (whole.low, whole.high) == (clopper_pearson(2, 40).low, clopper_pearson(2, 40).high)


@pytest.mark.parametrize("outcomes", [[1, 1, 0, 0], [0, 0, 1, 1], [0.5, 0.5, 0.9, 0.1], [0.3, 0.3, 0.3, 0.3]])
@pytest.mark.parametrize("documents", [[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 3, 4]])
@pytest.mark.parametrize("p", [0.01, 0.5, 0.75, 1])
def test_a_few_fields_give_a_wide_interval_and_never_a_failure(outcomes, documents, p):
    interval = at_interval([4, 3, 2, 1], outcomes, documents, p, generator(), alphas=ALPHAS)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.high - interval.low > 0.3
    if p == 0.01:
        assert (interval.n, interval.clusters) == (1, 1)
        assert interval.high - interval.low >= 0.95


@deterministic
@given(fields(SIXTHS, max_size=25), st.floats(0.01, 1))
def test_intervals_at_a_share_enclose_the_value(rows, p):
    scores, outcomes, documents = rows
    for values in (outcomes, outcomes > 0.5):
        interval = at_interval(scores, values, documents, p, generator(), alphas=ALPHAS)
        assert interval.value == at(scores, values, p)
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
        assert interval.low < interval.high
        assert interval.n == depth(p, scores.size)
        assert interval.bounds[-1][1] <= interval.low
        assert interval.bounds[-1][2] >= interval.high


def test_points_of_the_curve_come_once_for_each_number_of_fields():
    scores, hits, documents = audit(generator(12), 20, 2)
    distances = np.where(hits, 0.0, generator(13).integers(1, 7, hits.size) / 7)
    points = curve_points(scores, distances, documents, (1, 0.05, 0.01, 0.05, 0.04, 0.5), generator())
    assert [point.n for point in points] == [1, 2, 20, 40]
    assert [point.x for point in points] == [1 / 40, 2 / 40, 0.5, 1]
    assert [point.value for point in points] == pytest.approx(curve(scores, distances)[[0, 1, 19, 39]])
    assert all(point.low <= point.value <= point.high for point in points)
    alone = curve_points(scores, distances, documents, (0.5,), generator())
    assert alone == [points[2]]
    p, value, low, high, n = astuple(points[-1])
    assert (p, n) == (1, 40)
    assert low < value < high


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


def test_a_better_language_model_alone_is_no_excess():
    """The attack beats the baseline on held-out fields as much as on members: the intervals hold 0."""
    intervals = [
        excess_area(
            *attempts(generator((seed, 1)), 40, 0.3, 0.1),
            *attempts(generator((seed, 2)), 60, 0.3, 0.1),
            generator(seed),
            n_resamples=300,
        )
        for seed in range(100)
    ]
    assert np.mean([interval.low <= 0 <= interval.high for interval in intervals]) >= 0.9


def test_an_excess_without_a_single_hit_on_heldout_fields_is_still_bounded():
    member, heldout = attempts(generator(16), 100, 0.5, 0.1), attempts(generator(17), 100, 0.1, 0.1)
    none = heldout[0], np.zeros(300), heldout[2], np.zeros(300), heldout[4]
    interval = excess_area(*member, *none, generator(), alphas=ALPHAS)
    mirrored = excess_area(*none, *member, generator(), alphas=ALPHAS)
    assert "MOVER" in interval.method
    assert 0 < interval.low < interval.value < interval.high
    assert (mirrored.value, mirrored.low, mirrored.high) == pytest.approx(
        (-interval.value, -interval.high, -interval.low), abs=5e-3
    )
    rate = clopper_pearson(0, 100).high
    assert interval.value - interval.low >= rate * (1 - np.log(rate))  # what held-out fields could hide
    nothing = excess_area(*none, *none, generator())
    assert nothing.value == 0.0
    assert nothing.high == pytest.approx(np.sqrt(2) * rate * (1 - np.log(rate)))
    assert nothing.low == -nothing.high


def test_an_attack_equal_to_its_baseline_has_an_excess_of_zero_with_an_interval():
    scores, hits, documents = audit(generator(18))
    same = scores, hits, scores, hits, documents
    interval = excess_area(*same, *same, generator(), n_resamples=200)
    assert interval.value == 0
    assert interval.low < 0 < interval.high


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
    for call in (lambda: area_interval(*rows, generator()), lambda: at_interval(*rows, 0.5, generator())):
        with pytest.raises(ValueError, match=r"one length|must lie in \[0, 1\]"):
            call()


@pytest.mark.parametrize("p", [0, -0.1, 1.01, np.nan])
def test_a_share_outside_zero_to_one_is_refused(p):
    with pytest.raises(ValueError, match="p must lie"):
        at([1, 2], [0, 1], p)
