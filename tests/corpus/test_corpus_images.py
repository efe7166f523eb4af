"""`audit.corpus.images`: nothing is decoded that the header condemns, and what is decoded is plain RGB."""

import io
import random
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps

from audit.corpus import images
from audit.corpus import manifest as manifests
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Task
from audit.errors import ManifestError


def png_of_size(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that its few bytes of pixels do not have."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = (
        chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("size", [(60_000, 60_000), (10_001, 10_000)])
def test_a_huge_image_is_refused_by_its_header(size, tmp_path, monkeypatch):
    def decoded(_: ImageFile.ImageFile) -> None:
        raise AssertionError("pixels were decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", decoded)
    (tmp_path / "bomb.png").write_bytes(png_of_size(*size))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Pillow's own warning must not come through
        for read in (images.read_header, images.decode):
            with pytest.raises(ManifestError, match="over 100 megapixels"):
                read(tmp_path / "bomb.png")


def test_a_data_set_with_a_page_of_two_hundred_megapixels_is_refused(lay_out, settings, receipt):
    receipt["image"] = "images/huge.png"
    receipt["size"] = [20_000, 10_000]
    folder = lay_out(settings, receipt)
    (folder / "images" / "huge.png").write_bytes(png_of_size(20_000, 10_000))
    with pytest.raises(ManifestError) as caught:
        manifests.load(folder)
    place = f"({folder / 'images' / 'huge.png'})"
    (problem,) = caught.value.problems
    assert problem.startswith(
        f"documents.jsonl:1 image: the image has over 100 megapixels {place}; save the page at"
    )


def test_a_large_image_within_the_limit_passes_without_a_warning(tmp_path):
    (tmp_path / "large.png").write_bytes(
        png_of_size(10_000, 10_000)
    )  # over Pillow's limit for a warning
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert images.read_header(tmp_path / "large.png").width == 10_000


@pytest.mark.parametrize("name", ["page.gif", "page.bmp", "page.pdf", "page.eps", "page.ico"])
def test_other_formats_are_refused_whatever_their_name(name, tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / name)
    (tmp_path / name).rename(tmp_path / "page.png")
    with pytest.raises(ManifestError, match="not readable as an image"):
        images.read_header(tmp_path / "page.png")


@pytest.mark.parametrize("extension", ["png", "jpg", "tiff", "webp"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_raster_formats_are_read_as_rgb(extension, mode, tmp_path):
    path = tmp_path / f"page.{extension}"
    Image.new(mode, (20, 10), 200 if mode == "L" else (200, 200, 200)).save(path)
    assert (images.read_header(path).width, images.read_header(path).height) == (20, 10)
    page = images.decode(path)
    assert (page.mode, page.size) == ("RGB", (20, 10))
    np.testing.assert_allclose(np.asarray(page), 200, atol=2)


def test_transparency_becomes_white_and_sixteen_bits_are_refused(tmp_path):
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert images.decode(tmp_path / "clear.png").getpixel((0, 0)) == (255, 255, 255)
    Image.new("I;16", (4, 4)).save(tmp_path / "deep.png")
    with pytest.raises(ManifestError, match="8 bits a channel"):
        images.read_header(tmp_path / "deep.png")


@pytest.mark.parametrize("extension", ["jpg", "png", "webp"])
def test_an_exif_rotation_is_told_but_not_applied_now_or_later(extension, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees
    path = tmp_path / f"phone.{extension}"
    Image.new("L", (20, 10)).save(path, exif=exif)
    header = images.read_header(path)
    assert (header.orientation, header.turned_size) == (6, (10, 20))
    page = images.decode(path)
    assert page.size == (20, 10)
    with Image.open(path) as stored:  # what transformers does with any image it is given
        assert ImageOps.exif_transpose(stored).size == (10, 20)
    assert ImageOps.exif_transpose(page).size == (20, 10)


def test_pillow_turns_a_tiff_by_itself(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", (20, 10)).save(tmp_path / "page.tiff", exif=exif)
    header = images.read_header(tmp_path / "page.tiff")
    assert (header.width, header.height, header.orientation) == (10, 20, 1)
    assert images.decode(tmp_path / "page.tiff").size == (10, 20)


@pytest.mark.parametrize(
    "tags", [b"Exif\x00\x00no tags at all", b"Exif\x00\x00II*\x00\xff\xff\xff\xff", b""]
)
def test_an_image_with_damaged_tags_stands_as_it_is(tags, tmp_path):
    Image.new("L", (20, 10)).save(tmp_path / "page.jpg", exif=tags)
    assert images.read_header(tmp_path / "page.jpg").orientation == 1
    assert images.decode(tmp_path / "page.jpg").size == (20, 10)


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_orientation_that_means_nothing_is_none(value, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = value
    Image.new("L", (20, 10)).save(tmp_path / "page.jpg", exif=exif)
    assert images.read_header(tmp_path / "page.jpg").orientation == 1


def test_damaged_files_raise_nothing_but_a_manifest_error(tmp_path):
    rng = random.Random(0)
    sound: list[bytes] = []
    for kind in ("PNG", "JPEG", "WEBP"):
        stream = io.BytesIO()
        Image.new("RGB", (40, 30), (9, 99, 199)).save(stream, kind)
        sound.append(stream.getvalue())
    refused = 0
    for _ in range(400):
        content = bytearray(rng.choice(sound))
        for _ in range(rng.randint(1, 5)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        (tmp_path / "page").write_bytes(content[: rng.randint(1, len(content))])
        try:
            images.decode(tmp_path / "page")
        except ManifestError:
            refused += 1
    assert refused > 200


def test_open_image_checks_the_size_again(tmp_path):
    Image.new("L", (20, 10)).save(tmp_path / "a.png")
    document = Document("a", "member", image="a.png", size=(20, 10))
    corpus = Corpus(
        tmp_path.resolve(), Manifest(1, "x", Task("mlm"), Membership("random")), (document,), ""
    )
    assert images.open_image(corpus, document).size == (20, 10)
    Image.new("L", (21, 10)).save(tmp_path / "a.png")
    with pytest.raises(ManifestError, match="document a: the image has changed its size"):
        images.open_image(corpus, document)
    (tmp_path / "a.png").unlink()
    with pytest.raises(ManifestError, match="document a: the image is missing"):
        images.open_image(corpus, document)
    with pytest.raises(ValueError, match="no image"):
        images.open_image(corpus, Document("b", "member"))
    with pytest.raises(ManifestError, match="leaves DATA_DIR"):
        images.open_image(corpus, Document("c", "member", image="../a.png"))
