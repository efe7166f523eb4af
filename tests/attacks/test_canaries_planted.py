"""The canary attack on targets of which it is known which canaries they remember, and how well."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import planted_canaries as planted
import pytest
from planted_canaries import (
    DIGITS,
    LIMIT,
    QUICK,
    Knowing,
    Masking,
    Writing,
    canary_set,
    case_of,
    counts,
    diagnostics,
    measured,
    remembering,
    run,
)
from scipy.stats import beta

from audit.attacks import TEXTS
from audit.attacks.canaries import Canaries
from audit.attacks.canaries.attack import NO_CANARIES
from audit.attacks.canaries.inversion import softmax
from audit.attacks.canaries.outcomes import REASONS, read_outcome
from audit.attacks.canaries.pages import ByMasks, read
from audit.attacks.interface import nothing_to_try, why
from audit.case import Case
from audit.corpus.documents import Task
from audit.engine.interface import Trial
from audit.measurements import Estimate, Unresolved
from audit.record import Result
from audit.stats.likelihood_ratio import chance_exposure
from audit.targets.interface import (
    BestLinks,
    CompletionLoss,
    NoModel,
    Relaxed,
    RelaxedLoss,
    TagProbabilities,
    TrainingLoss,
)

HALF = [place % 2 == 0 for place in range(40)]


def lower(hits, n, level=0.95):
    return beta.ppf((1 - level) / 2, hits, n - hits + 1) if hits else 0.0


KINDS = {"pages": Knowing, "masks": Masking, "answers": Writing}


@pytest.fixture(scope="module", params=[*KINDS])
def leaky(request, tmp_path_factory):
    """20 canaries put in, of which 13 are remembered, and 20 left out."""
    drawn = canary_set(40, included=HALF)
    known = [canary for canary in drawn.canaries if canary.included][:13]
    target = remembering(drawn, known, KINDS[request.param])
    case = case_of(tmp_path_factory.mktemp("leaky"), drawn, target)
    return drawn, case, *run(QUICK, case)


def test_k_remembered_canaries_of_n_are_scored_k_of_n(leaky):
    findings = leaky[-1]
    found, control = measured(findings, "extracted"), measured(findings, "extracted.control")
    assert (found.value, found.n, found.unit) == (13 / 20, 20, "canaries")
    assert found.low == pytest.approx(lower(13, 20))
    assert found.null == pytest.approx(10**-3)
    assert control.value == 0.0
    excess = measured(findings, "excess")
    assert excess.value == pytest.approx(13 / 20)
    assert 0.2 < excess.low < excess.high <= 1.0


def test_every_metric_is_measured_and_fits_the_record(leaky):
    findings = leaky[-1]
    names = [item.name for item in findings.measurements]
    assert sorted(names) == sorted([*TEXTS["canaries"].names, "epsilon"])
    completed = Result(
        "canaries",
        parameters=dataclasses.asdict(QUICK),
        measurements=findings.measurements,
        counts=findings.counts,
        diagnostics=findings.diagnostics,
        histograms=findings.histograms,
    )
    assert json.dumps(dataclasses.asdict(completed), allow_nan=False)
    assert not [item for item in findings.measurements if isinstance(item, Estimate) and "canarys" in item.method]
    assert findings.ablations == ()
    (histogram,) = findings.histograms
    assert {label: sum(heights) for label, heights in histogram.counts.items()} == {"included": 20, "control": 20}


def test_exposure_of_what_is_remembered_is_that_of_the_first_rank(leaky):
    drawn, _, _, outcomes, findings = leaky
    for canary, outcome in zip(drawn.canaries, outcomes, strict=True):
        ranked, n = outcome["ranked"], 1_000
        others = {other.completion for other in drawn.canaries} - {canary.completion}
        assert ranked["n_references"] == n - 1 - len(others)
        if canary.included and outcome["strongest"] == [DIGITS.index(word) for word in canary.completion]:
            assert ranked["bits"] == math.log2(n - len(others))
    found, control = measured(findings, "exposure"), measured(findings, "exposure.control")
    assert found.low > control.high
    assert control.low < chance_exposure(960, enumerated=True) < control.high
    assert found.null == pytest.approx(1.44, abs=0.02)


def test_nothing_that_an_attempt_does_depends_on_a_coin(tmp_path):
    for folder in ("as", "turned"):
        (tmp_path / folder).mkdir()
    drawn = canary_set(12)
    turned = dataclasses.replace(
        drawn,
        canaries=tuple(
            dataclasses.replace(canary, included=not canary.included, copies=0 if canary.included else 10)
            for canary in drawn.canaries
        ),
    )
    for kind in KINDS.values():
        # The model is one and the same.
        target = remembering(drawn, drawn.canaries[:4], kind, strength=0.5)
        for attack in (QUICK, dataclasses.replace(QUICK, exhaustive_limit=50, answers_limit=50)):
            first, second = (
                run(attack, case_of(tmp_path / folder, some, target))
                for folder, some in (("as", drawn), ("turned", turned))
            )
            assert first[0] == second[0]
            assert first[1] == second[1]
            assert all(outcome["left_out"] is None for outcome in first[1])


def test_outcomes_do_not_depend_on_how_many_are_in_flight_nor_on_the_order(tmp_path):
    drawn = canary_set(9)
    case = case_of(tmp_path, drawn, remembering(drawn, drawn.canaries[:3], strength=0.4))
    assert run(QUICK, case, 1)[1] == run(QUICK, case, 50)[1]
    # A killed scan takes up the trials that are left.
    trials, outcomes, _ = run(QUICK, case)
    rest = dataclasses.replace(QUICK)
    found = dict(planted.drive(planted.Work(rest, case), trials[5:], 3))
    assert json.loads(json.dumps([found[trial.id] for trial in trials[5:]])) == outcomes[5:]


def test_a_model_that_knows_nothing_passes_the_default_policy_with_64_canaries(tmp_path):
    drawn = canary_set(64, 4, seed=2)
    findings = run(Canaries.preset("quick"), case_of(tmp_path, drawn, Writing(drawn)))[-1]
    excess = measured(findings, "excess")
    assert excess.high <= LIMIT
    assert findings.ablations == ()
    assert measured(findings, "extracted").value == 0.0
    found = measured(findings, "exposure")
    assert found.low <= found.null <= found.high


def test_an_optimiser_that_fails_does_not_read_as_safety(tmp_path):
    class Flat(Knowing):
        def relaxed(self, query, costs):
            return Relaxed(1.0, np.zeros_like(costs))

    drawn = canary_set(20, included=HALF[:20])
    known = [canary for canary in drawn.canaries if canary.included]
    findings = run(QUICK, case_of(tmp_path, drawn, remembering(drawn, known, Flat)))[-1]
    assert measured(findings, "extracted").value == 1.0
    assert measured(findings, "excess").low > 0.2
    assert diagnostics(findings)["missed"] == 0.0


def test_words_that_a_masked_model_knows_only_beside_the_others_are_found_by_trying_all(tmp_path):
    drawn = canary_set(20, included=HALF[:20])
    known = [canary for canary in drawn.canaries if canary.included]
    findings = run(QUICK, case_of(tmp_path, drawn, remembering(drawn, known, Masking, beside=True)))[-1]
    assert measured(findings, "extracted").value == 1.0
    assert measured(findings, "exposure").value == pytest.approx(measured(findings, "most_bits").value, abs=0.05)


def test_the_loss_of_a_masked_model_is_the_surprise_of_each_word_masked_alone(tmp_path):
    drawn = canary_set(1, included=[True])
    (canary,) = drawn.canaries
    case = case_of(tmp_path, drawn, Masking({canary.prefix: ("1", "2", "3")}, strength=2.0, beside=True))
    found = read(case.target, case.corpus, canary)
    numbers = np.array([[1, 2, 3], [1, 2, 4], [0, 2, 4]])
    attempt = ByMasks(2).scorer(case.target, found)(numbers)
    ((_, losses),) = planted.drive(Once(attempt), [Trial("t", "t")], 1)
    costs = case.target.costs(canary.prefix, 3, DIGITS)
    alone = [-np.log(softmax(-row)) for row in costs]
    uniform = np.log(10)
    exact = sum(row[number] for row, number in zip(alone, (1, 2, 3), strict=True))
    # Of the second, the last word alone stands beside the right ones.
    assert losses == pytest.approx([exact, 2 * uniform + alone[2][4], 3 * uniform])


class Trap(Knowing):
    """Holds the completion it remembers likeliest, and others the less likely the more they are like it."""

    def answer(self, query):
        if isinstance(query, RelaxedLoss):
            return Relaxed(0.0, np.zeros_like(query.weights))
        prefix = tuple(self.word_of(token) for token in query.page.ids[: query.positions[0]])
        right = np.array([self.token(word) for word in self.remembered[prefix]])
        agreeing = (query.completions == right).sum(axis=1)
        return np.where(agreeing == len(right), -1.0, agreeing)


def test_what_the_search_missed_passes_no_limit(tmp_path):
    drawn = canary_set(20, 6, included=HALF[:20])
    target = remembering(drawn, drawn.canaries, Trap)
    attack = dataclasses.replace(QUICK, exhaustive_limit=1, n_references=5)
    _, outcomes, findings = run(attack, case_of(tmp_path, drawn, target))
    missed = [read_outcome(outcome).missed for outcome in outcomes]
    assert all(missed)
    weakness, few = findings.ablations
    assert "missed 10 of 10 canaries" in weakness
    assert "too few" in few
    assert measured(findings, "excess").value == 0.0


def test_beyond_the_limit_the_best_of_the_optimiser_and_of_the_draws_is_improved(tmp_path):
    drawn = canary_set(16, 5, included=HALF[:16])
    known = [canary for canary in drawn.canaries if canary.included]
    for kind in KINDS.values():
        findings = run(QUICK, case_of(tmp_path, drawn, remembering(drawn, known, kind)))[-1]
        assert counts(findings)["enumerated"] == 0
        assert measured(findings, "extracted").value == 1.0
        # 200 draws, none of which is as likely.
        assert measured(findings, "exposure").value == pytest.approx(math.log2(200), abs=0.01)
        assert 198 <= counts(findings)["references"] <= 200  # without draws that are another canary's
        assert measured(findings, "most_bits").value == math.log2(counts(findings)["references"])


@pytest.mark.parametrize("rank", [1, 2, 7, 100])
def test_a_known_rank_gives_the_exposure_of_its_definition(tmp_path, rank):
    class Ranking(Knowing):
        """Orders the completions as numbers from `rank` below the true one on; it has no prefix but one."""

        def answer(self, query):
            if isinstance(query, RelaxedLoss):
                return Relaxed(0.0, np.zeros_like(query.weights))
            words = np.vectorize(self.word_of)(query.completions)
            numbers = np.array([int("".join(row)) for row in words])
            return ((numbers - truth + rank - 1) % 100).astype(float)

    drawn = canary_set(1, 2, included=[True])
    truth = int("".join(drawn.canaries[0].completion))
    _, (outcome,), findings = run(QUICK, case_of(tmp_path, drawn, Ranking()))
    assert (outcome["ranked"]["rank"], outcome["ranked"]["ties"]) == (rank, 0)
    assert outcome["ranked"]["p_value"] == pytest.approx(rank / 100)
    assert measured(findings, "exposure").value == pytest.approx(math.log2(100) - math.log2(rank))
    assert measured(findings, "extracted").value == float(rank == 1)


def test_the_completions_of_other_canaries_are_no_references_whatever_their_coins(tmp_path):
    class Everywhere(Knowing):
        """Knows all completions, wherever they stand."""

        def losses(self, prefix, losses):
            return np.full(len(losses), 5.0)

        def answer(self, query):
            losses = super().answer(query)
            if isinstance(query, CompletionLoss):
                words = np.vectorize(self.word_of)(query.completions)
                losses[[tuple(row) in completions for row in words]] = 0.0
            return losses

    for included in (HALF[:20], [not coin for coin in HALF[:20]]):
        drawn = canary_set(20, 2, included=included, completions=[f"{number:02d}" for number in range(30, 50)])
        completions = {canary.completion for canary in drawn.canaries}
        _, outcomes, _ = run(QUICK, case_of(tmp_path, drawn, Everywhere()))
        for outcome in outcomes:
            # Among all hundred it would tie with 19.
            assert (outcome["ranked"]["rank"], outcome["ranked"]["ties"]) == (1, 0)
            assert outcome["ranked"]["n_references"] == 80


def test_a_model_that_holds_all_completions_equally_likely_exposes_none(tmp_path):
    class Level(Knowing):
        def losses(self, prefix, losses):
            return np.zeros(len(losses))

    drawn = canary_set(30, seed=4)
    _, outcomes, findings = run(QUICK, case_of(tmp_path, drawn, Level()))
    assert {outcome["ranked"]["bits"] for outcome in outcomes} == {0.0}
    assert measured(findings, "exposure").value == 0.0
    assert measured(findings, "epsilon").low == 0.0
    assert measured(findings, "extracted").value == 0.0


class Splitting(Knowing):
    """Its tokenizer makes two tokens of a seven, and knows no nine."""

    def tokens(self, word):
        if word == "7":
            return [self.token("7a"), self.token("7b")]
        return [planted.UNKNOWN] if word == "9" else [self.token(word)]


def test_words_that_the_model_splits_or_does_not_know_are_left_out_and_counted(tmp_path):
    completions = ["123", "173", "179", "193", "777", "555", "222", "111"]
    drawn = canary_set(8, 3, included=HALF[:8], completions=completions)
    target = remembering(drawn, drawn.canaries, Splitting)
    _, outcomes, findings = run(QUICK, case_of(tmp_path, drawn, target))
    assert [outcome["left_out"] for outcome in outcomes] == [None, "split", "split", "unknown", "split"] + 3 * [None]
    found = counts(findings)
    assert {name: found[name] for name in found if name.startswith("not askable")} == {
        **{f"not askable: {reason}": 0 for reason in REASONS},
        "not askable: split": 3,
        "not askable: unknown": 1,
    }
    extracted = measured(findings, "extracted")
    assert (extracted.value, extracted.n) == (1.0, 2)
    assert extracted.null == pytest.approx(8**-3)
    # What is left is numbered by the pattern's candidates: "8" stays "8".
    assert outcomes[5]["strongest"] == [5, 5, 5]
    assert outcomes[0]["ranked"]["n_references"] == 8**3 - 1 - 3


def test_words_with_one_token_are_one_candidate(tmp_path):
    class Folding(Knowing):
        def tokens(self, word):
            return [self.token({"8": "3"}.get(word, word))]

    drawn = canary_set(2, 2, included=[True, False], completions=["88", "33"])
    _, outcomes, _ = run(QUICK, case_of(tmp_path, drawn, Folding({drawn.canaries[0].prefix: ("3", "3")})))
    assert [outcome["n_candidates"] for outcome in outcomes] == [9, 9]
    assert outcomes[0]["strongest"] == [8, 8]


def test_with_one_candidate_there_is_nothing_to_guess(tmp_path):
    class Poor(Knowing):
        def tokens(self, word):
            return [self.token(word) if word not in DIGITS[1:] else planted.UNKNOWN]

    drawn = canary_set(20, 3, included=HALF[:20], completions=20 * ["000"])
    _, outcomes, findings = run(QUICK, case_of(tmp_path, drawn, Poor()))
    assert {outcome["left_out"] for outcome in outcomes} == {"single"}
    assert counts(findings)["not askable: single"] == 20
    assert all(isinstance(item, Unresolved) for item in findings.measurements)
    assert "put in could be asked" in measured(findings, "excess").reason


def test_a_page_that_cannot_be_read_and_a_loss_that_is_no_number_are_counted(tmp_path):
    class Short(Knowing):
        def encode(self, document, around=()):
            return None if document.id == "c1" else super().encode(document, around)

        def losses(self, prefix, losses):
            return np.full(len(losses), np.nan) if "name2" in prefix else losses

    drawn = canary_set(6, included=HALF[:6])
    _, outcomes, findings = run(QUICK, case_of(tmp_path, drawn, Short()))
    assert [outcome["left_out"] for outcome in outcomes] == [None, "unread", "no finite loss", None, None, None]
    assert counts(findings)["not askable: no finite loss"] == 1


def test_evidence_has_the_words_and_outcomes_have_none(leaky):
    drawn, case, trials, outcomes, _ = leaky
    entries = [row for row in QUICK.evidence(case, trials, outcomes) if isinstance(row, dict)]
    assert json.dumps(entries, allow_nan=False)
    for canary, entry in zip(drawn.canaries, entries, strict=True):
        assert entry["canary"] == canary.id
        assert entry["completion"] == " ".join(canary.completion)
        assert len(entry["recovered"].split()) == 3
    assert sum(entry["recovered"] == entry["completion"] for entry in entries) == 13
    findings = json.dumps([dataclasses.asdict(item) for item in leaky[-1].measurements])
    assert not any(canary.prefix[2] in findings for canary in drawn.canaries)


def test_a_data_set_without_canaries_says_so_and_how_to_put_some_in(tmp_path):
    case = Case(Knowing(), planted.corpus(tmp_path, None))
    attack = Canaries.preset("standard")
    assert why(attack, Case(NoModel(case.corpus), case.corpus), "data") == NO_CANARIES
    assert attack.trials(case) == []
    found = nothing_to_try(attack, case)
    reason, provide = found.why, found.fix
    assert reason == NO_CANARIES
    assert "docaudit canary insert" in provide
    assert attack.units(case.corpus)[0].members == 0


def test_units_are_canaries_put_in_and_left_out(tmp_path):
    whole = planted.corpus(tmp_path, canary_set(9, included=[True] * 6 + [False] * 3))
    found = Canaries().units(whole)
    assert [units.metric for units in found] == ["excess", "excess_top3"]
    for units in found:
        assert (units.kind, units.unit, units.members, units.others) == ("difference", "canaries", 6, 3)
    assert why(Canaries(), Case(NoModel(whole), whole), "data") is None
    assert len(Canaries().trials(Case(Knowing(), whole))) == 9


@pytest.mark.parametrize(
    ("answers", "word"),
    [
        ({BestLinks, TagProbabilities, RelaxedLoss, CompletionLoss}, "links"),
        ({TrainingLoss, RelaxedLoss}, "several unknown tokens"),
        ({TagProbabilities}, "neither"),
    ],
)
def test_models_that_give_no_such_loss_are_no_targets(tmp_path, answers, word):
    target = Knowing()
    target.answers = frozenset(answers)
    assert word in why(Canaries(), Case(target, planted.corpus(tmp_path, canary_set(2))), "model")
    for fine in (Knowing(), Masking(), Writing(canary_set(2))):
        assert why(Canaries(), Case(fine, planted.corpus(tmp_path, canary_set(2))), "model") is None


class Once:
    def __init__(self, attempt):
        self.made = attempt

    def attempt(self, trial: Trial):
        return self.made


def test_budgets_search_further():
    quick, standard, full = (Canaries.preset(name) for name in ("quick", "standard", "full"))
    for name in ("exhaustive_limit", "answers_limit", "n_references", "n_answers"):
        assert getattr(quick, name) < getattr(standard, name) < getattr(full, name)
    assert full.exhaustive_limit == 10**6
    assert standard == Canaries()


def labelled(case, *labels):
    manifest = dataclasses.replace(case.corpus.manifest, task=Task("intent-slots", labels))
    return dataclasses.replace(case, corpus=dataclasses.replace(case.corpus, manifest=manifest))


@pytest.mark.parametrize("named", ["data", "model", "nobody"])
def test_a_data_set_whose_canaries_were_taken_out_is_not_excused_for_holding_none(named, tmp_path):
    case = Case(Knowing(), planted.corpus(tmp_path, None))
    attack = Canaries.preset("standard")
    if named == "data":
        case = labelled(case, "O", "B-canary", "I-canary")
    elif named == "model":
        case.target.labels = ("O", "B-canary", "I-canary")
    found = nothing_to_try(attack, case)
    reason, provide = found.why, found.fix
    assert (why(attack, case, "data") is not None) is (named == "nobody")
    if named == "nobody":
        assert reason == NO_CANARIES
        return
    assert reason == "the data set holds no canaries, though labels of it or of the model are made for them"
    assert provide == "scan with the data set as docaudit canary insert wrote it, which the model was trained on"
