"""Files in which users keep what their models learnt: Parquet, DatasetDict, spaCy, scans, lines."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools.strangers_sources import (
    QUESTIONS,
    READABLE,
    Page,
    Parts,
    draw,
    named,
    tag_names,
    write_lines,
)

SYSTEM = "You read bills."
"""The system turn of a chat about bills."""
CLASSES = ("invoice", "letter", "offer")
"""Classes of scanned documents, by the folders that they lie in."""
LINE = (160, 16)
"""Width and height in pixels of a picture of one line."""
WORDS_OF_LINE = 4
Turns = list[dict[str, str]]


def chats(page: Page) -> Iterator[Turns]:
    """Yield the chat of each question about the text of a page."""
    for name, question in QUESTIONS.items():
        yield [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"{page.text}\n\n{question}"},
            {"role": "assistant", "content": page.value(name)},
        ]


def write_chat_parquet(folder: Path, parts: Parts) -> None:
    """Write `chats` as the Hub has a data set: Parquet of `messages`, and its README."""
    import datasets

    (folder / "chats" / "data").mkdir(parents=True)
    (folder / "chats" / "README.md").write_text("---\nlicense: other\n---\n# Chats about bills\n")
    for part, pages in parts.items():
        messages: list[Turns] = []
        for page in pages:
            messages += chats(page)
        table = datasets.Dataset.from_dict({"messages": messages})
        table.to_parquet(folder / "chats" / "data" / f"{part}-00000-of-00001.parquet")


def page_as_json(page: Page) -> str:
    """Return the fields of a page as a model writes them."""
    return json.dumps({name: page.value(name) for name in page.fields})


def write_json_parquet(folder: Path, parts: Parts) -> None:
    """Write `bills` as the Hub has a data set: Parquet of images and a string of JSON."""
    import datasets

    (folder / "bills" / "data").mkdir(parents=True)
    kinds = datasets.Features({"image": datasets.Image(), "json": datasets.Value("string")})
    for part, pages in parts.items():
        rows = {
            "image": [{"bytes": _png(draw(page)), "path": None} for page in pages],
            "json": [page_as_json(page) for page in pages],
        }
        table = datasets.Dataset.from_dict(rows, kinds)
        table.to_parquet(folder / "bills" / "data" / f"{part}-00000-of-00001.parquet")


def _png(picture: Any) -> bytes:
    """Return a picture as the bytes of a PNG."""
    content = io.BytesIO()
    picture.save(content, format="PNG")
    return content.getvalue()


def write_dataset_dict(folder: Path, parts: Parts) -> None:
    """Save `forms`, a DatasetDict of images with words, boxes and tags as FUNSD's users have it."""
    import datasets

    every_page = [page for pages in parts.values() for page in pages]
    names = tag_names(every_page)
    kinds = datasets.Features(
        {
            "id": datasets.Value("string"),
            "image": datasets.Image(),
            "tokens": datasets.List(datasets.Value("string")),
            "bboxes": datasets.List(datasets.List(datasets.Value("int64"))),
            "ner_tags": datasets.List(datasets.ClassLabel(names=names)),
        }
    )
    tables = {}
    for part, pages in parts.items():
        rows = [_form(name, page, names) for name, page in named(part, pages)]
        tables[part] = datasets.Dataset.from_list(rows, kinds)
    datasets.DatasetDict(tables).save_to_disk(str(folder / "forms"))


def _form(name: str, page: Page, names: Sequence[str]) -> dict[str, Any]:
    """Return a page as a row of a data set."""
    return {
        "id": name,
        "image": {"bytes": _png(draw(page)), "path": None},
        "tokens": [*page.words],
        "bboxes": [[round(side) for side in box] for box in page.boxes],
        "ner_tags": [names.index(tag) for tag in page.tags()],
    }


def write_spacy(folder: Path, parts: Parts) -> None:
    """Write `train.json` and `test.json` in spaCy's form: texts with places of their entities."""
    for part, pages in parts.items():
        rows = [[page.text, {"entities": _entities(page)}] for page in pages]
        (folder / f"{part}.json").write_text(json.dumps(rows))


def _entities(page: Page) -> list[tuple[int, int, str]]:
    """Return begin, end and label of each field in the text of a page."""
    places = []
    for name, (index, *_) in page.fields.items():
        begin = sum(len(word) + 1 for word in page.words[:index])
        places.append((begin, begin + len(page.value(name)), name.upper()))
    return places


def classes_of(pages: Sequence[Page]) -> list[str]:
    """Draw the class of each page, which no word of it reveals."""
    return [random.Random(page.text).choice(CLASSES) for page in pages]


def write_tiffs(folder: Path, parts: Parts) -> None:
    """Write `scans/PART/CLASS/NAME.tif`, each document a TIFF of two pages as scanners write it."""
    for part, pages in parts.items():
        for label in CLASSES:
            (folder / "scans" / part / label).mkdir(parents=True)
        for (name, page), label in zip(named(part, pages), classes_of(pages), strict=True):
            frames = [draw(half, READABLE).convert("1") for half in halves(page)]
            path = folder / "scans" / part / label / f"{name}.tif"
            frames[0].save(path, save_all=True, append_images=frames[1:], compression="group4")


def halves(page: Page) -> tuple[Page, Page]:
    """Divide a page into two of half its words."""
    middle = len(page.words) // 2
    boxes = page.boxes[: len(page.words) - middle]
    return (
        Page(page.words[:middle], {}, boxes[:middle]),
        Page(page.words[middle:], {}, boxes),
    )


def line_of(page: Page) -> str:
    """Return the first words of a page, as one line of it."""
    return " ".join(page.words[:WORDS_OF_LINE])


def draw_line(text: str) -> Any:
    """Draw a line of text."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", LINE, "white")
    font = ImageFont.load_default(size=11)
    ImageDraw.Draw(picture).text((2, 1), text, fill="black", font=font)
    return picture


def write_line_images(folder: Path, parts: Parts) -> None:
    """Write a folder of images of lines for each part, with `text` in `metadata.jsonl`."""
    for part, pages in parts.items():
        (folder / part).mkdir()
        rows = []
        for name, page in named(part, pages):
            draw_line(line_of(page)).save(folder / part / f"{name}.png")
            rows.append({"file_name": f"{name}.png", "text": line_of(page)})
        write_lines(folder / part / "metadata.jsonl", rows)


def write_chat_lines(folder: Path, parts: Parts) -> None:
    """Write `train.jsonl` and `test.jsonl` of chats, as a service is fine-tuned with them."""
    for part, pages in parts.items():
        rows = [{"messages": turns} for page in pages for turns in chats(page)]
        write_lines(folder / f"{part}.jsonl", rows)
