"""Coverage, threat models, ratio, clauses and residual risk: what they say, and that they say no more."""

import dataclasses

import example_private
import example_records as examples
import pytest
from example_records import Case, gone
from shown_pages import check_text
from toy_attack import TEXT

from audit.attacks import TEXTS
from audit.cards import AuditSheet
from audit.measurements import Coverage, Unresolved
from audit.policy import Limit
from audit.record import Result
from audit.report.coverage import CoverageRow, coverage, legal_view, ratio
from audit.report.facts.build import facts_of
from audit.report.html import html
from audit.report.residual import residual_risk

pytestmark = pytest.mark.usefixtures("undrawn")
BATTERY = tuple(TEXTS)


def row(case: Case, name: str) -> CoverageRow:
    return next(one for one in coverage(facts_of(*case[:2])) if one.name == name)


def evidence(case: Case, clause: str) -> tuple[str, ...]:
    rows = (row for group in legal_view(facts_of(*case[:2])).clauses.values() for row in group)
    return next(tuple(told) for one, told in rows if one.id == clause)


def stated() -> Case:
    """A leak, of a model that is released, whose fields were counted."""
    record, _, _ = examples.violated()
    done = dataclasses.replace(
        examples.reconstruction(0.6), coverage=(Coverage("all", 320, 1280, unique=202),)
    )
    return examples.judged(
        dataclasses.replace(record, attacks=(done,), audit=AuditSheet(release="api"))
    )


def in_part() -> Case:
    """Attacks of which some were skipped, left out or not asked for."""
    skipped = gone(
        "memorisation", "skipped", "missing", "no baseline", "docaudit references --train"
    )
    done = Result("canaries", measurements=(examples.mean("excess", 0.1, 0.1, 64),))
    record = examples.record(skipped, done, battery=BATTERY)
    lacking = gone("redaction", "left out", "data", "nothing is redacted", "scan without --only")
    return examples.judged(dataclasses.replace(record, left_out=(lacking,)))


def about_text() -> Case:
    """A finding on the text under the bars, whatever the model, of which a part could not be measured."""
    gap = Unresolved("target_gain", "the model names no tags", 0)
    done = Result(
        "redaction",
        measurements=(examples.share("lift_share", 90, 100), gap),
        about_text=("lift_share",),
    )
    limits = (Limit("redaction", "lift_share", "made up", max=0.2),)
    policy = dataclasses.replace(examples.policy(), limits=limits)
    return examples.judged(examples.record(done, battery=BATTERY), policy)


_CASES = (
    stated,
    in_part,
    about_text,
    examples.failed,
    examples.inapplicable,
    examples.passed,
    examples.wide,
)
CHAPTERS = {
    case.__name__.replace("_", "-"): case for case in (*_CASES, example_private.contradicted)
}


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_chapter_says_what_it_said(name: str) -> None:
    page = html(*CHAPTERS[name]()).partition('id="legal"')[2].partition("</section>")[0]
    if name != "stated":  # the clauses, which are long, once
        page = page.partition('<h3 id="clauses"')[0]
    check_text(f"legal-{name}", f'<section id="legal"{page}')


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("violated", "evidence against the resistance"),
        ("waived", "evidence against the resistance, waived:"),
        ("passed", "evidence for the resistance"),
        ("wide", "undecided: the resistance"),
        ("failed", "not tested: the resistance"),
    ],
)
def test_a_leak_is_evidence_against_and_what_is_undecided_is_evidence_for_nothing(
    name: str, words: str
) -> None:
    case = examples.CASES[name]()
    told, place = evidence(case, "edpb-55-v")
    assert told == f"{words} to reconstruction of values on a page"
    assert place == "in record.json: attacks[reconstruction].measurements"
    assert evidence(case, "nistaml-034") == ()


def test_an_attack_that_an_older_version_lacks_is_no_gap_in_silence() -> None:
    (older,) = row(examples.judged(examples.record()), "(iv) Model inversion").tried
    assert older.note == "not in the version that scanned"
    assert row(about_text(), "(i) Attribute inference").tried[1].state == "not tested"
    assert row(in_part(), "(iii) Regurgitation").state == "tested in part"


def test_the_ratio_counts_every_declared_document_of_training() -> None:
    record, verdict, _ = examples.judged(examples.record())
    copies = dataclasses.replace(record.corpus, near_copies={"member": 50})
    text = ratio(facts_of(dataclasses.replace(record, corpus=copies), verdict))
    assert text.startswith("200 training documents")
    alone = dataclasses.replace(record.target, family="no model")
    assert ratio(facts_of(dataclasses.replace(record, target=alone), verdict)) == ""


def test_an_attack_of_somebody_else_is_shown_as_not_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TEXTS, "loss_gap", TEXT)
    done = Result("loss_gap", measurements=(examples.mean("gap", 0.2, 0.1, 40),))
    case = examples.judged(
        examples.record(examples.reconstruction(0), done, battery=(*BATTERY, "loss_gap"))
    )
    page = html(*case)
    assert "Not mapped to any clause: loss_gap." in page
    assert [
        one.access for one in legal_view(facts_of(*case[:2])).threats if one.title == "loss_gap"
    ] == ["not stated"]


def test_the_chapter_holds_every_clause() -> None:
    page = html(*examples.failed())
    view = legal_view(facts_of(*examples.failed()[:2]))
    assert all(one.clause[1:] in page for group in view.clauses.values() for one, _ in group)


def test_residual_risk_always_ends_with_what_nobody_can_exclude() -> None:
    for make in (*examples.CASES.values(), *CHAPTERS.values()):
        record, verdict, policy = make()
        paragraphs = residual_risk(facts_of(record, verdict), policy)
        assert "A better or a later attack" in paragraphs[-1]
