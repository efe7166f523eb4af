"""What would decide an undecided limit fits why it is undecided."""

from __future__ import annotations

from dataclasses import replace

import tiny
from test_policy import TODAY, completed, limit

from audit.measurements import Count, Unresolved
from audit.policy import Decision, Policy, evaluate
from audit.policy.reasons import MORE
from audit.record import Result
from audit.report.answer import decides_most

HELD_OUT = Unresolved("leak", "fewer than two held-out documents with such fields", 0, 72)
ANY = Unresolved("leak", "too few documents trained on with such values", 0, 72)
FEW = Count("left out: few plausible values", 240, "questions with fewer than 3 public answers of their `category`")


def decided(result: Result, documents: dict[str, int]) -> tuple[Decision, str]:
    record = tiny.record(result)
    record = replace(record, corpus=replace(record.corpus, documents=documents))
    verdict = evaluate(record, Policy(1, "mine", (limit(required=True),)), TODAY)
    return verdict.decisions[0], decides_most(record, verdict)


def test_without_held_out_documents_these_are_asked_for() -> None:
    decision, first = decided(completed(HELD_OUT), {"member": 40})
    assert decision.remedy.startswith("add documents of the same source that the model never saw")
    assert "--heldout-from" in first
    decision, first = decided(completed(HELD_OUT), {"member": 40, "heldout": 30})
    assert decision.remedy == MORE
    assert first == "To decide 1 of 1 undecided limit: audit more documents."


def test_what_was_left_out_is_named_where_nothing_could_be_tried() -> None:
    decision, _ = decided(replace(completed(ANY), counts=(FEW,)), {"member": 40, "heldout": 30})
    assert "left out: 240 questions with fewer than 3 public answers of their `category`" in decision.reason
    assert decision.remedy == "mend that and scan again"
    assert decided(completed(ANY), {"member": 40, "heldout": 30})[0].remedy == MORE
