"""Page images: judged by their header before anything is decoded, then opened one at a time.

Pixels are taken as stored: an EXIF orientation is *not* applied, and `size` and boxes refer to the
stored raster. `PIL.Image.open` does likewise, `transformers.image_utils.load_image` does not. So
validation refuses an image with an orientation wherever `size` does not tell which raster is meant,
and a decoded page no longer carries the tag: nothing turns it after words were removed from it.
TIFF is the exception: Pillow itself applies its tag.
An image file of several pages is refused unless a page of it is asked for: models would be shown
the first one alone, and boxes would be of another.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO

import PIL.ImageFile
from PIL import ExifTags, Image

from audit.corpus.documents import Corpus, Document, Word
from audit.corpus.problems import TEXTS, inside
from audit.errors import EngineError, ManifestError

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_PIXELS = 100_000_000  # an A3 page at 600 dpi has 70 million
TRANSPOSING = frozenset({5, 6, 7, 8})  # EXIF orientations that exchange width and height
MODES = frozenset(
    {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}
)

_TOO_LARGE = TEXTS["too_large"].format(most=MAX_PIXELS // 1_000_000)
MOST_PAGES = 5_000
"""The most pages of one file: a long book has 2,000."""
_SMALLER_COPY, _MASK = 1, 4
"""Bits of the tag NewSubfileType: pictures of a TIFF that are no pages of their own."""
_UNREADABLE = "not readable as an image ({})".format(", ".join(FORMATS))
# What Pillow raises on damaged files, besides OSError; no parser of it documents a closed list.
_WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
_DAMAGE = (OSError, EOFError, SyntaxError, struct.error, *_WRONG)


@dataclass(frozen=True)
class ImageFile:
    """What the header of an image file says, and its hash.

    Attributes:
        width: width in pixels, as stored.
        height: height in pixels, as stored.
        sha256: sha256 of the file's bytes, hexadecimal.
        orientation: the EXIF orientation, 1 to 8; 1, as it stands, also where there is none or none
            that can be read.
    """

    width: int
    height: int
    sha256: str
    orientation: int = 1

    @property
    def turned_size(self) -> tuple[int, int]:
        """Return width and height for a reader who applies the orientation."""
        return (
            (self.height, self.width)
            if self.orientation in TRANSPOSING
            else (self.width, self.height)
        )


@contextmanager
def _whole_files() -> Iterator[None]:
    """Make Pillow refuse truncated images within the block, for the whole process."""
    padded = PIL.ImageFile.LOAD_TRUNCATED_IMAGES
    PIL.ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        yield
    finally:
        PIL.ImageFile.LOAD_TRUNCATED_IMAGES = padded


@contextmanager
def _open_stream(stream: BinaryIO) -> Iterator[Image.Image]:
    """Open an image whose header passes.

    Every fault of the file, while decoding too, becomes a ManifestError.
    """
    # Pillow warns about sizes under our own limit. Not for several threads at once, like all of
    # catch_warnings.
    with warnings.catch_warnings(), _whole_files():
        warnings.simplefilter("ignore")
        try:
            with Image.open(stream, formats=FORMATS) as image:
                _check_raster(image)
                yield image
        except Image.DecompressionBombError:
            raise ManifestError(_TOO_LARGE) from None
        except _DAMAGE:
            raise ManifestError(_UNREADABLE) from None


def _check_raster(image: Image.Image) -> None:
    """Refuse an image that is too large, or has not 8 bits a channel."""
    if image.width * image.height > MAX_PIXELS:
        raise ManifestError(_TOO_LARGE)
    if image.mode not in MODES:
        raise ManifestError(f"pixels of mode {image.mode}: save the image with 8 bits a channel")


def _frames_of(image: Image.Image) -> list[int]:
    """List the numbers of the pictures in an open file that are pages.

    Smaller copies and masks of a TIFF are none, nor are other pictures of a photograph. Each
    picture of an animation is one.

    Raises:
        ManifestError: they are too many.
    """
    if image.format == "MPO" or not getattr(image, "is_animated", False):
        return [0]
    if image.format != "TIFF":
        return list(range(getattr(image, "n_frames", 1)))
    frames: list[int] = []
    for number in range(MOST_PAGES + 1):
        try:
            image.seek(number)
        except EOFError:
            return frames or [0]
        kind = image.tag_v2.get(254, 0)  # type: ignore[attr-defined]
        if not (isinstance(kind, int) and kind & (_SMALLER_COPY | _MASK)):
            frames.append(number)
    raise ManifestError(TEXTS["too_many_pages"].format(most=MOST_PAGES))


def _check_single(image: Image.Image) -> None:
    """Refuse an open file of several pages.

    Raises:
        ManifestError: it has several.
    """
    frames = _frames_of(image)
    if len(frames) > 1:
        raise ManifestError(TEXTS["several_pages"].format(n=len(frames)))
    _turn_to(image, frames[0])


def _turn_to(image: Image.Image, frame: int) -> None:
    """Turn an open file to one of its pictures, and check it."""
    if image.tell() != frame:
        image.seek(frame)
        _check_raster(image)


@contextmanager
def _open_single(path: Path) -> Iterator[Image.Image]:
    """Open the image of a file of one page whose header passed."""
    with _open_header(path) as image:
        _check_single(image)
        yield image


@contextmanager
def _open_header(path: Path) -> Iterator[Image.Image]:
    """Open the image of a file whose header passed, which may have several pages.

    Every reason why there is none becomes a ManifestError.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise ManifestError("the image is not a regular file")
        with path.open("rb") as stream, _open_stream(stream) as image:
            yield image
    except FileNotFoundError:
        raise ManifestError(
            "the image is missing; give its path from the folder of the data set"
        ) from None
    except OSError as error:
        raise ManifestError(f"the image cannot be read: {error.strerror}") from None


def read_header(path: Path) -> ImageFile:
    """Read size, orientation and sha256 of an image file.

    Reads the bytes once and decodes no pixel.

    Raises:
        ManifestError: missing, no regular file, not one of `FORMATS`, over `MAX_PIXELS`, not 8 bits
            a channel, or of several pages.
    """
    with _open_single(path) as image:
        width, height = image.size
        orientation = _orientation(image)
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return ImageFile(width, height, digest, orientation)


def _orientation(image: Image.Image) -> int:
    """Read the EXIF orientation, also from XMP, without decoding pixels.

    See `ImageFile.orientation`.
    """
    if image.format == "TIFF":
        return 1  # Pillow turns the page, and its size with it
    try:
        # Not the method of PngImageFile, which decodes the pixels to find tags behind them.
        found = Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1)
    except _DAMAGE:
        return 1  # damaged tags turn no page; the pixels may be sound all the same
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def kind_of(content: bytes) -> str:
    """Return the usual ending, without a dot, of an image file with these bytes.

    Raises:
        ManifestError: as `read_header`.
    """
    with _open_stream(io.BytesIO(content)) as image:
        return (image.format or "").lower()


def page_count(path: Path) -> int:
    """Return the number of pages in an image file: those of a TIFF, else usually one.

    Raises:
        ManifestError: as `read_header`, or it has too many pages.
    """
    with _open_header(path) as image:
        return len(_frames_of(image))


def decode(path: Path) -> Image.Image:
    """Decode the image at `path`, as RGB without any tag.

    Transparency is laid over white, as on paper.

    Raises:
        ManifestError: as `read_header`, or the file is damaged.
    """
    with _open_single(path) as image:
        return _as_page(image)


def decode_pages(path: Path) -> Iterator[Image.Image]:
    """Decode each page of an image file as `decode` does, one after the other.

    Raises:
        ManifestError: as `read_header`, or the file is damaged or has too many pages.
    """
    with _open_header(path) as image:
        for frame in _frames_of(image):
            _turn_to(image, frame)
            yield _as_page(image)


def _as_page(image: Image.Image) -> Image.Image:
    """Decode the picture that an open file is turned to, as RGB without any tag."""
    image.load()
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        page = Image.alpha_composite(
            Image.new("RGBA", image.size, "white"), image.convert("RGBA")
        ).convert("RGB")
    else:
        page = image.convert("RGB")
    page.info.clear()
    return page


def image_path(corpus: Corpus, document: Document) -> Path:
    """Return the path of the document's image.

    Raises:
        ManifestError: the path leaves DATA_DIR.
        ValueError: the document has no image.
    """
    if document.image is None:
        raise ValueError("this document has no image")
    return (
        inside(corpus.root, document.image)
        if corpus.bring is None
        else corpus.bring(document.image)
    )


def open_image(corpus: Corpus, document: Document) -> Image.Image:
    """Return the page of `document`: RGB, in its stored orientation.

    It is bounded again, as files can change after `load`.

    Raises:
        ManifestError: the image is missing, damaged, too large, or not of the document's `size`.
        ValueError: the document has no image.
    """
    try:
        image = decode(image_path(corpus, document))
    except ManifestError as error:
        raise ManifestError(
            [f"document {document.id}: {problem}" for problem in error.problems]
        ) from None
    if document.size is not None and image.size != document.size:
        raise ManifestError(
            f"document {document.id}: the image has changed its size since the data set was loaded"
        )
    return image


@dataclass(frozen=True, eq=False)
class PageView:
    """One page. Changing it makes another page view; the first one stays as it was.

    Attributes:
        words: what an OCR reads on the page, in reading order; boxes are pixels of `size`, None
            where not known.
        size: (width, height) in pixels; None for a text without layout.
        open_page: gives the page as it looks now: RGB, of `size`, bounded; None: there is no image
            of it. It is called when the image is first asked for, and what it gives is never
            written to.
        output: what a parsing model was taught to write of the page, whatever was changed on it; no
            model reads it.
    """

    words: tuple[Word, ...]
    size: tuple[int, int] | None = None
    open_page: Callable[[], Image.Image] | None = None
    output: str | None = None

    @cached_property
    def image(self) -> Image.Image | None:
        """Return the page's image, RGB, of `size`, kept as long as this page view lives.

        Never write to it.
        """
        return None if self.open_page is None else self.open_page()


def page_view(corpus: Corpus, document: Document) -> PageView:
    """Return the document's page as it is; its image is opened when it is first asked for."""
    opener = None if document.image is None else partial(open_image, corpus, document)
    return PageView(document.words, document.size, opener, document.output)


LARGE = 16 * 2**20
"""Bytes of a documents file from which on contents stay in it: as objects they take ten times as
much memory."""
KEPT = 32
"""Documents of such a file whose contents are kept, those asked for last: they fit into the
processor's cache."""


_KNOWN = ("id", "split", "image", "size", "provider")
_CONTENTS: Mapping[str, object] = {
    one.name: one.default for one in fields(Document) if one.name not in _KNOWN
}
"""What stays in the file, and what a document holds that has none of it."""


class DocumentFile:
    """A documents file that is read again, line by line.

    The file stays open, so that what replaces it is never read; a line that was changed in place is
    an error.

    Args:
        path: the file.
        parse: makes a document of a line that was found valid.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], Document]) -> None:
        """Open a documents file; `parse` turns one of its lines into a document."""
        self.name = path.name
        self._parse = parse
        self._stream = path.open("rb")
        self.contents = lru_cache(KEPT)(self._read)

    def document(self, document: Document, start: int, line: bytes) -> StoredDocument:
        """Return a document that reads its contents from this line, at byte `start`, when asked."""
        return StoredDocument.of(document, self, (start, len(line), zlib.crc32(line)))

    def _read(self, start: int, length: int, check: int) -> Document:
        """Read the document on a line; fail where the line's CRC-32 is no longer `check`."""
        line = os.pread(self._stream.fileno(), length, start)
        if zlib.crc32(line) != check:
            raise EngineError(
                f"{self.name} has changed since it was read",
                "leave it alone, and run the command again",
            )
        return self._parse(line)


class StoredDocument(Document):
    """A document of which id, split, image, size and provider are in memory.

    The file holds what else it has.

    What it lacks is known without the file. A changed copy (`dataclasses.replace`) is a `Document`
    like any other.
    """

    _file: DocumentFile
    _place: tuple[int, int, int]
    _hash: int
    _has: frozenset[str]

    def __new__(cls, *content: Any, **fields: Any) -> Any:
        """Make a document with its contents in memory, as copies differ from the file."""
        return Document(*content, **fields)

    @classmethod
    def of(
        cls, document: Document, file: DocumentFile, place: tuple[int, int, int]
    ) -> StoredDocument:
        """Return the document with its contents left in `file` at (offset, length, CRC-32).

        `place` is where they begin, their bytes and check sum.
        """
        stored: StoredDocument = object.__new__(cls)
        provider = None if document.provider is None else sys.intern(document.provider)
        has = frozenset(
            name for name, default in _CONTENTS.items() if getattr(document, name) != default
        )
        known = {name: getattr(document, name) for name in _KNOWN} | {"provider": provider}
        known |= {"_file": file, "_place": place, "_hash": hash(document), "_has": _shared_set(has)}
        for name, value in known.items():
            object.__setattr__(stored, name, value)
        return stored

    @property
    def _content(self) -> Document:
        """Return the document with its contents, read from the file."""
        return self._file.contents(*self._place)

    def __eq__(self, other: object) -> bool:
        """Compare documents by their contents."""
        if not isinstance(other, Document):
            return NotImplemented
        return self is other or self._content == (
            other._content if isinstance(other, StoredDocument) else other
        )

    def __hash__(self) -> int:
        """Return the hash that the whole document has."""
        return self._hash

    def __reduce__(self) -> tuple[Callable[[Document], Document], tuple[Document]]:
        """Return the whole document for another process."""
        return _same_document, (self._content,)


def _content_property(name: str) -> property:
    """Make the property that reads one of `_CONTENTS` from the file.

    It does not where the document is known to lack it.
    """

    def read(document: StoredDocument) -> object:
        """Return the field's value from the file, or its default where the document has none."""
        return getattr(document._content, name) if name in document._has else _CONTENTS[name]

    return property(read)


for _name in _CONTENTS:
    setattr(StoredDocument, _name, _content_property(_name))


def _same_document(document: Document) -> Document:
    """Return the document itself; pickling calls this in the other process."""
    return document


@cache
def _shared_set(names: frozenset[str]) -> frozenset[str]:
    """Return one object for equal sets, of which there are a few."""
    return names
