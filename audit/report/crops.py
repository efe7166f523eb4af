"""Cut the place of a value out of its page, for the report that its owner alone may see."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.corpus import manifest as manifests
from audit.errors import DocauditError
from audit.record import AuditRecord

if TYPE_CHECKING:  # Reports without pictures open no image.
    from audit.corpus.documents import Box, Corpus, Document

MOST_CROPS = 200
"""Pictures of a report: each has some kilobytes."""
MARGIN = 0.04
"""Of the page's width, around a value."""
WIDEST = 420
"""Pixels of a picture."""
OUTLINE = "#d1242f"


def corpus_of(record: AuditRecord, owner: Path) -> Corpus | None:
    """Return the data set of a scan, where it lies where the scan read it and has not changed.

    Args:
        record: record of the scan.
        owner: file that says where the scan read its data set.
    """
    try:
        content = json.loads(owner.read_bytes())
        arguments = content.get("arguments") or {}
        folder = Path(arguments.get("data_dir") or content["paths"]["DATA_DIR"])
        corpus = manifests.load(folder)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, DocauditError):
        return None
    if corpus.sha256 != record.corpus.sha256:
        return None
    return corpus


class PageCrops:
    """Makes the pictures of values; a page that cannot be read, or has no places, gives none."""

    def __init__(self, corpus: Corpus | None) -> None:
        """Start with no picture made; without a data set there is none."""
        self._corpus = corpus
        self._left = MOST_CROPS

    def picture_of(self, row: Mapping[str, Any]) -> str:
        """Return the place of a row's value as a data URL; empty where there is no picture."""
        if self._corpus is None or not self._left:
            return ""
        try:
            document = self._corpus.document(str(row.get("document")))
        except KeyError:
            return ""
        words = [document.words[index] for index in _words_of(document, row)]
        boxes = [word.box for word in words if word.box is not None]
        if not boxes or document.image is None:
            return ""
        try:
            picture = _cut(self._corpus, document, boxes)
        except (DocauditError, OSError, ValueError):
            return ""
        self._left -= 1
        return picture


def _words_of(document: Document, row: Mapping[str, Any]) -> Sequence[int]:
    """Return the words of the field that a row is about; empty where it names none."""
    name = str(row.get("field", "")).partition(" (")[0]
    question_id = row.get("question_id")
    for question in document.questions:
        if question.id == question_id:
            name = question.entity or ""
    for entity in document.entities:
        if entity.id == name:
            return entity.words
    return ()


def _cut(corpus: Corpus, document: Document, boxes: Sequence[Box]) -> str:
    """Cut a page around boxes, outline these, and return it as a data URL."""
    from PIL import ImageDraw

    from audit.corpus.images import open_image

    page = open_image(corpus, document)
    ImageDraw.Draw(page).rectangle(_around(boxes, 2.0), outline=OUTLINE, width=2)
    left, top, right, bottom = _around(boxes, MARGIN * page.width)
    place = (
        max(0, int(left)),
        max(0, int(top)),
        min(page.width, int(right) + 1),
        min(page.height, int(bottom) + 1),
    )
    picture = page.crop(place)
    picture.thumbnail((WIDEST, WIDEST))
    content = io.BytesIO()
    picture.save(content, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def _around(boxes: Sequence[Box], margin: float) -> Box:
    """Return the box around several, with a margin."""
    return (
        min(box[0] for box in boxes) - margin,
        min(box[1] for box in boxes) - margin,
        max(box[2] for box in boxes) + margin,
        max(box[3] for box in boxes) + margin,
    )
