"""Coverage, threat models, ratio, clauses and residual risk: what they say, and that they say no more."""

from __future__ import annotations

import dataclasses

import example_private
import example_records as examples
import pytest
from example_records import Case
from toy_attack import TEXT

from audit.attacks import TEXTS
from audit.cards import AuditSheet
from audit.measurements import Coverage, Unresolved
from audit.policy import Limit
from audit.record import Reason, Result
from audit.report.coverage import CoverageRow, LegalView, coverage, legal_view, ratio, release
from audit.report.html import html
from audit.report.residual import residual_risk
from audit.report.templates import environment

pytestmark = pytest.mark.usefixtures("undrawn")
BATTERY = tuple(TEXTS)


def view(case: Case) -> LegalView:
    return legal_view(*case[:2])


def row(case: Case, name: str) -> CoverageRow:
    return next(one for one in coverage(*case[:2]) if one.name == name)


def evidence(case: Case, clause: str) -> tuple[str, ...]:
    rows = (row for group in view(case).clauses.values() for row in group)
    return next(tuple(told) for one, told in rows if one.id == clause)


def test_a_class_is_examined_with_how_much_was_tried_and_what_came_of_it() -> None:
    record, verdict, _ = examples.violated()
    done = dataclasses.replace(examples.reconstruction(0.6), coverage=(Coverage("all", 320, 1280, unique=202),))
    case = examples.judged(dataclasses.replace(record, attacks=(done,)))
    (tried,) = row(case, "(v) Reconstruction").tried
    assert tried.sentence == "examined: 320 of 1,280 fields of training; a leak over a limit is confirmed"
    assert verdict.overall == "violated"


@pytest.mark.parametrize(
    ("make", "state", "note"),
    [
        (examples.skipped, "not examined", "no public language model"),
        (examples.failed, "not examined", "broke down (IndexError at attacks/reconstruction/scores.py:88)"),
        (examples.inapplicable, "does not apply", "the target answers questions and has no loss for a token"),
    ],
)
def test_a_class_that_was_not_examined_says_why(make: object, state: str, note: str) -> None:
    found = row(make(), "(v) Reconstruction")  # type: ignore[operator]
    assert found.state == state
    assert note in found.tried[0].sentence


def test_an_attack_that_nobody_asked_for_or_that_an_older_version_lacks_is_no_gap_in_silence() -> None:
    record = dataclasses.replace(examples.record(examples.reconstruction(0)), battery=("reconstruction", "canaries"))
    left = dataclasses.replace(
        record,
        left_out=(
            Result(
                "canaries",
                status="left out",
                reason=Reason("data", "the data set holds no canaries", "scan without --only"),
            ),
        ),
    )
    (asked,) = row(examples.judged(record), "(iv) Model inversion").tried
    (lacking,) = row(examples.judged(left), "(iv) Model inversion").tried
    (older,) = row(examples.judged(examples.record()), "(iv) Model inversion").tried
    assert asked.note == "not asked for in this scan"
    assert lacking.note == "not asked for in this scan; the data set holds no canaries"
    assert older.note == "not in the version that scanned"


def test_a_class_is_examined_in_part_where_an_attack_of_it_was_skipped() -> None:
    skipped = Result(
        "memorisation", status="skipped", reason=Reason("missing", "no baseline", "docaudit train-baseline")
    )
    done = Result("canaries", measurements=(examples.mean("excess", 0.1, 0.1, 64),))
    case = examples.judged(examples.record(skipped, done, battery=BATTERY))
    assert row(case, "(iii) Regurgitation").state == "examined in part"
    assert row(case, "(iv) Model inversion").state == "examined"


def test_a_part_of_an_attack_that_could_not_be_measured_is_not_examined() -> None:
    gap = Unresolved("target_gain", "the model names no tags", 0)
    share = dataclasses.replace(examples.share("lift_share", 40, 100), name="lift_share")
    done = Result("redaction", measurements=(gap, share))
    found = row(examples.judged(examples.record(done, battery=BATTERY)), "(i) Attribute inference")
    assert [one.state for one in found.tried] == ["not examined", "not examined"]
    assert "could not be measured" in found.tried[1].sentence


def test_a_leak_is_evidence_against_and_what_is_undecided_is_evidence_for_nothing() -> None:
    topic = "to reconstruction of values on a page"
    assert evidence(examples.violated(), "edpb-55-v") == (f"evidence against the resistance {topic}",)
    assert evidence(examples.waived(), "edpb-55-v") == (f"evidence against the resistance, waived: {topic}",)
    assert evidence(examples.passed(), "edpb-55-v") == (f"evidence for the resistance {topic}",)
    assert evidence(examples.wide(), "edpb-55-v") == (f"nothing decided on the resistance {topic}",)
    assert evidence(examples.failed(), "edpb-55-v") == (f"not examined: the resistance {topic}",)
    assert evidence(examples.passed(), "nistaml-034") == ()


def test_the_threat_model_has_access_knowledge_and_the_records_own_cost() -> None:
    threats = {one.title: one for one in view(examples.violated()).threats}
    found = threats["Reconstruction of blacked-out values"]
    assert found.access == "the model’s weights"
    assert "a public language model" in found.knowledge
    assert "128 candidates a word piece; 8 attempts a value" in found.cost


def test_the_ratio_counts_every_declared_document_of_training() -> None:
    record = examples.record()
    copies = dataclasses.replace(record.corpus, near_copies={"member": 50})
    text = ratio(dataclasses.replace(record, corpus=copies))
    assert text.startswith("200 documents of training")
    assert "150 marked values) to 4,812,032 parameters: one document for every 24,060 parameters" in text
    alone = dataclasses.replace(record.target, family="no model")
    assert ratio(dataclasses.replace(record, target=alone)) == ""


def test_the_release_is_what_the_owner_states() -> None:
    record = examples.record()
    assert release(record) == "Release: not stated."
    stated = dataclasses.replace(record, audit=AuditSheet(release="api"))
    assert "as the owner states it: its answers to strangers" in release(stated)


def test_an_attack_of_somebody_else_is_shown_as_not_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TEXTS, "loss_gap", TEXT)
    done = Result("loss_gap", measurements=(examples.mean("gap", 0.2, 0.1, 40),))
    case = examples.judged(examples.record(examples.reconstruction(0), done, battery=(*BATTERY, "loss_gap")))
    page = html(*case)
    assert "Not mapped to any clause: loss_gap." in page
    assert [one.access for one in view(case).threats if one.title == "loss_gap"] == ["not stated"]


def test_the_chapter_is_escaped_and_holds_every_clause() -> None:
    record, *_ = examples.skipped()
    hostile = dataclasses.replace(record.attacks[0], reason=Reason("missing", "<script>alert(1)</script>"))
    case = examples.judged(dataclasses.replace(record, attacks=(hostile,)))
    page = html(*case)
    assert 'id="legal"' in page
    assert "<script>alert" not in page
    assert all(one.clause[1:] in page for group in view(case).clauses.values() for one, _ in group)


def test_the_short_table_has_the_six_classes_and_the_quotation() -> None:
    page = environment().get_template("_coverage.html").render(legal=view(examples.violated()))
    assert page.count("<tr>") == 7
    assert "an only be evidence for the resistance to those attacks" in page
    assert "a leak over a limit is confirmed" in page


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (examples.violated, "The model gives away more than a limit allows, which is confirmed"),
        (examples.waived, "accepted by A. Officer, head of data, until 2026-12-31; instead of mending it: one locked"),
        (examples.wide, "Not decided, so that a leak over the limit is not excluded"),
        (examples.passed, "2 limits are met, which does not mean no leak. What the policy “default” lets through"),
        (examples.passed, "what its owner declares"),
        (examples.skipped, "Not examined, so that nothing is known of it: "),
        (example_private.contradicted, "The guarantee that the model’s training claims does not hold"),
    ],
)
def test_residual_risk_says_what_remains(make: object, said: str) -> None:
    paragraphs = residual_risk(*make())  # type: ignore[operator]
    assert any(said in paragraph for paragraph in paragraphs), paragraphs
    assert "A better attack" in paragraphs[-1]


def test_residual_risk_of_a_pass_names_the_end_of_the_interval() -> None:
    record, verdict, policy = examples.passed()
    measured = verdict.decisions[0].measured
    assert measured is not None
    (met, *_) = residual_risk(record, verdict, policy)
    assert f"(up to {100 * measured.high:.2g} points)" in met


def test_what_the_text_gives_away_is_not_told_of_the_model() -> None:
    done = Result("redaction", measurements=(examples.share("lift_share", 90, 100),), about_text=("lift_share",))
    limits = (Limit("redaction", "lift_share", "made up", max=0.2),)
    policy = dataclasses.replace(examples.policy(), limits=limits)
    found = residual_risk(*examples.judged(examples.record(done, battery=BATTERY), policy))
    assert found[0].startswith("The documents’ own text, whatever the model, gives away more")
