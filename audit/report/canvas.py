"""The canvas of every figure: matplotlib's settings, an empty figure, and the finished SVG element.

The SVG depends on the data alone: no date, fixed ids, text placed by the measures of the shipped typeface. It stays
text: a search finds it, and pages are smaller and sooner printed than with glyphs drawn as paths.
"""

from __future__ import annotations

import io
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import escape

from audit.report.drawing import FONTS, INK
from audit.resources import folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAINT = "#d5dae0"
WIDTH = 6.9
"""Inches: the width of an A4 page between its margins."""
FONT_SIZE = 9.0
"""Points, of all text: nothing in a report is smaller."""
RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "docaudit",
    "font.family": ["Liberation Sans", "DejaVu Sans"],  # matplotlib's own measures the letters that the first lacks
    "font.size": FONT_SIZE,
    "axes.labelsize": "medium",
    "xtick.labelsize": "medium",
    "ytick.labelsize": "medium",
    "legend.fontsize": "medium",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def blank_figure(height: float) -> Figure:
    """A figure outside pyplot's global state."""
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
    """The SVG element with its alternative text, without prologue or metadata, ids prefixed for a page of figures."""
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
