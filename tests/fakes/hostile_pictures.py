"""Pictures that files hold although pages are none such: modes, formats, sizes, bombs, tags, broken chunks."""

import io
import struct
import zlib

from PIL import Image

_MODES = (
    *("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "I;16", "F"),
    *("La", "RGBa", "RGBX"),
)
_FORMATS = (
    "PNG",
    "JPEG",
    "TIFF",
    "WEBP",
    "GIF",
    "BMP",
    "PPM",
    "ICO",
    "JPEG2000",
    "PDF",
    "EPS",
    "TGA",
    "MPO",
)
_SIZES = ((1, 1), (1, 3_000), (3_000, 1), (200, 260), (16, 16), (640, 7))


def picture(kind: int, size: int) -> bytes:
    """A picture for every number; the same for the same."""
    special = (_wide, _bomb, _turned, _long_text, _animated, _endless, _no_pixels, _palette)
    if kind % 4 == 0:
        return special[size % len(special)]()
    mode = _MODES[kind // 4 % len(_MODES)]
    form = _FORMATS[size % len(_FORMATS)]
    return _saved(Image.new(mode, _SIZES[(kind + size) % len(_SIZES)]), form)


def _saved(image: Image.Image, form: str, **more: object) -> bytes:
    stream = io.BytesIO()
    try:
        image.save(stream, form, **more)
    except (OSError, ValueError, KeyError):
        stream = io.BytesIO()
        # Premultiplied modes turn into no others directly.
        plain = image.convert({"La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode))
        plain.convert("L" if plain.mode in ("I;16", "F", "LA") else "RGB").save(stream, "PNG")
    return stream.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG."""
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def png(
    width: int, height: int, pixels: bytes, *others: bytes, depth: int = 8, colour: int = 0
) -> bytes:
    """A PNG of any size, whatever its pixels are."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    signature = b"\x89PNG\r\n\x1a\n"
    return b"".join(
        (signature, header, *others, chunk(b"IDAT", zlib.compress(pixels)), chunk(b"IEND", b""))
    )


def _wide() -> bytes:
    return png(2**31 - 1, 2**31 - 1, b"")


def _bomb() -> bytes:
    return png(30_000, 30_000, bytes(1_000))


def _turned() -> bytes:
    tags = Image.Exif()
    tags[0x0112] = 6
    return _saved(Image.new("RGB", (200, 260)), "JPEG", exif=tags)


def _long_text() -> bytes:
    return png(16, 16, bytes(17 * 16), chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(30_000_000))))


def _animated() -> bytes:
    frames = [Image.new("L", (20, 20), shade) for shade in range(5)]
    return _saved(frames[0], "PNG", save_all=True, append_images=frames[1:])


def _endless() -> bytes:
    """A TIFF whose directory is followed by itself."""
    return b"II*\0\x08\0\0\0" + struct.pack("<H", 0) + struct.pack("<I", 8)


def _no_pixels() -> bytes:
    return png(200, 260, b"")


def _palette() -> bytes:
    return png(200, 260, bytes(201 * 260), colour=3)
