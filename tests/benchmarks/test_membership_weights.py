"""Scores of membership_weights: known answers, and no score from a fit on the scored document."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression

from audit.stats.likelihood_ratio import lira_offline
from audit.stats.roc import auc_interval
from benchmarks.papers import membership_weights_gradients as gradients
from benchmarks.papers import membership_weights_scores as scores
from benchmarks.papers.membership_methods_scores import Said
from benchmarks.papers.membership_methods_verdicts import held


@pytest.fixture
def rng():
    return np.random.default_rng(57)


# Tokens


def test_a_common_shift_of_equal_tokens_is_their_mean_in_deviations():
    """Without correlation, with n tokens of deviation s: mean * sqrt(n) / s."""
    residual = np.array([1.0, 2.0, 6.0])
    value = scores.common_shift(residual, np.full(3, 2.0), np.eye(3))
    assert value == pytest.approx(3.0 * np.sqrt(3) / 2.0)


def test_a_common_shift_of_correlated_tokens_has_unit_variance(rng):
    correlation = scores.correlation_matrix(np.array([1, 0.6, 0.4, *[0.2] * 9]), 6)
    deviations = np.array([0.5, 1, 2, 1, 3, 0.7])
    covariance = correlation * np.outer(deviations, deviations)
    draws = rng.multivariate_normal(np.zeros(6), covariance, 4_000)
    values = [scores.common_shift(row, deviations, correlation) for row in draws]
    assert np.std(values) == pytest.approx(1.0, abs=0.04)


def test_the_likelihood_ratio_is_that_of_scipy():
    correlation = scores.correlation_matrix(np.array([1, 0.5, 0.3, *[0.1] * 9]), 4)
    deviations = np.array([1.0, 2.0, 0.5, 1.5])
    covariance = correlation * np.outer(deviations, deviations)
    shift = np.array([0.2, 1.0, 0.0, 0.4])
    residual = np.array([0.3, -1.0, 0.2, 2.0])
    inside = multivariate_normal(shift, covariance).logpdf(residual)
    outside = multivariate_normal(np.zeros(4), covariance).logpdf(residual)
    value = scores.likelihood_ratio(residual, shift, deviations, correlation)
    assert value == pytest.approx(inside - outside)


def test_correlations_by_distance_are_those_of_the_process(rng):
    """Moving averages of two draws correlate by 0.5 at distance 1, and not beyond."""
    noise = rng.normal(size=(400, 31))
    values = scores.lag_correlations([*(noise[:, 1:] + noise[:, :-1])])
    assert values[0] == 1
    assert values[1] == pytest.approx(0.5, abs=0.03)
    assert np.abs(values[2:]).max() < 0.05


def test_a_variance_moves_from_its_own_to_that_of_its_bin():
    """Own variances 2 and 0 of one bin: their mean is 1, with weight 4 beside 1."""
    outside = np.array([[0.0, 2.0], [1.0, 1.0]])
    values = scores.shrunk_variance(outside, np.zeros(2, int))
    assert values == pytest.approx([(2 + 4) / 5, 4 / 5])


def test_a_single_token_ranks_as_lira_does(rng):
    """One token a document, equal variances: the common shift is LiRA."""
    n = 60
    outside = rng.normal(size=(n, 2))
    outside[:, 1] = outside[:, 0] + 1.0
    target = rng.normal(size=n)
    tokens = scores.TokenValues(np.arange(n), target, outside, np.full(n, np.nan))
    ranked = scores.token_lira(tokens)["token lira"]
    assert np.argsort(ranked).tolist() == np.argsort(lira_offline(target, outside)).tolist()


def test_tokens_take_models_that_did_not_see_the_document():
    """Two documents of two tokens: the first was in models 0 and 1, the second in none."""
    trained = np.array([[True, True, False, False], [False] * 4])
    logs = {f"logp.{name}": -np.full(4, loss) for name, loss in
            {"t": 0.5, "0": 1.0, "1": 2.0, "2": 3.0, "3": 4.0}.items()}  # fmt: skip
    said = Said(np.array([0, 0, 1, 1]), np.arange(4), np.array([0, 1]), logs, False)
    values = scores.token_values(said, "t", ["0", "1", "2", "3"], trained)
    expected = scores.logit_confidence(np.array([1.0, 2.0, 3.0, 4.0]))
    assert np.sort(values.outside[:2], axis=1) == pytest.approx(np.array([expected[[3, 2]]] * 2))
    assert values.shift[:2] == pytest.approx(expected[:2].mean() - expected[2:].mean())
    assert np.isnan(values.shift[2:]).all()
    assert values.owner.tolist() == [0, 0, 1, 1]


def test_a_standardised_shift_weighs_no_token_negatively():
    """A sure and an unsure token correlate: the unsure one's rise lowers a common shift alone."""
    correlation = np.array([[1.0, 0.5], [0.5, 1.0]])
    deviations = np.array([0.1, 10.0])
    rise = np.array([0.0, 5.0])
    assert scores.common_shift(rise, deviations, correlation) < 0
    assert scores.common_shift(rise / deviations, np.ones(2), correlation) > 0


# Labels of split models


def said_with_a_shift(rng, n, shift):
    """Two tokens a document; models lose less on what they saw, by `shift`."""
    trained = np.zeros((2 * n, 4), bool)
    for row in trained[:n]:
        row[rng.choice(4, 2, replace=False)] = True
    sees = {f"split-{place}": trained[:, place] for place in range(4)}
    members = np.arange(2 * n) < n
    sees |= {"target": members, "clean": np.zeros(2 * n, bool)}
    sees |= {"baseline": sees["clean"], "start": sees["clean"]}
    hard = rng.gamma(4.0, 0.5, 4 * n)
    logs = {}
    for name, saw in sees.items():
        losses = hard + rng.gamma(4.0, 0.1, 4 * n) - np.repeat(saw, 2) * shift
        logs[f"logp.{name}"] = -np.maximum(losses, 0.01)
    rows = np.repeat(np.arange(2 * n), 2)
    said = Said(rows, np.arange(4 * n), np.arange(2 * n), logs, False)
    return said, trained


SPLIT_NAMES = [f"split-{place}" for place in range(4)]


def test_a_split_stack_learns_from_split_models_what_members_look_like(rng):
    n = 80
    said, trained = said_with_a_shift(rng, n, 0.3)
    for ranked in scores.split_stacks(said, "target", "baseline", SPLIT_NAMES, trained).values():
        assert auc_interval(ranked[:n], ranked[n:]).low > 0.75


def test_a_split_stack_finds_none_in_a_clean_model(rng):
    """60 clean models: about 5 % of the intervals leave 0.5 out."""
    n = 40
    missed = 0
    for _ in range(60):
        said, trained = said_with_a_shift(rng, n, 0.3)
        stacks = scores.split_stacks(said, "clean", "baseline", SPLIT_NAMES, trained)
        ranked = stacks["split stack"]
        area = auc_interval(ranked[:n], ranked[n:])
        missed += not area.low <= 0.5 <= area.high
    assert missed <= 8


def test_the_chosen_split_model_did_not_see_the_document(rng):
    _, trained = said_with_a_shift(rng, 30, 0.0)
    for but in (None, 2):
        chosen = scores.unseen_by(trained, but)
        assert not trained[np.arange(60), chosen].any()
        assert but not in chosen
        assert len(np.unique(chosen)) >= 3


# Labels


def test_the_ridge_is_scikit_learns(rng):
    features = rng.normal(size=(80, 4))
    labels = (features[:, 0] + rng.normal(size=80) > 0).astype(float)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=1_000).fit(features, labels)
    ours = scores.ridge_logistic(features, labels, 2.0)
    assert ours == pytest.approx([theirs.intercept_[0], *theirs.coef_[0]], abs=1e-4)


def test_separated_sides_have_finite_weights():
    features = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    weights = scores.ridge_logistic(features, np.array([0.0, 0, 1, 1]), 1.0)
    assert np.isfinite(weights).all()
    assert weights[1] > 0


def gradients_with_a_direction(rng, n, strength):
    """Draw two tensors; members of the first share a direction."""
    first = rng.normal(size=(2 * n, 30))
    first[:n, 0] += strength
    second = rng.normal(size=(2 * n, 20))
    return np.stack([part @ part.T for part in (first, second)])


def test_cosines_leave_a_member_out_of_its_mean(rng):
    """By hand: the mean of the other members, a document drawn twice left out twice."""
    vectors = rng.normal(size=(6, 5))
    members = np.array([0, 1, 1, 2])
    values = scores.left_out_cosines((vectors @ vectors.T)[None], members)[0]
    for document in range(6):
        mean = vectors[members[members != document]].mean(axis=0)
        cosine = vectors[document] @ mean / np.linalg.norm(mean) / np.linalg.norm(vectors[document])
        assert values[document] == pytest.approx(cosine)


def test_part_cosines_find_a_direction_that_members_share(rng):
    n = 60
    products = gradients_with_a_direction(rng, n, 3.0)
    folds = scores.folds_of(np.arange(n), np.arange(n, 2 * n), rng)
    assert scores.cross_fitted(scores.part_cosines(products), folds)[1] > 0.7


def stack_of_noise(rng, n):
    return scores.stack(rng.normal(size=(2 * n, 3)))


def cosines_of_noise(rng, n):
    return scores.part_cosines(gradients_with_a_direction(rng, n, 0.0))


def test_no_document_is_scored_by_a_fit_on_it(rng):
    folds = scores.folds_of(np.arange(50), np.arange(50, 100), rng)
    for fold in folds:
        ranked = {*fold.members, *fold.others}
        assert len(ranked) == 50
        assert not ranked & {*fold.known.members, *fold.known.others}
    assert {*folds[0].members} == {*folds[1].known.members}


@pytest.mark.parametrize("learner_of", [stack_of_noise, cosines_of_noise])
def test_without_a_leak_intervals_of_folds_hold_and_pooled_ones_do_not(learner_of, rng):
    """300 fits to noise: bounds leave 0.5 out in about 5 %, those of pooled folds in more."""
    n = 40
    missed = pooled = 0
    for _ in range(300):
        learner = learner_of(rng, n)
        folds = scores.folds_of(np.arange(n), np.arange(n, 2 * n), rng)
        _, low, high = scores.cross_fitted(learner, folds)
        missed += not low <= 0.5 <= high
        column = np.empty(2 * n)
        for fold in folds:
            ranked = np.concatenate([fold.members, fold.others])
            column[ranked] = learner(fold.known)[ranked]
        whole = auc_interval(column[:n], column[n:])
        pooled += not whole.low <= 0.5 <= whole.high
    assert missed <= 25
    assert pooled > missed


def test_a_fit_on_the_ranked_documents_finds_members_in_noise(rng):
    """Why scores are cross-fitted: nine features of noise."""
    n = 40
    learner = scores.stack(rng.normal(size=(2 * n, 9)))
    everything = scores.Known(np.arange(n), np.arange(n, 2 * n))
    fitted = learner(everything)
    assert auc_interval(fitted[:n], fitted[n:]).low > 0.5


def test_too_few_documents_for_a_low_rate_are_compared_by_their_area():
    """36 a side, told apart or equal: the area exceeds the limit, or lies within."""
    sides = np.arange(36), np.arange(36, 72)
    apart = np.repeat([1.0, 0.0], 36) + np.tile([0.0, 0.4, 0.8], 24)
    assert held(apart, sides)[0] < 0.01
    assert held(np.tile(np.arange(36.0), 2), sides) == (pytest.approx(0.99, abs=0.02), True)


# Gradients


class Line(torch.nn.Module):
    """Logits of two classes from one number: weights (2, 1)."""

    def __init__(self, weights):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(weights))
        self.unused = torch.nn.Parameter(torch.zeros(3))

    def forward(self, x):
        logits = x[..., None].float() * self.weight[:, 0]
        return type("Output", (), {"logits": logits})()


class LineKind:
    """A document is its number x; the class is 1."""

    def asked(self, document):
        return [{"x": [document], "labels": [1]}]


def test_the_gradient_of_a_line_is_known():
    """At equal logits: d loss / d w = x (p - y) = x (0.5, -0.5)."""
    values = gradients.norms_and_products(LineKind(), Line([[0.0], [0.0]]), [2.0, -4.0])
    assert values["norm"] == pytest.approx([np.sqrt(2), 2 * np.sqrt(2)])
    assert values["products"] == pytest.approx(np.array([[[2.0, -4.0], [-4.0, 8.0]]]))


def test_a_document_that_was_learned_lies_along_the_update():
    start = Line([[0.0], [0.0]])
    learned = gradients.update_between(Line([[-1.0], [1.0]]), start)
    values = gradients.along_updates(LineKind(), start, [2.0, -4.0], {"target": learned})
    assert values["target"] == pytest.approx([1.0, -1.0])
