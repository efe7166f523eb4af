"""Image files of several pages, as scanners write them: each page is a document, or none is."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import small_sources
from commands import docaudit
from PIL import Image, ImageDraw, ImageFont, TiffImagePlugin

from audit.corpus import images
from audit.corpus import manifest as manifests
from audit.errors import ManifestError

SMALLER_COPY = 1
NEW_SUBFILE_TYPE = 254


def write_sheets(path: Path, *kinds: int, mode: str = "L") -> None:
    """Write an image of several pictures: each is larger and darker than the one before.

    Args:
        path: the file.
        kinds: what each picture of a TIFF is, as its tag NewSubfileType says.
        mode: the mode of its pixels.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".tif":
        frames = [Image.new(mode, (60, 40), 250 - 20 * number) for number in range(len(kinds))]
        frames[0].save(path, save_all=True, append_images=frames[1:])
        return
    with TiffImagePlugin.AppendingTiffWriter(str(path), True) as writer:
        for number, kind in enumerate(kinds):
            tags = TiffImagePlugin.ImageFileDirectory_v2()
            tags[NEW_SUBFILE_TYPE] = kind
            frame = Image.new(mode, (60 + number, 40), 250 - 20 * number)
            frame.save(writer, "TIFF", tiffinfo=tags)
            writer.newFrame()


def ids_and_splits(folder: Path) -> dict[str, str]:
    """Return the split of each document of a data set, by id."""
    return {document.id: document.split for document in manifests.load(folder).documents}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `src` of two classes: a two-page TIFF, and three images of one page."""
    monkeypatch.chdir(tmp_path)
    write_sheets(tmp_path / "src" / "letters" / "scan.tif", 0, 0)
    for number, name in enumerate(("letters/b", "invoices/c", "invoices/d")):
        path = tmp_path / "src" / f"{name}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("L", (60, 40), 100 + number).save(path)
    return tmp_path / "src"


def test_pages_of_a_tiff_are_decoded_one_by_one(tmp_path):
    path = tmp_path / "scan.tif"
    write_sheets(path, 0, 0, 0)
    assert images.page_count(path) == 3
    pages = list(images.decode_pages(path))
    assert [page.size for page in pages] == [(60, 40), (61, 40), (62, 40)]
    assert [int(np.asarray(page)[0, 0, 0]) for page in pages] == [250, 230, 210]


@pytest.mark.parametrize("name", ["scan.tif", "scan.png", "scan.webp"])
def test_an_image_of_several_pages_is_no_page(name, tmp_path):
    write_sheets(tmp_path / name, 0, 0)
    for read in (images.read_header, images.decode):
        with pytest.raises(ManifestError, match="the image has 2 pages"):
            read(tmp_path / name)


@pytest.mark.parametrize(
    ("kinds", "width"),
    [
        pytest.param((0, SMALLER_COPY), 60, id="a smaller copy behind the page"),
        pytest.param((SMALLER_COPY, 0), 61, id="a smaller copy before it"),
        pytest.param((0, 4), 60, id="a mask"),
        pytest.param((2,), 60, id="one page of a document"),
    ],
)
def test_copies_and_masks_of_a_page_are_no_pages(kinds, width, tmp_path):
    path = tmp_path / "scan.tif"
    write_sheets(path, *kinds)
    assert images.page_count(path) == 1
    assert images.read_header(path).width == width
    assert images.decode(path).width == width


def test_a_photograph_with_smaller_copies_is_one_page(tmp_path):
    path = tmp_path / "phone.jpg"
    small = Image.new("RGB", (6, 4))
    Image.new("RGB", (60, 40)).save(path, "MPO", save_all=True, append_images=[small])
    assert images.read_header(path).width == 60
    assert images.decode(path).size == (60, 40)


def test_later_pages_are_checked_like_the_first(tmp_path):
    path = tmp_path / "scan.tif"
    pages = [Image.new("L", (4, 4)), Image.new("I;16", (4, 4))]
    pages[0].save(path, save_all=True, append_images=pages[1:])
    with pytest.raises(ManifestError, match="8 bits a channel"):
        list(images.decode_pages(path))


def test_plain_pages_of_a_tiff_are_documents_of_one_split(source):
    result = docaudit("import", "pages", "src", "out", "--task", "document-classification")
    assert result.exit_code == 0, result.output
    splits = ids_and_splits(Path("out"))
    assert splits.keys() == {"b", "c", "d", "scan-1", "scan-2"}
    assert splits["scan-1"] == splits["scan-2"]
    assert manifests.load(Path("out")).document("scan-2").label == "letters"
    assert "images of several pages, whose pages are documents: 1" in result.output


def test_a_tiff_of_several_pages_cannot_stay_in_its_folder(source):
    arguments = ("init", "src", "--task", "document-classification", "--yes")
    result = docaudit(*arguments, "--out", "src", terminal_width=1000)
    assert result.exit_code == 2, result.output
    assert "write the data set to another folder: --out DIR" in result.output
    assert not Path("src", "manifest.toml").exists()
    result = docaudit(*arguments, "--out", "out")
    assert result.exit_code == 0, result.output
    assert {"scan-1", "scan-2"} <= ids_and_splits(Path("out")).keys()


def test_words_of_one_page_beside_several_are_refused(source):
    (source / "letters" / "scan.json").write_text('[{"text": "Total"}]')
    result = docaudit("import", "pages", "src", "out", "--task", "mlm", terminal_width=1000)
    assert result.exit_code == 2, result.output
    assert "scan.json: of one page, but the image has 2" in result.output


def test_a_row_that_names_an_image_of_several_pages_is_refused(source):
    names = ("letters/scan.tif", "letters/b.png")
    rows = [{"file_name": name, "words": ["Total"]} for name in names]
    (source / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = docaudit("import", "hf", "src", "out", "--task", "mlm", terminal_width=1000)
    assert result.exit_code == 2, result.output
    assert "the image has 2 pages" in result.output
    assert "save each as a file" in result.output


@pytest.mark.parametrize(
    "kind",
    [
        *("sroie", "funsd", "docvqa", "forms", "hf", "chat", "label-studio", "coco", "csv"),
        *("hocr", "alto", "textract", "paddleocr", "page-xml", "pages"),
    ],
)
def test_no_format_takes_the_first_page_of_an_image_alone(kind, tmp_path):
    """A TIFF under the name of a PNG: what splits the pages of a TIFF does not see it either."""
    src = small_sources.lay_out(kind, tmp_path / "src")
    image = min(path for path in src.rglob("*") if path.suffix in (".png", ".jpg"))
    write_sheets(tmp_path / "scan.tif", 0, 0)
    image.write_bytes((tmp_path / "scan.tif").read_bytes())
    assert "the image has 2 pages" in small_sources.refused(kind, src)


def test_a_data_set_with_an_image_of_several_pages_is_refused(source):
    result = docaudit("import", "pages", "src", "out", "--task", "document-classification")
    assert result.exit_code == 0, result.output
    shutil.copy(source / "letters" / "scan.tif", Path("out", "images", "b.png"))
    result = docaudit("inspect", "out", terminal_width=1000)
    assert result.exit_code == 2, result.output
    assert "the image has 2 pages" in result.output


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="Tesseract is not installed")
def test_every_page_of_a_tiff_is_read_by_ocr(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages = []
    for text in ("GARDENIA", "BAKERY"):
        page = Image.new("L", (400, 120), 255)
        ImageDraw.Draw(page).text((30, 30), text, font=ImageFont.load_default(36), fill=0)
        pages.append(page)
    (tmp_path / "src").mkdir()
    pages[0].save(tmp_path / "src" / "scan.tif", save_all=True, append_images=pages[1:])
    result = docaudit("import", "pages", "src", "out", "--task", "mlm", "--ocr", "eng")
    assert result.exit_code == 0, result.output
    texts = {
        document.id: document.words[0].text for document in manifests.load(Path("out")).documents
    }
    assert texts == {"scan-1": "GARDENIA", "scan-2": "BAKERY"}
