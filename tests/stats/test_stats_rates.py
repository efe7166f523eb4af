from functools import partial

import numpy as np
import pytest
from scipy import stats

from audit.stats.rates import excess_mean, excess_rate

ALPHAS = (0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001, 0.0001)
N = 150
FIELDS = np.repeat(np.arange(N), np.tile([3, 4], N // 2))


def generator(seed=0):
    return np.random.default_rng(seed)


def exact(hits, n):
    limits = stats.binomtest(hits, n).proportion_ci(method="exact")
    return limits.low, limits.high


def outcomes(rng, clusters, rate, correlation):
    """0/1 outcomes whose chance varies between documents: beta-binomial with this intra-document correlation."""
    if rate == 0:
        return np.zeros(clusters.size)
    weight = (1 - correlation) / correlation if correlation else np.inf
    chance = rng.beta(rate * weight, (1 - rate) * weight, N) if correlation else np.full(N, rate)
    return (rng.random(clusters.size) < chance[clusters]).astype(float)


def simulate(runs, attack_m, base, attack_h, correlation, seed):
    """Intervals of `runs` audits of 150 member and 150 held-out documents with three or four fields each."""
    intervals = []
    for run in range(runs):
        rng = np.random.default_rng((seed, run))
        member, heldout = (np.repeat(np.arange(N), rng.integers(3, 5, N)) for _ in range(2))
        draw = partial(outcomes, rng, correlation=correlation)
        intervals.append(
            excess_rate(
                draw(member, attack_m),
                draw(member, base),
                member,
                draw(heldout, attack_h),
                draw(heldout, base),
                heldout,
                rng,
                n_resamples=1000,
                alphas=(0.05,),
            )
        )
    return intervals


@pytest.mark.parametrize(
    ("rate", "correlation", "passed_at_least"),
    [(0.0, 0.0, 1.0), (0.005, 0.3, 0.95), (0.02, 0.0, 0.95), (0.02, 0.3, 0.7)],
)
def test_leak_free_audits_are_covered_and_raise_no_false_alarm(rate, correlation, passed_at_least):
    """methods.md#statistics: a leak-free model passes 0.05 in about 96 % of audits; clustered hits cost some of
    that."""
    intervals = simulate(250, rate, rate, rate, correlation, seed=1)
    assert np.mean([interval.low <= 0 <= interval.high for interval in intervals]) >= 0.91
    assert np.mean([interval.high <= 0.05 for interval in intervals]) >= passed_at_least
    assert np.mean([interval.bounds[0][1] > 0.05 for interval in intervals]) == 0.0
    assert np.mean([interval.bounds[0][1] > 0.0 for interval in intervals]) <= 0.09


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_a_leak_of_exactly_the_limit_is_rarely_confirmed_as_over_it(correlation):
    intervals = simulate(250, 0.08, 0.02, 0.03, correlation, seed=3)
    assert np.mean([interval.low <= 0.05 <= interval.high for interval in intervals]) >= 0.91
    assert np.mean([interval.bounds[0][1] > 0.05 for interval in intervals]) <= 0.09


def test_a_real_leak_is_confirmed():
    intervals = simulate(60, 0.25, 0.05, 0.05, 0.3, seed=5)
    assert np.mean([interval.bounds[0][1] > 0.05 for interval in intervals]) > 0.95


@pytest.mark.parametrize("excess", [excess_rate, excess_mean])
@pytest.mark.parametrize("hit", [0.0, 1.0])
def test_no_difference_anywhere_still_has_an_interval(excess, hit):
    same = np.full(FIELDS.size, hit)
    interval = excess(same, same, FIELDS, same, same, FIELDS, generator(), alphas=ALPHAS)
    assert interval.value == 0.0
    assert (interval.low, interval.high) == pytest.approx((-0.0344, 0.0344), abs=1e-4)
    assert interval.method.startswith("MOVER")
    assert interval.bounds[-1][1] < interval.low < interval.bounds[0][1] < 0
    assert (interval.n, interval.clusters) == (2 * FIELDS.size, 300)


def test_mover_by_hand_on_one_field_a_document():
    """Gained 5 and lost 2 of 100 members, gained 1 of 100 held out: four Clopper-Pearson reaches, squared and added.

    Gains and losses of members exclude each other: their correlation is -sqrt(.05 * .02 / (.95 * .98)).
    """
    documents = np.arange(100)
    attack_m, base_m = (documents < 5) * 1, ((documents >= 5) & (documents < 7)) * 1
    attack_h, base_h = (documents < 1) * 1, documents * 0
    interval = excess_rate(attack_m, base_m, documents, attack_h, base_h, documents, generator())
    gained, lost, gained_h, lost_h = exact(5, 100), exact(2, 100), exact(1, 100), exact(0, 100)
    correlation = -np.sqrt(0.05 * 0.02 / (0.95 * 0.98))
    down, down_lost, down_h = 0.05 - gained[0], lost[1] - 0.02, gained_h[1] - 0.01
    up, up_lost, up_h = gained[1] - 0.05, 0.02 - lost[0], 0.01 - gained_h[0]
    low = 0.02 - np.sqrt(down**2 + down_lost**2 - 2 * correlation * down * down_lost + down_h**2)
    high = 0.02 + np.sqrt(up**2 + up_lost**2 - 2 * correlation * up * up_lost + up_h**2 + lost_h[1] ** 2)
    assert interval.value == pytest.approx(0.02)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-9)


def test_common_differences_are_resampled_and_rare_ones_are_not():
    rng = generator(1)
    common = partial(outcomes, rng, FIELDS, 0.2, 0.1)
    none = np.zeros(FIELDS.size)
    both = excess_rate(common(), common(), FIELDS, common(), common(), FIELDS, rng, n_resamples=500)
    only_members = excess_rate(common(), common(), FIELDS, none, none, FIELDS, rng, n_resamples=500)
    assert both.method.startswith("BCa")
    assert only_members.method.startswith("MOVER")


def test_twenty_differing_documents_are_enough_nineteen_are_not():
    def methods(n):
        attack = np.where(n > FIELDS, 1.0, 0.0)
        none = np.zeros(FIELDS.size)
        return excess_rate(attack, none, FIELDS, attack, none, FIELDS, generator(), n_resamples=200).method

    assert methods(19).startswith("MOVER")
    assert methods(20).startswith("BCa")


def test_splits_that_differ_everywhere_alike_fall_back_on_mover():
    fields = np.repeat(np.arange(N), 4)
    one, none = np.ones(fields.size), np.zeros(fields.size)
    rate = excess_rate(one, none, fields, one, none, fields, generator())
    mean = excess_mean(one * 0.6, none, fields, one * 0.3, none, fields, generator())
    assert (rate.low, rate.high) == pytest.approx((-0.0344, 0.0344), abs=1e-4)
    assert mean.value == pytest.approx(0.3)
    # As if 90 members gained and none lost, and 45 held-out documents gained and none lost, of 150 each.
    gained, gained_h, lost = exact(90, 150), exact(45, 150), exact(0, 150)
    down = np.sqrt((0.6 - gained[0]) ** 2 + lost[1] ** 2 + (gained_h[1] - 0.3) ** 2)
    up = np.sqrt((gained[1] - 0.6) ** 2 + (0.3 - gained_h[0]) ** 2 + lost[1] ** 2)
    assert (mean.low, mean.high) == pytest.approx((0.3 - down, 0.3 + up), abs=1e-9)
    assert "too rare or too alike" in mean.method


def test_excess_of_a_mean_takes_off_what_the_better_language_model_explains():
    """The target is 0.2 better than the baseline everywhere and 0.1 more on members: only that 0.1 is memory."""
    rng = generator(2)
    base_m, base_h = (rng.uniform(0.0, 0.5, FIELDS.size) for _ in range(2))
    attack_m = base_m + 0.3 + rng.uniform(-0.1, 0.1, FIELDS.size)
    attack_h = base_h + 0.2 + rng.uniform(-0.1, 0.1, FIELDS.size)
    interval = excess_mean(attack_m, base_m, FIELDS, attack_h, base_h, FIELDS, rng, n_resamples=1000, alphas=ALPHAS)
    assert interval.method.startswith("BCa")
    assert interval.low < 0.1 < interval.high
    assert interval.bounds[-1][1] > 0.05


def test_few_documents_use_cluster_t():
    rng = generator(3)
    documents = np.repeat(np.arange(15), 4)
    values = partial(rng.uniform, 0, 1, documents.size)
    interval = excess_mean(values(), values(), documents, values(), values(), documents, rng)
    assert interval.method == "cluster-t by jackknife over documents, few documents, 2 strata"


@pytest.mark.parametrize("excess", [excess_rate, excess_mean])
def test_the_seed_decides(excess):
    rng = generator(4)
    attack_m, base_m, attack_h, base_h = (outcomes(rng, FIELDS, 0.3, 0.2) for _ in range(4))
    compute = partial(excess, attack_m, base_m, FIELDS, attack_h, base_h, FIELDS, n_resamples=300, alphas=ALPHAS)
    assert compute(generator(5)) == compute(generator(5))
    order = generator(6).permutation(FIELDS.size)
    shuffled = excess(
        attack_m[order], base_m[order], FIELDS[order], attack_h, base_h, FIELDS, generator(5), n_resamples=300
    )
    assert (shuffled.low, shuffled.high) == (compute(generator(5)).low, compute(generator(5)).high)


@pytest.mark.parametrize("wrong", [0.5, 2.0, np.nan, -1.0])
def test_outcomes_that_are_no_rates_are_refused(wrong):
    good = np.zeros(4)
    bad = np.array([0.0, 1.0, 0.0, wrong])
    with pytest.raises(ValueError, match=r"must be 0 or 1|must lie in"):
        excess_rate(bad, good, np.arange(4), good, good, np.arange(4), generator())


@pytest.mark.parametrize("excess", [excess_rate, excess_mean])
def test_an_empty_split_is_refused_not_read_as_zero(excess):
    good = np.zeros(4)
    with pytest.raises(ValueError, match="split"):
        excess(good, good, np.arange(4), [], [], [], generator())
