"""Page images: judged by their header before anything is decoded, then opened one at a time.

Pixels are taken as stored: an EXIF rotation is *not* applied, and `size` and boxes refer to the stored raster. That is
what transformers' image processors see too when given a file; a photograph that relies on EXIF must be saved upright.
"""

from __future__ import annotations

import hashlib
import stat
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from audit.corpus.documents import Corpus, Document
from audit.corpus.paths import inside
from audit.errors import ManifestError

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
MAX_PIXELS = 100_000_000  # ours: an A3 page at 600 dpi has 70 million
MODES = frozenset({"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"})

_TOO_LARGE = f"the image has over {MAX_PIXELS // 1_000_000} megapixels"
_UNREADABLE = "not readable as an image ({})".format(", ".join(FORMATS))
# What Pillow raises on damaged files, besides OSError; no parser of it documents a closed list.
_DAMAGE = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    ZeroDivisionError,
    struct.error,
)


@dataclass(frozen=True)
class ImageFile:
    """Width and height in pixels, from the header, and the sha256 of the file's bytes (hexadecimal)."""

    width: int
    height: int
    sha256: str


@contextmanager
def _opened(stream: BinaryIO) -> Iterator[Image.Image]:
    """An image whose header passed; every fault of the file, also later while decoding, becomes a ManifestError."""
    # Pillow warns about sizes under our own limit. Not for several threads at once, like all of catch_warnings.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(stream, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise ManifestError(_TOO_LARGE)
                if image.mode not in MODES:
                    raise ManifestError(f"pixels of mode {image.mode}: save the image with 8 bits a channel")
                yield image
        except Image.DecompressionBombError:
            raise ManifestError(_TOO_LARGE) from None
        except _DAMAGE:
            raise ManifestError(_UNREADABLE) from None


def read_header(path: Path) -> ImageFile:
    """Width, height and sha256 of an image file; reads the bytes once and decodes no pixel.

    Raises:
        ManifestError: missing, no regular file, not one of `FORMATS`, over `MAX_PIXELS`, not 8 bits a channel.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise ManifestError("the image is not a regular file")
        with path.open("rb") as stream:
            with _opened(stream) as image:
                width, height = image.size
            digest = _sha256_of(path)
    except FileNotFoundError:
        raise ManifestError("the image is missing") from None
    except OSError as error:
        raise ManifestError(f"the image cannot be read: {error.strerror}") from None
    return ImageFile(width, height, digest)


def _sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def decode(path: Path) -> Image.Image:
    """The image at `path`, decoded, as RGB; transparency is laid over white, as on paper.

    Raises:
        ManifestError: as `read_header`, or the file is damaged.
    """
    read_header(path)
    with path.open("rb") as stream, _opened(stream) as image:
        image.load()
        if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
            layer = image.convert("RGBA")
            page = Image.new("RGBA", layer.size, "white")
            return Image.alpha_composite(page, layer).convert("RGB")
        return image.convert("RGB")


def image_path(corpus: Corpus, document: Document) -> Path:
    """Where the document's image lies.

    Raises:
        ManifestError: the path leaves DATA_DIR.
        ValueError: the document has no image.
    """
    if document.image is None:
        raise ValueError("this document has no image")
    return inside(corpus.root, document.image)


def open_image(corpus: Corpus, document: Document) -> Image.Image:
    """The page of `document`: RGB, stored orientation, bounded again, as files can change after `load`.

    Raises:
        ManifestError: the image is missing, damaged, too large, or not of the document's `size`.
        ValueError: the document has no image.
    """
    try:
        image = decode(image_path(corpus, document))
    except ManifestError as error:
        raise ManifestError([f"document {document.id}: {problem}" for problem in error.problems]) from None
    if document.size is not None and image.size != document.size:
        raise ManifestError(f"document {document.id}: the image has changed its size since the data set was loaded")
    return image
