"""Greens that say too much: a pass says what it leaves out, who answers for it, and whose word it takes."""

import dataclasses
import datetime as dt
from collections.abc import Callable

import example_canaries
import example_records as examples
import pytest
from example_records import Case
from policy_texts import write_policy
from shown_pages import check_text, decision

from audit.attacks import TEXTS
from audit.cards import NO_MODEL
from audit.cli import console
from audit.measurements import Count, Estimate
from audit.policy import Limit, Policy, evaluate, load
from audit.policy.checks import settle
from audit.record import Result
from audit.report.coverage import legal_view
from audit.report.facts.build import facts_of
from audit.report.facts.leaks import leaks, unlimited, within
from audit.report.facts.recommend import recommend
from audit.report.html import html
from audit.report.leaks import (
    MOST_LISTED,
    documents_used,
    headline,
    notes,
    plausibility,
)
from audit.report.markdown import dpia
from audit.workflows.gate import load_policy

LIMIT = Limit("reconstruction", "excess_pr.unique", "One limit alone.", max=0.05)
NARROW = Policy(1, "narrow", (LIMIT,), description="One limit.")
HELD_BACK = {"member": 806, "heldout": 119, "public": 30}
UNLIMITED = "Measured, but not limited by this policy"
LOOSER = "2 of its 4 limits are looser than those of docaudit's default policy"


def given_away() -> Case:
    """A model that gives planted secrets away, held against a policy that limits something else, which is met."""
    clean = examples.reconstruction(0.0, n=600)
    battery = ("reconstruction", "canaries")
    return examples.judged(
        examples.record(clean, example_canaries.canaries(0.8), battery=battery, documents=600),
        NARROW,
    )


def accepted() -> Case:
    """A model that gives its training values back, under a policy that accepts nearly all of it."""
    generous = Policy(1, "generous", (dataclasses.replace(LIMIT, max=0.99),))
    return examples.judged(examples.record(examples.reconstruction(0.6)), generous)


def wrong_documents() -> Case:
    """A pass, on documents of which nothing shows that the model was trained on them."""
    record, _, policy = examples.passed()
    area = examples.mean("auc", 0.5, 0.03, 300, 0.5, "chance")
    attacks = (*record.attacks, Result("membership", measurements=(area,)))
    both = dataclasses.replace(record, attacks=attacks, battery=(*record.battery, "membership"))
    limits = (*policy.limits, Limit("membership", "auc", "why", max=0.65))
    return examples.judged(both, dataclasses.replace(policy, limits=limits))


def waived(today: dt.date) -> Case:
    record, _, policy = examples.waived()
    return record, evaluate(record, policy, today), policy


def few() -> Case:
    """So few documents that nothing could be found."""
    area = dataclasses.replace(examples.mean("auc", 0.62, 0.18, 4), null=0.5, null_kind="chance")
    excess = dataclasses.replace(
        examples.mean("excess_pr.all", 0.1, 0.3, 4), null=0.0, null_kind="held-out"
    )
    results = (
        Result("membership", measurements=(area,)),
        Result("reconstruction", measurements=(excess,)),
    )
    return examples.judged(
        examples.record(*results, battery=("membership", "reconstruction")), NARROW
    )


def counted(value: float) -> Case:
    """A count, of which the estimate is held against the limit and the interval says what is shown and not excluded."""
    count = dataclasses.replace(examples.mean("values_identified", value, 4.0, 300), unit="values")
    limit = Limit(
        "reconstruction", "values_identified", "Ten people at most.", max=10, holds="estimate"
    )
    policy = Policy(1, "counted", (limit,))
    return examples.judged(examples.record(Result("reconstruction", measurements=(count,))), policy)


TOLD: dict[str, tuple[Callable[[], Case], str]] = {
    "given-away": (given_away, "MET"),
    "accepted": (accepted, "MET"),
    "wrong-documents": (wrong_documents, "MET"),
    "passed": (examples.passed, "MET"),
    "violated": (examples.violated, "EXCEEDED"),
    "wide": (examples.wide, "UNDECIDED"),
    "waived": (examples.waived, "MET WITH 2 WAIVERS"),
    "waiver-ends": (lambda: waived(dt.date(2026, 12, 11)), "MET WITH 2 WAIVERS"),
    "waiver-ended": (lambda: waived(dt.date(2027, 1, 1)), "EXCEEDED"),
    "few": (few, "UNDECIDED"),
    "counted": (lambda: counted(3.0), "MET"),
    "count-over": (lambda: counted(14.0), "UNDECIDED"),
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", TOLD)
def test_the_terminal_and_page_one_say_what_they_said(name, capsys):
    make, stamp = TOLD[name]
    record, verdict, _ = case = make()
    assert verdict.stamp == stamp
    console.show_verdict(verdict, record=record, verbose=name in ("violated", "wide", "waived"))
    check_text(f"terminal-{name}", capsys.readouterr().out)
    page = decision(case)  # of a waiver that ends, with the register behind it
    check_text(
        f"green-{name}",
        page if name.startswith("waiver") else page.partition('id="not-examined"')[0],
    )


def test_a_policy_of_one_limit_does_not_read_as_clean():
    record, verdict, _ = case = given_away()
    assert (
        headline(facts_of(record, verdict))
        == "1 of 1 limits met; 5 measured findings lie outside this policy"
    )
    assert UNLIMITED in html(*case)
    assert {item.findings[0].state for item in recommend(record, verdict)} == {"outside"}
    everything = unlimited(verdict)
    assert [leak.reach for leak in everything] == sorted(
        (leak.reach for leak in everything), reverse=True
    )
    wider = dataclasses.replace(
        NARROW, limits=(*NARROW.limits, Limit("canaries", "excess", "because", max=1.0))
    )
    rest = unlimited(evaluate(record, wider, examples.TODAY))
    assert {leak.metric for leak in everything} - {leak.metric for leak in rest} == {"excess"}


def test_a_leak_that_its_limit_accepts_is_a_leak_all_the_same():
    record, verdict, policy = case = accepted()
    assert [leak.metric for leak in within(verdict)] == ["excess_pr.unique"]
    assert "; 1 met limit leaves a measured leak" in headline(facts_of(record, verdict))
    for text in (html(*case), dpia(record, verdict, policy)):
        assert "Within the limits of this policy, and yet a leak" in text.replace("\n", " ")
        assert "No countermeasure is needed" not in text
        assert "Evidence for the resistance" not in text
    assert {item.findings[0].state for item in recommend(record, verdict)} == {"outside"}


@pytest.mark.parametrize("make", [accepted, given_away])
def test_a_pass_beside_findings_is_neither_consistent_nor_ready_for_a_next_step(make, capsys):
    record, verdict, _ = make()
    assert verdict.overall == "passed"
    console.show_verdict(verdict, record=record)
    lines = capsys.readouterr().out
    assert "consistent" not in lines
    assert "Next: " not in lines
    assert "Fix: " in lines


@pytest.mark.parametrize(
    ("make", "said"),
    [(accepted, ", although the limits are met:"), (given_away, ", without a limit")],
)
def test_a_leak_that_no_limit_stops_is_no_evidence_for_the_resistance(make, said):
    views = legal_view(facts_of(*make()[:2])).clauses.values()
    spoken = [one for rows in views for _, told in rows for one in told]
    assert [one for one in spoken if one.startswith(f"evidence against the resistance{said}")]
    assert make is given_away or not [
        one for one in spoken if one.startswith("evidence for the resistance")
    ]


def test_a_model_that_gives_nothing_away_has_nothing_outside():
    clean = examples.record(example_canaries.canaries(0.0), battery=("canaries",))
    assert leaks(settle(clean, ())) == []


def test_more_findings_than_fit_are_counted():
    found = examples.reconstruction(0.6)
    record = examples.record(
        found, example_canaries.canaries(0.8), battery=("reconstruction", "canaries", "membership")
    )
    policy = Policy(1, "other", (Limit("membership", "auc", "because", max=0.65),))
    verdict = evaluate(record, policy, examples.TODAY)
    outside = [note.text for note in notes(facts_of(record, verdict)) if note.kind == "outside"]
    assert (len(unlimited(verdict)), len(outside), outside[-1]) == (
        7,
        MOST_LISTED + 2,
        "  and 3 more",
    )


def test_an_area_under_chance_counts_and_a_confounded_number_says_so():
    def told(value: float, confounded: str | None = None) -> Result:
        area = dataclasses.replace(
            examples.mean("auc", value, 0.02, 300), null=0.5, null_kind="chance"
        )
        return Result("membership", measurements=(area,), confounded=confounded)

    for value, expected in ((0.9, True), (0.1, True), (0.52, False), (0.48, False)):
        record = examples.record(told(value), battery=("membership",))
        assert bool(leaks(settle(record, ()))) is expected
    record = examples.record(
        told(0.9, "the documents differ in themselves"), battery=("membership",)
    )
    (leak,) = leaks(settle(record, ()))
    assert leak.confounded == "the documents differ in themselves"
    verdict = examples.judged(record)[1]
    unconfounded = examples.record(told(0.9), battery=("membership",))
    other = examples.judged(unconfounded)[1]
    assert plausibility(facts_of(record, verdict)) != plausibility(facts_of(unconfounded, other))


def test_every_metric_that_a_shipped_policy_limits_is_listed_where_another_does_not():
    for name in ("default", "strict"):
        for limit in load(name).limits:
            assert limit.metric in TEXTS[limit.attack].tells, (limit.attack, limit.metric)


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("wrong documents", "none", "No measurement confirms this declaration"),
        (
            "passed",
            "open",
            "it did not examine which documents it was trained on (membership was not decided)",
        ),
        ("violated", "signs", "consistent with this declaration"),
        ("skipped", "unmeasured", ""),
    ],
)
def test_signs_that_the_model_saw_the_documents_are_named_and_so_is_that_there_are_none(
    name, state, words
):
    record, verdict, _ = {**examples.CASES, "wrong documents": wrong_documents}[name]()
    word = plausibility(facts_of(record, verdict))
    assert word is not None
    assert (word.state, words in word.sentence) == (state, True)
    no_model = dataclasses.replace(record.target, family=NO_MODEL)
    alone = dataclasses.replace(record, target=no_model)
    assert plausibility(facts_of(alone, verdict)) is None
    if state == "none":
        assert [item.remedy.id for item in recommend(record, verdict)] == ["scan-again"]


def test_chance_alone_is_no_sign():
    def barely(attack: str, name: str) -> Result:
        item = dataclasses.replace(
            examples.mean(name, 0.05, 0.024, 300), null=0.0, null_kind="held-out"
        )
        assert isinstance(item, Estimate)
        return Result(attack, measurements=(item,))

    record = examples.record(
        barely("reconstruction", "excess_pr.unique"),
        barely("memorisation", "net"),
        barely("canaries", "excess"),
        battery=("reconstruction", "memorisation", "canaries"),
    )
    assert len(leaks(settle(record, ()))) == 3, "each by itself"
    limits = (Limit("reconstruction", "excess_pr.unique", "why", max=0.2),)
    verdict = examples.judged(record, Policy(1, "one", limits))[1]
    word = plausibility(facts_of(record, verdict))
    assert word is not None
    assert word.state == "open", "all of them together"


def test_a_chance_finding_within_its_limit_is_no_measured_leak():
    # A clean model: AUC 0.562 (0.516 to 0.607) by chance, beside three more numbers of the attack.
    area = examples.mean("auc", 0.562, 0.023, 600, 0.5, "chance")
    others = [
        examples.mean(f"auc.{name}", 0.51, 0.023, 600, 0.5, "chance")
        for name in ("loss", "calibrated", "masked")
    ]
    found = (area, *others)
    done = Result(
        "membership", measurements=found, methods={"auc": tuple(one.name for one in found)}
    )
    record = examples.record(done, battery=("membership",))
    case = examples.judged(record, Policy(1, "one", (Limit("membership", "auc", "why", max=0.65),)))
    assert (case[1].overall, within(case[1])) == ("passed", ())
    assert "leaves a measured leak" not in headline(facts_of(*case[:2]))
    leaking = dataclasses.replace(
        done, measurements=(examples.mean("auc", 0.61, 0.02, 600, 0.5, "chance"), *others)
    )
    shown = examples.judged(dataclasses.replace(record, attacks=(leaking,)), case[2])
    assert [leak.metric for leak in within(shown[1])] == ["auc"]


def test_an_attack_that_used_fewer_documents_says_so():
    counts = (
        Count("member documents", 466, "documents"),
        Count("held-out documents", 119, "documents"),
        Count("left out: canary", 340, "documents"),
        Count("left out: no question", 0, "documents"),
    )
    record = examples.record(
        Result("membership", measurements=(), counts=counts),
        examples.gone("canaries", "skipped", "missing", "none", "some"),
    )
    corpus = dataclasses.replace(record.corpus, documents=HELD_BACK)
    assert [*documents_used(dataclasses.replace(record, corpus=corpus))] == [
        "Recognising training documents: used 466 of 806 declared as trained on and 119 of 119 "
        "declared as never seen (340 left out: canary)"
    ]
    whole = dataclasses.replace(corpus, documents={"member": 466, "heldout": 119})
    assert not [*documents_used(dataclasses.replace(record, corpus=whole))]


def test_limits_that_are_looser_than_the_shipped_ones_are_named_in_notes_and_on_page_one(tmp_path):
    path = write_policy(
        tmp_path / "ours.toml",
        "membership auc max = 0.9",
        "reconstruction excess_pr.unique max = 0.05",
        "canaries excess max = 0.1\nmin_power = 7.0",
        "membership tpr_at_fpr_10 max = 0.9",
        name="ours",
    )
    for policy, looser in ((load_policy(str(path)), True), (load_policy("default"), False)):
        case = examples.judged(examples.passed()[0], policy)
        assert (
            any(
                note.text.startswith(f"Policy: {LOOSER}; lacks ")
                for note in notes(facts_of(*case[:2]))
            )
            == looser
        )
        assert (LOOSER in headline(facts_of(*case[:2]))) == looser
        assert (LOOSER in decision(case).replace("&#39;", "'")) == looser
