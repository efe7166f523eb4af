"""The page of countermeasures: every number before and after, leak against usefulness, the cheapest that passes."""

import dataclasses

import example_answers as answers
import example_records as examples
import pytest
from pdf_claims import failures
from shown_pages import HOSTILE, Seen, check_text, decision

from audit.compare.defended import Effect, LimitChange, LimitUse, MeasuredDefense
from audit.extensions.countermeasures import page
from audit.extensions.countermeasures.measuring import use_of_limit
from audit.measurements import Estimate
from audit.policy import Decision, Limit


def number(name: str, value: float, reach: float = 0.04, null: float | None = 0.0) -> Estimate:
    return Estimate(
        name, value, value - reach, value + reach, 150, "questions", 150, "BCa", null, "chance"
    )


def comparison(
    name: str, kind: str, after: float, useful: float, verdict: str = "violated"
) -> MeasuredDefense:
    """Net falls from 0.4 to `after` of 0.05 allowed, ANLS from 0.54 to `useful`."""
    sides = number("net", 0.4), number("net", after)
    net = Effect("memorisation", "net", *sides, number("net.change", after - 0.4), 0.001, True)
    anls = Effect(
        "",
        "anls",
        number("anls", 0.54),
        number("anls", useful),
        number("anls.change", useful - 0.54),
        0.2,
        True,
    )
    only_before = LimitChange(
        "canaries", "excess", LimitUse("passed", 0.1, 9.0), LimitUse("undecided")
    )
    limits = (
        LimitChange(
            "memorisation",
            "net",
            LimitUse("violated", 8.0, 8.8, 0.4),
            LimitUse("x", after / 0.05, (after + 0.04) / 0.05, after),
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
        pytest.param(
            Limit("a", "m", "r", max=0.05),
            number("m", 0.04, 0.02),
            (0.8, 1.2),
            id="the upper end counts",
        ),
        pytest.param(
            Limit("a", "m", "r", max=0.05),
            number("m", -0.1, 0.02),
            (0.0, 0.0),
            id="below zero uses up nothing",
        ),
        pytest.param(
            Limit("a", "m", "r", max=0.6),
            number("m", 0.55, 0.1, null=0.5),
            (0.5, 1.5),
            id="above the null value",
        ),
        pytest.param(
            Limit("a", "m", "r", max=0.6),
            number("m", 0.35, 0.1, null=0.5),
            (1.5, 2.5),
            id="below the null value",
        ),
        pytest.param(
            Limit("a", "m", "r", max=2, holds="estimate"),
            number("m", 3, 2),
            (1.5, 1.5),
            id="a count without an interval",
        ),
        pytest.param(
            Limit("a", "m", "r", min=0.5),
            number("m", 0.4),
            (None, None),
            id="a minimum is not used up",
        ),
        pytest.param(Limit("a", "m", "r", max=0.5), None, (None, None), id="nothing was measured"),
    ],
)
def test_a_limit_is_used_up_by_the_number_and_by_the_end_that_the_policy_looks_at(
    limit: Limit, measured, expected
):
    use = use_of_limit(Decision(limit, "undecided", "r", measured=measured))
    assert (use.value, use.reach) == (pytest.approx(expected[0]), pytest.approx(expected[1]))
    if measured is not None:
        text = use_of_limit(Decision(limit, "undecided", "r", measured=measured, about_text=True))
        assert text.reach is None


def test_only_limits_that_every_scan_was_held_against_count():
    rows = page.choices(ALL)
    assert rows[0].reach == 8.8  # not 9.0, of the canaries that were measured before alone
    assert [row.on_front for row in rows] == [True, False, True, False]


def test_the_cheapest_that_meets_the_policy_is_named():
    assert page.cheapest_sentence(ALL).startswith(
        "Blocked is the cheapest countermeasure that meets"
    )
    asked = dataclasses.replace(ALL[0], verdict_after="passed")
    assert page.cheapest_sentence([*ALL, asked]).startswith("Wording is the cheapest")
    assert page.cheapest_sentence([ALL[0]] * 2).startswith("None of the countermeasures")
    assert page.cheapest_sentence(ALL[:1]).endswith("is exceeded without it, exceeded with it.")
    clean = [dataclasses.replace(one, verdict_before="passed") for one in ALL]
    assert "without a countermeasure" in page.cheapest_sentence(clean)


def drawn(*several: MeasuredDefense) -> str:
    record = answers.leaky()[0]
    return page.html(record, [(one, record) for one in several], {"refusing": "it is <for> others"})


ALONE = dataclasses.replace(
    ALL[1],
    effects=(dataclasses.replace(ALL[1].effects[0], paired=False),),
    side_channel=number("auc.not_present", 0.55, 0.06, null=0.5),
)


@pytest.mark.parametrize(
    ("name", "shown"), [("one", ALL[1:2]), ("several", ALL), ("alone", (ALONE,))]
)
def test_the_page_says_what_it_said(name, shown):
    check_text(f"defences-{name}", drawn(*shown))


def test_names_are_escaped():
    text = drawn(dataclasses.replace(ALL[0], title=HOSTILE))
    assert "&lt;for&gt;" in text
    seen = Seen(text)
    assert HOSTILE in seen.text
    assert not {"script", "link", "iframe", "img", "object"} & set(seen.tags)


def test_the_plan_of_a_scan_shows_what_was_measured():
    record, verdict, policy = answers.leaky()
    shown = decision(
        (record, verdict, policy), comparisons=[dataclasses.replace(ALL[1], name="blocking")]
    )
    check_text("decision-measured", shown)
    assert shown.count("Measured on this model: ") == 2, "on page one and in the plan"
    assert "Measured on this model" not in decision((record, verdict, policy))


def test_both_files_are_written(tmp_path):
    from printed import texts

    record = answers.leaky()[0]
    assert page.write(record, [(one, record) for one in ALL], tmp_path, {}) == []
    text = " ".join(texts(tmp_path / "defences.pdf"))
    for words in ("Blocked", "−40 points", "does not prove"):
        assert words in text
    assert failures(tmp_path / "defences.pdf") == []
    assert (tmp_path / "defences.html").exists()
