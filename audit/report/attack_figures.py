"""The figures of an attack: its specifications, filled from its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from audit.attacks.reporting import (
    CATEGORY_LABELS,
    CategoryFigure,
    CurveFigure,
    CurvePanel,
    Figure,
    HistogramFigure,
    OverlapFigure,
    PagesFigure,
)
from audit.measurements import Curve, Estimate, Unresolved
from audit.record import Completed
from audit.report import diagram, drawn_pages, figures
from audit.report.attack_text import ResultIndex

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
        *(HistogramFigure(item.name, item.quantity) for item in result.histograms if item.name not in histograms),
        *(CurveFigure((CurvePanel(item.name),), item.quantity) for item in result.curves if item.name not in curves),
    ]


def _figure(spec: Figure, result: Completed, name: str) -> str:
    """One figure as SVG; empty when the record has nothing for it."""
    match spec:
        case HistogramFigure():
            return _distribution(spec, result, name)
        case CurveFigure():
            return _curves(spec, result, name)
        case PagesFigure():
            return drawn_pages.draw(name, result.pages, spec)
        case OverlapFigure():
            return diagram.draw(name, diagram.overlaps(spec.rows, ResultIndex(result)), spec.labels)
        case CategoryFigure():
            return _by_category(spec, result, name)


def _distribution(spec: HistogramFigure, result: Completed, name: str) -> str:
    histogram = next((item for item in result.histograms if item.name == spec.histogram), None)
    if histogram is None or not any(sum(counts) for counts in histogram.counts.values()):
        return ""
    return figures.distribution(name, histogram, spec.labels, spec.height or figures.BARS_HEIGHT)


def _curves(spec: CurveFigure, result: Completed, name: str) -> str:
    """One panel a curve; its series in the specified order, so that each has the same look in every panel."""
    by_name = {curve.name: curve for curve in result.curves if any(curve.series.values())}
    panels = [_curve_panel(by_name[panel.curve], panel, spec.series) for panel in spec.panels if panel.curve in by_name]
    return figures.lines(name, panels, spec.height or figures.LINES_HEIGHT) if panels else ""


def _curve_panel(curve: Curve, spec: CurvePanel, labels: Mapping[str, str]) -> figures.LinePanel:
    lines = []
    for series in dict.fromkeys([*labels, *curve.series]):
        points = curve.series.get(series, ())
        lines.append(
            figures.FigureLine(
                labels.get(series, series),
                tuple(spec.x_scale * point.x for point in points),
                tuple(figures.Point(point.value, point.low, point.high) for point in points),
            )
        )
    return figures.LinePanel(
        title=spec.title,
        axis=curve.axis if spec.axis is None else spec.axis,
        quantity=curve.quantity if spec.quantity is None else spec.quantity,
        lines=tuple(lines),
        form=spec.form,
        diagonal=spec.diagonal,
    )


def _by_category(spec: CategoryFigure, result: Completed, name: str) -> str:
    index = ResultIndex(result)
    metrics = [series.metric for panel in spec.panels for series in panel.series]
    categories = [
        category for category in result.categories if any(index.get(f"{metric}.{category}") for metric in metrics)
    ]
    if not categories:
        return ""
    panels = [
        figures.Panel(
            panel.title,
            tuple(
                figures.Series(
                    series.label,
                    tuple(
                        as_point(index.get(f"{series.metric}.{category}"), panel.complement) for category in categories
                    ),
                )
                for series in panel.series
            ),
        )
        for panel in spec.panels
    ]
    return figures.by_category(name, [CATEGORY_LABELS.get(one, one) for one in categories], panels)


def as_point(item: Estimate | Unresolved | None, complement: bool = False) -> figures.Point | None:
    """Return a measurement for drawing; `complement` turns a distance d into 1 - d."""
    if not isinstance(item, Estimate):
        return None
    if complement:
        return figures.Point(1 - item.value, 1 - item.high, 1 - item.low)
    return figures.Point(item.value, item.low, item.high)
