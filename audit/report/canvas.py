"""Make empty figures of matplotlib, and turn them into SVG to put into a page.

The SVG depends on the data alone: no date, fixed ids, text placed by the measures of the shipped typeface. It stays
text: a search finds it, and pages are smaller and sooner printed than with glyphs drawn as paths. Colours: Okabe and
Ito 2008.
"""

from __future__ import annotations

import io
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import escape

from audit.resources import folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT = "#1d2733", "#d5dae0"
FONTS = "docaudit Sans, Liberation Sans, Arial, Helvetica, DejaVu Sans, sans-serif"
WIDTH = 6.9
"""Inches: the width of an A4 page between its margins."""
FONT_SIZE = 9.0
"""Points, of all text: nothing in a report is smaller."""
RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "docaudit",
    "font.family": ["Liberation Sans", "DejaVu Sans"],  # matplotlib's own measures the letters that the first lacks
    "font.size": FONT_SIZE,
    **dict.fromkeys(("axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"), "medium"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o", "fill": True, "line": "-"},
    {"color": "#D55E00", "marker": "s", "fill": False, "line": "--"},
    {"color": "#6b7785", "marker": "D", "fill": True, "line": ":"},
    {"color": "#009E73", "marker": "^", "fill": False, "line": "-."},
    {"color": "#CC79A7", "marker": "v", "fill": True, "line": (0, (5, 1, 1, 1, 1, 1))},
    {"color": "#8a6d00", "marker": "P", "fill": False, "line": (0, (1, 1))},
)
"""One for each series: hue, marker, filled or open, and the line's dashes."""
LEGEND = 92
"""Letters that go into one line of a legend; more take two lines (chosen here: what fits with six signs)."""


def add_legend(figure: Figure, *axes: Axes) -> None:
    """Add one entry for each label of these axes, above all panels; none where nothing is labelled."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper left",
        ncols=len(entries) if sum(map(len, entries)) <= LEGEND else -(-len(entries) // 2),
        frameon=False,
        handletextpad=0.5,
        columnspacing=1.6,
    )


def blank_figure(height: float) -> Figure:
    """Make a figure outside pyplot's global state."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    _register_typeface()
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


@cache
def _register_typeface() -> None:
    """Let matplotlib measure text in the typeface that the reports are printed in."""
    from matplotlib.font_manager import fontManager

    for style in ("Regular", "Bold"):
        fontManager.addfont(folder("templates") / "fonts" / f"LiberationSans-{style}.ttf")


def as_svg(figure: Figure, name: str, alternative: str) -> str:
    """Return the SVG element with its alternative text, without prologue, ids prefixed for a page of figures."""
    stream = io.StringIO()
    figure.savefig(
        stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    text = stream.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"(?<=font-family: )'[^;\"]*", FONTS, text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(alternative)}"', 1)
