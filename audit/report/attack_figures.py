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
)
from audit.measurements import Curve
from audit.record import Result
from audit.report import figures


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its number in the report, and a caption that says what it shows."""

    number: int
    svg: Markup
    caption: str
    spec: Figure


def draw(specs: Sequence[Figure], result: Result, drawn: int) -> tuple[DrawnFigure, ...]:
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


def unspecified(result: Result, specs: Sequence[Figure]) -> list[Figure]:
    """Return figures for the histograms and curves that no specification names."""
    histograms = {spec.histogram for spec in specs if isinstance(spec, HistogramFigure)}
    curves = {panel.curve for spec in specs if isinstance(spec, CurveFigure) for panel in spec.panels}
    return [
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


def _figure(spec: Figure, result: Result, name: str) -> str:
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
