"""Documents that an audit did without: none of them may turn a leak into a pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from test_policy import LEAKY, SAFE, TODAY, completed, estimate, limit

from audit import policy as policies
from audit.attacks.battery import BATTERY
from audit.attacks.canaries.attack import Canaries
from audit.attacks.interface import why
from audit.cards import Bounds
from audit.case import Case
from audit.corpus.documents import Corpus, Manifest, Membership, Task, TaskKind
from audit.measurements import Unresolved
from audit.policy import Policy, Verdict, evaluate
from audit.record import AuditRecord, Reason, Result
from audit.report.answer import decides_most
from audit.targets.interface import NoModel

FEW = Unresolved("rare", "fewer than 72 held-out documents", 20, 72)
PLENTY, SMALL = {"member": 100, "heldout": 100}, {"member": 100, "heldout": 40}


def record_of(*results: Any, corpus: dict[str, Any], **changes: Any) -> AuditRecord:
    made = tiny.record(*results)
    return replace(made, corpus=replace(made.corpus, **corpus), **changes)


def judged(record: AuditRecord, *limits: Any) -> Verdict:
    return evaluate(record, Policy(schema=1, name="test", limits=limits or (limit(),)), TODAY)


def left_out(documents: dict[str, int], **unread: dict[str, int]) -> dict[str, Any]:
    return {"documents": documents, "questions": {"member": 40, "heldout": 40}, **unread}


@pytest.mark.parametrize(
    ("unread", "outcome"),
    [
        ({"unread": {"member": 6, "heldout": 2}}, "passed"),
        ({"unread": {"member": 60}}, "undecided"),
        ({"unread": {"heldout": 60}}, "undecided"),
        ({"unread": {"public": 60}}, "passed"),
        ({"unread_questions": {"member": 40}}, "passed"),
        ({"unread_questions": {"member": 60}}, "undecided"),
    ],
)
def test_no_limit_is_passed_where_many_documents_were_left_out(unread: dict[str, Any], outcome: str) -> None:
    made = record_of(completed(SAFE), corpus=left_out(PLENTY, **unread))
    (decision,) = judged(made).decisions
    assert decision.outcome == outcome
    if outcome == "undecided":
        assert decision.cause == "uncovered"
        assert "left out" in decision.reason
    assert judged(replace(made, attacks=(completed(LEAKY),))).overall == "violated"


@given(st.integers(0, 200), st.integers(1, 200))
def test_a_pass_rests_on_nine_tenths_of_either_side(gone: int, kept: int) -> None:
    for split, other in (("member", "heldout"), ("heldout", "member")):
        corpus = left_out({split: kept, other: 50}, unread={split: gone})
        passed = judged(record_of(completed(SAFE), corpus=corpus)).overall == "passed"
        assert passed == (10 * gone <= gone + kept)


def test_findings_about_the_text_do_not_depend_on_the_labels_of_a_model() -> None:
    text = replace(completed(SAFE, estimate("other", 0.0, 0.01)), about_text=("other",))
    verdict = judged(
        record_of(text, corpus=left_out(PLENTY, unread={"member": 90})), limit(), limit("other", required=False)
    )
    assert [decision.outcome for decision in verdict.decisions] == ["undecided", "passed"]


@pytest.mark.parametrize(
    ("documents", "changes", "outcome"),
    [
        (SMALL, {}, "not run"),
        (PLENTY, {"bounds": Bounds(40, None, 1.0)}, "undecided"),
        (PLENTY, {"bounds": Bounds(None, 60.0, 0.2)}, "undecided"),
        (PLENTY, {"share": 0.25}, "undecided"),
        (SMALL, {"share": 0.25}, "not run"),
        (PLENTY, {"bounds": Bounds(200, None, 1.0)}, "not run"),
    ],
)  # fmt: skip
def test_what_a_bound_left_untried_is_no_lack_of_the_data_set(
    documents: dict[str, int], changes: dict[str, Any], outcome: str
) -> None:
    """A policy does without what a data set cannot give, and not without what nobody looked at."""
    made = record_of(completed(SAFE, FEW), corpus={"documents": documents}, **changes)
    made = replace(made, attacks=(replace(made.attacks[0]),))
    first, second = judged(made, limit(), limit("rare", required=False)).decisions
    assert first.outcome == "passed"
    assert second.outcome == outcome
    assert outcome == "not run" or "tried" in second.reason


@pytest.mark.parametrize(
    ("changes", "tries"),
    [
        ({"share": 0.25}, "with --budget standard"),
        ({"bounds": Bounds(40, None, 0.2)}, "without --documents and --time"),
        (
            {"share": 0.25, "bounds": Bounds(40, None, 0.2)},
            "with --budget standard, without --documents and --time",
        ),
    ],
)
def test_what_the_scan_left_untried_comes_before_more_documents(changes: dict[str, Any], tries: str) -> None:
    """A quick scan tries a quarter: neither an action nor a reason sends for documents before the rest was tried."""
    wide = completed(estimate("leak", 0.03, 0.09), FEW)
    made = record_of(replace(wide), corpus={"documents": PLENTY}, **changes)
    verdict = judged(made, limit(), limit("rare"))
    assert {decision.cause for decision in verdict.decisions} == {"wide", "unresolved"}
    assert all(decision.remedy.startswith("scan all documents") for decision in verdict.decisions)
    assert decides_most(made, verdict) == (
        f"To decide 2 of 2 undecided limits: scan all documents; the data set holds 200, all of which a scan {tries} "
        "tries."
    )


def test_scanning_all_documents_comes_before_a_stronger_attacker() -> None:
    weak = replace(completed(SAFE, attack="reconstruction"), ablations=("no baseline",))
    wide = completed(estimate("leak", 0.03, 0.09), attack="membership")
    made = replace(
        record_of(weak, wide, corpus={"documents": PLENTY}, share=0.25), battery=("reconstruction", "membership")
    )
    verdict = judged(made, limit(), limit("leak", attack="membership"))
    assert decides_most(made, verdict).startswith("To decide 1 of 2 undecided limits: scan all documents")


def test_a_scan_that_tried_all_calls_for_more_documents() -> None:
    made = record_of(completed(estimate("leak", 0.03, 0.09)), corpus={"documents": PLENTY})
    verdict = judged(made)
    assert verdict.decisions[0].remedy == "audit more documents"
    assert decides_most(made, verdict) == "To decide 1 of 1 undecided limit: audit more documents."


def of(task: str) -> Corpus:
    """Return an empty data set for models of a task."""
    return Corpus(Path(), Manifest(1, "none", Task(task), Membership("random")), (), "0" * 64)


@pytest.mark.parametrize("name", ["default", "strict"])
def test_the_shipped_policies_permit_what_no_model_of_a_task_can_be_put_to(name: str) -> None:
    policy = policies.load(name)
    limited = {limit.attack for limit in policy.limits}
    for kind in BATTERY:
        if kind.name in limited:
            permitted = {task for gap in policy.gaps if gap.attack == kind.name for task in gap.tasks}
            barred = {task for task in get_args(TaskKind) if why(kind(), Case(NoModel(of(task)), of(task)), "model")}
            assert barred <= permitted, kind.name


@pytest.mark.parametrize("name", ["default", "strict"])
@pytest.mark.parametrize("task", ["parsing", "spade-extraction"])
def test_canaries_that_cannot_be_planted_keep_no_audit_undecided(name: str, task: str) -> None:
    policy = policies.load(name)
    own = tuple(limit for limit in policy.limits if limit.attack == "canaries")
    barred = why(Canaries(), Case(NoModel(of(task)), of(task)), "model")
    assert barred is not None
    result = Result(
        "canaries",
        status="inapplicable",
        reason=Reason("model", barred),
    )
    record = tiny.record(result)
    record = replace(record, battery=("canaries",), target=replace(record.target, task=task))
    verdict = evaluate(record, replace(policy, limits=own), TODAY)
    assert {decision.outcome for decision in verdict.decisions} == {"inapplicable"}
