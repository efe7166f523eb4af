"""Screening: first-order estimates rank the candidates, only the best few are scored exactly."""

from dataclasses import replace

import numpy as np
import planted
import pytest
import tiny
from test_reconstruction_shots import Counting, outcomes_of, tokens_of, tried

from audit.attacks.parameters import read
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.methods import most_likely
from audit.case import Case, References
from audit.corpus import manifest
from audit.errors import UsageError
from audit.report.jinja import environment
from audit.targets.encoders.loading import load
from audit.targets.interface import FirstOrderLoss, TrainingLoss


class Estimating(planted.Planted):
    """Estimates its losses too: `error` is added to each, alternately with either sign."""

    def __init__(self, *rest, error=0.0, **named):
        super().__init__(*rest, task="token-classification", **named)
        self.answers |= {FirstOrderLoss}
        self.error = error
        self.sizes = []

    def ask(self, queries):
        if isinstance(queries[0], FirstOrderLoss):
            return [self._loss(query) + self.error * (-1) ** np.arange(len(query.candidates)) for query in queries]
        self.sizes += [len(query.candidates) for query in queries]
        return [self._exact(query) for query in queries]

    def _exact(self, query):
        """The loss of each candidate, whatever others are asked for with it."""
        return np.array([self._loss(replace(query, candidates=np.array([token])))[0] for token in query.candidates])

    def _loss(self, query):
        return np.array([self._one(query, int(token)) for token in query.candidates])

    def _one(self, query, token):
        page = query.page
        if self._name(page) in self.remembered and token == self.truth[self._name(page)][query.position]:
            return 1e-5
        return np.random.default_rng([self.seed, query.position, token, *page.ids.tolist()]).uniform(0.5, 1.5)


def planted_case(**named):
    corpus = planted.corpus(4, 4)
    return planted.case(
        Estimating(corpus.documents, {"d0", "d1"}, **named), planted.Planted(corpus.documents, seed=5), corpus
    )


@pytest.mark.parametrize("screened", [1, 3, 20, 500])
def test_right_estimates_change_no_outcome(screened):
    case = planted_case()
    attack = Reconstruction(n_candidates=20, n_attempts=3)
    assert outcomes_of(attack, case) == outcomes_of(replace(attack, screened=screened), case)


def test_wrong_estimates_change_outcomes_unless_all_candidates_are_scored():
    case = planted_case(error=0.4)
    attack = Reconstruction(n_candidates=20, n_attempts=3)
    expected = outcomes_of(attack, case)
    assert outcomes_of(replace(attack, screened=20), case) == expected
    assert outcomes_of(replace(attack, screened=2), case) != expected


def test_what_is_remembered_is_found_among_few_that_are_scored():
    case = planted_case(error=0.3)
    trials, outcomes = outcomes_of(Reconstruction(n_candidates=30, screened=4), case)
    right = {
        trial.unit
        for trial, found in zip(trials, outcomes, strict=True)
        if found["truth"] in tokens_of(found["attack"])
    }
    within_reach = {trial.unit for trial, found in zip(trials, outcomes, strict=True) if found["reached"]}
    assert right == {"d0", "d1"} & within_reach != set()


@pytest.mark.parametrize("screened", [1, 5])
def test_each_prefix_has_so_many_candidates_scored_once(screened):
    case = planted_case(error=0.1)
    counting = Counting(case.target)
    attack = Reconstruction(n_candidates=20, screened=screened)
    _, outcomes = outcomes_of(attack, replace(case, target=counting))
    trie = sum(len({tuple(shot[:step]) for shot in tried(found) for step in range(len(shot))}) for found in outcomes)
    assert len(counting.asked) == len(set(counting.asked)) == trie
    assert case.target.sizes == [screened] * trie


def test_estimates_below_zero_neither_win_by_it_nor_turn_the_order_around():
    case = planted_case(error=0.0)
    case.target._loss = lambda query: np.full(len(query.candidates), -1.0)
    case.target._exact = lambda query: np.arange(1.0, 1.0 + len(query.candidates))
    _, outcomes = outcomes_of(Reconstruction(n_candidates=20, screened=3), case)
    assert all(np.isfinite(shot["log_target"]).all() for found in outcomes for shot in found["attack"])


def test_masked_language_models_do_not_heed_it():
    corpus = planted.corpus(3, 3)
    case = planted.case(planted.Planted(corpus.documents, {"d0"}), planted.Planted(corpus.documents, seed=5), corpus)
    attack = Reconstruction(n_candidates=20, n_attempts=2)
    assert replace(attack, screened=1).inapplicable(case) is None
    assert outcomes_of(attack, case) == outcomes_of(replace(attack, screened=1), case)


def test_a_target_without_estimates_cannot_be_screened():
    corpus = planted.corpus(2, 2)
    target = planted.Planted(corpus.documents, task="token-classification")
    case = planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)
    assert Reconstruction().inapplicable(case) is None
    assert "no first-order estimate" in Reconstruction(screened=4).inapplicable(case)
    assert Reconstruction(screened=4).inapplicable(planted_case()) is None


def test_the_most_likely_come_first_and_ties_go_to_the_lower_id():
    assert most_likely(np.array([0.1, 0.4, 0.1, 0.4]), np.array([9, 8, 3, 7])).tolist() == [3, 1, 2, 0]


@pytest.fixture(scope="module")
def tiny_case(checkpoints, tmp_path_factory):
    corpus = manifest.load(tiny.corpus(tmp_path_factory.mktemp("screening") / "data", members=2, heldout=1))
    target = load(checkpoints("layoutlm", "token-classification"), labels=tiny.LABELS)
    return Case(target, corpus, References(load(checkpoints("layoutlm", "mlm"))))


def test_a_checkpoint_screened_down_to_all_of_its_candidates_gives_the_same_outcomes(tiny_case):
    attack = Reconstruction(n_candidates=12, n_attempts=2)
    trials = attack.trials(tiny_case)[:3]
    assert outcomes_of(attack, tiny_case, trials) == outcomes_of(replace(attack, screened=12), tiny_case, trials)


def test_a_checkpoint_scores_one_candidate_a_prefix_when_told_so(tiny_case):
    asked = []

    class Watched(Counting):
        def ask(self, queries):
            asked.extend(len(query.candidates) for query in queries if isinstance(query, TrainingLoss))
            return super().ask(queries)

    attack = Reconstruction(n_candidates=12, n_attempts=4, screened=1)
    watched = Watched(tiny_case.target)
    _, outcomes = outcomes_of(attack, replace(tiny_case, target=watched), attack.trials(tiny_case)[:3])
    trie = sum(len({tuple(shot[:step]) for shot in tried(found) for step in range(len(shot))}) for found in outcomes)
    assert asked == [1] * trie


def test_it_is_set_by_a_file_of_parameters_and_is_at_least_one(tmp_path):
    file = tmp_path / "attack.toml"
    file.write_text("[reconstruction]\nscreened = 8\n")
    assert read(file).applied(Reconstruction()) == Reconstruction(screened=8)
    for wrong in ("0", "1.5", '"all"', "true"):
        file.write_text(f"[reconstruction]\nscreened = {wrong}\n")
        with pytest.raises(UsageError, match="screened"):
            read(file)


def test_the_report_says_that_losses_were_estimated():
    class Result:
        def __init__(self, **parameters):
            self.parameters = parameters

    method = environment().get_template("attacks/reconstruction.html").module.method
    assert "8 most\npromising" in method(Result(n_attempts=8, screened=8))
    for silent in (Result(n_attempts=8, screened=None), Result(n_attempts=8)):
        assert "estimate" not in method(silent)
