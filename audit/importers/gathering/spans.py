"""Running texts with marked spans: words that divide where a span begins or ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from audit.errors import ManifestError
from audit.importers.gathering.drafts import DraftField, DraftPage, DraftWord
from audit.importers.source_files import replace_controls


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` (exclusive) of a text, and their label."""

    start: int
    end: int
    label: str


def add_spans(page: DraftPage, text: str, spans: Sequence[Span]) -> None:
    """Give a page the words of a text, and its spans as fields.

    Raises:
        ManifestError: a span is outside the text, or empty.
    """
    for number, span in enumerate(spans):
        if not 0 <= span.start < span.end <= len(text):
            raise ManifestError(f"span {number}: {span.start} to {span.end} are no characters of a text of {len(text)}")
    edges = sorted({edge for span in spans for edge in (span.start, span.end)})
    places = [
        piece
        for token in re.finditer(r"\S+", replace_controls(text))
        for piece in pairwise([token.start(), *(e for e in edges if token.start() < e < token.end()), token.end()])
    ]
    page.words = [DraftWord(text[start:end]) for start, end in places]
    for span in spans:
        own = tuple(n for n, (start, end) in enumerate(places) if span.start <= start and end <= span.end)
        if own:
            page.fields.append(DraftField(span.label, own, value=text[span.start : span.end]))
