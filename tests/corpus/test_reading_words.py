"""`docaudit ocr`: pages without words get them, whole or not at all, and their answers are located."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import docaudit
from PIL import Image, ImageDraw, ImageFont

from audit.corpus import manifest as manifests
from audit.corpus.documents import CATEGORIES
from audit.importers.words import PageReader
from audit.workflows.ocr import ORIGINAL, add_words

LINES = ("MEGAH TRADING", "17 Jalan Bukit Indah, Johor", "TOTAL 19.00")
SIZE = (700, 260)

needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None, reason="Tesseract is not installed"
)


class Told:
    """A `Progress` that counts."""

    def __init__(self) -> None:
        self.total = self.done = 0

    def stage(self, name: str, total: int = 0) -> None:
        self.total += total

    def advance(self, steps: int = 1) -> None:
        self.done += steps


def draw(path: Path, lines: tuple[str, ...]) -> None:
    page = Image.new("L", SIZE, 255)
    pen = ImageDraw.Draw(page)
    font = ImageFont.load_default(36)
    for number, line in enumerate(lines):
        pen.text((30, 30 + 70 * number), line, font=font, fill=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.save(path)


def write(root: Path, documents: list[dict[str, Any]], kind: str = "question-answering") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "manifest.toml").write_text(
        f'# a comment\nschema = 1\nname = "r"\n[task]\nkind = "{kind}"\n[membership]\nassigned = "random"\n'
    )
    (root / "documents.jsonl").write_text(
        "".join(json.dumps(document) + "\n" for document in documents)
    )
    return root


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for name, lines in (("a", LINES), ("b", ()), ("c", ("KEPT",))):
        draw(root / "images" / f"{name}.png", lines)
    question = {"id": "address", "question": "address?", "answers": ["17 jalan bukit indah johor"]}
    question["category"] = "location"
    plain = {"id": "total", "question": "total?", "answers": ["19.00"]}
    lost = {"id": "lost", "question": "date?", "answers": ["1/1/2020"], "category": "datetime"}
    word = {"text": "mine", "box": [1, 1, 20, 20]}
    pages = [{"id": "a", "split": "member", "questions": [question, plain, lost]}]
    pages += [{"id": "b", "split": "heldout", "size": [*SIZE]}]
    pages += [{"id": "c", "split": "heldout", "size": [*SIZE], "words": [word]}]
    return write(root, [{**page, "image": f"images/{page['id']}.png"} for page in pages])


@needs_tesseract
def test_words_boxes_and_answers_are_added(pages: Path) -> None:
    images = {path: path.read_bytes() for path in (pages / "images").iterdir()}
    before = (pages / "documents.jsonl").read_bytes()
    told = Told()
    added = add_words(pages, told)
    first, second, third = manifests.load(pages).documents
    assert (" ".join(word.text for word in first.words), first.size) == (" ".join(LINES), SIZE)
    x0, y0, x1, y1 = first.words[0].box or (0, 0, 0, 0)
    assert 20 <= x0 < x1 <= 300
    assert 25 <= y0 < y1 <= 80
    (entity,) = first.entities
    assert (entity.id, entity.category, first.text_of(entity)) == ("address", "location", LINES[1])
    assert ([question.entity for question in first.questions], second.words) == (
        ["address", None, None],
        (),
    )
    assert [word.text for word in third.words] == ["mine"]
    assert (added.read, added.words, added.had_words, added.empty, added.failed) == (
        1,
        9,
        1,
        ("b",),
        (),
    )
    assert (added.answers, added.not_located) == ({"exact": 1, "normalised": 1, "loose": 0}, 1)
    assert (added.unclassified, (told.total, told.done)) == (1, (2, 2))
    assert "# a comment" in (pages / "manifest.toml").read_text()
    assert (pages / ORIGINAL).read_bytes() == before
    assert {path: path.read_bytes() for path in (pages / "images").iterdir()} == images
    assert not list(pages.glob(".ocr-*"))


def fake_program(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program called tesseract, first in the path."""
    folder.mkdir()
    program = folder / "tesseract"
    languages = 'if [ "$1" = "--list-langs" ]; then echo "List:"; echo eng; exit; fi'
    program.write_text(
        f'#!/bin/sh\n{languages}\nif [ "$1" = "--version" ]; then echo fake; exit; fi\n{script}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


COLUMNS = (
    "level page_num block_num par_num line_num word_num left top width height conf text".replace(
        " ", "\\t"
    )
)
ROW = "5 1 1 1 1 1 690 30 60 20 90 HI".replace(" ", "\\t")


def test_a_run_that_was_ended_goes_on(
    pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = tmp_path / "count"
    fake_program(
        tmp_path / "bin",
        f"cat > /dev/null; echo x >> {counter}; printf '{COLUMNS}\n{ROW}\n'",
        monkeypatch,
    )
    before = (pages / "documents.jsonl").read_bytes()

    class Ended(Told):
        def advance(self, steps: int = 1) -> None:
            raise KeyboardInterrupt

    reader = PageReader(workers=1)
    with pytest.raises(KeyboardInterrupt):
        add_words(pages, Ended(), reader=reader)
    assert (pages / "documents.jsonl").read_bytes() == before
    done = len(counter.read_text().split())
    told = Told()
    added = add_words(pages, told, reader=reader)
    assert ((added.read, told.total), len(counter.read_text().split())) == ((2, 1), done + 1)
    word, *_ = manifests.load(pages).document("a").words
    assert (word.text, word.box) == ("HI", (690, 30, 700, 50))  # cut at the page's edge


def test_questions_without_a_category_are_told_what_to_write_where_and_get_fields_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_program(tmp_path / "bin", f"cat > /dev/null; printf '{COLUMNS}\n{ROW}\n'", monkeypatch)
    draw(tmp_path / "data" / "images" / "a.png", LINES)
    question = {"id": "greeting", "question": "greeting?", "answers": ["HI"]}
    page = {"id": "a", "split": "member", "image": "images/a.png", "questions": [question]}
    data = write(tmp_path / "data", [page])
    printed = " ".join(docaudit("ocr", data).output.split())
    before = data / ORIGINAL
    assert f"{before}" in printed
    assert "HI" not in printed
    line = re.search(r"An example: (\{.*?\})\.", printed)
    assert line is not None
    example = json.loads(line[1])
    assert example["category"] in CATEGORIES
    command = f"mv {before} {data / 'documents.jsonl'} && docaudit ocr {data}"
    assert command in printed
    question["category"] = example["category"]
    write(data, [page])
    before.unlink()
    docaudit("ocr", data)
    (entity,) = manifests.load(data).document("a").entities
    assert entity.category == example["category"]


def test_a_program_that_fails_leaves_all_as_it_is(
    pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_program(tmp_path / "bin", "exit 1", monkeypatch)
    before = (pages / "documents.jsonl").read_bytes()
    assert (add_words(pages, Told()).failed, (pages / "documents.jsonl").read_bytes()) == (
        ("a", "b"),
        before,
    )


def test_missing_program_and_language(
    pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_program(tmp_path / "bin", "exit 1", monkeypatch)
    ran = docaudit("ocr", pages, "--language", "eng+xyz")
    assert ran.exit_code == 2
    assert "no data for the language 'xyz'" in ran.output
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    ran = docaudit("ocr", pages)
    assert ran.exit_code == 2
    assert "Tesseract is not installed" in ran.output
    assert "tesseract-ocr" in ran.output
