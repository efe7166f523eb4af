"""Leak against usefulness, a mark for each countermeasure, and the front of those that no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.report.canvas import FAINT, RC, as_svg, blank_figure
from audit.report.drawing import INK
from audit.report.figures import STYLES, Point


@dataclass(frozen=True)
class FrontPoint:
    """One countermeasure.

    Attributes:
        useful: its usefulness, as a share.
        value, reach: the worst limit used up, by the numbers and by the ends of their intervals; 1 is the limit.
    """

    label: str
    useful: Point
    value: float
    reach: float
    on_front: bool


def front(name: str, points: Sequence[FrontPoint], measure: str) -> str:
    """Draw usefulness across and the worst limit used up upwards; the line joins the front.

    Args:
        name: unique in the report; prefixes every id of the SVG.
        points: at least two.
        measure: what usefulness is, as the axis has it.
    """
    import matplotlib as mpl

    with mpl.rc_context(RC):
        figure = blank_figure(3.0)
        axis = figure.subplots()
        for point, style in zip(points, STYLES * len(points), strict=False):
            across, reach = 100 * point.useful.value, 100 * point.reach
            axis.plot([across, across], [100 * point.value, reach], color=style["color"], linewidth=1.0)
            sides = [[100 * (point.useful.value - point.useful.low)], [100 * (point.useful.high - point.useful.value)]]
            axis.errorbar(
                [across],
                [reach],
                xerr=sides,
                linestyle="none",
                marker=style["marker"],
                markersize=5,
                color=style["color"],
                markerfacecolor=style["color"] if style["fill"] else "white",
                elinewidth=0.8,
                label=point.label,
            )
        joined = sorted((100 * one.useful.value, 100 * one.reach) for one in points if one.on_front)
        axis.plot(*zip(*joined, strict=True), color=INK, linewidth=0.9, linestyle=":", zorder=1)
        axis.axhline(100, color=INK, linewidth=1.1)
        axis.annotate("limit", (1, 100), xycoords=("axes fraction", "data"), ha="right", va="bottom")
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, color=FAINT, linewidth=0.4)
        axis.set_xlabel(f"{measure}, per cent")
        axis.set_ylabel("worst limit used up, per cent")
        axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        return as_svg(figure, name, _in_words(points, measure))


def _in_words(points: Sequence[FrontPoint], measure: str) -> str:
    told = [
        f"{one.label}: {100 * one.useful.value:.0f} per cent, worst limit used up {100 * one.reach:.0f} per cent"
        f"{' (on the front)' if one.on_front else ''}"
        for one in points
    ]
    return f"{measure} across, worst limit used up upwards. {'. '.join(told)}."
