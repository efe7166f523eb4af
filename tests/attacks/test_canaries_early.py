"""Leaks of canaries that do not come out first: what limits, and what alarms, see of them."""

from __future__ import annotations

import datetime as dt
import json
import math

import numpy as np
import pytest
import tiny
from planted_canaries import (
    DIGITS,
    LIMIT,
    QUICK,
    UNKNOWN,
    Knowing,
    Masking,
    Writing,
    canary_set,
    case_of,
    measured,
    outcome,
    outcomes_of,
    run,
)

from audit.attacks import TEXTS
from audit.attacks.canaries import Canaries
from audit.attacks.canaries.outcomes import Outcome, read_outcome
from audit.engine.interface import SILENT
from audit.measurements import Estimate, Unresolved
from audit.policy import Limit, Policy, evaluate
from audit.record import Result
from benchmarks.simulated_audits import fired

BITS = 2.0
"""A limit on the excess of exposure."""
OF_PINS = 9_999


def findings_of(folder, drawn, outcomes, seed=2):
    attack = Canaries()
    case = case_of(folder, drawn, Knowing())
    found = [one.as_json() if isinstance(one, Outcome) else one for one in outcomes]
    return attack.measure(case, attack.trials(case), found, np.random.default_rng(seed), SILENT)


def lower(estimate, alpha=0.05):
    return next(bound.lower for bound in estimate.bounds if bound.alpha == alpha)


def verdict(findings, *limits):
    """Of limits (metric, max) on the canary attack."""
    result = Result(
        "canaries", measurements=findings.measurements, power=TEXTS["canaries"].power, checks=findings.checks
    )
    held = tuple(Limit("canaries", metric, "a limit", max=most, min_power=6.5) for metric, most in limits)
    policy = Policy(1, "canaries", held)
    return evaluate(tiny.record(result, battery=("canaries",)), policy, dt.date(2026, 1, 1))


ALL = (("excess", LIMIT), ("excess_top3", LIMIT), ("excess_exposure", BITS))


@pytest.mark.parametrize("ranks", [(2, 2), (2, 12), (2, 100), (4, 150)])
def test_secrets_that_are_never_first_are_no_longer_passed(tmp_path, ranks):
    drawn = canary_set(64, 4, seed=3)
    rng = np.random.default_rng(0)
    findings = findings_of(tmp_path, drawn, outcomes_of(drawn, rng, 1.0, ranks, OF_PINS))
    assert measured(findings, "extracted").value == 0.0
    assert measured(findings, "excess").high <= LIMIT  # all that was limited before
    assert verdict(findings, ALL[0]).overall == "undecided"  # for an alarm speaks for a leak
    assert verdict(findings, *ALL).overall == "violated"
    assert lower(measured(findings, "excess_exposure"), 0.01) > BITS
    of_coins, of_exposure = (check.reason for check in fired(findings.checks))
    assert "epsilon is at least" in of_coins
    assert "for the 10 copies of a canary together (at delta 1e-05, 95 % confidence)" in of_coins
    assert "bits (99 % confidence)" in of_exposure
    if ranks == (2, 2):
        assert measured(findings, "excess_top3").value == 1.0
        assert lower(measured(findings, "excess_top3"), 0.01) > LIMIT


def test_a_model_that_was_stopped_early_is_no_longer_passed(tmp_path):
    """As measured on utterances after 16 of 45 epochs: 1 of 34 comes out, exposure is 7.2 bits against 1.55."""
    drawn = canary_set(64, 4, included=[place < 34 for place in range(64)])
    rng = np.random.default_rng(4)
    ranks = [1, *np.exp2(rng.uniform(1.5, 10.0, 33)).astype(int), *rng.integers(1, OF_PINS + 2, 30)]
    pairs = zip(drawn.canaries, ranks, strict=True)
    findings = findings_of(tmp_path, drawn, [outcome(one, int(rank), n_references=OF_PINS) for one, rank in pairs])
    assert measured(findings, "extracted").value == 1 / 34
    assert 6.5 < measured(findings, "exposure").value < 8.1
    assert measured(findings, "excess").high <= LIMIT
    assert verdict(findings, ALL[0]).overall == "undecided"  # within, and an alarm speaks for a leak
    assert verdict(findings, *ALL).overall == "violated"
    assert len(fired(findings.checks)) == 2


class Second:
    """Holds, of all that it remembers, another completion likelier than the true one: the first word one further."""

    def costs(self, prefix, n_places, words):
        costs = super().costs(prefix, n_places, words)
        if prefix in self.remembered:
            decoy = DIGITS[(DIGITS.index(self.remembered[prefix][0]) + 1) % len(DIGITS)]
            costs[0, [word == decoy for word in words]] -= self.strength + 2
        return costs


@pytest.mark.parametrize("kind", [Knowing, Masking, Writing])
def test_a_model_that_holds_every_secret_second_is_found_through_the_whole_attack(tmp_path, kind):
    drawn = canary_set(48, 3, seed=6)
    known = {canary.prefix: canary.completion for canary in drawn.canaries if canary.included}
    target = type("Made", (Second, kind), {})(*((drawn, known) if kind is Writing else (known,)))
    _, outcomes, findings = run(QUICK, case_of(tmp_path, drawn, target))
    ranks = [one["ranked"]["rank"] for one, each in zip(outcomes, drawn.canaries, strict=True) if each.included]
    assert max(ranks) == 2 == np.median(ranks)  # first where the likelier one is another canary's, which is left out
    assert measured(findings, "excess").value == 0.0
    assert measured(findings, "top3").value == 1.0
    assert measured(findings, "excess_top3").value > 0.9
    assert len(fired(findings.checks)) == 2
    assert verdict(findings, *ALL).overall == "violated"


def test_a_few_secrets_that_come_out_first_raise_no_alarm_of_themselves(tmp_path):
    drawn = canary_set(64, 4, seed=8)
    rng = np.random.default_rng(3)
    findings = findings_of(tmp_path, drawn, outcomes_of(drawn, rng, 0.0, n_references=OF_PINS))
    assert fired(findings.checks) == []
    assert verdict(findings, *ALL).overall == "passed"


def test_the_excess_of_exposure_is_the_difference_of_both_means(tmp_path):
    drawn = canary_set(64, 4, seed=3)
    findings = findings_of(tmp_path, drawn, outcomes_of(drawn, np.random.default_rng(1), 0.5, (1, 40), OF_PINS))
    excess = measured(findings, "excess_exposure")
    means = [measured(findings, name).value for name in ("exposure", "exposure.control")]
    assert excess.value == pytest.approx(means[0] - means[1])
    assert excess.low < excess.value < excess.high
    assert (excess.null, excess.null_kind, excess.n, excess.unit) == (0.0, "held-out", 64, "canaries")
    shares = [measured(findings, name) for name in ("top3", "top3.control")]
    assert measured(findings, "excess_top3").value == pytest.approx(shares[0].value - shares[1].value)
    assert shares[0].null == pytest.approx(3 / 10_000)


def test_a_ranking_among_few_is_no_power(tmp_path):
    """A 2-digit pin has 100 completions: the first of them is one of a few tries anyway."""
    assert TEXTS["canaries"].power == "most_bits"
    long, short = (
        measured(run(QUICK, case_of(tmp_path, drawn, Knowing()))[-1], "most_bits")
        for drawn in (canary_set(40, 3), canary_set(40, 2))
    )
    assert short.value < 6.5 < long.value < math.log2(1_000)
    for power in (long, short):
        assert power.low == power.value == power.high
        assert "counted, not estimated" in power.method
    drawn = canary_set(200, 2, seed=5)
    clean = findings_of(tmp_path, drawn, outcomes_of(drawn, np.random.default_rng(0), 0.0, n_references=60))
    assert all(measured(clean, metric).high <= limit for metric, limit in ALL)
    decided = verdict(clean, *ALL)
    assert {one.outcome for one in decided.decisions} == {"undecided"}
    assert "attacker too weak" in decided.decisions[0].reason
    few = findings_of(tmp_path, drawn := canary_set(4, 4), [outcome(one, 1, n_references=9) for one in drawn.canaries])
    assert measured(few, "most_bits").value == pytest.approx(math.log2(10))


def test_the_power_is_that_of_the_canary_that_could_show_least(tmp_path):
    drawn = canary_set(6, 4)
    found = [outcome(one, 1, n_references=99 if place == 4 else OF_PINS) for place, one in enumerate(drawn.canaries)]
    assert measured(findings_of(tmp_path, drawn, found), "most_bits").value == pytest.approx(math.log2(100))
    none = findings_of(tmp_path, drawn, [Outcome("split")] * 6)
    assert isinstance(measured(none, "most_bits"), Unresolved)
    assert none.checks == ()


def test_canaries_without_references_leave_what_is_ranked_unresolved(tmp_path):
    drawn = canary_set(8, 4, included=[True, False] * 4)
    bare = [{**outcome(one, 1 if one.included else 5).as_json(), "ranked": None} for one in drawn.canaries]
    findings = findings_of(tmp_path, drawn, bare)
    for name in ("excess_top3", "excess_exposure", "top3", "exposure", "most_bits"):
        assert isinstance(measured(findings, name), Unresolved), name
    assert measured(findings, "excess").value == 1.0


def test_one_canary_of_a_side_is_nothing_to_compare_with(tmp_path):
    drawn = canary_set(5, 4, included=[True, False, False, False, False])
    findings = findings_of(tmp_path, drawn, [outcome(one, 1) for one in drawn.canaries])
    for name in ("excess", "excess_top3", "excess_exposure"):
        assert "single canary" in measured(findings, name).reason
    assert isinstance(measured(findings, "extracted"), Estimate)


WHOLE = outcome(canary_set(1, 4).canaries[0], 1).as_json()


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        {},
        [],
        "left out",
        {"left_out": "split"} | {"ranked": None},
        {**WHOLE, "left_out": "no reason"},
        {**WHOLE, "left_out": "split"},
        {**WHOLE, "strongest": []},
        {**WHOLE, "true_loss": None},
        {**WHOLE, "true_loss": "1.0"},
        {**WHOLE, "ranked": {"rank": 1}},
        {**WHOLE, "more": 1},
        {name: value for name, value in WHOLE.items() if name != "ranked"},
    ],
)
def test_a_damaged_outcome_is_never_read_as_a_canary_that_was_left_out(tmp_path, damaged):
    drawn = canary_set(12, 4)
    whole = [outcome(one, 1).as_json() for one in drawn.canaries]
    assert read_outcome(json.loads(json.dumps(whole[0]))) == outcome(drawn.canaries[0], 1)
    with pytest.raises(ValueError, match=r"damaged|validation error"):
        findings_of(tmp_path, drawn, [damaged, *whole[1:]])


class Closed(Knowing):
    """A model with a vocabulary of its own, which lacks some words."""

    def __init__(self, lacking):
        super().__init__()
        self.lacking = lacking

    def tokens(self, word):
        return [UNKNOWN if word in self.lacking else self.token(word)]

    def word_of(self, token):
        return "?" if token == UNKNOWN else super().word_of(token)


@pytest.mark.parametrize("known", [True, False])
def test_canaries_whose_names_the_model_lacks_show_nothing_of_its_training(known, tmp_path):
    drawn = canary_set(60, seed=3)
    names = {canary.prefix[2] for canary in drawn.canaries if not (canary.included and known)}
    _, outcomes, findings = run(QUICK, case_of(tmp_path, drawn, Closed(names)))
    included = sum(canary.included for canary in drawn.canaries)
    assert [read_outcome(one).n_unnamed for one in outcomes] == [
        0 if known and canary.included else 1 for canary in drawn.canaries
    ]
    said = (
        f"the model does not know the words of {included} of the {included} canaries that are declared as planted: "
        "nothing shows that it was trained on this data set"
    )
    assert (said in findings.ablations) is not known
    assert any("does not know the words" in one for one in findings.ablations) is not known
    result = Result(
        "canaries", measurements=findings.measurements, power=TEXTS["canaries"].power, ablations=findings.ablations
    )
    policy = Policy(1, "canaries", (Limit("canaries", "excess", "a limit", max=0.9),))
    judged = evaluate(tiny.record(result, battery=("canaries",)), policy, dt.date(2026, 1, 1))
    assert judged.overall == ("passed" if known else "undecided")
