"""Greens that say too much: a pass says what it leaves out, who answers for it, and whose word it takes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re

import example_canaries
import example_records as examples
import pytest
from example_records import Case

from audit.attacks import TEXTS
from audit.cards import NO_MODEL
from audit.cli import console
from audit.measurements import Count, Estimate
from audit.policy import Limit, Policy, evaluate, load
from audit.record import Reason, Result
from audit.report.coverage import legal_view
from audit.report.html import html
from audit.report.leaks import MOST_LISTED, documents_used, headline, leaks, notes, plausibility, unlimited, within
from audit.report.markdown import dpia
from audit.report.recommend import recommend

NARROW = Policy(
    1, "narrow", (Limit("reconstruction", "excess_pr.unique", "One limit alone.", max=0.05),), description="One limit."
)
HELD_BACK = {"member": 806, "heldout": 119, "public": 30}


def text_of(case: Case) -> str:
    record, verdict, policy = case
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", html(record, verdict, policy), flags=re.S).split())


def printed(case: Case, capsys: pytest.CaptureFixture[str]) -> str:
    record, verdict, _ = case
    console.show_verdict(verdict, record=record)
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def given_away() -> Case:
    """A model that gives planted secrets away, held against a policy that limits something else, which is met."""
    clean = examples.reconstruction(0.0, n=600)
    audited = examples.record(
        clean, example_canaries.canaries(0.8), battery=("reconstruction", "canaries"), documents=600
    )
    return audited, evaluate(audited, NARROW, examples.TODAY), NARROW


def test_a_policy_of_one_limit_does_not_read_as_clean(given_away: Case, capsys: pytest.CaptureFixture[str]) -> None:
    record, verdict, _ = given_away
    assert (verdict.stamp, verdict.exit_code) == ("PASSED", 0)
    assert headline(record, verdict) == "1 of 1 limits met; 5 measured findings lie outside this policy"
    terminal, page = printed(given_away, capsys), text_of(given_away)
    for text in (terminal, page):
        assert "1 of 1 limits met; 5 measured findings lie outside this policy" in text
        assert "Measured, but not limited by this policy" in text
        assert re.search(r"Recovered whole: \d\d of \d\d canaries", text)
        assert "No countermeasure is called for" not in text
    assert {item.findings[0].state for item in recommend(record, verdict)} == {"outside"}


def test_what_a_policy_limits_is_not_listed_and_the_worst_comes_first(given_away: Case) -> None:
    record, _, _ = given_away
    everything = unlimited(record, evaluate(record, NARROW, examples.TODAY))
    assert [leak.reach for leak in everything] == sorted((leak.reach for leak in everything), reverse=True)
    wider = dataclasses.replace(NARROW, limits=(*NARROW.limits, Limit("canaries", "excess", "because", max=1.0)))
    rest = unlimited(record, evaluate(record, wider, examples.TODAY))
    assert {leak.metric for leak in everything} - {leak.metric for leak in rest} == {"excess"}


@pytest.fixture(scope="module")
def accepted() -> Case:
    """A model that gives its training values back, under a policy that accepts nearly all of it."""
    generous = Policy(1, "generous", (Limit("reconstruction", "excess_pr.unique", "As agreed.", max=0.99),))
    audited = examples.record(examples.reconstruction(0.6))
    return audited, evaluate(audited, generous, examples.TODAY), generous


def test_a_leak_that_its_limit_accepts_is_a_leak_all_the_same(
    accepted: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    record, verdict, policy = accepted
    assert verdict.stamp == "PASSED"
    assert [leak.metric for leak in within(record, verdict)] == ["excess_pr.unique"]
    assert "; 1 met limit leaves a measured leak" in headline(record, verdict)
    for text in (printed(accepted, capsys), text_of(accepted), dpia(record, verdict, policy)):
        assert "Within the limits of this policy, and yet a leak" in text.replace("\n", " ")
        assert "No countermeasure is called for" not in text
        assert "Evidence for the resistance" not in text
    assert {item.findings[0].state for item in recommend(record, verdict)} == {"outside"}
    spoken = [one for rows in legal_view(record, verdict).clauses.values() for _, told in rows for one in told]
    assert [one for one in spoken if one.startswith("evidence against the resistance, although its limits are met:")]
    assert not [one for one in spoken if one.startswith("evidence for the resistance")]


def test_what_is_measured_and_not_limited_is_no_evidence_for_the_resistance(given_away: Case) -> None:
    record, verdict, _ = given_away
    spoken = [one for rows in legal_view(record, verdict).clauses.values() for _, told in rows for one in told]
    assert [one for one in spoken if one.startswith("evidence against the resistance, not limited")]


def test_a_model_that_gives_nothing_away_has_nothing_outside() -> None:
    clean = examples.record(example_canaries.canaries(0.0), battery=("canaries",))
    assert leaks(clean) == []


def test_more_findings_than_fit_are_counted() -> None:
    found = examples.reconstruction(0.6)
    record = examples.record(
        found, example_canaries.canaries(0.8), battery=("reconstruction", "canaries", "membership")
    )
    policy = Policy(1, "other", (Limit("membership", "auc", "because", max=0.65),))
    verdict = evaluate(record, policy, examples.TODAY)
    outside = [note.text for note in notes(record, verdict) if note.kind == "outside"]
    assert len(unlimited(record, verdict)) == 7
    assert len(outside) == MOST_LISTED + 2
    assert outside[-1] == "  and 3 more"


def test_an_area_under_chance_counts_and_a_confounded_number_says_so() -> None:
    def told(value: float, confounded: str | None = None) -> Result:
        area = dataclasses.replace(examples.mean("auc", value, 0.02, 300), null=0.5, null_kind="chance")
        return Result("membership", measurements=(area,), confounded=confounded)

    for value, expected in ((0.9, True), (0.1, True), (0.52, False), (0.48, False)):
        assert bool(leaks(examples.record(told(value), battery=("membership",)))) is expected
    record = examples.record(told(0.9, "the documents differ in themselves"), battery=("membership",))
    (leak,) = leaks(record)
    assert leak.confounded == "the documents differ in themselves"
    verdict = examples.judged(record)[1]
    assert plausibility(record, verdict) != plausibility(examples.record(told(0.9), battery=("membership",)), verdict)


def test_every_metric_that_a_shipped_policy_limits_is_listed_where_another_does_not() -> None:
    for name in ("default", "strict"):
        for limit in load(name).limits:
            assert limit.metric in TEXTS[limit.attack].tells, (limit.attack, limit.metric)


def test_a_pass_on_the_wrong_documents_says_that_nothing_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    record, _, policy = examples.passed()
    area = examples.mean("auc", 0.5, 0.03, 300, 0.5, "chance")
    both = dataclasses.replace(
        record,
        attacks=(*record.attacks, Result("membership", measurements=(area,))),
        battery=(*record.battery, "membership"),
    )
    limits = (*policy.limits, Limit("membership", "auc", "why", max=0.65))
    case = examples.judged(both, dataclasses.replace(policy, limits=limits))
    word = plausibility(*case[:2])
    assert word is not None
    assert word.state == "none"
    assert [item.remedy.id for item in recommend(*case[:2])] == ["scan-again"]
    for text in (printed(case, capsys), text_of(case)):
        assert "No sign that the model saw the documents declared as trained on" in text
        assert "a pass rests on the owner's word" in text.replace("&#39;", "'")
        assert "150 trained on" not in text
    assert "600 documents as trained on, 600 as never seen" in text_of(case)


def test_without_the_attacks_that_would_show_it_nothing_is_called_clean(capsys: pytest.CaptureFixture[str]) -> None:
    case = examples.passed()  # reconstruction alone
    word = plausibility(*case[:2])
    assert word is not None
    assert word.state == "open"
    assert "it was not examined which documents it was trained on (membership was not decided)" in word.sentence
    assert "No sign that the model saw" not in printed(case, capsys) + text_of(case)
    assert "No countermeasure is called for" not in printed(case, capsys) + text_of(case)


def test_signs_are_named_and_what_cannot_show_any_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    word = plausibility(*examples.violated()[:2])
    assert word is not None
    assert word.state == "signs"
    assert "Recovered because of training" in word.sentence
    assert "declared as trained on" not in printed(examples.violated(), capsys)
    skipped = plausibility(*examples.skipped()[:2])
    assert skipped is not None
    assert skipped.state == "unmeasured"
    text_alone = examples.violated()[0]
    no_model = dataclasses.replace(text_alone.target, family=NO_MODEL)
    assert plausibility(dataclasses.replace(text_alone, target=no_model), examples.violated()[1]) is None


def test_chance_alone_is_no_sign() -> None:
    def barely(attack: str, name: str) -> Result:
        item = dataclasses.replace(examples.mean(name, 0.05, 0.024, 300), null=0.0, null_kind="held-out")
        assert isinstance(item, Estimate)
        return Result(attack, measurements=(item,))

    record = examples.record(
        barely("reconstruction", "excess_pr.unique"),
        barely("memorisation", "net"),
        barely("canaries", "excess"),
        battery=("reconstruction", "memorisation", "canaries"),
    )
    assert len(leaks(record)) == 3, "each by itself"
    limits = (Limit("reconstruction", "excess_pr.unique", "why", max=0.2),)
    word = plausibility(record, examples.judged(record, Policy(1, "one", limits))[1])
    assert word is not None
    assert word.state == "open", "all of them together"


def test_a_chance_finding_within_its_limit_is_no_measured_leak() -> None:
    # A clean model: AUC 0.562 (0.516 to 0.607) by chance, beside three more numbers of the attack.
    area = examples.mean("auc", 0.562, 0.023, 600, 0.5, "chance")
    others = [
        examples.mean(f"auc.{name}", 0.51, 0.023, 600, 0.5, "chance") for name in ("loss", "calibrated", "masked")
    ]
    found = (area, *others)
    done = Result("membership", measurements=found, methods={"auc": tuple(one.name for one in found)})
    record = examples.record(done, battery=("membership",))
    case = examples.judged(record, Policy(1, "one", (Limit("membership", "auc", "why", max=0.65),)))
    assert case[1].overall == "passed"
    assert within(*case[:2]) == ()
    assert "leaves a measured leak" not in headline(*case[:2])
    leaking = dataclasses.replace(done, measurements=(examples.mean("auc", 0.61, 0.02, 600, 0.5, "chance"), *others))
    shown = examples.judged(dataclasses.replace(record, attacks=(leaking,)), case[2])
    assert [leak.metric for leak in within(*shown[:2])] == ["auc"]


def test_an_attack_that_used_fewer_documents_says_so() -> None:
    counts = (
        Count("member documents", 466, "documents"),
        Count("held-out documents", 119, "documents"),
        Count("left out: canary", 340, "documents"),
        Count("left out: no question", 0, "documents"),
    )
    record = examples.record(
        Result("membership", measurements=(), counts=counts),
        Result("canaries", status="skipped", reason=Reason("missing", "none", "some")),
    )
    corpus = dataclasses.replace(record.corpus, documents=HELD_BACK)
    assert [*documents_used(dataclasses.replace(record, corpus=corpus))] == [
        "Telling which documents were used for training: used 466 of 806 declared as trained on and 119 of 119 "
        "declared as never seen (340 left out: canary)"
    ]
    whole = dataclasses.replace(corpus, documents={"member": 466, "heldout": 119})
    assert not [*documents_used(dataclasses.replace(record, corpus=whole))]


def test_a_waiver_is_shown_with_owner_role_and_end_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    case = examples.waived()
    terminal, page = printed(case, capsys), text_of(case)
    for text in (terminal, page):
        assert "PASSED WITH 2 WAIVERS" in text
        assert "A. Officer" in text
        assert "head of data" in text
        assert "2026-12-31" in text
    assert "one locked machine" in page
    assert "2 of 2 limits violated and waived" in terminal
    assert case[1].exit_code == 0


@pytest.mark.parametrize(
    ("today", "stamp", "said"),
    [
        (dt.date(2026, 12, 11), "PASSED WITH 2 WAIVERS", "ends in 20 days, on 2026-12-31"),
        (dt.date(2027, 1, 1), "VIOLATED", "expired on 2026-12-31 and has no effect"),
    ],
)
def test_the_end_of_a_waiver_is_named_before_and_after(
    today: dt.date, stamp: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record, _, policy = examples.waived()
    case = record, evaluate(record, policy, today), policy
    assert case[1].stamp == stamp
    terminal = printed(case, capsys)
    assert terminal.count(said) == 2
    state = {"VIOLATED": "expired: no effect"}.get(stamp, "holds, ends soon")
    assert text_of(case).lower().count(state) == 2


def test_a_few_documents_find_nothing_and_page_one_says_that_they_are_few() -> None:
    area = dataclasses.replace(examples.mean("auc", 0.62, 0.18, 4), null=0.5, null_kind="chance")
    excess = dataclasses.replace(examples.mean("excess_pr.all", 0.1, 0.3, 4), null=0.0, null_kind="held-out")
    few = (
        Result("membership", measurements=(area,)),
        Result("reconstruction", measurements=(excess,)),
    )
    page = text_of(examples.judged(examples.record(*few, battery=("membership", "reconstruction")), NARROW))
    assert "Too few documents to tell whether an attacker who holds the model tells documents" in page
    assert "Too few values to tell whether any of it comes from the training" in page
    assert "No effect of the training was found" not in page
    assert "was not found to tell documents" not in page


def test_a_limit_that_only_its_lower_bound_meets_says_so() -> None:
    count = examples.mean("excess_pr.unique", 0.0, 0.02, 300)
    lower = Policy(1, "lower", (Limit("reconstruction", "excess_pr.unique", "r", max=0.02, holds="lower"),))
    record = examples.record(Result("reconstruction", measurements=(count,)))
    verdict = evaluate(record, lower, examples.TODAY)
    assert verdict.decisions[0].outcome == "passed"
    assert verdict.decisions[0].reason.startswith("no leak over the limit is confirmed; only the lower bound is held")
    assert "only the lower bound is held against it" in text_of((record, verdict, lower))
