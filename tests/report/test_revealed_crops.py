"""Places of values on their pages, cut for the owner's report from the data set of the scan."""

import base64
import dataclasses
import io
import json
import re
from pathlib import Path

import example_records as examples
import pytest
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Entity, Manifest, Membership, Task, Word
from audit.files import RECOVERED
from audit.report.crops import OUTLINE
from audit.report.revealed import write_owner, write_revealed

PICTURE = re.compile(r'<img src="data:image/png;base64,([^"]+)"')
ROW = {
    "attack": "reconstruction",
    "document": "r1",
    "field": "e1",
    "split": "member",
    "value": "9.00",
    "exact": True,
}


@pytest.fixture
def scanned(tmp_path: Path) -> Path:
    """A scan with evidence, of a data set of one page of 400 x 600 pixels."""
    data = tmp_path / "data"
    (data / "images").mkdir(parents=True)
    Image.new("RGB", (400, 600), "white").save(data / "images" / "r1.png")
    words = (Word("TOTAL", (20, 300, 90, 320)), Word("9.00", (100, 300, 160, 320)))
    total = Entity("e1", "TOTAL", "amount", (1,))
    page = Document("r1", "member", words, "images/r1.png", (400, 600), entities=(total,))
    manifests.write(data, Manifest(1, "one page", Task("mlm"), Membership("random")), [page])
    out = tmp_path / "out"
    (out / "evidence").mkdir(parents=True)
    return out


def revealed(out: Path, *rows: dict[str, object], sha256: str | None = None) -> str:
    """Write the report with these lines of evidence, and return it."""
    data = out.parent / "data"
    record, verdict, policy = examples.skipped()
    corpus = dataclasses.replace(record.corpus, sha256=sha256 or manifests.load(data).sha256)
    record = dataclasses.replace(record, corpus=corpus)
    evidence = out / "evidence"
    write_owner(record, evidence, {"DATA_DIR": "elsewhere"}, {"data_dir": str(data)})
    (evidence / RECOVERED).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return write_revealed(record, verdict, policy, out).read_text()


def test_a_value_that_came_out_is_shown_in_its_place(scanned: Path) -> None:
    text = revealed(scanned, ROW)
    (content,) = PICTURE.findall(text)
    picture = Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB")
    assert picture.size == (93, 53), "60 x 20 pixels with 4 % of the width around"
    outline = tuple(bytes.fromhex(OUTLINE[1:]))
    assert outline in {picture.getpixel((x, 26)) for x in range(picture.width)}
    assert "Place on the page" in text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"exact": False}, id="nothing came out"),
        pytest.param({"field": "e9"}, id="no such field"),
        pytest.param({"document": "r9"}, id="no such document"),
    ],
)
def test_without_a_place_there_is_no_picture(change: dict[str, object], scanned: Path) -> None:
    text = revealed(scanned, {**ROW, **change})
    assert "<img" not in text
    assert "Place on the page" not in text


def test_a_data_set_that_has_changed_is_not_shown(scanned: Path) -> None:
    assert "<img" not in revealed(scanned, ROW, sha256="f" * 64)


def test_a_data_set_that_is_gone_leaves_rows_without_pictures(scanned: Path) -> None:
    data = scanned.parent / "data"
    sha256 = manifests.load(data).sha256
    (data / "images" / "r1.png").unlink()
    text = revealed(scanned, ROW, sha256=sha256)
    assert "9.00" in text
    assert "<img" not in text
