"""The decision report: one answer, who leaks, what is open, and pages that a person can read and sign."""

import dataclasses
import re
from collections.abc import Callable

import example_answers as answers
import example_records as examples
import printed
import pytest
from example_records import Case, gone
from shown_pages import HOSTILE, Seen, check_text, decision, page_one

from audit.cards import AuditSheet, Bounds
from audit.measurements import Count, Coverage, Estimate, Histogram, Unresolved
from audit.policy import Limit, Policy
from audit.record import AuditRecord, Result
from audit.report import svg
from audit.report.changes import compare
from audit.report.checkpoints import Stop
from audit.report.files import pdf
from audit.report.markdown import dpia

SMALLEST = 9.0
FULL = 0.3
"""Share of a page down to which there is something on it."""
ABSENT = Limit("canaries", "excess", "Planted secrets.", max=0.2, required=False)


def held(text: str = "report", leak: float = 0.0) -> Case:
    """A model that leaks so much, and text under the bars that tells more than its limit allows."""
    told = examples.share("worst_class", 90, 100, 0.2, "chance")
    redaction = Result("redaction", measurements=(told,), about_text=("worst_class",))
    limits = (
        *examples.policy().limits,
        Limit("redaction", "worst_class", "Redacted copies are shared.", max=0.3),
    )
    record = examples.record(
        examples.reconstruction(leak, n=600),
        redaction,
        battery=("reconstruction", "redaction"),
        documents=600,
    )
    return examples.judged(record, Policy(1, "both", limits, text=text))  # type: ignore[arg-type]


def gaps() -> Case:
    """Attacks that gave no number, for every kind of reason."""
    record = examples.record(
        gone(
            "provider_membership",
            "skipped",
            "missing",
            "no document names a provider",
            "name one for each document",
        ),
        gone("membership", "failed", "error", "RuntimeError at attacks/membership.py:12"),
        gone("memorisation", "inapplicable", "model", "the model answers no questions"),
        battery=(
            "reconstruction",
            "membership",
            "provider_membership",
            "canaries",
            "redaction",
            "memorisation",
        ),
    )
    left_out = (
        gone(
            "reconstruction",
            "left out",
            "left out",
            "this attack was not run",
            "scan without --only",
        ),
        gone("canaries", "left out", "data", "no canaries", "scan without --only"),
        gone("redaction", "left out", "model", "no bars"),
    )
    return examples.judged(
        dataclasses.replace(record, left_out=left_out, budget="quick", share=0.25)
    )


def many() -> Case:
    """More attacks than page one has room for; the one that leaks most comes first."""
    gain = examples.mean("gain", 0.9, 0.01, 80, 0.1, "chance")
    side = [Result(f"side_{index}", parameters={}, measurements=(gain,)) for index in range(20)]
    battery = ("reconstruction", *(one.attack for one in side))
    return examples.judged(examples.record(*side, examples.reconstruction(0.6), battery=battery))


def one(metric: str, *more: Estimate) -> Case:
    """A leak that another method than the plain one shows most clearly."""
    found = examples.reconstruction(0.6)
    other = examples.mean(f"{metric}.lowest_loss", 0.7, 0.02, 300, 0.0, "held-out")
    methods = {metric: (metric, other.name)}
    both = dataclasses.replace(
        found, measurements=(*found.measurements, other, *more), methods=methods
    )
    return examples.judged(
        examples.record(both), Policy(1, "one", (Limit("reconstruction", metric, "why", max=0.65),))
    )


def decided_pass() -> Case:
    """Documents are not told from others, by two methods."""
    found = answers.membership(0.0)
    other = examples.mean("auc.raw_perplexity", 0.56, 0.02, 300, 0.5, "chance")
    both = dataclasses.replace(
        found, measurements=(*found.measurements, other), methods={"auc": ("auc", other.name)}
    )
    limits = (Limit("membership", "auc", "why", max=0.65),)
    return examples.judged(examples.record(both, battery=("membership",)), Policy(1, "one", limits))


def one_sided() -> Case:
    """Training documents alone: a limit is undecided, another one, which the policy does without, has no number."""
    metrics = {"reconstruction": "excess_pr.unique", "attribute_inference": "excess.unique"}
    limits = tuple(
        Limit(name, metric, "why", max=0.1, required=name == "reconstruction")
        for name, metric in metrics.items()
    )
    restored, picked = (
        Unresolved(metric, "fewer than two unseen documents", 0, 72) for metric in metrics.values()
    )
    returned = Histogram(
        "returned",
        "values of a document",
        (0.0, 1.0, 2.0),
        {"member": (52, 88), "held-out": (0, 0)},
    )
    found = Result("reconstruction", measurements=(restored,), histograms=(returned,))
    chosen = Result(
        "attribute_inference",
        measurements=(examples.share("chosen.member.unique", 104, 104), picked),
    )
    record = examples.record(found, chosen, battery=tuple(metrics))
    alone = dataclasses.replace(record.corpus, documents={"member": 140})
    return examples.judged(dataclasses.replace(record, corpus=alone), Policy(1, "p", limits))


def audited(**more: object) -> Case:
    return examples.judged(dataclasses.replace(examples.violated()[0], **more))  # type: ignore[arg-type]


def quick() -> Case:
    """A quick scan, which attacked a part of the documents and values."""
    coverage = (Coverage("all", 320, 1280),)
    counts = (Count("member documents", 140, "x"),)
    done = dataclasses.replace(examples.reconstruction(0.6), coverage=coverage, counts=counts)
    return examples.judged(dataclasses.replace(examples.record(done), budget="quick", share=0.25))


def with_absent(record: AuditRecord, *results: Result) -> Case:
    """A policy with a limit on canaries, of which there are none."""
    record = dataclasses.replace(record, attacks=(*record.attacks, *results))
    return examples.judged(record, Policy(1, "p", (*examples.policy().limits, ABSENT)))


def unmeasured_first() -> Case:
    """Limits of which the first were not measured."""
    left_out = tuple(Limit("membership", "auc", f"why {place}", max=0.6) for place in range(5))
    policy = Policy(1, "p", (*left_out, *examples.policy().limits))
    return examples.judged(
        examples.record(examples.reconstruction(0.12), battery=("reconstruction", "membership")),
        policy,
    )


LOWEST = [
    examples.share(f"{name}.unique.lowest_loss", hits, 150)
    for name, hits in (
        ("pr.member.attack", 111),
        ("pr.member.baseline", 7),
        ("pr.heldout.attack", 9),
    )
]
SIGNED = {"decides": "B. Head", "dpo": "D. Officer", "release": "internal"}
SHEET = AuditSheet(
    system="CERTIFICATE OF CONFORMITY", model_name="Reader: SAFE", model_version="2.1", **SIGNED
)
NO_CANARIES = gone(
    "canaries", "skipped", "data", "the data set holds no canaries", "plant some before"
)
WHOLE: dict[str, Callable[[], Case]] = {
    **examples.CASES,
    "text": held,
    "gaps": gaps,
    "many": many,
    "same-method": lambda: one("excess_pr.unique", *LOWEST),
    "no-canaries": lambda: with_absent(
        examples.record(examples.reconstruction(0.6), battery=("reconstruction", "canaries")),
        NO_CANARIES,
    ),
    "unmeasured-first": unmeasured_first,
    "one-sided": one_sided,
}
FIRST: dict[str, Callable[[], Case]] = {
    "text-counted": lambda: held("fail"),
    "text-and-model": lambda: held("fail", leak=0.6),
    "text-aside": lambda: held(leak=0.6),
    "sheet": lambda: audited(audit=SHEET),
    "absent-passed": lambda: with_absent(examples.passed()[0]),
    "absent-violated": lambda: with_absent(examples.violated()[0]),
    "decided-pass": decided_pass,
    "bounded": lambda: audited(bounds=Bounds(40, None, 0.5)),
    "quick": quick,
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", WHOLE)
def test_the_decision_report_says_what_it_said(name):
    check_text(f"decision-{name}".replace(" ", "-"), decision(WHOLE[name]()))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", FIRST)
def test_page_one_says_what_it_said(name):
    check_text(f"page-one-{name}", decision(FIRST[name]()).partition("</section>")[0])


@pytest.fixture(scope="module", params=examples.CASES)
def drawn(request, tmp_path_factory):
    """An example record's name, and its decision report."""
    path = tmp_path_factory.mktemp("decision") / "report.pdf"
    path.write_bytes(pdf(decision(examples.CASES[request.param]())))
    return request.param, path


@pytest.mark.slow
def test_every_record_gives_four_to_six_filled_and_readable_pages_with_what_was_audited(drawn):
    name, path = drawn
    filled = printed.filled(path)
    assert 4 <= len(filled) <= 6
    assert min(filled) >= FULL
    assert min(printed.smallest_letters(path) + 0.01, svg.FONT_SIZE) >= SMALLEST
    first, *_ = printed.texts(path)
    record, _, policy = examples.CASES[name]()
    digests = [card.sha256[:16] for card in (record.target, record.corpus)]
    told = (f"“{policy.name}”", *digests, "2 MARCH 2026", "Signature", "against", "Review date")
    assert [words for words in told if words not in first] == []
    assert record.target.sha256 in "".join(printed.texts(path))


def test_what_changed_since_the_last_audit_is_told_limit_by_limit():
    (old, earlier, _) = examples.passed()
    (new, verdict, policy) = examples.violated()
    page = Seen(decision((new, verdict, policy), (), compare(old, earlier, new, verdict))).text
    assert re.search(r"limits met\. This audit: limits exceeded\. .* Met .{0,40} Exceeded", page)


def test_the_number_that_decides_stands_alone_under_the_name_of_its_limit():
    case = one("excess_pr.unique")
    assert case[1].decisions[0].measured is not None
    assert case[1].decisions[0].measured.name == "excess_pr.unique.lowest_loss"
    assert "leak: 70 points (66–74) Exceeded limit: 65 points" in page_one(case)
    assert "60 points" not in page_one(case)
    followed = Stop(1.0, "", *case[:2]).measured("reconstruction", "excess_pr.unique")
    assert (followed.name, followed.value) == ("excess_pr.unique", 0.7)
    told = [line for line in dpia(*decided_pass()).splitlines() if "unseen documents (AUC)" in line]
    assert [line for line in told if "0.56" not in line] == []


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("auc", "right in 95 % of pairs"),
        ("balanced_accuracy", "companies sorted correctly: 95 %"),
    ],
)
def test_only_an_area_is_called_a_share_of_pairs(metric, text):
    limit = Limit("provider_membership", metric, "Companies stay unknown.", max=0.6)
    number = examples.mean(metric, 0.95, 0.02, 600, 0.5, "chance")
    record = examples.record(
        Result("provider_membership", measurements=(number,)), battery=("provider_membership",)
    )
    page = page_one(examples.judged(record, Policy(1, "companies", (limit,))))
    assert text in page
    assert ("of pairs" in page) == (metric == "auc")


@pytest.mark.parametrize("method", ["lowest_loss", "near"])
def test_the_findings_count_as_page_one_does(method):
    """A finding by another method has other counts, which read like a contradiction."""
    excess = examples.mean(f"excess_pr.unique.{method}", 0.7, 0.02, 300, 0.0, "held-out")
    sides = (
        examples.share(f"pr.member.attack.unique.{method}", 231, 301),
        examples.share(f"pr.heldout.attack.unique.{method}", 3, 299),
        examples.share(f"pr.member.baseline.unique.{method}", 5, 301),
    )
    leak = examples.reconstruction(0.6)
    result = dataclasses.replace(
        leak,
        measurements=(*leak.measurements, excess, *sides),
        methods={"excess_pr.unique": ("excess_pr.unique", excess.name)},
        coverage=(Coverage("all", 640, 1280, unit="fields", unique=310),),
    )
    limit = Limit("reconstruction", "excess_pr.unique", "why", max=0.65)
    case = examples.judged(examples.record(result), Policy(1, "restored", (limit,)))
    _, findings = Seen(decision(case)).text.split("Findings", 1)
    assert "231 of 301" in page_one(case)
    assert "3 of 299" in page_one(case)
    assert "tried: 640 of 1,280 values; the 301 in one document count" in page_one(case)
    assert "restored at least 231 of 301 values" in findings
    assert "restored 3 of 299 values" in findings
    assert "restored 5 of 301 values" in findings


def test_what_the_owner_states_is_quoted_and_escaped_and_only_its_name_is_the_title():
    record, verdict, policy = examples.violated()
    page = decision(
        (
            dataclasses.replace(record, audit=dataclasses.replace(SHEET, dpo=HOSTILE)),
            verdict,
            policy,
        )
    )
    assert re.findall(r"<h1>(.*?)</h1>", page) == ["“Reader: SAFE”, version “2.1”"]
    assert "<title>Privacy audit of “Reader: SAFE”, version “2.1”: exceeded</title>" in page
    assert "“CERTIFICATE OF CONFORMITY”" in page
    assert "“internal use only”" not in page
    assert "<script>alert" not in page
    assert HOSTILE in Seen(page).text


def test_a_name_of_a_folder_is_never_the_title():
    record, verdict, policy = examples.violated()
    target = dataclasses.replace(record.target, name="approved-model")
    page = decision((dataclasses.replace(record, target=target), verdict, policy))
    assert "approved-model" not in page.partition("</section>")[0]
    (heading,) = re.findall(r"<h1>(.*?)</h1>", page)
    assert heading.startswith("LayoutLM model <span")
    assert "name and version are missing" in heading


def test_a_name_that_the_owner_gives_is_cut_and_made_printable():
    sheet = AuditSheet(model_name="x\u202e" + "y" * 150)
    (heading,) = re.findall(r"<h1>(.*?)</h1>", decision(audited(audit=sheet)))
    assert heading.startswith("“x\\u202eyyy")
    assert len(heading) <= 64
