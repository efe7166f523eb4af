"""Leak against usefulness: the worst limit used up, the front, the cheapest countermeasure that meets the policy."""

from __future__ import annotations

import dataclasses

import example_answers as answers
import pytest

from audit import record as records
from audit.defenses.measured import Comparison, Effect, LimitChange, LimitUse
from audit.measurements import Estimate
from audit.policy import Decision, Limit
from audit.report import defense_battery, defense_choice, defense_comparison
from audit.report.html import html
from audit.workflows.defend.effects import use_of_limit


def number(name: str, value: float, reach: float = 0.04, null: float | None = 0.0) -> Estimate:
    return Estimate(name, value, value - reach, value + reach, 150, "questions", 150, "BCa", null, "chance")


def comparison(name: str, kind: str, after: float, useful: float, verdict: str = "violated") -> Comparison:
    """Net falls from 0.4 to `after` of 0.05 allowed, ANLS from 0.54 to `useful`."""
    sides = number("net", 0.4), number("net", after)
    net = Effect("memorisation", "net", *sides, number("net.change", after - 0.4), 0.001, True)
    anls = Effect(
        "", "anls", number("anls", 0.54), number("anls", useful), number("anls.change", useful - 0.54), 0.2, True
    )
    only_before = LimitChange("canaries", "excess", LimitUse("passed", 0.1, 9.0), LimitUse("undecided"))
    limits = (
        LimitChange(
            "memorisation", "net", LimitUse("violated", 8.0, 8.8), LimitUse("x", after / 0.05, (after + 0.04) / 0.05)
        ),
        only_before,
    )
    audited = answers.leaky()[0]
    return Comparison(
        1, "1.0.0", name, name.title(), kind, "k", "default", audited.target.sha256, audited.corpus.sha256, "1" * 64,
        "quick", 0, "violated", verdict, limits, (net,), (anls,), (), (),
    )  # fmt: skip


ALL = (
    comparison("wording", "query", 0.2, 0.50),
    comparison("blocked", "training", 0.0, 0.52, "passed"),
    comparison("private", "training", 0.0, 0.40, "passed"),
)


@pytest.mark.parametrize(
    ("limit", "measured", "expected"),
    [
        (Limit("a", "m", "r", max=0.05), number("m", 0.04, 0.02), (0.8, 1.2)),
        (Limit("a", "m", "r", max=0.05), number("m", -0.1, 0.02), (0.0, 0.0)),
        (Limit("a", "m", "r", max=0.6), number("m", 0.55, 0.1, null=0.5), (0.5, 1.5)),
        (Limit("a", "m", "r", max=0.6), number("m", 0.35, 0.1, null=0.5), (1.5, 2.5)),
        (Limit("a", "m", "r", max=2, holds="lower"), number("m", 3, 2), (1.5, 0.5)),
        (Limit("a", "m", "r", min=0.5), number("m", 0.4), (None, None)),
        (Limit("a", "m", "r", max=0.5), None, (None, None)),
    ],
)
def test_a_limit_is_used_up_by_the_number_and_by_the_end_that_the_policy_looks_at(
    limit: Limit, measured: Estimate | None, expected: tuple[float | None, float | None]
) -> None:
    use = use_of_limit(Decision(limit, "undecided", "r", measured=measured))
    assert (use.value, use.reach) == (pytest.approx(expected[0]), pytest.approx(expected[1]))
    if measured is not None:
        text = use_of_limit(Decision(limit, "undecided", "r", measured=measured, about_text=True))
        assert text.reach is None


def test_only_limits_that_every_scan_was_held_against_count() -> None:
    view = defense_choice.view_of(ALL)
    assert view.choices[0].reach == 8.8  # not 9.0, of the canaries that were measured before alone
    assert len(view.left_out) == 1
    assert [row.on_front for row in view.choices] == [True, False, True, False]


def test_the_cheapest_that_meets_the_policy_is_named() -> None:
    assert defense_choice.cheapest_sentence(ALL).startswith("Blocked is the cheapest countermeasure that meets")
    asked = dataclasses.replace(ALL[0], verdict_after="passed")
    assert defense_choice.cheapest_sentence([*ALL, asked]).startswith("Wording is the cheapest")
    assert defense_choice.cheapest_sentence([ALL[0]] * 2).startswith("None of the countermeasures")
    assert defense_choice.cheapest_sentence(ALL[:1]).endswith("is violated without it, violated with it.")
    clean = [dataclasses.replace(one, verdict_before="passed") for one in ALL]
    assert "without a countermeasure" in defense_choice.cheapest_sentence(clean)


def test_the_page_shows_every_number_that_is_limited_and_the_choice() -> None:
    record = answers.leaky()[0]
    rows = [defense_comparison.DefenseRow("As it was", record)]
    rows += [defense_comparison.DefenseRow(one.title, record, comparison=one) for one in ALL]
    page = defense_comparison.html(rows, None, {"refusing": "it is <for> others"})
    for words in (
        "Leak against usefulness",
        "worst limit used up",
        "Wording: what it changes",
        "it is &lt;for&gt; others",
    ):
        assert words in page
    assert page.count('class="compact battery"') == 1 + len(ALL)
    assert 'id="choice-' in page


def test_a_record_that_was_read_is_compared_with_one_that_was_just_made() -> None:
    made = answers.leaky()[0]
    result = made.attacks[0]
    made = dataclasses.replace(
        made, attacks=(dataclasses.replace(result, parameters={"contexts": ("exact",)}), *made.attacks[1:])
    )
    read = records.loads(records.dumps(made))
    first, second = (defense_comparison.DefenseRow(name, one) for name, one in (("As it was", made), ("Read", read)))
    defense_comparison.check_comparable([first, second])


def test_a_difference_says_where_it_is_not_paired() -> None:
    (effect,) = ALL[0].effects
    assert defense_battery.difference_text(effect, "points").endswith("p 0.001)")
    alone = dataclasses.replace(effect, paired=False)
    assert defense_battery.difference_text(alone, "points").endswith("p 0.001; not paired)")


def test_the_plan_of_a_scan_shows_what_was_measured() -> None:
    record, verdict, policy = answers.leaky()
    own = dataclasses.replace(ALL[1], name="blocking")
    page = html(record, verdict, policy, comparisons=[own]).replace("\u00a0", " ")
    assert "Measured on this model with docaudit defend blocking: " in page
    assert "40 points → 0 points (change −44 to −36)" in page
    assert "54 % → 52 % (change −6.0 to 2.0, no change shown)" in page
    assert "the verdict violated → passed" in page
    assert "Measured on this model" not in html(record, verdict, policy)
