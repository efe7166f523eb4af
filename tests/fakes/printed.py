"""What a printed page shows: its text, the sizes of its letters, and how far down it is filled."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2
from pypdf import PdfReader

TOP = 0.055
BOTTOM = 0.945
"""Where the text of a page begins and ends, as shares of its height: the margins hold header and
footer."""


def texts(path: Path) -> list[str]:
    """The text of each page of a PDF, lines and gaps as single spaces."""
    with pypdfium2.PdfDocument(path) as document:
        return [" ".join(page.get_textpage().get_text_range().split()) for page in document]


def smallest_letters(path: Path) -> float:
    """The size of the smallest letters on any page of a PDF, in points as printed.

    Drawn letters are none.
    """
    sizes: list[float] = []

    def note(text: str, cm: list[float], tm: list[float], _font: Any, size: float) -> None:
        if text.strip():
            sizes.append(size * math.sqrt(abs(_area(cm) * _area(tm))))

    for page in PdfReader(path).pages:
        page.extract_text(visitor_text=note)
    return min(sizes)


def _area(matrix: list[float]) -> float:
    return matrix[0] * matrix[3] - matrix[1] * matrix[2]


def filled(path: Path) -> list[float]:
    """How far down each page has something on it, as a share of the room between header and footer."""
    document = pypdfium2.PdfDocument(path)
    shares = []
    for page in document:
        pixels = np.asarray(page.render(scale=0.5, grayscale=True).to_numpy())
        rows = np.flatnonzero(pixels.reshape(len(pixels), -1).min(axis=1) < 200) / len(pixels)
        body = rows[(rows > TOP) & (rows < BOTTOM)]
        shares.append(float((body.max() - TOP) / (BOTTOM - TOP)) if len(body) else 0.0)
    document.close()
    return shares
