"""Waivers that somebody answers for by a name that can be read, quoted wherever they stand."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from pathlib import Path

import example_records as examples
import pytest
from test_policy_rules import SAFE, problems, read

from audit.policy import evaluate
from audit.report.html import decision_html
from audit.report.html import html as annex
from audit.report.markdown import dpia

GOOD = {
    "owner": "A. Name",
    "role": "head of data",
    "reason": "Retrained next quarter.",
    "measure": "One locked machine.",
}


def waiver(**changed: str) -> str:
    texts = {**GOOD, **changed}
    lines = "".join(f"{key} = {json.dumps(text)}\n" for key, text in texts.items())
    return f'\n[[waivers]]\nattack = "membership"\nmetric = "auc"\n{lines}expires = 2026-12-31\n'


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("owner", "\u200b", "holds a character that cannot be seen"),
        ("owner", "A. Name\u202e", "holds a character that cannot be seen"),
        ("owner", "\u3164\u3164", "holds a character that cannot be seen"),
        ("role", "\u2800", "holds a character that cannot be seen"),
        ("role", "...", "holds no word"),
        ("owner", "X", "holds no word"),
        ("owner", "Nobody", "names nobody who could answer"),
        ("owner", "n/a", "names nobody who could answer"),
        ("role", "TBD", "names nobody who could answer"),
        ("reason", "why\u2028not", "holds a character that cannot be seen"),
        ("measure", "two\nlines", "holds a character that cannot be seen"),
        ("owner", "A" * 101, "longer than 100 characters"),
        ("measure", "A" * 501, "longer than 500 characters"),
    ],
)
def test_a_waiver_without_somebody_who_answers_is_refused(key: str, text: str, problem: str, tmp_path: Path) -> None:
    refused = problems(tmp_path, SAFE, rest=waiver(**{key: text}))
    assert [line for line in refused.problems if f"waivers.0.{key}: {problem}" in line], refused.problems
    assert "docs/policies.md" in refused.hint


@pytest.mark.parametrize("owner", ["Zoë Müller-Lüdenscheidt", "李雷", "Ольга П."])
def test_names_of_any_script_answer_for_a_waiver(owner: str, tmp_path: Path) -> None:
    assert read(tmp_path, SAFE, rest=waiver(owner=owner)).waivers[0].owner == owner


def test_what_a_waiver_says_is_quoted_everywhere() -> None:
    record, verdict, policy = examples.waived()
    pages = [re.sub(r"<[^>]+>", " ", draw(record, verdict, policy)) for draw in (decision_html, annex)]
    for page in (" ".join(text.split()) for text in pages):
        assert "as the waiver states, A. Officer (head of data) accepts this until" in page
        assert "“The weights stay here”. Instead: “one locked machine”" in page
        assert "Quoted from the policy: docaudit verifies none of it" in page
    text = dpia(record, verdict, policy)
    assert "Waivers in force (quoted from the policy, verified by nobody here" in text
    assert "“one locked machine”" in text


def test_a_clock_that_is_set_back_revives_no_waiver() -> None:
    record, _, policy = examples.waived()
    ended = dataclasses.replace(
        policy, waivers=tuple(dataclasses.replace(one, expires=dt.date(2026, 3, 1)) for one in policy.waivers)
    )
    assert record.timing.finished.startswith("2026-03-02")
    verdict = evaluate(record, ended, dt.date(2026, 2, 1))
    assert verdict.overall == "violated"
    assert {entry.state for entry in verdict.waivers} == {"expired"}
