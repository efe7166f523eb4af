"""Words of whole pages, with their boxes, as Tesseract reads them."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from PIL.Image import Image

from audit.corpus.documents import Word
from audit.errors import UsageError
from audit.importers.boxes import clip
from audit.importers.pages import clean

SECONDS = 300.0
"""How long the reading of one page may take; a page of a scanner takes one to ten seconds."""
WORD_LEVEL = "5"
"""Of the rows of Tesseract's table, those that are words."""
NO_TESSERACT = "Tesseract is not installed"
NO_TESSERACT_HINT = "install it (apt install tesseract-ocr, brew install tesseract), or bring the words of another OCR"

OpenPage = Callable[[], Image]
"""Opens the image of a page, RGB."""


@dataclass(frozen=True)
class PageReader:
    """Reads the words of whole pages with Tesseract.

    Attributes:
        language: as Tesseract names it, several joined by "+" ("deu+eng").
        command: the program's name.
        workers: processes at a time; each keeps to one thread.
    """

    language: str = "eng"
    command: str = "tesseract"
    workers: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))

    def check(self) -> None:
        """See that the program is there and knows the language.

        Raises:
            UsageError: it is not, or does not.
        """
        if shutil.which(self.command) is None:
            raise UsageError(NO_TESSERACT, NO_TESSERACT_HINT)
        known = subprocess.run([self.command, "--list-langs"], capture_output=True, text=True, timeout=60, check=False)
        unknown = [name for name in self.language.split("+") if name not in known.stdout.split()]
        if unknown:
            raise UsageError(
                f"Tesseract has no data for the language {unknown[0]!r}",
                f"install its data (apt install tesseract-ocr-{unknown[0]}), or take one of tesseract --list-langs",
            )

    def read(self, pages: Iterable[tuple[str, OpenPage]]) -> Iterator[tuple[str, tuple[Word, ...] | None]]:
        """Read pages, in order; images are opened in this thread, a few at a time.

        Args:
            pages: names, and what opens each image.

        Yields:
            Each name with its words in Tesseract's reading order, boxes in pixels; none where nothing was read, None
            where the program failed or ran out of time.
        """
        left = iter(pages)
        with ThreadPoolExecutor(self.workers) as pool:
            while some := list(islice(left, 2 * self.workers)):
                read = [pool.submit(self._read_page, open_page()) for _, open_page in some]
                for (name, _), words in zip(some, read, strict=True):
                    yield name, words.result()

    def _read_page(self, page: Image) -> tuple[Word, ...] | None:
        file = io.BytesIO()
        page.convert("L").save(file, "PNG", compress_level=1)
        try:
            done = subprocess.run(
                [self.command, "stdin", "stdout", "-l", self.language, "tsv"],
                input=file.getvalue(),
                capture_output=True,
                env={**os.environ, "OMP_THREAD_LIMIT": "1"},
                timeout=SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return tuple(_words(done.stdout.decode("utf-8", "replace"), page.size))


def _words(table: str, size: tuple[int, int]) -> Iterator[Word]:
    """The words of Tesseract's table, without blank ones; boxes are cut at the page's edge."""
    for row in csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE):
        text = clean(row["text"] or "")
        if row["level"] == WORD_LEVEL and text:
            left, top, width, height = (int(row[name]) for name in ("left", "top", "width", "height"))
            yield Word(text, clip((left, top, left + width, top + height), size))
