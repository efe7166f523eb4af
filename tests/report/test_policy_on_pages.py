"""What pages quote of a policy: its waivers, and that its limits are looser than the shipped ones."""

from __future__ import annotations

import html
import re
from pathlib import Path

import example_records as examples
import pytest
from example_records import Case

from audit.policy import evaluate
from audit.report.html import render, report_context
from audit.report.leaks import notes
from audit.report.markdown import dpia
from audit.workflows.gate import load_policy

LOOSER = "2 of its 4 limits are looser than those of docaudit's default policy"


def page_text(page: str, case: Case) -> str:
    """Return the text of a page without tags, its spaces joined."""
    drawn = render(page, report_context(*case))  # type: ignore[arg-type]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", drawn)).split())


@pytest.mark.parametrize("page", ["decision.html", "report.html"])
def test_what_a_waiver_says_is_quoted_on_both_pages(page: str) -> None:
    text = page_text(page, examples.waived())
    assert "as the waiver states, A. Officer (head of data) accepts this until" in text
    assert "“The weights stay here”. Instead: “one locked machine”" in text
    assert "Quoted from the policy: docaudit verifies none of it" in text


def test_what_a_waiver_says_is_quoted_in_the_impact_assessment() -> None:
    text = dpia(*examples.waived())
    assert "Waivers in force (quoted from the policy, verified by nobody here" in text
    assert "“one locked machine”" in text


def test_limits_that_are_looser_than_the_shipped_ones_are_named_in_notes_and_on_pages(tmp_path: Path) -> None:
    bounds = {
        ("membership", "auc"): "max = 0.9",
        ("reconstruction", "excess_pr.unique"): "max = 0.05",
        ("canaries", "excess"): "max = 0.1\nmin_power = 7.0",
        ("membership", "tpr_at_fpr_10"): "max = 0.9",
    }
    limits = (
        f'[[limits]]\nattack = "{attack}"\nmetric = "{metric}"\n{bound}\nrationale = "because"\n'
        for (attack, metric), bound in bounds.items()
    )
    path = tmp_path / "ours.toml"
    path.write_text('schema = 1\nname = "ours"\n' + "".join(limits), encoding="utf-8")
    record, policy = examples.passed()[0], load_policy(str(path))
    case = (record, evaluate(record, policy, examples.TODAY), policy)
    assert f"Policy: {LOOSER}" in [note.text for note in notes(*case[:2])]
    assert LOOSER in page_text("decision.html", case)
    shipped = load_policy("default")
    case = (record, evaluate(record, shipped, examples.TODAY), shipped)
    assert not [note.text for note in notes(*case[:2]) if "looser" in note.text]
    assert "looser than those" not in page_text("decision.html", case)
