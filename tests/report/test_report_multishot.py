"""The multi-shot attack in the report: tables and curves instead of a row a number, and the mark "equals one-shot"."""

from __future__ import annotations

import dataclasses
import re

import example_records as examples
import pytest
from report_cells import cells
from test_report_html import Seen

from audit.measurements import Curve, CurvePoint, Measurement, Unresolved
from audit.record import Result
from audit.report import figures
from audit.report.html import html

TITLE = "Several attempts at every value (multi-shot)"
MARK = '<span class="mark">equals one-shot</span>'


def page_of(result: Result, drawn: bool = False) -> str:
    """The report of a result, without its figures where a test does not need them: drawing takes longest."""
    if not drawn:
        result = dataclasses.replace(result, histograms=(), curves=())
    return html(*examples.judged(examples.record(result)))


def tables(page: str) -> list[list[list[str]]]:
    """The compact tables: rows of cells, as text."""
    found = re.findall(r'<table class="compact[^"]*">.*?</table>', page, flags=re.DOTALL)
    rows = [re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL) for table in found]
    return [
        [[Seen(cell).text for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)] for row in table]
        for table in rows
    ]


def without(result: Result, *names: str, put: tuple[Measurement, ...] = ()) -> Result:
    kept = tuple(item for item in result.measurements if item.name not in names)
    return dataclasses.replace(result, measurements=(*kept, *put))


def test_the_tables_say_the_numbers_of_the_record_attack_beside_baseline_and_control() -> None:
    page = page_of(examples.reconstruction(0.6))
    (primary,) = tables(page)
    assert primary[0][1:] == ["AccAt(5 %)", "AccAUC"]
    assert [row[0].partition(" n =")[0] for row in primary[1:]] == [
        "Declared as trained on, with the model",
        "Declared as trained on, without the model",
        "Declared as never seen, with the model",
    ]
    assert "the baseline by its own perplexity." in Seen(page).text
    # Of 150 fields, 5 % are 8.
    assert primary[1][1] == "100 % 68 to 100 8 of 8"
    assert primary[1][2] == "74 % 70 to 78"
    assert primary[3][1].endswith("0 of 8")


def test_a_number_that_could_not_be_resolved_leaves_its_reason_and_one_that_is_missing_a_gap() -> None:
    gap = Unresolved("accauc.member.attack", "fewer than two documents with such fields", 1, 3)
    broken = without(examples.reconstruction(0.6), gap.name, "acc_at_5.member.attack", put=(gap,))
    page = page_of(broken)
    row = tables(page)[0][1]
    assert row[1] == "not measured"
    assert row[2] == "not resolved"
    assert "Not resolved: fewer than two documents with such fields (n = 1, 3 needed)" in Seen(page).text


@pytest.mark.parametrize(("distinct", "marked"), [(1.0, True), (1.5, True), (2.0, False), (5.5, False)])
def test_the_mark_stands_at_title_figure_and_tables_exactly_when_attempts_do_not_differ(
    distinct: float, marked: bool
) -> None:
    result = dataclasses.replace(examples.reconstruction(0.6, distinct=distinct), histograms=())
    page = page_of(result, drawn=True)
    # Title, sentence, figure and table.
    assert page.count(MARK) == (4 if marked else 0)
    assert ("all attempts gave the same reconstruction" in Seen(page).text) == marked


def test_a_record_of_single_attempts_has_no_part_on_several_and_the_method_says_so() -> None:
    page = html(*examples.one_shot())
    text = Seen(page).text
    assert TITLE not in text
    assert tables(page) == []
    assert "One attempt is made at each value" in text
    assert "attempts are made at every value" not in text
    assert "AccAt(5 %) , " not in text
    several = Seen(page_of(examples.reconstruction(0.6))).text
    assert "8 attempts are made at every value" in several
    assert "One attempt is made" not in several


def test_the_curves_are_drawn_once_in_one_look_and_the_same_each_time() -> None:
    result = dataclasses.replace(examples.reconstruction(0.6))
    page = page_of(result, drawn=True)
    assert page == page_of(result, drawn=True)
    assert "Figure 2. " in Seen(page).text
    assert "Figure 3." not in Seen(page).text
    empty = dataclasses.replace(result, curves=tuple(dataclasses.replace(item, series={}) for item in result.curves))
    assert "Figure 2." not in Seen(page_of(empty, drawn=True)).text


def test_a_curve_that_no_template_names_is_drawn_with_its_own_words() -> None:
    curve = Curve("c", "its axis", "its quantity", {"a": (CurvePoint(1, 0.5, 0.2, 0.8, 4), CurvePoint(2, 1, 1, 1, 4))})
    result = Result("side", measurements=(examples.mean("gain", 0.3, 0.1, 80),), curves=(curve,))
    assert (
        "Figure 1. its quantity"
        in Seen(html(*examples.judged(examples.record(result, battery=("side", "reconstruction"))))).text
    )


def test_a_line_has_a_gap_where_nothing_was_measured_and_a_label_keeps_its_look() -> None:
    spots, point = (1.0, 2.0, 3.0), figures.Point(0.5, 0.4, 0.6)
    whole, broken = (
        figures.FigureLine("a", spots, (point, point, point)),
        figures.FigureLine("a", spots, (point, None, point)),
    )
    other = figures.FigureLine("b", spots, (point, point, point))

    def drawn(*lines: figures.FigureLine) -> str:
        return figures.lines("f", [figures.LinePanel("t", "x", "y", lines, "share", 0.05)])

    assert drawn(whole) == drawn(whole)
    assert drawn(whole) != drawn(broken)
    pair = figures.lines(
        "f", [figures.LinePanel("t", "x", "y", (whole, other)), figures.LinePanel("t", "x", "y", (other, whole))]
    )
    first, second = pair.split('id="f-axes_2"')
    # The second line of the first panel and the first line of the second one are orange (the style of "b").
    assert first.lower().count("#d55e00") > 0
    assert second.lower().count("#d55e00") > 0


def test_every_name_of_the_multi_shot_attack_is_in_a_table_of_its_part() -> None:
    from audit.attacks import TEXTS

    report = TEXTS["reconstruction"]
    ranked = {name for head in examples.MULTISHOT for name in report.metrics[head].names}
    assert not any(map(report.listed, ranked))
    assert cells(report.parts[0]) == ranked
