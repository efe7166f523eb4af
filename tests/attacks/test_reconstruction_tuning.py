"""Tuning on tables of steps for which the best setting is known, and against the attack itself."""

from dataclasses import replace

import numpy as np
import planted
import pytest

from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Trial
from audit.targets.interface import CandidateLogits, Candidates, FillMask, TrainingLoss
from benchmarks.tools.attack_tuning import Grid, Step, TaughtField, chances, collect, tune

ATTACK = Reconstruction(n_candidates=8)
N = 8


def _rng(seed=0):
    return np.random.default_rng(seed)


def _fields(step, n_fields=20, n_tokens=4):
    """Fields of as many documents; `step(rng)` makes each of their steps."""
    rng = _rng(7)
    return [
        TaughtField(f"d{number}", tuple(step(rng) for _ in range(n_tokens)))
        for number in range(n_fields)
    ]


def _step(rng, public_knows=False, target_knows=False):
    """Random logits and losses, except where one of the models knows the truth."""
    truth = int(rng.integers(N))
    logits = rng.normal(0, 1, N)
    losses = rng.uniform(0.5, 1.5, N)
    if public_knows:
        logits[truth] = logits.max() + 1
    if target_knows:
        losses[truth] = 0.1
    return Step(np.arange(10, 10 + N), logits, losses, truth)


def test_whoever_knows_the_truth_gets_the_weight():
    by_target = tune(ATTACK, _fields(lambda rng: _step(rng, target_knows=True)), _rng(), SILENT)
    by_public = tune(ATTACK, _fields(lambda rng: _step(rng, public_knows=True)), _rng(), SILENT)
    assert (by_target.attack.target_weight, by_public.attack.target_weight) == (0.6, 0.2)
    for tuned in (by_target, by_public):
        assert tuned.in_sample.objective > tuned.defaults.objective + 0.01
        assert tuned.weighed
        assert (tuned.n_fields, tuned.n_documents) == (20, 20)


def test_a_hot_start_pays_where_the_first_token_is_open_and_never_where_it_is_known():
    """The truth is the third best at the first token: only a hot start tries it.

    After it the best one is true.
    """

    def opened(rank):
        logits = np.full(N, -6.0)
        logits[:3] = [1.0, 0.9, 0.8]
        certain = np.array([9.0, *[0.0] * (N - 1)])
        steps = [
            Step(np.arange(N), logits, None, rank),
            *[Step(np.arange(N), certain, None, 0)] * 4,
        ]
        return [TaughtField(f"d{number}", tuple(steps)) for number in range(5)]

    open_first = tune(
        replace(ATTACK, top_p=0.2), opened(2), _rng(), SILENT, Grid(top_ps=(0.2, 1.0))
    )
    known_first = tune(
        replace(ATTACK, top_p=0.2), opened(0), _rng(), SILENT, Grid(top_ps=(0.2, 1.0))
    )
    assert open_first.attack.temperature_start > 1
    assert open_first.attack.top_p == 1.0
    assert open_first.in_sample.fields > 0.9
    assert known_first.in_sample.fields == known_first.in_sample.tokens == 1.0
    assert known_first.attack.top_p == 0.2


def test_chances_follow_the_steps_of_the_attack():
    """Worked by hand: two candidates left by the nucleus share its mass by their probabilities."""
    public = np.array([0.5, 0.3, 0.1, 0.1])
    target = np.array([0.4, 0.4, 0.1, 0.1])
    # losses whose (2 - l / median) / T are the logarithms of `target` up to a constant; their
    # median is 1
    losses = 1 - (np.log(target) - np.median(np.log(target))) * 0.5
    assert np.median(losses) == pytest.approx(1)
    step = Step(np.arange(4), np.log(public) * 0.5, losses, 1)
    grid = Grid((0.5,), (1.0,), (0.25,), (0.2, 0.6, 1.0))
    found = chances(step, 0, grid, ATTACK)
    mixed = target**0.25 * public**0.75
    assert found == pytest.approx([0.0, mixed[1] / mixed[:2].sum(), mixed[1] / mixed.sum()])
    arithmetic = chances(step, 0, grid, replace(ATTACK, mean="arithmetic"))
    mixed = 0.25 * target + 0.75 * public
    assert arithmetic == pytest.approx([0.0, mixed[1] / mixed[:2].sum(), mixed[1]])


def test_without_a_difference_the_attacks_own_setting_stays():
    out_of_reach = Step(np.arange(N), np.zeros(N), np.ones(N), None)
    fields = [TaughtField(f"d{number}", (out_of_reach,)) for number in range(5)]
    own = replace(ATTACK, temperature=0.25)
    tuned = tune(own, fields, _rng(), SILENT)
    assert tuned.attack == own
    assert tuned.defaults == tuned.in_sample == tuned.validated
    assert tuned.in_sample.objective == 0


def test_documents_that_did_not_choose_tell_less_than_those_that_did():
    """Models that know nothing: the best setting is chance, which cross-validation sees and the sample does not."""
    gains = []
    for seed in range(6):
        rng = _rng(seed)
        noise = [TaughtField(f"d{number}", (_step(rng), _step(rng))) for number in range(10)]
        tuned = tune(ATTACK, noise, _rng(seed), SILENT)
        scores = (tuned.in_sample, tuned.validated)
        gains.append([score.objective - tuned.defaults.objective for score in scores])
    in_sample, validated = np.mean(gains, axis=0)
    assert in_sample > 0.01
    assert validated < in_sample / 2


def test_folds_are_made_of_documents_and_need_enough_of_them():
    fields = _fields(lambda rng: _step(rng, target_knows=True), n_fields=4)
    with pytest.raises(ValueError, match="4 documents"):
        tune(ATTACK, [*fields, *fields], _rng(), SILENT)


class _Fixed:
    """Answers by position alone, so that whatever was sampled before, the same is said."""

    def __init__(self, task, table):
        self.card = planted.card(task)
        self.answers = frozenset({FillMask, CandidateLogits} if task == "mlm" else {TrainingLoss})
        self.labels = ()
        self.table = table

    def encode(self, document, around=()):
        return planted.Planted.encode(self, document, around)

    def ask(self, queries):
        return [self._answer(query) for query in queries]

    def _answer(self, query):
        ids, logits, losses = self.table[query.position]
        return Candidates(ids, logits) if isinstance(query, FillMask) else losses


@pytest.mark.parametrize("task", ["mlm", "token-classification"])
def test_the_objective_is_what_the_attack_itself_reaches(task):
    """Five documents of one field of four tokens.

    The attack is run many times and its hits are counted.
    """
    corpus = planted.corpus(5, 1, seed=1)
    rng = _rng(2)
    document = corpus.documents[0]
    truths = [int(word.text) for word in document.words]
    corpus = replace(
        corpus, documents=tuple(replace(one, words=document.words) for one in corpus.documents)
    )
    table = {}
    for position in range(3, 7):
        others = rng.permutation(np.setdiff1d(np.arange(2, planted.VOCABULARY), truths))[: N - 1]
        logits = np.array([3.0, *np.sort(rng.normal(0, 0.2, N - 1))[::-1]])
        losses = rng.uniform(0.8, 1.2, N)
        losses[0] = 0.4
        table[position] = (np.array([truths[position], *others]), logits, losses)
    public = _Fixed("mlm", table)
    target = _Fixed(task, table)
    case = Case(target, corpus, References(public))
    attack = replace(ATTACK, top_p=0.8, n_attempts=3)
    fields = collect(case, attack, SILENT)
    assert [field.unit for field in fields] == [f"d{number}" for number in range(5)]
    predicted = tune(attack, fields, _rng(), SILENT, Grid((0.3,), (10.0,), (0.4,), (0.8,))).defaults
    assert 0.2 < predicted.fields < 0.8

    class Repeated:
        def attempt(self, trial):
            number = int(trial.id)
            return attack.attempt(case, attack.trials(case)[number % 5], _rng([9, number]))

    def shots(outcome):
        return outcome["attack"]

    n_runs = 400
    outcomes = [
        outcome for _, outcome in drive(Repeated(), [Trial(str(n), "") for n in range(n_runs)], 64)
    ]
    hits = np.mean(
        [any(shot["tokens"] == outcome["truth"] for shot in shots(outcome)) for outcome in outcomes]
    )
    tokens = np.mean(
        [
            np.mean(np.array(shot["tokens"]) == outcome["truth"])
            for outcome in outcomes
            for shot in shots(outcome)
        ]
    )
    error = 4 * np.sqrt(0.25 / n_runs)
    assert (hits, tokens) == (
        pytest.approx(predicted.fields, abs=error),
        pytest.approx(predicted.tokens, abs=error),
    )


@pytest.mark.parametrize("task", ["mlm", "token-classification"])
def test_every_step_is_asked_after_the_true_prefix(task):
    corpus = planted.corpus(6, 3, fields=2)
    members = {document.id for document in corpus.of("member")}
    target = planted.Planted(
        corpus.documents, remembered=members if task == "mlm" else (), task=task
    )
    public = planted.Planted(corpus.documents, reach=0.5)
    fields = collect(
        Case(target, corpus, References(public)), replace(ATTACK, n_candidates=16), SILENT
    )
    assert [field.unit for field in fields] == [
        f"d{number}" for number in range(6) for _ in range(2)
    ]
    for place, field in enumerate(fields):
        document = corpus.document(field.unit)
        entity = document.entities[place % 2]
        rest = list(entity.words)
        assert len(field.steps) == planted.FIELD_TOKENS
        for number, step in enumerate(field.steps):
            truth = int(document.words[rest[number]].text)
            assert (step.truth is None) == (truth not in step.ids)
            assert step.truth is None or step.ids[step.truth] == truth
            page = (
                target.encode(document)
                .masked(rest)
                .with_tokens(
                    rest[:number], [int(document.words[index].text) for index in rest[:number]]
                )
            )
            (told,) = (target if task == "mlm" else public).ask([FillMask(page, rest[number], 16)])
            assert np.array_equal(step.logits, told.logits)
            if task == "mlm":
                assert step.losses is None
                assert step.truth == 0
            else:
                assert np.array_equal(
                    step.losses, *target.ask([TrainingLoss(page, rest[number], told.ids)])
                )


def test_a_masked_language_model_has_no_weight_to_tune():
    corpus = planted.corpus(6, 3)
    target = planted.Planted(
        corpus.documents, remembered={document.id for document in corpus.documents}
    )
    tuned = tune(ATTACK, collect(Case(target, corpus), ATTACK, SILENT), _rng(), SILENT)
    assert not tuned.weighed
    assert (tuned.attack.target_weight, tuned.in_sample.fields) == (
        ATTACK.target_weight,
        pytest.approx(1),
    )
