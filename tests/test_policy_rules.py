"""Policies that would call a leaking model green: refused before a scan, with a word on what to write instead."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path

import example_records as examples
import pytest

from audit.attacks import TEXTS
from audit.attacks.canaries import Canaries
from audit.errors import PolicyError
from audit.policy import Policy, evaluate, load
from audit.policy.identity import identify
from audit.report.html import html as drawn
from audit.report.leaks import notes
from audit.workflows.gate import load_policy

LIMIT = """
[[limits]]
attack = "{attack}"
metric = "{metric}"
{bound}
rationale = "As agreed."
"""


def written(folder: Path, *limits: tuple[str, str, str], head: str = 'name = "ours"', rest: str = "") -> str:
    """The path of a policy with these limits: attack, metric, and the lines that bound it."""
    path = folder / "ours.toml"
    tables = "".join(LIMIT.format(attack=attack, metric=metric, bound=bound) for attack, metric, bound in limits)
    path.write_text(f"schema = 1\n{head}\n{tables}{rest}", encoding="utf-8")
    return str(path)


def read(folder: Path, *limits: tuple[str, str, str], head: str = 'name = "ours"', rest: str = "") -> Policy:
    return load_policy(written(folder, *limits, head=head, rest=rest))


def problems(folder: Path, *limits: tuple[str, str, str], head: str = 'name = "ours"', rest: str = "") -> PolicyError:
    with pytest.raises(PolicyError) as raised:
        read(folder, *limits, head=head, rest=rest)
    return raised.value


SAFE = ("membership", "auc", "max = 0.65")


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (("reconstruction", "excess_pr.unique", "max = 1.0"), "max 1: excess_pr.unique is never more than 1"),
        (("membership", "auc", "max = 1"), "max 1: auc is never more than 1"),
        (("reconstruction", "planted_detection.unique", "min = 0.0"), "min 0: planted_detection.unique is never less"),
        (("membership", "auc", "min = 0.2"), "min: auc grows with the leak: limit it with max"),
        (("membership", "auc.loss", "min = 0.2"), "min: auc.loss grows with the leak: limit it with max"),
        (("canaries", "excess_exposure", "min = 0.1"), "min: excess_exposure grows with the leak"),
        (("membership", "low_fpr_advantage", "max = 0.9"), "max 0.9: low_fpr_advantage need not be able to exceed 0.9"),
        (("membership", "low_fpr_advantage", "max = 0.95"), "max 0.95: low_fpr_advantage need not be able"),
        (("membership", "low_fpr_advantage.lira", "max = 0.9"), "max 0.9: low_fpr_advantage.lira need not be able"),
        (("provider_membership", "low_fpr_advantage", "max = 0.9"), "max 0.9: low_fpr_advantage need not be able"),
        (("canaries", "excess_exposure", "max = 6.7"), "max 6.7: excess_exposure need not be able to exceed 6.65"),
        (("canaries", "exposure", "max = 6.7"), "max 6.7: exposure need not be able to exceed 6.65"),
        (("redaction", "lift_over_length", "max = 0.5"), "max 0.5: lift_over_length need not be able to exceed 0.5"),
    ],
)
def test_a_limit_that_nothing_could_violate_is_refused(
    limit: tuple[str, str, str], problem: str, tmp_path: Path
) -> None:
    refused = problems(tmp_path, ("canaries", "excess", "max = 0.2"), limit)
    assert [line for line in refused.problems if f"policy ours limits.1: {problem}" in line], refused.problems
    assert "docs/policies.md" in refused.hint


@pytest.mark.parametrize(
    ("attack", "metric", "most"),
    [
        ("membership", "low_fpr_advantage", 0.89),
        ("provider_membership", "low_fpr_advantage.loss", 0.89),
        ("membership", "tpr_at_fpr_10", 0.99),
        ("canaries", "excess_exposure", 6.6),
        ("redaction", "lift_share", 0.9),
        ("redaction", "lift_over_length", 0.49),
        ("memorisation", "identified", 1000.0),
    ],
)
def test_a_limit_that_something_can_exceed_is_taken(attack: str, metric: str, most: float, tmp_path: Path) -> None:
    assert read(tmp_path, (attack, metric, f"max = {most}")).limits[0].max == most


def test_the_least_ranking_of_a_budget_gives_the_bits_that_any_scan_can_show() -> None:
    cap = TEXTS["canaries"].cap("exposure")
    assert cap is not None
    answers = min(Canaries.preset(budget).n_answers for budget in ("quick", "standard", "full"))
    assert cap == pytest.approx(math.log2(answers + 1), abs=0.01)
    assert cap <= math.log2(answers + 1)


def test_every_cap_is_of_a_metric_within_its_range() -> None:
    for text in TEXTS.values():
        for metric in text.metrics.values():
            assert metric.cap is None or metric.upper is None or metric.cap <= metric.upper


def test_a_limit_on_what_an_attack_needs_may_be_a_least_one(tmp_path: Path) -> None:
    policy = read(tmp_path, ("reconstruction", "planted_detection.unique", "min = 0.5"))
    assert policy.limits[0].min == 0.5


def test_limits_that_are_looser_than_the_shipped_ones_say_so(tmp_path: Path) -> None:
    policy = read(
        tmp_path,
        ("membership", "auc", "max = 0.9"),
        ("reconstruction", "excess_pr.unique", "max = 0.05"),
        ("canaries", "excess", "max = 0.1\nmin_power = 7.0"),
        ("membership", "tpr_at_fpr_10", "max = 0.9"),
    )
    record = examples.passed()[0]
    case = (record, evaluate(record, policy, examples.TODAY), policy)
    assert "2 of its 4 limits are looser than those of docaudit's default policy" in case[1].identity.looser
    told = [note.text for note in notes(*case[:2])]
    assert "Policy: 2 of its 4 limits are looser than those of docaudit's default policy" in told
    page = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", drawn(*case))).split())
    assert "2 of its 4 limits are looser than those of docaudit's default policy" in page
    for name in ("default", "strict"):
        assert identify(record, load(name)).looser == ""


LOWER = 'holds = "lower"'


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (("membership", "auc", f"max = 0.65\n{LOWER}\nmin_power = 1.0"), "holds: auc is no count of what was found"),
        (("canaries", "excess_exposure", f"max = 2.0\n{LOWER}\nmin_power = 6.5"), "holds: excess_exposure is no count"),
        (("memorisation", "identified", f"max = 10\n{LOWER}"), "holds: a lower bound says nothing of a weak attacker"),
        (("memorisation", "identified", f"max = 10\n{LOWER}\nmin_power = 0.0"), "holds: a lower bound says nothing of"),
    ],
)
def test_only_a_count_may_be_held_by_its_lower_bound_and_with_a_strong_attacker(
    limit: tuple[str, str, str], problem: str, tmp_path: Path
) -> None:
    refused = problems(tmp_path, ("canaries", "excess", "max = 0.2"), limit)
    assert [line for line in refused.problems if f"limits.1: {problem}" in line], refused.problems
    counted = read(tmp_path, ("memorisation", "identified", f"max = 10\n{LOWER}\nmin_power = 0.2"))
    assert counted.limits[0].holds == "lower"


@pytest.mark.parametrize(
    "name",
    [
        "Default",
        "default ",
        "de-fault",
        "defau1t",
        "defauIt",
        "STRICT",
        "\uff44\uff45\uff46\uff41\uff55\uff4c\uff54",
        "D\u0435fault",
        "default\u200b",
        "default\u202e",
        "",
        " ",
        "...",
        "x" * 65,
        "Certified: anonymous",
        "line\nbreak",
    ],
)
def test_names_that_look_like_another_or_say_more_than_a_name_are_refused(name: str, tmp_path: Path) -> None:
    refused = problems(tmp_path, SAFE, head=f"name = {json.dumps(name)}")
    assert [line for line in refused.problems if " name: " in line], refused.problems
    assert refused.hint
    assert all(line.isprintable() for line in (*refused.problems, refused.hint)), refused.problems


@pytest.mark.parametrize("name", ["receipts-team", "default-own", "Policy 2026.1", "strict_plus", "r2"])
def test_plain_names_are_names(name: str, tmp_path: Path) -> None:
    assert read(tmp_path, SAFE, head=f'name = "{name}"').name == name


def test_texts_of_a_policy_have_an_end_and_hide_nothing(tmp_path: Path) -> None:
    long = problems(tmp_path, SAFE, head=f'name = "ours"\ndescription = "{"x" * 1001}"')
    assert "description: longer than 1000 characters" in long.problems[0]
    hidden = problems(
        tmp_path, ("membership", "auc", "max = 0.65 # \\u202e"), head='name = "ours"\ndescription = "a\\u202eb"'
    )
    assert "description: holds a character that cannot be seen" in hidden.problems[0]


def test_the_same_limit_counts_once(tmp_path: Path) -> None:
    refused = problems(tmp_path, SAFE, ("membership", "auc", "max = 0.6"), SAFE)
    said = "the same metric is limited in limits.0 already: one limit on it counts"
    assert [line.split(": ", 1)[1] for line in refused.problems] == [said, said]
