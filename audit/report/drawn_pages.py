"""Attacked pages drawn as boxes of words, kept and removed; never their text."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from audit.attacks.reporting import PagesFigure
from audit.corpus.documents import Box
from audit.measurements import DrawnPage
from audit.report.drawing import INK, MUTED, WIDTH, number, svg, text

MOST = 4
"""Pages that are drawn, in one row (chosen here: enough to show what the attack does to a page)."""
GAP = 18.0
TALLEST = 215.0
"""The height at which a page is drawn narrower instead, in units of the drawing (chosen here)."""
KEPT = "#cfd6dd"
REMOVED = "#111820"
AROUND = 2.2
"""How far the frame of a removed word is from its box."""
LEGEND = 22.0
LABEL = 18.0


def draw(name: str, pages: Sequence[DrawnPage], labels: PagesFigure) -> Markup:
    """Draw the first `MOST` pages as SVG, with a legend; empty without pages.

    A word that was taken away is black with a frame around it, one that stayed is a light box without one.

    Args:
        name: unique in the report, the id of the SVG.
        pages: as the record holds them.
        labels: of kept and removed words.
    """
    shown = pages[:MOST]
    if not shown:
        return Markup()
    cell = (WIDTH - GAP * (MOST - 1)) / MOST
    drawn, left, tallest = [_legend(labels)], 0.0, 0.0
    for page in shown:
        width, height = _size(page.ratio, cell)
        drawn.append(_page(page, left, LEGEND, width, height))
        left += cell + GAP
        tallest = max(tallest, height)
    return svg(name, LEGEND + tallest + LABEL, _alternative(shown, labels), Markup("").join(drawn))


def _size(ratio: float, cell: float) -> tuple[float, float]:
    """Width and height of a page in a cell so wide."""
    height = min(cell * ratio, TALLEST)
    return height / ratio, height


def _legend(labels: PagesFigure) -> Markup:
    removed = (4.0, 3.0, 15.0, 7.0)
    return Markup("").join(
        [
            _boxes([removed], REMOVED),
            _frames([removed]),
            text(28, 10, labels.removed, size=10),
            _boxes([(174.0, 3.0, 15.0, 7.0)], KEPT),
            text(196, 10, labels.kept, size=10),
        ]
    )


def _page(page: DrawnPage, x: float, y: float, width: float, height: float) -> Markup:
    boxes = [_scaled(box, x, y, width, height) for box in page.boxes]
    removed = [box for box, gone in zip(boxes, page.removed, strict=True) if gone]
    kept = [box for box, gone in zip(boxes, page.removed, strict=True) if not gone]
    label = f"Page {page.document}: {len(removed):,} of {len(boxes):,} words"
    return Markup("").join(
        [
            Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="{}" stroke-width="0.8"/>').format(
                number(x), number(y), number(width), number(height), MUTED
            ),
            _boxes(kept, KEPT),
            _boxes(removed, REMOVED),
            _frames(removed),
            text(x, y + height + 12, label, size=10, fill=INK),
        ]
    )


def _scaled(box: Box, x: float, y: float, width: float, height: float) -> Box:
    """Left, top, width and height in the drawing; what reaches over the page is cut off."""
    x0, y0, x1, y1 = (min(1.0, max(0.0, side)) for side in box)
    return x + x0 * width, y + y0 * height, max(0.4, (x1 - x0) * width), max(0.4, (y1 - y0) * height)


def _boxes(boxes: Sequence[Box], fill: str) -> Markup:
    """All boxes of one look as one path: a page has hundreds."""
    if not boxes:
        return Markup()
    steps = [f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h{number(-w)}z" for x, y, w, h in boxes]
    return Markup('<path d="{}" fill="{}"/>').format("".join(steps), fill)


def _frames(boxes: Sequence[Box]) -> Markup:
    """A frame around each box, so that even a tiny one is seen and known without its colour."""
    if not boxes:
        return Markup()
    steps = [
        f"M{number(x - AROUND)} {number(y - AROUND)}h{number(w + 2 * AROUND)}v{number(h + 2 * AROUND)}"
        f"h{number(-w - 2 * AROUND)}z"
        for x, y, w, h in boxes
    ]
    return Markup('<path d="{}" fill="none" stroke="{}" stroke-width="0.8"/>').format("".join(steps), REMOVED)


def _alternative(pages: Sequence[DrawnPage], labels: PagesFigure) -> str:
    """What the drawing shows, for who cannot see it."""
    shown = [
        f"page {page.document}, {len(page.boxes):,} words, {sum(page.removed):,} {labels.removed}" for page in pages
    ]
    return f"Pages as boxes, one for each word: {'; '.join(shown)}."
