"""The decision report: one answer, who leaks, what is open, and pages that a person can read and sign."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import example_answers as answers
import example_records as examples
import printed
import pytest
from example_records import Case
from shown_pages import HOSTILE, Seen, decision

from audit.cards import AuditSheet, Bounds
from audit.measurements import Estimate
from audit.policy import Limit, Policy
from audit.record import Reason, Result
from audit.report import figures
from audit.report.decision import decision_view
from audit.report.files import pdf, write

SMALLEST = 9.0
FULL = 0.3
"""Share of a page down to which there is something on it."""


def text_of(case: Case) -> str:
    return Seen(decision(case)).text


def page_one(case: Case) -> str:
    return Seen(decision(case).partition("</section>")[0]).text


def held(text: str = "report", leak: float = 0.0) -> Case:
    """A model that leaks so much, and text under the bars that tells more than its limit allows."""
    told = examples.share("worst_class", 90, 100, 0.2, "chance")
    redaction = Result("redaction", measurements=(told,), about_text=("worst_class",))
    limits = (*examples.policy().limits, Limit("redaction", "worst_class", "Redacted copies are shared.", max=0.3))
    record = examples.record(
        examples.reconstruction(leak, n=600), redaction, battery=("reconstruction", "redaction"), documents=600
    )
    return examples.judged(record, Policy(1, "both", limits, text=text))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=examples.CASES)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """An example record's name, and its decision report."""
    path = tmp_path_factory.mktemp("decision") / "report.pdf"
    path.write_bytes(pdf(decision(examples.CASES[request.param]())))
    return request.param, path


@pytest.mark.slow
def test_every_record_gives_four_to_six_pages_that_are_filled_and_large_enough_to_read(drawn: tuple[str, Path]) -> None:
    filled = printed.filled(drawn[1])
    assert 4 <= len(filled) <= 6
    assert min(filled) >= FULL
    assert printed.smallest_letters(drawn[1]) >= SMALLEST - 0.01


@pytest.mark.slow
def test_page_one_ends_with_what_was_audited_and_the_last_pages_ask_for_a_signature(drawn: tuple[str, Path]) -> None:
    name, path = drawn
    first, *_, before, last = printed.texts(path)
    record, _, policy = examples.CASES[name]()
    for words in (
        f"May this model be deployed as the policy “{policy.name}” asks?",
        record.target.sha256,
        record.corpus.sha256,
        "Data-protection officer" if record.audit.dpo else "not stated",
        "2 March 2026",
    ):
        assert words in first
    assert "Signature" in before + last


def test_letters_in_drawings_are_as_large() -> None:
    assert figures.RC["font.size"] >= SMALLEST


@pytest.mark.parametrize(
    ("make", "answer", "stamp"),
    [
        (examples.violated, "No", "VIOLATED"),
        (examples.passed, "Yes", "PASSED"),
        (examples.weak, "Cannot be said", "UNDECIDED"),
        (examples.waived, "Yes, with conditions", "PASSED WITH 2 WAIVERS"),
    ],
)
def test_the_question_has_one_answer_with_counts(make: Callable[[], Case], answer: str, stamp: str) -> None:
    case = make()
    first = page_one(case)
    assert f"asks? {answer} {stamp}" in first
    assert re.search(rf"{re.escape(case[1].counts.sentence)}[.;]", first)


def test_who_accepted_a_leak_until_when_stands_in_the_headline_and_in_the_register() -> None:
    case = examples.waived()
    assert "A. Officer (head of data) accepts this until 31 December 2026" in page_one(case)
    _, _, register = text_of(case).partition("Register of waivers")
    assert "“The weights stay here”. Instead: “one locked machine”" in register


def test_what_the_text_gives_away_is_not_blamed_on_the_model() -> None:
    reported, counted, both = page_one(held()), page_one(held("fail")), page_one(held("fail", leak=0.6))
    assert "asks? Yes PASSED" in reported
    assert "This is no finding about the model" in reported
    assert "asks? No VIOLATED The redacted text itself gives away more than the policy “both” allows" in counted
    assert "The model gives away" not in counted
    assert "It is no finding about the model; the policy counts it all the same" in counted
    assert "The model and the redacted text itself give away more" in both
    for first in (reported, counted, both):
        assert "over its limit; a finding about the text, whatever the model" in first


def test_the_sheet_names_the_model_and_shows_what_is_not_stated() -> None:
    record, verdict, policy = examples.violated()
    assert page_one((record, verdict, policy)).count("not stated") == 9
    sheet = AuditSheet(system="Mail room", model_name="Reader", model_version="2.1", decides="B. Head", dpo=HOSTILE)
    stated = dataclasses.replace(record, audit=sheet)
    page = decision((stated, verdict, policy))
    assert f"<h1>{record.target.name}</h1>" in page
    assert "“Mail room”" in page
    assert "“Reader 2.1”" in page
    assert "<script>alert" not in page
    assert Seen(page.partition("</section>")[0]).text.count("not stated") == 5


def test_gaps_stand_apart_from_what_does_not_apply_each_with_its_question_and_its_remedy() -> None:
    battery = ("reconstruction", "membership", "provider_membership", "canaries", "redaction", "memorisation")
    record = examples.record(
        Result(
            "provider_membership",
            status="skipped",
            reason=Reason("missing", "no document names its provider", "name one for each document"),
        ),
        Result("membership", status="failed", reason=Reason("error", "RuntimeError at attacks/membership.py:12")),
        Result("memorisation", status="inapplicable", reason=Reason("model", "the model answers no questions")),
        battery=battery,
    )
    left_out = (
        Result(
            "reconstruction",
            status="left out",
            reason=Reason("left out", "this attack was not run", "scan without --only"),
        ),
        Result("canaries", status="left out", reason=Reason("data", "no canaries", "scan without --only")),
        Result("redaction", status="left out", reason=Reason("model", "no bars")),
    )
    text = text_of(examples.judged(dataclasses.replace(record, left_out=left_out, share=0.25)))
    _, _, found = text.partition("What was not examined, and why that matters")
    found, _, _ = found.partition("Which classes of attack")
    for words in (
        "from the model whether that company's documents were used to train it?",
        "No document names its provider. To examine it: name one for each document.",
        "Broke down (RuntimeError at attacks/membership.py:12). To examine it: report this failure with the record.",
        "Not asked for in this scan. To examine it: scan without --only.",
        "Not asked for in this scan; no canaries. To examine it: scan without --only.",
        "Cannot be tried here, so nothing is known of it: Answers that are no longer on the page (the model answers no",
        "Cannot be tried here, so nothing is known of it: What the text around a black bar gives away (no bars)",
        "took 25 % of what could be tried",
        "Not in the version that scanned. To examine it: scan again.",
        "pictures, such as signatures or photographs",
    ):
        assert words in found


def test_what_does_not_fit_on_page_one_is_counted_and_told_behind() -> None:
    gain = examples.mean("gain", 0.9, 0.01, 80, 0.1, "chance")
    side = [Result(f"side_{index}", parameters={}, measurements=(gain,)) for index in range(20)]
    record = examples.record(
        *side, examples.reconstruction(0.6), battery=("reconstruction", *(one.attack for one in side))
    )
    case = examples.judged(record)
    first = page_one(case)
    assert first.index("at least 93 of 150") < first.index("side_0")
    shown = first.count("gain of at least 0.90")
    assert f"{20 - shown} more attacks are described on the following pages" in first
    assert text_of(case).count("gain of at least 0.90") == 20


class _Texts(dict):  # type: ignore[type-arg]
    """The sentences of any attack."""

    def __missing__(self, attack: str) -> object:
        from audit.report.templates import AttackMacros, environment

        return AttackMacros(environment(), attack)


@pytest.mark.slow
def test_every_file_of_a_report_is_written_and_no_older_one_stays(tmp_path: Path) -> None:
    for name in ("report.html", "report.pdf"):
        (tmp_path / name).write_bytes(b"another verdict")
    assert write(*examples.passed(), tmp_path) == ()
    assert {path.name for path in tmp_path.iterdir()} == {"report.pdf", "report.html", "measurements.csv"}


def test_what_the_owner_states_is_no_title_and_stands_in_quotes() -> None:
    record, verdict, policy = examples.violated()
    stated = AuditSheet(system="CERTIFICATE OF CONFORMITY", model_name="Result: SAFE", release="internal")
    page = decision((dataclasses.replace(record, audit=stated), verdict, policy))
    (heading,) = re.findall(r"<h1>(.*?)</h1>", page)
    assert heading == record.target.name
    assert "<title>Privacy audit of receipts-" in page
    assert "“CERTIFICATE OF CONFORMITY”" in page
    assert "“Result: SAFE”" in page
    assert "“internal use only”" not in page


def test_a_name_of_a_folder_makes_no_sentence_of_the_title() -> None:
    record, verdict, policy = examples.violated()
    named = dataclasses.replace(record, target=dataclasses.replace(record.target, name="x\u202e" + "y" * 200))
    (heading,) = re.findall(r"<h1>(.*?)</h1>", decision((named, verdict, policy)))
    assert heading.startswith("x\\u202eyyy")
    assert len(heading) <= 64


def test_page_one_of_a_pass_names_what_was_not_examined() -> None:
    absent = Limit("canaries", "excess", "Planted secrets.", max=0.2, required=False)
    record = examples.passed()[0]
    first = page_one(examples.judged(record, Policy(1, "p", (*examples.policy().limits, absent))))
    assert "2 of 3 limits met, 1 not tested (canaries: " in first
    first = page_one(examples.judged(examples.violated()[0], Policy(1, "p", (*examples.policy().limits, absent))))
    assert "not tested (" not in first
    assert "1 not tested" in first


def test_page_one_tells_the_number_that_decides() -> None:
    found = examples.reconstruction(0.6)
    plain = next(one for one in found.measurements if isinstance(one, Estimate) and one.name == "excess_pr.unique")
    other = dataclasses.replace(
        examples.mean("excess_pr.unique.lowest_loss", 0.7, 0.02, 300), null=plain.null, null_kind=plain.null_kind
    )
    both = dataclasses.replace(
        found,
        measurements=(*found.measurements, other),
        methods={"excess_pr.unique": ("excess_pr.unique", other.name)},
    )
    case = examples.judged(examples.record(both), _one("excess_pr.unique"))
    (decision,) = case[1].decisions
    assert decision.measured is not None
    assert decision.measured.name == other.name
    assert case[1].overall == "violated"
    assert "Because the model was trained on the page, 70 of every 100 values (66 to 74) come out" in page_one(case)
    assert "60 of every 100" not in page_one(case), "one number for one question"


def test_what_is_compared_with_page_one_comes_from_the_same_method() -> None:
    found = examples.reconstruction(0.6)
    lowest = [
        examples.share(f"{name}.unique.lowest_loss", hits, 150)
        for name, hits in (("pr.member.attack", 111), ("pr.member.baseline", 7), ("pr.heldout.attack", 9))
    ]
    other = examples.mean("excess_pr.unique.lowest_loss", 0.7, 0.02, 300, 0.0, "held-out")
    both = dataclasses.replace(
        found,
        measurements=(*found.measurements, other, *lowest),
        methods={"excess_pr.unique": ("excess_pr.unique", other.name)},
    )
    case = examples.judged(examples.record(both), _one("excess_pr.unique"))
    assert "recovered at least 111 of 150 values" in page_one(case)
    assert "without the model recovered 7 of 150 values" in text_of(case)
    assert "the attacker who holds it recovered 9 of 150 values" in text_of(case)


def test_a_pass_says_that_the_limits_that_were_tested_are_met() -> None:
    first = page_one(examples.passed())
    assert "The limits of the policy “default” that were tested are met." in first
    assert "could be examined" not in first


def test_page_one_tells_the_number_that_decides_a_pass_with_its_limit_and_alone() -> None:
    found = answers.membership(0.0)
    other = examples.mean("auc.raw_perplexity", 0.56, 0.02, 300, 0.5, "chance")
    kept = (one for one in found.measurements if one.name != other.name)
    both = dataclasses.replace(
        found,
        measurements=(*kept, other),
        methods={"auc": ("auc", other.name)},
    )
    limits = (Limit("membership", "auc", "why", max=0.65),)
    case = examples.judged(examples.record(both, battery=("membership",)), Policy(1, "one", limits))
    assert case[1].overall == "passed"
    (leak,) = decision_view(*case, _Texts()).leaks
    assert "0.56 (0.52 to 0.60), the limit is at most 0.65, guessing gives 0.50 (" in leak.sentence.striptags()
    assert "of every 100" not in leak.sentence


def test_a_strength_that_suffices_is_no_reason_for_an_undecided_limit() -> None:
    record, _, policy = examples.wide()
    asked = dataclasses.replace(policy.limits[0], min_power=0.5)
    case = examples.judged(record, dataclasses.replace(policy, limits=(asked,)))
    assert case[1].overall == "undecided"
    assert case[1].decisions[0].power is not None
    assert "the policy asks for at least" not in text_of(case)


def test_a_quick_scan_says_on_page_one_how_much_it_used() -> None:
    record = dataclasses.replace(examples.violated()[0], budget="quick", share=0.25)
    first = page_one(examples.judged(record))
    assert "Quick scan. The budget “quick” took 25 % of what could be tried." in first
    assert "Quick scan" not in page_one(examples.judged(dataclasses.replace(record, share=1.0, budget="standard")))
    bounded = dataclasses.replace(record, share=1.0, budget="standard", bounds=Bounds(40, None, 0.5))
    assert "A part was tried. At most 40 of the documents trained on and never seen were tried." in page_one(
        examples.judged(bounded)
    )


def test_the_owners_name_of_the_model_stands_under_the_title_and_internal_means_internal() -> None:
    record, verdict, policy = examples.violated()
    stated = AuditSheet(model_name="receipt-reader", model_version="2.3", release="internal")
    first = page_one((dataclasses.replace(record, audit=stated), verdict, policy))
    assert "Its owner calls it “receipt-reader 2.3”." in first
    assert "internal use only" in first


def _one(metric: str) -> Policy:
    return Policy(1, "one", (Limit("reconstruction", metric, "why", max=0.65),))
