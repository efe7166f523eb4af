"""A receipt's page while it is being written: what is drawn is also kept as words, boxes and fields.

Text goes onto the page only through `Page.text`, so that words, boxes and pixels cannot disagree.
"""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass, field

from PIL import Image, ImageDraw, ImageFont

from audit.corpus.documents import Box, Category, Entity, Word

GREY_LEVELS = 8
"""Pages are stored with this many greys: letters keep their edges and a page takes about 5 KB."""


@functools.cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Pillow's own scalable font at `size` points: the same on every machine, no font file needed."""
    loaded = ImageFont.load_default(size)
    assert isinstance(loaded, ImageFont.FreeTypeFont), "Pillow lacks FreeType"
    return loaded


@dataclass(frozen=True)
class Field:
    """What a piece of text is: the label of its entity and the kind of personal data it holds."""

    label: str
    category: Category


@dataclass
class Page:
    """A page of `width` x `height` pixels with a cursor that moves down; boxes are in pixels."""

    width: int
    height: int
    margin: int
    size: int
    leading: int
    words: list[Word] = field(default_factory=list)
    entities: list[Entity] = field(default_factory=list)
    y: int = 0

    def __post_init__(self) -> None:
        self.y = self.margin
        self._image = Image.new("L", (self.width, self.height), 255)
        self._draw = ImageDraw.Draw(self._image)

    @property
    def right(self) -> int:
        """The x of the right margin, pixels."""
        return self.width - self.margin

    def measure(self, text: str, size: int | None = None) -> float:
        """The width of `text`, pixels."""
        return font(size or self.size).getlength(text)

    def text(
        self,
        text: str,
        *,
        x: float = 0,
        align: str = "left",
        kind: Field | None = None,
        size: int | None = None,
    ) -> float:
        """Write `text` on the cursor's line; return where it ends, pixels.

        Args:
            text: words separated by single spaces.
            x: the left edge ("left"), or the right edge ("right"); without it the margins.
            align: "left", "right" or "center" (of the page).
            kind: makes the words an entity. Lines of one label that follow each other are one
                entity.
            size: points, the page's own size when None.
        """
        size = size or self.size
        length = self.measure(text, size)
        left = {
            "left": x or self.margin,
            "right": (x or self.right) - length,
            "center": (self.width - length) / 2,
        }[align]
        left = min(max(left, self.margin), max(self.margin, self.right - length))
        first = len(self.words)
        for word in text.split():
            self._draw.text((left, self.y), word, font=font(size), fill=0)
            self.words.append(Word(word, self._box(left, word, size)))
            left += self.measure(word + " ", size)
        if kind is not None:
            self._entity(kind, range(first, len(self.words)))
        return left - self.measure(" ", size)

    def _box(self, left: float, word: str, size: int) -> Box:
        x0, y0, x1, y1 = font(size).getbbox(word, anchor="la")
        top, bottom = self.y + max(0, y0), self.y + y1
        return (
            round(max(0.0, left + x0), 1),
            round(float(top), 1),
            round(min(float(self.width), left + x1), 1),
            round(min(float(self.height), bottom), 1),
        )

    def _entity(self, kind: Field, words: range) -> None:
        last = self.entities[-1] if self.entities else None
        if last is not None and last.label == kind.label and last.words[-1] == words[0] - 1:
            self.entities[-1] = Entity(last.id, last.label, last.category, (*last.words, *words))
            return
        self.entities.append(
            Entity(f"e{len(self.entities) + 1}", kind.label, kind.category, tuple(words))
        )

    def newline(self, lines: float = 1.0) -> None:
        """Move the cursor down by `lines` lines."""
        self.y += round(self.leading * lines)

    def rule(self, style: str) -> None:
        """A separating line: "solid", "dashed" or "none" (white space only)."""
        middle = self.y + self.leading // 2
        if style == "solid":
            self._draw.line((self.margin, middle, self.right, middle), fill=0)
        elif style == "dashed":
            for x in range(self.margin, self.right, 8):
                self._draw.line((x, middle, min(x + 4, self.right), middle), fill=0)
        self.newline(1.0 if style != "none" else 0.7)

    def shape(self, name: str, corner: tuple[int, int], side: int, grey: int) -> None:
        """Draw a "square", "disc", "triangle" or "bars" (three, upright) into a square.

        "none" draws nothing.

        Args:
            name: of the shape.
            corner: the square's upper left one, pixels.
            side: the square's, pixels.
            grey: from 0, black, to 255, white.
        """
        left, top = corner
        right, bottom = left + side - 1, top + side - 1
        if name == "square":
            self._draw.rectangle((left, top, right, bottom), fill=grey)
        elif name == "disc":
            self._draw.ellipse((left, top, right, bottom), fill=grey)
        elif name == "triangle":
            self._draw.polygon(
                ((left, bottom), ((left + right) // 2, top), (right, bottom)), fill=grey
            )
        elif name == "bars":
            for part in (0, 2, 4):
                self._draw.rectangle(
                    (left + part * side // 5, top, left + (part + 1) * side // 5, bottom), fill=grey
                )

    def png(self) -> bytes:
        """The page as a greyscale PNG with `GREY_LEVELS` greys."""
        step = 255 / (GREY_LEVELS - 1)
        levels = self._image.point([round(round(value / step) * step) for value in range(256)])
        stream = io.BytesIO()
        levels.save(stream, "PNG", optimize=True)
        return stream.getvalue()
