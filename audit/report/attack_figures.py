"""Fill the figures of an attack from its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from audit.attacks.figure_text import (
    CurveFigure,
    CurvePanel,
    Figure,
    HistogramFigure,
    OverlapFigure,
    OverlapRow,
    PagesFigure,
)
from audit.measurements import Curve, Estimate
from audit.record import Completed
from audit.report import figures, numbers
from audit.report.attack_text import ResultIndex
from audit.report.jinja import environment

PAGES = PagesFigure(
    kept="word that stayed",
    removed="word that was taken away",
    caption="Some of the pages as the attack showed them to the model: a box for each word, without what it says. "
    "The key to the page numbers lies in the evidence folder.",
)
"""Attacked pages of an attack whose report has no figure for them."""


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its number in the report, and a caption that says what it shows."""

    number: int
    svg: Markup
    caption: str
    spec: Figure


@dataclass(frozen=True)
class OverlapCell:
    """A part of the questions: the number as printed, its interval or nothing, and its share in per cent."""

    printed: str
    between: str
    percent: float


def draw(specs: Sequence[Figure], result: Completed, drawn: int) -> tuple[DrawnFigure, ...]:
    """Draw the figures that the record can fill, numbered from `drawn` + 1.

    Args:
        specs: specifications of the attack's report.
        result: the numbers.
        drawn: how many figures the report already has.
    """
    made: list[DrawnFigure] = []
    for spec in specs:
        number = drawn + len(made) + 1
        svg = _figure(spec, result, f"figure{number}")
        if svg:
            made.append(DrawnFigure(number, Markup(svg), spec.caption, spec))
    return tuple(made)


def unspecified(result: Completed, specs: Sequence[Figure]) -> list[Figure]:
    """Return figures for the pages, histograms and curves that no specification names."""
    histograms = {spec.histogram for spec in specs if isinstance(spec, HistogramFigure)}
    curves = {panel.curve for spec in specs if isinstance(spec, CurveFigure) for panel in spec.panels}
    return [
        *([PAGES] if result.pages and not any(isinstance(spec, PagesFigure) for spec in specs) else []),
        *(
            HistogramFigure(histogram=item.name, caption=item.quantity)
            for item in result.histograms
            if item.name not in histograms
        ),
        *(
            CurveFigure(panels=(CurvePanel(curve=item.name),), caption=item.quantity)
            for item in result.curves
            if item.name not in curves
        ),
    ]


def _figure(spec: Figure, result: Completed, name: str) -> str:
    """Draw one figure as HTML; empty when the record has nothing for it."""
    match spec:
        case HistogramFigure():
            histogram = next((item for item in result.histograms if item.name == spec.histogram), None)
            if histogram is None or not any(sum(counts) for counts in histogram.counts.values()):
                return ""
            return figures.distribution(name, histogram, spec.labels, spec.height)
        case CurveFigure():
            curves = {curve.name: curve for curve in result.curves if any(curve.series.values())}
            panels = [_curve_panel(curves[one.curve], one, spec.series) for one in spec.panels if one.curve in curves]
            return figures.lines(name, panels, spec.height) if panels else ""
        case PagesFigure():
            return figures.pages(name, result.pages, spec) if result.pages else ""
        case OverlapFigure():
            return _overlap(spec, ResultIndex(result))


def _curve_panel(curve: Curve, spec: CurvePanel, labels: Mapping[str, str]) -> figures.LinePanel:
    """Make a panel of a curve; its series in the specified order, so that each has the same look in every panel."""
    lines = [
        figures.FigureLine(
            labels.get(series, series),
            tuple(spec.x_scale * point.x for point in curve.series.get(series, ())),
            tuple(figures.Point(point.value, point.low, point.high) for point in curve.series.get(series, ())),
        )
        for series in dict.fromkeys([*labels, *curve.series])
    ]
    axis = curve.axis if spec.axis is None else spec.axis
    quantity = curve.quantity if spec.quantity is None else spec.quantity
    return figures.LinePanel(spec.title, axis, quantity, tuple(lines), spec.form, diagonal=spec.diagonal)


def _overlap(spec: OverlapFigure, index: ResultIndex) -> str:
    """Compare what two models answer, a column for each set of questions whose four numbers are measured."""
    columns, heads = [], []
    for row in spec.rows:
        names = (row.first, row.second, row.only_first, row.only_second)
        items = [item for item in map(index.get, names) if item is not None]
        if len(items) == len(names) and len({item.n for item in items}) == 1:
            heads.append((row.label, f"{items[0].n:,} {items[0].unit}", _net(row, index)))
            columns.append(_overlap_cells(*items))
    if not columns:
        return ""
    rows = [(part, spec.labels[part], [column[part] for column in columns]) for part in columns[0]]
    macros = environment().get_template("_macros.html").module
    return str(macros.overlap(heads, rows))  # type: ignore[attr-defined]


def _overlap_cells(
    first: Estimate, second: Estimate, only_first: Estimate, only_second: Estimate
) -> dict[str, OverlapCell]:
    """Both shares, and the questions that only the first model answers, both, only the second, neither."""
    return {
        "first": _measured(first),
        "second": _measured(second),
        "only_first": _measured(only_first),
        "both": _derived(max(0.0, first.value - only_first.value), first.n),
        "only_second": _measured(only_second),
        "neither": _derived(max(0.0, 1.0 - first.value - only_second.value), first.n),
    }


def _net(row: OverlapRow, index: ResultIndex) -> str:
    net = index.get(row.net)
    return f"net {numbers.show(net.value, 'points')} ({numbers.between(net, 'points')})" if net else ""


def _measured(item: Estimate) -> OverlapCell:
    hits = numbers.exact_count(item)
    share, between = numbers.show(item.value, "share"), numbers.interval(item, "share")
    printed, behind = (share, between) if hits is None else (f"{hits:,}", f"{share}; {between}")
    return OverlapCell(printed, behind, 100 * item.value)


def _derived(value: float, n: int) -> OverlapCell:
    """Return what follows from two measured shares: a count of questions, when it is a whole number."""
    hits = numbers.count_of(min(1.0, value), n)
    return OverlapCell(numbers.show(value, "share") if hits is None else f"{hits:,}", "", 100 * value)
