"""The canary attack on targets of which it is known which canaries they remember, and how well."""

import dataclasses
import datetime as dt
import json
import math
from types import SimpleNamespace

import numpy as np
import planted_canaries as planted
import pytest
import tiny
from attempts import counts, diagnostics, measured, run
from attempts import outcomes_of as outcomes_on
from scipy.stats import beta

from audit.attacks import TEXTS
from audit.attacks.canaries import Canaries
from audit.attacks.canaries.attack import NO_CANARIES, PROVIDE, PUT_BACK, TAKEN_OUT
from audit.attacks.canaries.measures import REASONS, Outcome, read_outcome
from audit.attacks.canaries.pages import ByMasks, read_page, softmax
from audit.attacks.interface import nothing_to_try, why
from audit.case import Case
from audit.corpus.canaries.pages import page_of
from audit.corpus.canaries.schema import LOSS_FILE, LossProof, canaries_sha256, read_proof
from audit.corpus.canaries.validation import set_problems
from audit.corpus.documents import Task
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Trial
from audit.extensions.callbacks.canary_loss import write_proof
from audit.measurements import Estimate, Unresolved
from audit.policy import Limit, Policy, evaluate
from audit.stats.likelihood_ratio import chance_exposure
from audit.targets import interface as ask
from benchmarks.calibration.simulated_audits import fired

HALF = [place % 2 == 0 for place in range(40)]


def lower(estimate, alpha=0.05):
    return next(bound.lower for bound in estimate.bounds if bound.alpha == alpha)


KINDS = {"pages": planted.Knowing, "masks": planted.Masking, "answers": planted.Writing}


@pytest.fixture(scope="module", params=[*KINDS])
def leaky(request, tmp_path_factory):
    """20 canaries put in, of which 13 are remembered, and 20 left out."""
    drawn = planted.canary_set(40, included=HALF)
    known = [canary for canary in drawn.canaries if canary.included][:13]
    target = planted.remembering(drawn, known, KINDS[request.param])
    case = planted.case_of(tmp_path_factory.mktemp("leaky"), drawn, target)
    return drawn, case, *run(planted.QUICK, case)


def test_k_remembered_canaries_of_n_are_scored_k_of_n(leaky):
    findings = leaky[-1]
    found = measured(findings, "extracted")
    control = measured(findings, "extracted.control")
    assert (found.value, found.n, found.unit) == (13 / 20, 20, "canaries")
    assert (found.low, found.null) == (
        pytest.approx(beta.ppf(0.025, 13, 20 - 13 + 1)),
        pytest.approx(10**-3),
    )
    assert control.value == 0.0
    excess = measured(findings, "excess")
    assert excess.value == pytest.approx(13 / 20)
    assert 0.2 < excess.low < excess.high <= 1.0
    names = [item.name for item in findings.measurements]
    assert (sorted(names), findings.ablations) == (
        sorted([*TEXTS["canaries"].names, "epsilon"]),
        (),
    )
    (histogram,) = findings.histograms
    assert {label: sum(heights) for label, heights in histogram.counts.items()} == {
        "included": 20,
        "control": 20,
    }


def test_exposure_of_what_is_remembered_is_that_of_the_first_rank(leaky):
    drawn, _, _, outcomes, findings = leaky
    for canary, found in zip(drawn.canaries, outcomes, strict=True):
        ranked = found["ranked"]
        n = 1_000
        others = {other.completion for other in drawn.canaries} - {canary.completion}
        assert ranked["n_references"] == n - 1 - len(others)
        if canary.included and found["strongest"] == [
            planted.DIGITS.index(word) for word in canary.completion
        ]:
            assert ranked["bits"] == math.log2(n - len(others))
    found = measured(findings, "exposure")
    control = measured(findings, "exposure.control")
    assert found.low > control.high
    assert control.low < chance_exposure(960, enumerated=True) < control.high
    assert found.null == pytest.approx(1.44, abs=0.02)


def test_nothing_that_an_attempt_does_depends_on_a_coin(tmp_path):
    for folder in ("as", "turned"):
        (tmp_path / folder).mkdir()
    drawn = planted.canary_set(12)
    coins = [(one, not one.included) for one in drawn.canaries]
    canaries = tuple(
        dataclasses.replace(one, included=coin, copies=10 if coin else 0) for one, coin in coins
    )
    turned = dataclasses.replace(drawn, canaries=canaries)
    for kind in KINDS.values():
        # The model is one and the same.
        target = planted.remembering(drawn, drawn.canaries[:4], kind, strength=0.5)
        for attack in (
            planted.QUICK,
            dataclasses.replace(planted.QUICK, exhaustive_limit=50, answers_limit=50),
        ):
            first, second = (
                run(attack, planted.case_of(tmp_path / folder, some, target))
                for folder, some in (("as", drawn), ("turned", turned))
            )
            assert (first[0], first[1]) == (second[0], second[1])
            assert all(one["left_out"] is None for one in first[1])


def test_outcomes_do_not_depend_on_how_many_are_in_flight_nor_on_the_order(tmp_path):
    drawn = planted.canary_set(9)
    case = planted.case_of(
        tmp_path, drawn, planted.remembering(drawn, drawn.canaries[:3], strength=0.4)
    )
    assert run(planted.QUICK, case, 1)[1] == run(planted.QUICK, case, 50)[1]
    # A killed scan takes up the trials that are left.
    trials, outcomes, _ = run(planted.QUICK, case)
    assert outcomes_on(dataclasses.replace(planted.QUICK), case, trials[5:], 3) == outcomes[5:]


def test_an_optimiser_that_fails_does_not_read_as_safety(tmp_path):
    class Flat(planted.Knowing):
        def relaxed(self, query, costs):
            return ask.Relaxed(1.0, np.zeros_like(costs))

    drawn = planted.canary_set(20, included=HALF[:20])
    known = [canary for canary in drawn.canaries if canary.included]
    findings = run(
        planted.QUICK, planted.case_of(tmp_path, drawn, planted.remembering(drawn, known, Flat))
    )[-1]
    assert measured(findings, "extracted").value == 1.0
    assert measured(findings, "excess").low > 0.2
    assert diagnostics(findings)["missed"] == 0.0


def test_words_that_a_masked_model_knows_only_beside_the_others_are_found_by_trying_all(tmp_path):
    drawn = planted.canary_set(20, included=HALF[:20])
    known = [canary for canary in drawn.canaries if canary.included]
    findings = run(
        planted.QUICK,
        planted.case_of(
            tmp_path, drawn, planted.remembering(drawn, known, planted.Masking, beside=True)
        ),
    )[-1]
    assert measured(findings, "extracted").value == 1.0
    assert measured(findings, "exposure").value == pytest.approx(
        measured(findings, "most_bits").value, abs=0.05
    )


def test_the_loss_of_a_masked_model_is_the_surprise_of_each_word_masked_alone(tmp_path):
    drawn = planted.canary_set(1, included=[True])
    (canary,) = drawn.canaries
    case = planted.case_of(
        tmp_path,
        drawn,
        planted.Masking({canary.prefix: ("1", "2", "3")}, strength=2.0, beside=True),
    )
    found = read_page(case.target, case.corpus, canary)
    numbers = np.array([[1, 2, 3], [1, 2, 4], [0, 2, 4]])
    attempt = ByMasks(2).scorer(case.target, found)(numbers)
    ((_, losses),) = drive(SimpleNamespace(attempt=lambda trial: attempt), [Trial("t", "t")], 1)
    costs = case.target.costs(canary.prefix, 3, planted.DIGITS)
    alone = [-np.log(softmax(-row)) for row in costs]
    uniform = np.log(10)
    exact = sum(row[number] for row, number in zip(alone, (1, 2, 3), strict=True))
    # Of the second, the last word alone stands beside the right ones.
    assert losses == pytest.approx([exact, 2 * uniform + alone[2][4], 3 * uniform])


class Trap(planted.Knowing):
    """Holds the completion it remembers likeliest, and others the less likely the more they are like it."""

    def answer(self, query):
        if isinstance(query, ask.RelaxedLoss):
            return ask.Relaxed(0.0, np.zeros_like(query.weights))
        prefix = tuple(self.word_of(token) for token in query.page.ids[: query.positions[0]])
        right = np.array([self.token(word) for word in self.remembered[prefix]])
        agreeing = (query.completions == right).sum(axis=1)
        return np.where(agreeing == len(right), -1.0, agreeing)


def test_what_the_search_missed_passes_no_limit(tmp_path):
    drawn = planted.canary_set(20, 6, included=HALF[:20])
    target = planted.remembering(drawn, drawn.canaries, Trap)
    attack = dataclasses.replace(planted.QUICK, exhaustive_limit=1, n_references=5)
    _, outcomes, findings = run(attack, planted.case_of(tmp_path, drawn, target))
    missed = [read_outcome(one).missed for one in outcomes]
    assert all(missed)
    weakness, few = findings.ablations
    assert "missed 10 of 10 canaries" in weakness
    assert "too few" in few
    assert measured(findings, "excess").value == 0.0


def test_beyond_the_limit_the_best_of_the_optimiser_and_of_the_draws_is_improved(tmp_path):
    drawn = planted.canary_set(16, 5, included=HALF[:16])
    known = [canary for canary in drawn.canaries if canary.included]
    for kind in KINDS.values():
        findings = run(
            planted.QUICK, planted.case_of(tmp_path, drawn, planted.remembering(drawn, known, kind))
        )[-1]
        assert (counts(findings)["enumerated"], measured(findings, "extracted").value) == (0, 1.0)
        # 200 draws, none of which is as likely.
        assert measured(findings, "exposure").value == pytest.approx(math.log2(200), abs=0.01)
        assert (
            198 <= counts(findings)["references"] <= 200
        )  # without draws that are another canary's
        assert measured(findings, "most_bits").value == math.log2(counts(findings)["references"])


@pytest.mark.parametrize("rank", [1, 2, 7, 100])
def test_a_known_rank_gives_the_exposure_of_its_definition(tmp_path, rank):
    class Ranking(planted.Knowing):
        """Orders the completions as numbers from `rank` below the true one on.

        It has no prefix but one.
        """

        def answer(self, query):
            if isinstance(query, ask.RelaxedLoss):
                return ask.Relaxed(0.0, np.zeros_like(query.weights))
            words = np.vectorize(self.word_of)(query.completions)
            return (
                (np.array([int("".join(row)) for row in words]) - truth + rank - 1) % 100
            ).astype(float)

    drawn = planted.canary_set(1, 2, included=[True])
    truth = int("".join(drawn.canaries[0].completion))
    _, (one,), findings = run(planted.QUICK, planted.case_of(tmp_path, drawn, Ranking()))
    assert (one["ranked"]["rank"], one["ranked"]["ties"]) == (rank, 0)
    assert one["ranked"]["p_value"] == pytest.approx(rank / 100)
    assert measured(findings, "exposure").value == pytest.approx(math.log2(100) - math.log2(rank))
    assert measured(findings, "extracted").value == float(rank == 1)


def test_the_completions_of_other_canaries_are_no_references_whatever_their_coins(tmp_path):
    class Everywhere(planted.Knowing):
        """Knows all completions, wherever they stand."""

        def losses(self, prefix, losses):
            return np.full(len(losses), 5.0)

        def answer(self, query):
            losses = super().answer(query)
            if isinstance(query, ask.CompletionLoss):
                words = np.vectorize(self.word_of)(query.completions)
                losses[[tuple(row) in completions for row in words]] = 0.0
            return losses

    for included in (HALF[:20], [not coin for coin in HALF[:20]]):
        drawn = planted.canary_set(
            20, 2, included=included, completions=[f"{number:02d}" for number in range(30, 50)]
        )
        completions = {canary.completion for canary in drawn.canaries}
        _, outcomes, _ = run(planted.QUICK, planted.case_of(tmp_path, drawn, Everywhere()))
        # Among all hundred it would tie with 19.
        ranks = {
            (one["ranked"]["rank"], one["ranked"]["ties"], one["ranked"]["n_references"])
            for one in outcomes
        }
        assert ranks == {(1, 0, 80)}


def test_a_model_that_holds_all_completions_equally_likely_exposes_none(tmp_path):
    class Level(planted.Knowing):
        def losses(self, prefix, losses):
            return np.zeros(len(losses))

    _, outcomes, findings = run(
        planted.QUICK, planted.case_of(tmp_path, planted.canary_set(30, seed=4), Level())
    )
    assert ({one["ranked"]["bits"] for one in outcomes}, measured(findings, "exposure").value) == (
        {0.0},
        0.0,
    )
    assert (measured(findings, "epsilon").low, measured(findings, "extracted").value) == (0.0, 0.0)


class Spelling(planted.Knowing):
    """Knows other tokens than one for each word: `spelled` gives those of a word."""

    def __init__(self, remembered=None, spelled=None):
        super().__init__(remembered)
        self.spelled = spelled or {}

    def tokens(self, word):
        own = self.spelled.get(word, [word])
        return [planted.UNKNOWN if token is None else self.token(token) for token in own]


def test_words_that_the_model_splits_or_does_not_know_are_left_out_and_counted(tmp_path):
    completions = ["123", "173", "179", "193", "777", "555", "222", "111"]
    drawn = planted.canary_set(8, 3, included=HALF[:8], completions=completions)
    known = {canary.prefix: canary.completion for canary in drawn.canaries}
    _, outcomes, findings = run(
        planted.QUICK,
        planted.case_of(tmp_path, drawn, Spelling(known, {"7": ["7a", "7b"], "9": [None]})),
    )
    assert [one["left_out"] for one in outcomes] == [
        None,
        "split",
        "split",
        "unknown",
        "split",
    ] + 3 * [None]
    found = counts(findings)
    assert {name: found[name] for name in found if name.startswith("not askable")} == {
        **{f"not askable: {reason}": 0 for reason in REASONS},
        "not askable: split": 3,
        "not askable: unknown": 1,
    }
    extracted = measured(findings, "extracted")
    assert ((extracted.value, extracted.n), extracted.null) == ((1.0, 2), pytest.approx(8**-3))
    # What is left is numbered by the pattern's candidates: "8" stays "8".
    assert (outcomes[5]["strongest"], outcomes[0]["ranked"]["n_references"]) == (
        [5, 5, 5],
        8**3 - 1 - 3,
    )


def test_words_with_one_token_are_one_candidate_and_one_alone_is_nothing_to_guess(tmp_path):
    drawn = planted.canary_set(2, 2, included=[True, False], completions=["88", "33"])
    target = Spelling({drawn.canaries[0].prefix: ("3", "3")}, {"8": ["3"]})
    _, outcomes, _ = run(planted.QUICK, planted.case_of(tmp_path, drawn, target))
    assert ([one["n_candidates"] for one in outcomes], outcomes[0]["strongest"]) == ([9, 9], [8, 8])
    drawn = planted.canary_set(20, 3, included=HALF[:20], completions=20 * ["000"])
    _, outcomes, findings = run(
        planted.QUICK,
        planted.case_of(
            tmp_path, drawn, Spelling({}, {digit: [None] for digit in planted.DIGITS[1:]})
        ),
    )
    assert ({one["left_out"] for one in outcomes}, counts(findings)["not askable: single"]) == (
        {"single"},
        20,
    )
    assert all(isinstance(item, Unresolved) for item in findings.measurements)
    assert "planted canary could be asked" in measured(findings, "excess").reason


def test_a_page_that_cannot_be_read_and_a_loss_that_is_no_number_are_counted(tmp_path):
    class Short(planted.Knowing):
        def encode(self, document, around=()):
            return None if document.id == "c1" else super().encode(document, around)

        def losses(self, prefix, losses):
            return np.full(len(losses), np.nan) if "name2" in prefix else losses

    drawn = planted.canary_set(6, included=HALF[:6])
    _, outcomes, findings = run(planted.QUICK, planted.case_of(tmp_path, drawn, Short()))
    assert [one["left_out"] for one in outcomes] == [
        None,
        "unread",
        "no finite loss",
        None,
        None,
        None,
    ]
    assert counts(findings)["not askable: no finite loss"] == 1


@pytest.mark.parametrize("known", [True, False])
def test_canaries_whose_names_the_model_lacks_show_nothing_of_its_training(known, tmp_path):
    drawn = planted.canary_set(60, seed=3)
    names = {
        canary.prefix[2]: [None] for canary in drawn.canaries if not (canary.included and known)
    }
    target = Spelling({}, names)
    target.word_of = lambda token: "?" if token == planted.UNKNOWN else planted.WORDS[token]
    findings = run(planted.QUICK, planted.case_of(tmp_path, drawn, target))[-1]
    included = sum(canary.included for canary in drawn.canaries)
    said = f"the model does not know the words of {included} of the {included} planted canaries"
    assert any(said in one for one in findings.ablations) is not known
    assert verdict(findings, ("excess", 0.9)).overall == ("passed" if known else "undecided")


# What stands in evidence, and when the attack applies


def test_evidence_has_the_words_and_outcomes_have_none(leaky):
    drawn, case, trials, outcomes, findings = leaky
    entries = [
        row for row in planted.QUICK.evidence(case, trials, outcomes) if isinstance(row, dict)
    ]
    assert json.dumps(entries, allow_nan=False)
    for canary, entry in zip(drawn.canaries, entries, strict=True):
        assert (entry["canary"], entry["completion"]) == (canary.id, " ".join(canary.completion))
        assert len(entry["recovered"].split()) == 3
    assert sum(entry["recovered"] == entry["completion"] for entry in entries) == 13
    text = json.dumps(dataclasses.asdict(findings), allow_nan=False)
    assert not any(canary.prefix[2] in text for canary in drawn.canaries)


def test_units_and_trials_are_canaries_put_in_and_left_out(tmp_path):
    whole = planted.corpus(tmp_path, planted.canary_set(9, included=[True] * 6 + [False] * 3))
    found = Canaries().units(whole)
    assert [(one.metric, one.kind, one.unit, one.members, one.others) for one in found] == [
        (metric, "plain difference", "canaries", 6, 3) for metric in ("excess", "excess_top3")
    ]
    assert why(Canaries(), Case(ask.NoModel(whole), whole), "data") is None
    assert len(Canaries().trials(Case(planted.Knowing(), whole))) == 9


NO_LOSS = {
    "links": {ask.BestLinks, ask.TagProbabilities, ask.RelaxedLoss, ask.CompletionLoss},
    "several unknown tokens": {ask.TrainingLoss, ask.RelaxedLoss},
    "neither": {ask.TagProbabilities},
}


@pytest.mark.parametrize(("word", "answers"), NO_LOSS.items())
def test_models_that_give_no_such_loss_are_no_targets(tmp_path, answers, word):
    target = planted.Knowing()
    target.answers = frozenset(answers)
    assert word in why(
        Canaries(), Case(target, planted.corpus(tmp_path, planted.canary_set(2))), "model"
    )
    for fine in (planted.Knowing(), planted.Masking(), planted.Writing(planted.canary_set(2))):
        assert (
            why(Canaries(), Case(fine, planted.corpus(tmp_path, planted.canary_set(2))), "model")
            is None
        )


@pytest.mark.parametrize("named", ["data", "model", "nobody"])
def test_a_data_set_whose_canaries_were_taken_out_is_not_excused_for_holding_none(named, tmp_path):
    case = Case(planted.Knowing(), planted.corpus(tmp_path, None))
    labels = ("O", "B-canary", "I-canary")
    if named == "data":
        manifest = dataclasses.replace(case.corpus.manifest, task=Task("intent-slots", labels))
        case = dataclasses.replace(case, corpus=dataclasses.replace(case.corpus, manifest=manifest))
    elif named == "model":
        case.target.labels = labels
    found = nothing_to_try(Canaries(), case)
    assert (Canaries().trials(case), Canaries().units(case.corpus)[0].members) == ([], 0)
    assert (found.kind, found.why, found.fix) == (
        ("data", NO_CANARIES, PROVIDE) if named == "nobody" else ("missing", TAKEN_OUT, PUT_BACK)
    )


# Leaks that do not come out first, and what has to be known before a limit passes

BITS = 2.0
"""A limit on the excess of exposure."""
ALL = (("excess", planted.LIMIT), ("excess_top3", planted.LIMIT), ("excess_exposure", BITS))
OF_PINS = 9_999


def findings_of(folder, drawn, outcomes):
    attack = Canaries()
    case = planted.case_of(folder, drawn, planted.Knowing())
    found = [one.as_json() if isinstance(one, Outcome) else one for one in outcomes]
    return attack.measure(case, attack.trials(case), found, np.random.default_rng(2), SILENT)


def verdict(findings, *limits):
    """Of limits (metric, max) on the canary attack."""
    result = dataclasses.replace(findings, power=TEXTS["canaries"].power)
    held = tuple(
        Limit("canaries", metric, "a limit", max=most, min_power=6.5) for metric, most in limits
    )
    return evaluate(
        tiny.record(result, battery=("canaries",)), Policy(1, "canaries", held), dt.date(2026, 1, 1)
    )


@pytest.mark.parametrize("ranks", [(2, 2), (2, 100), (4, 150)])
def test_secrets_that_are_never_first_are_no_longer_passed(tmp_path, ranks):
    drawn = planted.canary_set(64, 4, seed=3)
    outcomes = planted.outcomes_of(drawn, np.random.default_rng(0), 1.0, ranks, OF_PINS)
    findings = findings_of(tmp_path, drawn, outcomes)
    assert measured(findings, "extracted").value == 0.0
    assert measured(findings, "excess").high <= planted.LIMIT
    assert (
        verdict(findings, ALL[0]).overall == "undecided"
    )  # within, and an alarm speaks for a leak
    assert verdict(findings, *ALL).overall == "violated"
    excess = measured(findings, "excess_exposure")
    top3 = measured(findings, "excess_top3")
    assert lower(excess, 0.01) > BITS
    means = [measured(findings, name).value for name in ("exposure", "exposure.control")]
    assert excess.value == pytest.approx(means[0] - means[1])
    assert (excess.null, excess.null_kind, excess.n, excess.unit) == (
        0.0,
        "held-out",
        64,
        "canaries",
    )
    shares = [measured(findings, name) for name in ("top3", "top3.control")]
    assert top3.value == pytest.approx(shares[0].value - shares[1].value)
    assert (shares[0].null, lower(top3, 0.01) > planted.LIMIT) == (
        pytest.approx(3 / 10_000),
        ranks == (2, 2),
    )
    of_coins, of_exposure = (check.reason for check in fired(findings.checks))
    assert "epsilon is at least" in of_coins
    assert "for the 10 copies of a canary together (at delta 1e-05, 95 % confidence)" in of_coins
    assert "bits (99 % confidence)" in of_exposure


class Second:
    """Holds, of all that it remembers, another completion likelier than the true one: the first word one further."""

    def costs(self, prefix, n_places, words):
        costs = super().costs(prefix, n_places, words)
        if prefix in self.remembered:
            decoy = planted.DIGITS[
                (planted.DIGITS.index(self.remembered[prefix][0]) + 1) % len(planted.DIGITS)
            ]
            costs[0, [word == decoy for word in words]] -= self.strength + 2
        return costs


@pytest.mark.parametrize("kind", [planted.Knowing, planted.Masking])
def test_a_model_that_holds_every_secret_second_is_found_through_the_whole_attack(tmp_path, kind):
    drawn = planted.canary_set(48, 3, seed=6)
    known = {canary.prefix: canary.completion for canary in drawn.canaries if canary.included}
    _, outcomes, findings = run(
        planted.QUICK, planted.case_of(tmp_path, drawn, type("Made", (Second, kind), {})(known))
    )
    ranks = [
        one["ranked"]["rank"]
        for one, each in zip(outcomes, drawn.canaries, strict=True)
        if each.included
    ]
    assert (
        max(ranks) == 2 == np.median(ranks)
    )  # first where the likelier one is another canary's, which is left out
    assert (measured(findings, "excess").value, len(fired(findings.checks))) == (0.0, 2)
    assert measured(findings, "excess_top3").value > 0.9
    assert verdict(findings, *ALL).overall == "violated"


def test_a_few_secrets_that_come_out_first_raise_no_alarm_of_themselves(tmp_path):
    drawn = planted.canary_set(64, 4, seed=8)
    outcomes = planted.outcomes_of(drawn, np.random.default_rng(3), 0.0, n_references=OF_PINS)
    findings = findings_of(tmp_path, drawn, outcomes)
    assert (fired(findings.checks), verdict(findings, *ALL).overall) == ([], "passed")


def test_a_ranking_among_few_is_no_power(tmp_path):
    """A 2-digit pin has 100 completions: the first of them is one of a few tries anyway."""
    assert TEXTS["canaries"].power == "most_bits"
    drawn = planted.canary_set(200, 2, seed=5)
    clean = findings_of(
        tmp_path, drawn, planted.outcomes_of(drawn, np.random.default_rng(0), 0.0, n_references=60)
    )
    assert all(measured(clean, metric).high <= limit for metric, limit in ALL)
    decided = verdict(clean, *ALL)
    assert {one.outcome for one in decided.decisions} == {"undecided"}
    assert "attacker is too weak" in decided.decisions[0].reason
    # The power is that of the canary that could show least.
    drawn = planted.canary_set(6, 4)
    found = [
        planted.outcome(one, 1, n_references=99 if place == 4 else OF_PINS)
        for place, one in enumerate(drawn.canaries)
    ]
    power = measured(findings_of(tmp_path, drawn, found), "most_bits")
    assert power.low == power.value == power.high == pytest.approx(math.log2(100))
    assert "counted, not estimated" in power.method


def test_what_cannot_be_ranked_or_compared_is_unresolved_with_the_reason(tmp_path):
    none = findings_of(tmp_path, drawn := planted.canary_set(6, 4), [Outcome("split")] * 6)
    assert isinstance(measured(none, "most_bits"), Unresolved)
    assert none.checks == ()
    drawn = planted.canary_set(8, 4, included=[True, False] * 4)
    bare = [
        {**planted.outcome(one, 1 if one.included else 5).as_json(), "ranked": None}
        for one in drawn.canaries
    ]
    findings = findings_of(tmp_path, drawn, bare)
    for name in ("excess_top3", "excess_exposure", "top3", "exposure", "most_bits"):
        assert isinstance(measured(findings, name), Unresolved), name
    assert measured(findings, "excess").value == 1.0
    drawn = planted.canary_set(5, 4, included=[True, False, False, False, False])
    findings = findings_of(tmp_path, drawn, [planted.outcome(one, 1) for one in drawn.canaries])
    for name in ("excess", "excess_top3", "excess_exposure"):
        assert "one canary" in measured(findings, name).reason
    assert isinstance(measured(findings, "extracted"), Estimate)


WHOLE = planted.outcome(planted.canary_set(1, 4).canaries[0], 1).as_json()


CHANGES = (
    *({"left_out": reason} for reason in ("no reason", "split")),
    *(
        {"strongest": []},
        {"true_loss": None},
        {"true_loss": "1.0"},
        {"ranked": {"rank": 1}},
        {"more": 1},
    ),
)
WITHOUT_RANK = {name: value for name, value in WHOLE.items() if name != "ranked"}


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        {},
        [],
        "left out",
        {"left_out": "split"},
        WITHOUT_RANK,
        *(WHOLE | change for change in CHANGES),
    ],
)
def test_a_damaged_outcome_is_never_read_as_a_canary_that_was_left_out(damaged):
    assert read_outcome(json.loads(json.dumps(WHOLE))).as_json() == WHOLE
    with pytest.raises(ValueError, match=r"damaged|validation error"):
        read_outcome(damaged)


@pytest.mark.parametrize("n", [16, 64])
def test_nothing_is_passed_on_few_canaries_and_the_reason_says_how_many_are_needed(n, tmp_path):
    drawn = planted.canary_set(n, 4, included=([True, False] * 32)[:n])
    findings = findings_of(
        tmp_path, drawn, planted.outcomes_of(drawn, np.random.default_rng(5), 0.0)
    )
    assert measured(findings, "excess_exposure").high <= 7.0
    assert verdict(findings, ("excess_exposure", 7.0)).overall == (
        "undecided" if n == 16 else "passed"
    )
    few = "8 planted and 8 unplanted canaries are too few: 20 of each"
    assert [few in one for one in findings.ablations] == [True] * (n == 16)


def proof_of(corpus, drawn, lost=(), changed=3):
    rows = {one.id: 0 if one in lost else 4 for one in drawn.canaries if one.included}
    return LossProof(canaries_sha256(corpus), 1.0, rows, 3, changed)


def test_without_proof_of_a_loss_no_limit_passes_and_secrets_without_one_do_not_count(tmp_path):
    drawn = planted.canary_set(48, included=[True, False] * 24, printed=False)
    included = [one for one in drawn.canaries if one.included]
    case = planted.case_of(
        tmp_path,
        drawn,
        planted.remembering(drawn, included[:12], planted.Writing),
        "question-answering",
    )
    trials, outcomes, unknown = run(planted.QUICK, case)
    assert any(
        "no record shows that training used the planted answers" in one for one in unknown.ablations
    )
    assert measured(unknown, "extracted").n == 24

    def known_with(proof):
        proven = dataclasses.replace(case, canary_loss=proof)
        return planted.QUICK.measure(proven, trials, outcomes, np.random.default_rng(1), SILENT)

    known = known_with(proof_of(case.corpus, drawn))
    assert (known.ablations, measured(known, "extracted").value) == ((), 12 / 24)
    # The twelve others were cut off: all that was learned comes out.
    part = known_with(proof_of(case.corpus, drawn, included[12:]))
    assert counts(part)["without loss"] == 12
    assert (measured(part, "extracted").value, measured(part, "extracted").n) == (1.0, 12)
    assert any("12 planted and 24 unplanted canaries are too few" in one for one in part.ablations)
    # A training that changed nothing proves nothing.
    frozen = known_with(proof_of(case.corpus, drawn, changed=0))
    assert counts(frozen)["without loss"] == 24
    assert not isinstance(measured(frozen, "excess"), Estimate)


def test_a_proof_is_read_beside_the_model_and_only_of_these_canaries(tmp_path):
    drawn = planted.canary_set(4, included=HALF[:4])
    corpus = planted.corpus(tmp_path, drawn, "question-answering")
    proof = proof_of(corpus, drawn)
    write_proof(tmp_path / "model", proof)
    assert read_proof(tmp_path / "model", corpus) == proof
    (tmp_path / "model" / LOSS_FILE).write_text('{"canaries": 1}')
    assert read_proof(tmp_path / "model", corpus) is None
    write_proof(tmp_path / "model", dataclasses.replace(proof, canaries="0" * 64))
    assert read_proof(tmp_path / "model", corpus) is None
    assert read_proof(tmp_path / "nowhere", corpus) is None


def test_a_question_asks_for_a_secret_that_no_page_prints(tmp_path):
    drawn = planted.canary_set(48, 2, included=[True, False] * 24, printed=False)
    corpus = planted.corpus(tmp_path, drawn, "question-answering")
    page = page_of(corpus, drawn.canaries[0], drawn.canaries[0].completion)
    assert [word.text for word in page.words] == [*drawn.canaries[0].prefix]
    assert page.questions[0].answers == (" ".join(drawn.canaries[0].completion),)
    for secrets, task in ((drawn, "mlm"), (planted.canary_set(48, 2), "question-answering")):
        problems = set_problems(secrets, planted.corpus(tmp_path, secrets, task))
        assert any("are not printed on pages" in problem for problem in problems)
