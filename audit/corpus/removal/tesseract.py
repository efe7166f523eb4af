"""Tesseract, asked what it reads in a part of a page.

It may be missing; then it answers nothing.
"""

import hashlib
import io
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

from PIL.Image import Image, Resampling
from PIL.Image import new as new_image

from audit.corpus.documents import Box
from audit.corpus.images import PageView

_Key = tuple[str, bytes]
"""What a text that was read is kept under: the program, and the picture's sha256."""


@dataclass(frozen=True)
class View:
    """A way to show a crop: the paper around it, and the height of a line.

    Attributes:
        sides, above: paper shown at both sides of the crop, and above and below it, in line
            heights.
        line: the height that a line is brought to, pixels; capitals are about two thirds of it.
    """

    sides: float
    above: float
    line: float


VIEWS = (View(1.0, 0.35, 48), View(1.0, 0.0, 48), View(4.0, 1.0, 40))
"""Tesseract is shown a crop in three ways, one below the other in one picture."""
# Of 137 crops of SROIE's receipts it read the first view of 123, one of the three of 130, for a
# third more time.
MAX_SIDE = 2400
"""A view's longest side in pixels, after enlarging (bounds the time that a reading takes)."""
MAX_SCALE = 6.0
"""Smaller lines are enlarged no further."""
PAPER = 48
"""White paper around a view, pixels: Tesseract does not see letters that touch the edge."""
SECONDS = 60.0
"""How long one reading may take (it takes a fifth of a second)."""
ONE_BLOCK = "6"
"""Tesseract's page segmentation: a single block of lines."""


END_OF_PAGE = "\f"
"""What Tesseract writes between the texts of two pages."""
SHEET = 16
"""Pictures that one process reads, the pages of one TIFF file (starting costs four times as much as
reading)."""


@dataclass(frozen=True, eq=False)
class ReadCrop:
    """What can be read on `view` at `box`, pixels of the page, and closely around.

    Lines are `line` pixels high.
    """

    view: PageView
    box: Box
    line: float


@dataclass(frozen=True)
class Tesseract:
    """Answers `ReadCrop` with the text that Tesseract reads there.

    Attributes:
        command: the program's name.
        workers: processes at a time; each keeps to one thread.
    """

    command: str = "tesseract"
    workers: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))

    def installed(self) -> bool:
        """Test whether the program is there."""
        return _path_of(self.command) is not None

    def version(self) -> str | None:
        """Return the program's name and version; None when it is not there."""
        program = _path_of(self.command)
        return None if program is None else _version_of(program)

    def ask(self, queries: Sequence[ReadCrop]) -> list[str | None]:
        """Return the text that is read in each crop, in order; None where it cannot be read.

        None where nothing came back: no program, image or language data, or no time.
        """
        program = _path_of(self.command)
        if program is None:
            return [None] * len(queries)
        pictures = [_draw_crop(query) for query in queries]
        keys = [_key_of(program, picture) for picture in pictures]
        unread = {
            key: picture
            for key, picture in zip(keys, pictures, strict=True)
            if key and key not in _TEXTS
        }
        sheets = self._sheets(unread)
        with ThreadPoolExecutor(self.workers) as pool:
            for texts in pool.map(lambda sheet: _read_sheet(program, sheet), sheets):
                _TEXTS.update(texts)
        return [None if key is None else _TEXTS.get(key) for key in keys]

    def _sheets(self, pictures: Mapping[_Key, Image | None]) -> list[dict[_Key, Image | None]]:
        """Divide pictures among sheets, at least one for each worker where there are enough."""
        n_sheets = max(self.workers, -(-len(pictures) // SHEET))
        items = list(pictures.items())
        return [dict(items[start::n_sheets]) for start in range(min(n_sheets, len(items)))]


TESSERACT = Tesseract()
"""The reader that attacks ask."""


_TEXTS: dict[_Key, str] = {}
"""What was read: attacks that take the same answers off their pages share it."""


def _key_of(program: str, picture: Image | None) -> _Key | None:
    """Return the key under which a picture's text is stored; None without a picture."""
    return None if picture is None else (program, _digest(picture))


@cache
def _path_of(command: str) -> str | None:
    """Return the path of a command's program; None where it is not installed."""
    return shutil.which(command)


@cache
def _version_of(program: str) -> str | None:
    """Return the first line that a program prints for `--version`; None where it fails."""
    try:
        process = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter((process.stdout or process.stderr).splitlines()), None)


def _draw_crop(query: ReadCrop) -> Image | None:
    """Draw the place in all `VIEWS`, grey on white paper; None where the page has nothing there."""
    page = query.view.image
    if page is None:
        return None
    cuts: list[Image] = []
    for view in VIEWS:
        cut = _cut_view(page, query, view)
        if cut is not None:
            cuts.append(cut)
    if not cuts:
        return None
    width = max(cut.width for cut in cuts) + 2 * PAPER
    paper = new_image("L", (width, sum(cut.height + PAPER for cut in cuts) + PAPER), 255)
    top = PAPER
    for cut in cuts:
        paper.paste(cut, (PAPER, top))
        top += cut.height + PAPER
    return paper


def _cut_view(page: Image, query: ReadCrop, view: View) -> Image | None:
    """Cut out a place with its paper, as large as the view has it; None outside of the page."""
    line = max(query.line, 1.0)
    margins = (view.sides * line, view.above * line)
    x0, y0 = (max(int(query.box[corner] - margins[corner]), 0) for corner in (0, 1))
    x1, y1 = (
        min(int(query.box[corner + 2] + margins[corner]) + 1, page.size[corner])
        for corner in (0, 1)
    )
    if x0 >= x1 or y0 >= y1:
        return None
    scale = min(view.line / line, MAX_SCALE, MAX_SIDE / max(x1 - x0, y1 - y0))
    size = (max(round((x1 - x0) * scale), 1), max(round((y1 - y0) * scale), 1))
    return page.crop((x0, y0, x1, y1)).convert("L").resize(size, Resampling.LANCZOS)


def _digest(picture: Image) -> bytes:
    """Hash the size and the pixels of a picture."""
    return hashlib.sha256(repr(picture.size).encode() + picture.tobytes()).digest()


def _read_sheet(program: str, sheet: Mapping[_Key, Image]) -> dict[_Key, str]:
    """Read each picture with the program; those without an answer are left out.

    It takes longer to start than to read one. Where it does not give a text for each it is asked
    for them one by one.
    """
    texts = _read_pages(program, [*sheet.values()])
    if texts is not None:
        return dict(zip(sheet, texts, strict=True))
    if len(sheet) == 1:
        return {}
    by_key: dict[_Key, str] = {}
    for key, picture in sheet.items():
        by_key |= _read_sheet(program, {key: picture})
    return by_key


def _read_pages(program: str, pictures: Sequence[Image]) -> list[str] | None:
    """Read the text of each picture, through pipes.

    No part of a page lies in a temporary folder.
    """
    file = io.BytesIO()
    pictures[0].save(file, "TIFF", save_all=True, append_images=pictures[1:])
    printed = run_tesseract(program, ["--psm", ONE_BLOCK], file.getvalue(), SECONDS * len(pictures))
    texts = [] if printed is None else printed.split(END_OF_PAGE)
    return texts if len(texts) == len(pictures) else None


def run_tesseract(
    program: str, arguments: Sequence[str], picture: bytes, seconds: float
) -> str | None:
    """Run Tesseract on a picture with one thread; None where it fails or takes longer."""
    try:
        done = subprocess.run(
            [program, "stdin", "stdout", *arguments],
            input=picture,
            capture_output=True,
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
            timeout=seconds,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")
