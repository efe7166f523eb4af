"""Ranking of remedies for one scan: what was measured here, else elsewhere, held against the limits it answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import example_records as examples
import pytest

from audit.defenses.measured import Comparison, Effect, LimitChange, LimitUse
from audit.defenses.remedies import Evidence
from audit.measurements import Estimate
from audit.report.recommend import DEFEND, Recommendation, recommend, remedies

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
OWN = [(remedy.id, one) for remedy in remedies() for one in remedy.evidence if one.by == "docaudit"]
UNIQUE = ("excess_pr.unique", "excess_hamming.unique")


def compared(name: str, outcome: str, after: str, low: float) -> Comparison:
    """A countermeasure measured on the model of the violated example."""
    change = Estimate("excess_pr.unique", low + 0.1, low, low + 0.2, 150, "fields", 150, "made up", 0.0, "held-out")
    return Comparison(
        1,
        "0",
        name,
        name,
        "training",
        "key",
        "default",
        "a" * 64,
        "b" * 64,
        "c" * 64,
        "standard",
        0,
        "violated",
        after,
        tuple(LimitChange("reconstruction", one, LimitUse("violated"), LimitUse(outcome)) for one in UNIQUE),
        (Effect("reconstruction", "excess_pr.unique", None, None, change),),
        (),
        (),
        (),
    )


def ranked(*comparisons: Comparison) -> dict[str, Recommendation]:
    record, verdict, _ = examples.violated()
    return {item.remedy.id: item for item in recommend(record, verdict, comparisons)}


def test_what_cannot_lift_a_violation_stands_behind_what_can() -> None:
    ids = list(ranked())
    assert ids.index("differential-privacy") < ids.index("sanitise") < ids.index("keep-weights")
    assert ids.index("keep-weights") < ids.index("train-less"), "what is worth doing only beside another comes after"


def test_the_effect_elsewhere_is_projected_on_the_measured_number_and_called_no_proof() -> None:
    item = ranked()["differential-privacy"]
    assert item.effort == "training again"
    assert item.verdict.startswith("Not measured here. What it did to one other model has no interval")
    assert "would be met" not in item.verdict
    assert "no proof" in item.verdict
    first = item.expected[0].replace("\u00a0", " ")
    assert first.startswith("Measured by docaudit on receipts")
    assert "0.41 → 0" in first
    assert first.endswith("60 points → 0 points (limit 5 points)")


def test_what_the_attacker_is_not_hindered_by_says_no() -> None:
    item = ranked()["keep-weights"]
    assert item.verdict.startswith("No: docaudit attacks as somebody who holds the model")
    assert (item.expected, item.command) == ((), "")


def test_kinds_of_value_that_leak_most_are_named_where_it_matters() -> None:
    (sentence,) = ranked()["sanitise"].expected
    assert sentence.startswith("Begin with what leaks most here: ")
    assert sentence.count("%") == 3


def test_a_countermeasure_that_met_the_limits_here_comes_first() -> None:
    items = ranked(compared("scrub", "passed", "passed", -0.7))
    assert next(iter(items)) == "sanitise"
    assert "the verdict goes from violated to passed" in items["sanitise"].verdict
    assert items["sanitise"].measured


def test_a_countermeasure_that_changed_nothing_here_falls_behind_one_nobody_measured() -> None:
    ids = list(ranked(compared("dp", "violated", "violated", -0.1)))
    assert ids.index("sanitise") < ids.index("differential-privacy") < ids.index("keep-weights")


def test_a_command_repeats_the_policy_the_budget_and_the_seed_of_the_scan() -> None:
    record, verdict, _ = examples.violated()
    other = dataclasses.replace(record, seed=7, budget="quick")
    commands = [item.command for item in recommend(other, verdict) if item.remedy.id == "sanitise"]
    assert commands == ["docaudit defend scrub MODEL_DIR DATA_DIR --policy default --budget quick --seed 7"]


def test_every_command_can_be_filled_in() -> None:
    for remedy in remedies():
        text = (remedy.command or DEFEND).format(policy="p", budget="b", seed=0)
        assert "{" not in text


@pytest.mark.parametrize(("remedy", "evidence"), OWN, ids=[f"{name}-{one.attack}-{one.metric}" for name, one in OWN])
def test_docaudits_own_evidence_stands_in_the_benchmark_that_it_names(remedy: str, evidence: Evidence) -> None:
    text = (BENCHMARKS.parent / evidence.source / "README.md").read_text(encoding="utf-8")
    for value in (evidence.before, evidence.after):
        assert any(f"{value:.{digits}f}" in text for digits in (2, 3)), (remedy, value)


def test_own_evidence_stands_before_published_evidence() -> None:
    for remedy in remedies():
        authors = [one.by for one in remedy.evidence]
        assert authors == sorted(authors), remedy.id


@pytest.mark.parametrize(
    ("before", "after", "null", "left"), [(0.5, 0.0, 0.0, 0.0), (0.5, -0.1, 0.0, 0.0), (1.0, 0.75, 0.5, 0.5)]
)
def test_the_share_that_is_left_is_counted_from_no_leak(before: float, after: float, null: float, left: float) -> None:
    settings: dict[str, Any] = {"by": "paper", "attack": "*", "metric": "*", "setting": "s", "source": "s"}
    assert Evidence(before=before, after=after, null=null, **settings).left == left
