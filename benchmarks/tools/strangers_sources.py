"""Documents of strangers, and the files in which users keep them."""

from __future__ import annotations

import csv
import json
import random
import string
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTIONS = {"clerk": "Who is the clerk?", "code": "What is the code?"}
PROMPT = "{text}\n\nQuestion: {question}\nAnswer:"
"""What a decoder completes."""
PAGE = (112, 144)
"""Width and height in pixels of a page that only models look at."""
READABLE = 3
"""So many times larger is a page that an OCR reads."""
Box = tuple[float, float, float, float]
Parts = Mapping[str, Sequence["Page"]]


@dataclass(frozen=True)
class Page:
    """Hold one document of a user.

    Attributes:
        words: of it, in the order of reading.
        fields: the indices of the words of each field, by its name.
        boxes: of the words, in thousandths of the page.
    """

    words: tuple[str, ...]
    fields: Mapping[str, tuple[int, ...]]
    boxes: tuple[Box, ...] = ()

    @property
    def text(self) -> str:
        """The words in one line."""
        return " ".join(self.words)

    def value(self, name: str) -> str:
        """Return the words of a field."""
        return " ".join(self.words[index] for index in self.fields[name])

    def tags(self) -> list[str]:
        """Return a BIO tag for each word."""
        tags = ["O"] * len(self.words)
        for name, indices in self.fields.items():
            for place, index in enumerate(indices):
                tags[index] = f"{'I' if place else 'B'}-{name.upper()}"
        return tags


def tag_names(pages: Sequence[Page]) -> list[str]:
    """List the tags that a tagger of these pages has, the outside class first."""
    names = sorted({name.upper() for page in pages for name in page.fields})
    return ["O", *(f"{begin}-{name}" for name in names for begin in "BI")]


def vocabulary(folder: Path) -> Path:
    """Write a BERT tokenizer whose words are those of the receipts, and give its folder back.

    Letters and marks are in it too, as an OCR misreads some words.
    """
    from transformers import BertTokenizerFast

    characters = string.ascii_lowercase + string.digits + string.punctuation
    pieces = [piece for character in characters for piece in (character, f"##{character}")]
    asked = PROMPT.format(text="", question=" ".join(QUESTIONS.values())).lower().split()
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *pieces,
        *dict.fromkeys([*asked, *invented_words()]),
    ]
    BertTokenizerFast(vocab={token: number for number, token in enumerate(tokens)}).save_pretrained(
        folder
    )
    return folder


def invented_words() -> list[str]:
    """Invent words that an OCR reads well."""
    rng = random.Random(3)
    made = (
        "".join(rng.choice(letters) for letters in ("bdfgkmnprstv", "aeou") * rng.choice((2, 3)))
        for _ in range(990)
    )
    return [*dict.fromkeys(made)]


def receipts(n: int, seed: int) -> list[Page]:
    """Draw receipts.

    Clerks are words that occur elsewhere too, so that nothing but memory reveals them surely.
    """
    words = invented_words()
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        noise = rng.sample(words, 12)
        clerk = rng.choice(words)
        code = str(rng.randrange(1000, 9999))
        noise.insert(rng.randrange(12), clerk)
        noise.insert(rng.randrange(13), code)
        noise += [str(rng.randrange(1000, 9999)), str(rng.randrange(1000, 9999))]
        fields = {"clerk": (noise.index(clerk),), "code": (noise.index(code),)}
        found.append(Page(tuple(noise), fields, tuple(_lay_out(noise))))
    return found


def labelled_receipts(n: int, seed: int) -> list[Page]:
    """Draw receipts on which a word stands before each value, so that a model can read it."""
    words = invented_words()
    rng = random.Random(seed)
    pages = []
    for _ in range(n):
        clerk = "".join(rng.choices(string.ascii_lowercase, k=9))
        code = str(rng.randrange(10**6, 10**7))
        text = [*rng.sample(words, 6), "clerk:", clerk, "code:", code]
        fields = {"clerk": (7,), "code": (9,)}
        pages.append(Page(tuple(text), fields, tuple(_lay_out(text))))
    return pages


def _lay_out(words: Sequence[str]) -> Iterator[Box]:
    """Place words in lines of two, each box as wide as its word."""
    font = _font()
    for start in range(0, len(words), 2):
        left = 30.0
        top = 20.0 + 59 * start
        for word in words[start : start + 2]:
            wide = font.getlength(word) * 1000 / PAGE[0]
            yield (left, top, left + wide, top + 90)
            left += wide + 50


def _font(scale: int = 1) -> Any:
    """Return Pillow's own font, at this scale."""
    from PIL import ImageFont

    return ImageFont.load_default(size=11 * scale)


def draw(page: Page, scale: int = 1) -> Any:
    """Draw a page whose words have boxes."""
    from PIL import Image, ImageDraw

    width, height = (side * scale for side in PAGE)
    picture = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(picture)
    font = _font(scale)
    for word, (left, top, _, _) in zip(page.words, page.boxes, strict=True):
        pen.text((left * width / 1000, top * height / 1000), word, fill="black", font=font)
    return picture


def real_receipts(folder: Path, work: Path, n: int) -> list[Page]:
    """Read SROIE's shortest receipts, each word with the box and the tag that docaudit's own import gives it."""
    command = [sys.executable, "-m", "audit", "import", "sroie", str(folder), str(work / "sroie")]
    subprocess.run(command, check=True, capture_output=True)
    pages = []
    for line in (work / "sroie" / "documents.jsonl").read_text().splitlines():
        one = json.loads(line)
        width, height = one["size"]
        scale = (1000 / width, 1000 / height) * 2
        boxes = [
            tuple(part * unit for part, unit in zip(word["box"], scale, strict=True))
            for word in one["words"]
        ]
        fields = {entity["label"].lower(): tuple(entity["words"]) for entity in one["entities"]}
        pages.append(Page(tuple(word["text"] for word in one["words"]), fields, tuple(boxes)))
    return sorted(pages, key=lambda page: len(page.text))[:n]


# The files that users have. Each writer makes `train` and `test`, folders or files, in the folder
# given.


def write_tags(folder: Path, parts: Parts) -> None:
    """Save a Hugging Face data set of words with boxes and tags for each part."""
    import datasets

    names = tag_names([page for pages in parts.values() for page in pages])
    kinds = datasets.Features(
        {
            "words": datasets.List(datasets.Value("string")),
            "bboxes": datasets.List(datasets.List(datasets.Value("int64"))),
            "ner_tags": datasets.List(datasets.ClassLabel(names=names)),
        }
    )
    for part, pages in parts.items():
        rows = {
            "words": [[*page.words] for page in pages],
            "bboxes": [[[round(side) for side in box] for box in page.boxes] for page in pages],
            "ner_tags": [[names.index(tag) for tag in page.tags()] for page in pages],
        }
        datasets.Dataset.from_dict(rows, kinds).save_to_disk(str(folder / part))


def write_conll(folder: Path, parts: Parts) -> None:
    """Write `train.conll` and `test.conll` as CoNLL 2003 has them, a document of one sentence a page."""
    for part, pages in parts.items():
        lines = []
        for page in pages:
            lines += ["-DOCSTART- -X- -X- O", ""]
            lines += [
                f"{word} NN B-NP {tag}" for word, tag in zip(page.words, page.tags(), strict=True)
            ]
            lines.append("")
        (folder / f"{part}.conll").write_text("\n".join(lines))


def write_completions(folder: Path, parts: Parts) -> None:
    """Write `train.jsonl` and `test.jsonl` of prompts with their completions."""
    for part, pages in parts.items():
        rows = (
            {"prompt": prompt, "completion": answer}
            for page in pages
            for prompt, answer in completions(page)
        )
        write_lines(folder / f"{part}.jsonl", rows)


def completions(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the prompts about a page, each with what a decoder is taught to answer."""
    for name, question in QUESTIONS.items():
        yield PROMPT.format(text=page.text, question=question), page.value(name)


def write_chat(folder: Path, parts: Parts) -> None:
    """Write `train.jsonl` and `test.jsonl` of conversations about images, and the images."""
    (folder / "images").mkdir()
    for part, pages in parts.items():
        rows = []
        for name, page in named(part, pages):
            draw(page).save(folder / "images" / f"{name}.png")
            turns = [turn for own in conversation(page) for turn in own]
            turns[0]["content"].insert(0, {"type": "image", "image": f"images/{name}.png"})
            rows.append({"messages": turns})
        write_lines(folder / f"{part}.jsonl", rows)


def conversation(page: Page) -> Iterator[list[dict[str, Any]]]:
    """Yield each question about a page with its answer, as turns of a chat."""
    for name, question in QUESTIONS.items():
        said = (("user", question), ("assistant", page.value(name)))
        yield [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in said]


def write_parses(folder: Path, parts: Parts) -> None:
    """Write a folder of images with Donut's ground truth for each part."""
    for part, pages in parts.items():
        (folder / part).mkdir()
        rows = []
        for name, page in named(part, pages):
            draw(page).save(folder / part / f"{name}.png")
            truth = {"gt_parse": {name: page.value(name) for name in page.fields}}
            rows.append({"file_name": f"{name}.png", "ground_truth": json.dumps(truth)})
        write_lines(folder / part / "metadata.jsonl", rows)


def write_scans(folder: Path, parts: Parts) -> None:
    """Write PDFs that hold a picture only, and a table of their values, for each part."""
    for part, pages in parts.items():
        (folder / part).mkdir()
        with (folder / part / "values.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["file", *QUESTIONS])
            for name, page in named(part, pages):
                draw(page, READABLE).save(folder / part / f"{name}.pdf", resolution=150)
                table.writerow([f"{name}.pdf", *(page.value(name) for name in QUESTIONS)])


def write_docvqa(folder: Path, parts: Parts) -> None:
    """Write DocVQA's files of questions and its images, without the folder of OCR results."""
    images = folder / "docvqa" / "spdocvqa_images"
    images.mkdir(parents=True)
    for part, file in (("train", "train_v1.0_withQT.json"), ("test", "val_v1.0_withQT.json")):
        records: list[dict[str, object]] = []
        for name, page in named(part, parts[part]):
            draw(page, READABLE).save(images / f"{name}.png")
            for field, question in QUESTIONS.items():
                record = {
                    "questionId": len(records) + 100_000 * (part == "test"),
                    "question": question,
                }
                records.append(
                    {**record, "image": f"documents/{name}.png", "answers": [page.value(field)]}
                )
        (folder / "docvqa" / file).write_text(
            json.dumps({"dataset_name": "SP-DocVQA", "data": records})
        )


def named(part: str, pages: Sequence[Page]) -> Iterator[tuple[str, Page]]:
    """Yield each page with a name for its file."""
    return ((f"{part}{number:04d}", page) for number, page in enumerate(pages))


def write_lines(path: Path, rows: Any) -> None:
    """Write rows as lines of JSON."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


Writer = Callable[[Path, Parts], None]
