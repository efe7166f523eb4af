"""The figures of an attack: what its template asks for, filled from its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from audit.measurements import Curve, Estimate, Unresolved
from audit.record import Completed
from audit.report import diagram, drawn_pages, figures
from audit.report.words import ResultIndex, category_words

PAGES: dict[str, Any] = {
    "pages": {"kept": "word that stayed", "removed": "word that was taken away"},
    "caption": "Some of the pages as the attack showed them to the model: a box for each word, without what it says. "
    "The key to the page numbers lies in the evidence folder.",
}
"""How attacked pages are drawn when the attack's template says nothing about them."""


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its number in the report, and a caption that says what it shows."""

    number: int
    svg: Markup
    caption: str


def draw(asked: Sequence[dict[str, Any]], result: Completed, drawn: int) -> tuple[DrawnFigure, ...]:
    """The figures that the record can fill, numbered from `drawn` + 1.

    Args:
        asked: specifications, see `audit.report.words`.
        result: where the numbers come from.
        drawn: how many figures the report already has.
    """
    pictures: list[DrawnFigure] = []
    for spec in asked:
        number = drawn + len(pictures) + 1
        svg = _figure(spec, result, f"figure{number}")
        if svg:
            pictures.append(DrawnFigure(number, Markup(svg), str(spec["caption"])))
    return tuple(pictures)


def forgotten(result: Completed, asked: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Specifications for the pages, histograms and curves that no specification names."""
    named = {spec.get("histogram") for spec in asked}
    drawn = {panel["curve"] for spec in asked for panel in spec.get("curves", ())}
    return [
        *([PAGES] if result.pages and not any("pages" in spec for spec in asked) else []),
        *({"histogram": item.name, "caption": item.quantity} for item in result.histograms if item.name not in named),
        *(
            {"curves": [{"curve": item.name, "title": ""}], "caption": item.quantity}
            for item in result.curves
            if item.name not in drawn
        ),
    ]


def _figure(spec: dict[str, Any], result: Completed, name: str) -> str:
    """One figure as SVG; empty when the record has nothing for it."""
    if "histogram" in spec:
        return _distribution(spec, result, name)
    if "curves" in spec:
        return _curves(spec, result, name)
    if "pages" in spec:
        return drawn_pages.draw(name, result.pages, spec["pages"])
    if "overlaps" in spec:
        return diagram.draw(name, diagram.overlaps(spec["overlaps"], ResultIndex(result)), spec["words"])
    return _by_category(spec, result, name)


def _distribution(spec: dict[str, Any], result: Completed, name: str) -> str:
    found = next((item for item in result.histograms if item.name == spec["histogram"]), None)
    if found is None or not any(sum(counts) for counts in found.counts.values()):
        return ""
    return figures.distribution(name, found, spec.get("words", {}), spec.get("height", figures.BARS_HEIGHT))


def _curves(spec: dict[str, Any], result: Completed, name: str) -> str:
    """One panel a curve; its series in the template's order, so that each has the same look in every panel."""
    by_name = {curve.name: curve for curve in result.curves if any(curve.series.values())}
    words = spec.get("series", {})
    panels = [
        _curve_panel(by_name[panel["curve"]], panel, words) for panel in spec["curves"] if panel["curve"] in by_name
    ]
    return figures.lines(name, panels, spec.get("height", figures.LINES_HEIGHT)) if panels else ""


def _curve_panel(curve: Curve, spec: dict[str, Any], words: dict[str, str]) -> figures.LinePanel:
    labels = list(dict.fromkeys([*words, *curve.series]))
    lines = []
    for label in labels:
        points = curve.series.get(label, ())
        lines.append(
            figures.FigureLine(
                words.get(label, label),
                tuple(spec.get("x_scale", 1) * point.x for point in points),
                tuple(figures.Point(point.value, point.low, point.high) for point in points),
            )
        )
    return figures.LinePanel(
        title=spec["title"],
        axis=spec.get("axis", curve.axis),
        quantity=spec.get("quantity", curve.quantity),
        lines=tuple(lines),
        form=spec.get("form", "number"),
        diagonal=spec.get("diagonal", False),
    )


def _by_category(spec: dict[str, Any], result: Completed, name: str) -> str:
    measured = ResultIndex(result)
    metrics = [series["metric"] for panel in spec["panels"] for series in panel["series"]]
    kinds = [kind for kind in result.categories if any(measured.get(f"{metric}.{kind}") for metric in metrics)]
    if not kinds:
        return ""
    panels = [
        figures.Panel(
            panel["title"],
            tuple(
                figures.Series(
                    series["label"],
                    tuple(
                        as_point(measured.get(f"{series['metric']}.{kind}"), panel.get("complement", False))
                        for kind in kinds
                    ),
                )
                for series in panel["series"]
            ),
        )
        for panel in spec["panels"]
    ]
    return figures.by_category(name, [category_words(kind) for kind in kinds], panels)


def as_point(item: Estimate | Unresolved | None, complement: bool = False) -> figures.Point | None:
    """A measurement for drawing; `complement` shows a distance as what is not distant (1 - value)."""
    if not isinstance(item, Estimate):
        return None
    if complement:
        return figures.Point(1 - item.value, 1 - item.high, 1 - item.low)
    return figures.Point(item.value, item.low, item.high)
