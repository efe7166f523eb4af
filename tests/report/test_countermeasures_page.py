"""The page of countermeasures: every number before and after, leak against usefulness, the cheapest that passes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import example_answers as answers
import example_records as examples
import pytest
from pdf_claims import failures
from shown_pages import HOSTILE, Seen

from audit.extensions.countermeasures import page
from audit.extensions.countermeasures.measuring import use_of_limit
from audit.measurements import Estimate
from audit.policy import Decision, Limit
from audit.report.comparison import Comparison, Effect, LimitChange, LimitUse
from audit.report.html import html


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
    return examples.comparison(
        name, kind=kind, target=answers.leaky()[0].target.sha256, verdict_after=verdict, limits=limits, effects=(net,),
        usefulness=(anls,), missing=("canaries: no canaries",),
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
    rows = page.choices(ALL)
    assert rows[0].reach == 8.8  # not 9.0, of the canaries that were measured before alone
    assert [row.on_front for row in rows] == [True, False, True, False]


def test_the_cheapest_that_meets_the_policy_is_named() -> None:
    assert page.cheapest_sentence(ALL).startswith("Blocked is the cheapest countermeasure that meets")
    asked = dataclasses.replace(ALL[0], verdict_after="passed")
    assert page.cheapest_sentence([*ALL, asked]).startswith("Wording is the cheapest")
    assert page.cheapest_sentence([ALL[0]] * 2).startswith("None of the countermeasures")
    assert page.cheapest_sentence(ALL[:1]).endswith("is violated without it, violated with it.")
    clean = [dataclasses.replace(one, verdict_before="passed") for one in ALL]
    assert "without a countermeasure" in page.cheapest_sentence(clean)


def tables(text: str) -> list[list[list[str]]]:
    """The tables of numbers: rows of cells, as text."""
    return [
        [
            [Seen(cell).text for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)]
            for row in re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL)
        ]
        for table in re.findall(r'<table class="compact battery">.*?</table>', text, flags=re.DOTALL)
    ]


def drawn(*several: Comparison) -> str:
    record = answers.leaky()[0]
    return page.html(record, [(one, record) for one in several], {"refusing": "it is <for> others"})


def test_each_number_stands_before_and_after_with_its_difference() -> None:
    told = dataclasses.replace(ALL[1], side_channel=number("auc.not_present", 0.55, 0.06, null=0.5))
    (table,) = tables(drawn(told))
    net, anls, channel = table[1:]
    assert net[0].startswith("Answers from memory, net") or "memorisation" in net[0]
    assert net[1:] == ["40 points 36 to 44", "0 points −4.0 to 4.0", "−40 points (−44 to −36; p 0.001)"]
    assert "usefulness" in anls[0]
    assert anls[1:] == ["54 % 50 to 58", "52 % 48 to 56", "−2.0 points (−6.0 to 2.0; p 0.2)"]
    assert channel[2] == "0.55 0.49 to 0.62"
    assert "canaries: no canaries" in drawn(told)


def test_several_stand_beside_each_other_and_names_are_escaped() -> None:
    text = drawn(*ALL, dataclasses.replace(ALL[0], title=HOSTILE))
    for words in (
        "Leak against usefulness",
        "Worst limit used up",
        "Wording: what it changes",
        "&lt;for&gt;",
    ):
        assert words in text
    assert len(tables(text)) == 1 + 4
    assert tables(text)[0][1][0] == "As it was (on the front)"
    seen = Seen(text)
    assert HOSTILE in seen.text
    assert not {"script", "link", "iframe", "img", "object"} & set(seen.tags)


def test_both_files_are_written(tmp_path: Path) -> None:
    from test_report_files import texts

    record = answers.leaky()[0]
    assert page.write(record, [(one, record) for one in ALL], tmp_path, {}) == []
    text = " ".join(texts(tmp_path / "defences.pdf"))
    for words in ("Blocked", "−40 points", "no proof"):
        assert words in text
    assert failures(tmp_path / "defences.pdf") == []
    assert (tmp_path / "defences.html").exists()


def test_a_difference_says_where_it_is_not_paired() -> None:
    (effect,) = ALL[0].effects
    assert page.difference_text(effect, "points").endswith("p 0.001)")
    alone = dataclasses.replace(effect, paired=False)
    assert page.difference_text(alone, "points").endswith("p 0.001; not paired)")


def test_the_plan_of_a_scan_shows_what_was_measured() -> None:
    record, verdict, policy = answers.leaky()
    own = dataclasses.replace(ALL[1], name="blocking")
    text = html(record, verdict, policy, comparisons=[own]).replace("\u00a0", " ")
    assert "Measured on this model with docaudit defend blocking: " in text
    assert "40 points → 0 points (change −44 to −36)" in text
    assert "54 % → 52 % (change −6.0 to 2.0, no change shown)" in text
    assert "the verdict violated → passed" in text
    assert "Measured on this model" not in html(record, verdict, policy)
