"""The HTML report: what it says, and what it must never hold."""

import base64
import dataclasses
import hashlib
import re
from collections.abc import Callable

import example_records as examples
import pytest
from example_records import Case
from shown_pages import HOSTILE, Seen, check_text

from audit.attacks.figure_text import CurveFigure, CurvePanel
from audit.attacks.text import CATEGORY_LABELS
from audit.measurements import Check, Curve, CurvePoint, Histogram, Unresolved
from audit.policy import Limit, Policy
from audit.record import Result
from audit.report import figures
from audit.report.answer import decides_most, findings
from audit.report.facts.build import facts_of
from audit.report.html import html, script


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[Case, str]]:
    drawn = {}
    for name, make in examples.CASES.items():
        case = make()
        drawn[name] = (case, html(*case))
    return drawn


def generic() -> Case:
    """An attack that has no template, under a name that is no path of a template."""
    gain = dataclasses.replace(
        examples.mean("gain.person", 0.31, 0.056, 80, 0.1, "chance"), unit="questions"
    )
    bars = Histogram("h", "its own quantity", (0, 1, 2), {"a": (1, 2)})
    point = CurvePoint(1, 0.5, 0.2, 0.8, 4)
    last = CurvePoint(2, 1, 1, 1, 4)
    result = Result(
        "../side_channel",
        parameters={"depth": 3},
        measurements=(gain, Unresolved("other", "too few", 3)),
        histograms=(bars,),
        curves=(Curve("c", "its axis", "another quantity", {"a": (point, last)}),),
    )
    policy = Policy(1, "p", (Limit("../side_channel", "gain.person", "why", max=0.5),))
    return examples.judged(examples.record(result, battery=("../side_channel",)), policy)


def test_a_check_that_fires_is_named_above_the_numbers_that_it_explains() -> None:
    shift = Check("shift", 0.001, "confounded", "the splits are of two years", "draw others")
    record = examples.violated()[0]
    (first, *others) = record.attacks
    checked = dataclasses.replace(first, checks=(shift,))
    record = dataclasses.replace(record, attacks=(checked, *others))
    text = Seen(html(*examples.judged(record))).text
    assert "No limit can be met on these numbers: the splits are of two years." in text


@pytest.mark.parametrize(
    "make",
    [
        examples.wide,
        examples.unresolved,
        examples.weak,
        examples.violated,
        examples.waived,
        generic,
    ],
)
def test_the_annex_says_what_it_said(make: Callable[[], Case]) -> None:
    record, verdict, _ = case = make()
    page = html(*case).partition('id="method"')[0]
    check_text(f"annex-{make.__name__}", page)
    text = Seen(page).text
    assert ("Findings despite open limits" in text) == (verdict.overall == "undecided")
    if verdict.overall == "undecided":
        facts = facts_of(record, verdict)
        for line in (*findings(facts), decides_most(facts)):
            assert " ".join(line.split()) in text


def test_every_kind_of_result_renders_with_its_verdict_and_every_decision(
    pages: dict[str, tuple[Case, str]],
) -> None:
    for (_, verdict, policy), page in pages.values():
        seen = Seen(page)
        assert verdict.counts.sentence in seen.text.lower()
        assert f"policy “{policy.name}”" in seen.text
        for one in verdict.decisions:
            assert one.reason.lower() in seen.text.lower()
            # What does not apply to a model is named in a line: nobody asks why it is limited.
            assert (one.limit.rationale in seen.text) == (one.outcome != "inapplicable")
        for outcome in {one.outcome for one in verdict.decisions}:
            assert f'class="pill {outcome}"' in page or outcome == "inapplicable"


def test_every_measurement_stands_in_the_report_with_name_value_and_n(
    pages: dict[str, tuple[Case, str]],
) -> None:
    (record, _, _), page = pages["violated"]
    (result,) = record.attacks
    assert result.status == "completed"
    rows = {}
    for row in re.findall(r"<tr>.*?</tr>", page, flags=re.DOTALL):
        found = re.search(r"<code>([\w.]+)</code>", row)
        if found:
            rows[found[1]] = Seen(row).text
    for item in result.measurements:
        if isinstance(item, Unresolved):
            assert f"{item.reason} (n = {item.n}, {item.needed} needed)" in rows[item.name]
        else:
            factor = (
                100
                if item.name.startswith(("pr.", "excess", "planted", "heldout_gain", "acc_at"))
                else 1
            )
            text = rows[item.name].replace("−", "-").replace(".00 ", " ").replace(".0 ", " ")
            assert f"{factor * item.value:.3g}" in text
            assert f"{item.n:,}" in rows[item.name]
    assert "62.0 % (93)" in rows["pr.member.attack"]
    assert "54.0 to 69.4 %" in rows["pr.member.attack"]


def test_no_report_claims_that_a_model_is_private_or_safe(
    pages: dict[str, tuple[Case, str]],
) -> None:
    for _, page in pages.values():
        text = Seen(page).text.lower()
        assert "it never says that a model is private" in text
        assert text.count("is private") == 1
        assert "is safe" not in text


def test_hostile_names_are_escaped_everywhere() -> None:
    result = dataclasses.replace(
        examples.reconstruction(0.6),
        parameters={HOSTILE: [HOSTILE]},
        histograms=(Histogram("h", HOSTILE, (0, 1), {HOSTILE: (3,)}),),
    )
    record = examples.record(result, name=HOSTILE)
    record = dataclasses.replace(
        record,
        corpus=dataclasses.replace(record.corpus, name=HOSTILE, fields={HOSTILE: {HOSTILE: 1}}),
        derived_by=(HOSTILE,),
        left_out=(examples.gone("memorisation", "skipped", "missing", HOSTILE, HOSTILE),),
    )
    policy = Policy(
        1,
        HOSTILE,
        (Limit("reconstruction", "excess_pr.unique", HOSTILE, max=0.05),),
        description=HOSTILE,
    )
    page = html(*examples.judged(record, policy))
    seen = Seen(page)
    assert seen.tags.count("script") == 1, (
        "the page's own, which the policy in its head names by hash"
    )
    assert page.count("<script") == page.count(f"<script>{script()}</script>") == 1
    assert HOSTILE in seen.text
    assert not [value for name, value in seen.attributes if name.startswith("on")]


def test_each_file_of_the_model_stands_with_its_own_hash_as_sha256sum_prints_it() -> None:
    record, verdict, policy = examples.violated()
    files = {"config.json": "1" * 64, "base/model.safetensors": "2" * 64}
    record = dataclasses.replace(record, target=dataclasses.replace(record.target, files=files))
    text = Seen(html(record, verdict, policy)).text
    assert all(f"SHA-256 of {name} {digest}" in text for name, digest in files.items())


def test_nothing_is_loaded_from_anywhere(pages: dict[str, tuple[Case, str]]) -> None:
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    loading = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"}
    for _, page in pages.values():
        # A link is followed by who clicks on it; nothing else may name an address.
        seen = Seen(re.sub(r'<a href="https://[^"]*">', "<a>", page))
        assert page.count("<script") == page.count(f"<script>{script()}</script>") == 1
        assert f"script-src 'sha256-{digest}'" in page
        assert not {"link", "iframe", "img", "object", "base"} & set(seen.tags)
        assert all(value.startswith("#") for name, value in seen.attributes if name in loading)
        assert "@import" not in page
        assert not re.search(r"url\((?!#)", page)


def test_the_same_record_gives_the_same_bytes_and_ids_are_unique(
    pages: dict[str, tuple[Case, str]],
) -> None:
    case, page = pages["violated"]
    assert html(*case) == page
    ids = [value for name, value in Seen(page).attributes if name == "id"]
    terms = re.findall(r"<dt>([^<]*)</dt>", page.partition('id="glossary"')[2])
    assert (len(ids), len(terms)) == (len({*ids}), len({*terms}))
    assert {"Waiver", "Word for word"} < {*terms}


def line_panel() -> figures.LinePanel:
    points = (figures.Point(0.5, 0.25, 0.75), None)
    lines = tuple(figures.FigureLine(label, (0.0, 1.0), points) for label in ("s & t", "u"))
    return figures.LinePanel("Recovered <all>", "axis", "Müller \u2032 Петров", lines, "share")


def test_a_figure_is_drawn_the_same_each_time_with_words_as_text(
    recwarn: pytest.WarningsRecorder,
) -> None:
    drawn = figures.lines("figure1", [line_panel()], None)
    assert drawn.startswith("<svg")
    assert 'id="figure1-' in drawn
    assert drawn == figures.lines("figure1", [line_panel()], None)
    result = dataclasses.replace(examples.reconstruction(0.6), histograms=(), curves=())
    assert "Figure 1." not in Seen(html(*examples.judged(examples.record(result)))).text
    words = re.findall(
        r'<text style="[^"]*font-family: docaudit Sans, [^"\']*"[^>]*>([^<]+)</text>', drawn
    )
    assert {"Recovered &lt;all&gt;", "s &amp; t", "axis"} <= set(words)
    assert any("Müller \u2032 Петров" in word for word in words)
    assert words == re.findall(r"<text[^>]*>([^<]+)</text>", drawn)
    assert not recwarn.list


def test_a_line_has_a_gap_where_nothing_was_measured_and_a_label_keeps_its_look() -> None:
    spots = (1.0, 2.0, 3.0)
    point = figures.Point(0.5, 0.4, 0.6)
    whole, other = (figures.FigureLine(label, spots, (point, point, point)) for label in "ab")
    broken = figures.FigureLine("a", spots, (point, None, point))

    def drawn(*panels: tuple[figures.FigureLine, ...]) -> str:
        return figures.lines(
            "f", [figures.LinePanel("t", "x", "y", lines, "share", 0.05) for lines in panels]
        )

    assert drawn((whole,)) == drawn((whole,)) != drawn((broken,))
    first, second = drawn((whole, other), (other, whole)).split('id="f-axes_2"')
    assert all("#d55e00" in half.lower() for half in (first, second)), "the style of b"


def test_a_figure_that_shows_no_more_than_a_number_is_left_out() -> None:
    bars = tuple(
        Histogram(one, "q", (0, 1, 2), {"member": of})
        for one, of in (("h", (19, 1)), ("returned", (3, 5)))
    )
    heights = {"even": CurvePoint(1, 0.5, 0.5, 0.5, 4), "steep": CurvePoint(1, 0.99, 0.99, 0.99, 4)}
    curves = tuple(Curve(name, "x", "y", {"a": (one,)}) for name, one in heights.items())
    result = dataclasses.replace(examples.reconstruction(0.6), histograms=bars, curves=curves)
    panels = [
        CurveFigure(panels=(CurvePanel(curve=name, diagonal=True),), caption=name)
        for name in heights
    ]
    drawn = figures.draw([*panels, *figures.unspecified(result, panels)], result, 0)
    assert [(one.caption, one.spec.draw) for one in drawn] == [
        ("even", "curves"),
        ("q", "histogram"),
    ]


def test_every_category_of_the_manifest_has_words() -> None:
    from audit.corpus.documents import CATEGORIES

    assert set(CATEGORY_LABELS) == set(CATEGORIES)
