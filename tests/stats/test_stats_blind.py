"""The blind check: false alarms, power, known answers."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import kstest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import roc_auc_score

from audit.stats import blind
from audit.stats.blind import MIN_UNITS, PENALTY, SPREAD, TOGETHER, auc_error, blind_check
from audit.stats.roc import auc


def rows(rng, n, columns=12):
    return rng.normal(size=(n, columns))


def halves(rng, n):
    return rng.permutation(n) < n // 2


def test_a_difference_in_one_block_is_found_and_named():
    rng = np.random.default_rng(0)
    member = halves(rng, 200)
    terms = rng.poisson(0.2, (200, 60)).astype(float)
    terms[:, 0] = member * rng.random(200) < 0.3
    features = {"noise": rows(rng, 200, 40), "terms": csr_array(terms), "more": rows(rng, 200)}
    check = blind_check(features, member, np.arange(200), rng)
    assert (check.p_value, max(check.by_block, key=check.by_block.get)) == (
        pytest.approx(1 / 1001),
        "terms",
    )
    assert check.auc.value == pytest.approx(check.by_block["terms"])
    assert check.auc.low > check.chance > 0.5
    assert (set(check.by_block), check.auc.n) == ({*features, SPREAD, TOGETHER}, 200)
    assert "best of 5" in check.auc.method


def test_predictions_are_those_of_ridge_regression_on_the_other_folds():
    rng = np.random.default_rng(1)
    features = rows(rng, 40)
    member = halves(rng, 40)
    kernel = blind._kernel(features, np.arange(40), 40)
    folds = blind._folds(np.arange(40), rng)
    assert np.bincount(folds).tolist() == [4] * 10
    arrangements = np.column_stack([member, rng.permutation(member)])
    found = blind._predictions(kernel, arrangements, folds)
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    standard /= np.sqrt((standard**2).sum(axis=1).mean())
    for fold in range(10):
        left = folds == fold
        fitted = KernelRidge(alpha=PENALTY).fit(standard[~left], (arrangements - 0.5)[~left])
        assert found[left] == pytest.approx(fitted.predict(standard[left]), abs=1e-8)


def test_areas_are_those_of_the_ranks_ties_counting_one_half():
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 6, (50, 20)).astype(float)
    arrangements = rng.random((50, 20)) < 0.4
    found = blind._areas(scores, arrangements)
    for column in range(20):
        assert found[column] == pytest.approx(
            roc_auc_score(arrangements[:, column], scores[:, column])
        )


def test_sparse_and_dense_blocks_of_equal_spread_are_one():
    rng = np.random.default_rng(3)
    place = np.repeat(np.arange(10), 3)
    block = rows(rng, 30, 6)
    means = block.reshape(10, 3, 6).mean(axis=1)
    block /= means.std(axis=0)  # then standardising them changes nothing
    dense, sparse = (blind._kernel(one, place, 10) for one in (block, csr_array(block)))
    assert (dense, np.trace(dense)) == (pytest.approx(sparse, abs=1e-12), pytest.approx(10))


@pytest.mark.parametrize("kind", ["documents", "providers", "within providers"])
def test_p_is_uniform_where_labels_were_drawn_by_lot(kind):
    """The small version of benchmarks/calibration/blind_calibration.py, which has 1,000 of each."""

    def p_of(seed):
        rng = np.random.default_rng([seed, 17])
        shop = np.repeat(np.arange(16), 4)
        features = {"a": rows(rng, 16)[shop] + rows(rng, 64), "b": rows(rng, 64, 3) ** 2}
        if kind == "documents":
            return blind_check(
                features, halves(rng, 64), np.arange(64), rng, n_permutations=59
            ).p_value
        if kind == "providers":
            return blind_check(
                features, halves(rng, 16)[shop], shop, rng, n_permutations=59
            ).p_value
        member = np.concatenate([halves(rng, 4) for _ in range(16)])
        return blind_check(
            features, member, np.arange(64), rng, strata=shop, n_permutations=59
        ).p_value

    found = np.array([p_of(seed) for seed in range(120)])
    assert np.sum(found <= 0.05) <= 14  # 6 are expected; more than 14 have a chance of 1 in 1,000
    assert kstest(found, "uniform").pvalue > 0.001


def test_providers_whose_documents_look_alike_are_one_unit_each():
    """By document their looks tell all of them apart; by provider there is nothing to find."""
    rng = np.random.default_rng(4)
    shop = np.repeat(np.arange(30), 8)
    looks = rows(rng, 30)[shop] + 0.1 * rows(rng, 240)
    member = halves(rng, 30)[shop]
    as_documents = blind_check({"looks": looks}, member, np.arange(240), np.random.default_rng(0))
    as_providers = blind_check({"looks": looks}, member, shop, np.random.default_rng(0))
    assert as_documents.p_value <= 0.01
    assert as_providers.p_value > 0.05
    assert as_providers.auc.n == 30
    # Members that share a look of their own are found by provider too.
    looks[:, 0] += 3 * member
    assert blind_check({"looks": looks}, member, shop, np.random.default_rng(0)).p_value <= 0.01


def test_a_units_rows_count_as_their_mean_however_many_they_are():
    rng = np.random.default_rng(5)
    features = rows(rng, 40)
    member = halves(rng, 40)
    once = blind_check({"a": features}, member, np.arange(40), np.random.default_rng(0))
    times = 1 + np.arange(40) % 3
    again = [np.repeat(one, times, axis=0) for one in (features, member, np.arange(40))]
    repeated = blind_check({"a": again[0]}, again[1], again[2], np.random.default_rng(0))
    assert (repeated.auc, repeated.p_value) == (once.auc, once.p_value)


def test_folds_never_divide_a_unit_or_a_stratum_and_never_look_at_labels():
    rng = np.random.default_rng(6)
    groups = rng.integers(0, 25, 300)
    folds = blind._folds(groups, np.random.default_rng(0))
    assert all(len(np.unique(folds[groups == group])) == 1 for group in np.unique(groups))
    assert len(np.unique(folds)) == 10
    assert len(np.unique(blind._folds(np.zeros(50), rng))) == 10  # one stratum has to be divided
    assert len(np.unique(blind._folds(np.arange(50) % 3, rng))) == 3


def test_labels_are_permuted_within_strata_only():
    rng = np.random.default_rng(7)
    strata = np.repeat(np.arange(5), 6)
    labels = rng.random(30) < 0.4
    found = blind._permuted(labels, strata, 50, rng)
    for stratum in range(5):
        within = strata == stratum
        assert (found[within].sum(axis=0) == labels[within].sum()).all()
    assert len(np.unique(found, axis=1).T) > 40
    assert (blind._permuted(labels, None, 50, rng).sum(axis=0) == labels.sum()).all()


def test_power_grows_with_the_units_and_is_what_simulated_adversaries_have():
    rng = np.random.default_rng(8)
    found = []
    for n in (20, 60, 180, 540):
        # Scores without any information, as permuted labels give them.
        permuted = np.array([auc(*rng.normal(size=(2, n))) for _ in range(2000)])
        found.append(blind._power(permuted, n, n))
        gap = 0.5449  # an AUC of 0.65 between two Gaussians
        threshold = np.sort(permuted)[-20]
        hits = np.mean(
            [auc(rng.normal(gap, 1, n), rng.normal(0, 1, n)) > threshold for _ in range(500)]
        )
        assert found[-1] == pytest.approx(hits, abs=0.08)
    assert found == sorted(found)
    assert found[0] < 0.5
    assert found[-1] > 0.99
    assert blind._power(permuted[:98], 540, 540) == 0.0  # of 98 permutations none gives a p of 0.01


def test_the_error_of_an_auc_is_that_of_hanley_and_mcneil():
    assert auc_error(0.893, 51, 58) == pytest.approx(0.032, abs=0.001)  # their table I and example
    assert auc_error(0.5, 10**6, 1) == pytest.approx(np.sqrt(1 / 12), rel=0.01)


def test_units_that_are_all_alike_cannot_be_told_apart():
    member = halves(np.random.default_rng(9), 30)
    alike = {"same": np.full((30, 4), 0.1), "terms": csr_array(np.full((30, 3), 0.7))}
    check = blind_check(alike, member, np.arange(30), np.random.default_rng(0))
    assert (check.auc.value, check.p_value, check.chance) == (0.5, 1.0, 0.5)
    assert check.power == 0.0  # what cannot differ was not looked for
    assert check.by_block == {}
    assert blind_check({}, member, np.arange(30), np.random.default_rng(0)).p_value == 1.0


def test_a_block_alone_is_not_counted_twice():
    rng = np.random.default_rng(10)
    features = {"one": csr_array(rows(rng, 30)), "same": np.ones((30, 2))}
    assert set(blind_check(features, halves(rng, 30), np.arange(30), rng).by_block) == {"one"}


def test_a_difference_in_spread_alone_is_found():
    rng = np.random.default_rng(13)
    member = halves(rng, 200)
    features = {
        "dense": rows(rng, 200),
        "terms": csr_array(rng.poisson(0.2, (200, 30)).astype(float)),
    }
    features["dense"][member, 0] *= 3
    check = blind_check(features, member, np.arange(200), rng)
    assert check.p_value <= 0.01
    assert max(check.by_block, key=check.by_block.get) == SPREAD


def test_how_many_rows_a_unit_has_does_not_show_in_its_spread():
    """Of a mean of more rows the square is smaller; of one row drawn it is not."""

    def p_of(seed):
        rng = np.random.default_rng([seed, 21])
        member = halves(rng, 60)
        place = np.repeat(np.arange(60), np.where(member, 6, 1))
        features = {"a": rows(rng, len(place), 3)}
        return blind_check(features, member[place], place, rng, n_permutations=59).p_value

    squared = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 21])
        means = rows(rng, 60, 3) / np.sqrt(np.where(np.arange(60) < 30, 6, 1))[:, None]
        squared += (
            blind_check(
                {"a": means}, np.arange(60) < 30, np.arange(60), rng, n_permutations=59
            ).p_value
            <= 0.05
        )
    assert squared >= 15
    assert (
        sum(p_of(seed) <= 0.05 for seed in range(40)) <= 7
    )  # 2 are expected; more than 7 have 1 chance in 1,000


def test_too_few_units_are_not_checked():
    rng = np.random.default_rng(11)
    features = {"a": rows(rng, 40)}
    few = np.arange(40) < MIN_UNITS - 1
    assert blind_check(features, few, np.arange(40), rng) is None
    assert blind_check(features, ~few, np.arange(40), rng) is None
    assert blind_check(features, np.arange(40) < MIN_UNITS, np.arange(40), rng).power < 0.5


def test_labels_that_change_within_a_unit_are_refused():
    rng = np.random.default_rng(12)
    features = {"a": rows(rng, 40)}
    units = np.arange(40) // 2
    with pytest.raises(ValueError, match="constant within a unit"):
        blind_check(features, np.arange(40) % 2 == 0, units, rng)
    with pytest.raises(ValueError, match="every row"):
        blind_check(features, np.ones(39, bool), units, rng)
    with pytest.raises(ValueError, match="constant"):
        blind_check(features, units < 10, units, rng, strata=np.arange(40))
