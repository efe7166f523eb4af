"""Texts with a tag for each word (CoNLL), or with labelled spans of characters (spaCy, Prodigy, Doccano)."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from audit.corpus.documents import Word
from audit.errors import ManifestError
from audit.importers.columns import Columns, add_spans, fields_of_tags
from audit.importers.files import read_text
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, Part, clean, part_of
from audit.importers.source import Source

ENDINGS = (".conll", ".conllu", ".bio", ".bioes", ".iob", ".iob2", ".train", ".testa", ".testb")
_BEGINS = re.compile(r"-DOCSTART-|#\s*newdoc\b(?:\s+id\s*=\s*(.+))?")
_TAG = re.compile(r"O|[BIESLUM]-.+")
_TAGGED_LINES = r"(?m)^-DOCSTART-|^# newdoc|[ \t]O\n\S+[ \t](?:[^\n]*[ \t])?(?:O|[BI]-\S+)$"
_NUMBER = re.compile(r"\d+(?:[-.]\d+)?")
_IN_FEATURES = re.compile(r"(?:^|\|)(?:NER|NE|name|entity)=([^|]+)", re.IGNORECASE)
"""A tag among the features of a word, the last column of CoNLL-U."""

_Row = list[str] | str | None
"""The columns of a word; the id of a document that begins, or ""; None: a blank line."""
_Sentence = list[tuple[str, str]]
"""Words with their tags."""


class CoNLL(Importer):
    """One document for each -DOCSTART- or `# newdoc`, else one for each sentence.

    Blank lines part sentences.

    Columns are parted by tabs, else by spaces. The word is the first, or follows its number. Its
    tag is in the last column that holds "O" or "B-NAME", in the first such column behind a number,
    or among the features.
    """

    name = "conll"
    description = "CoNLL files (2003, CoNLL-U): a word and its tag on each line"
    marks = (*((f"*{ending}", "") for ending in ENDINGS), ("*.txt", _TAGGED_LINES))

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        for path in source.files(
            *ENDINGS, ".txt", ".tsv", hint="give the file, or the folder that holds it"
        ):
            with source.problems.catch(f"{path}:"):
                rows = [*_rows(read_text(source.at(path)))]
                for number, (name, sentences) in enumerate(_documents(rows)):
                    page = Page(
                        clean(name) or f"{path.replace('/', '-')}-{number:06d}", part=_part(path)
                    )
                    page.place = f"{path}: document {number + 1}"
                    _fill(page, sentences)
                    yield page


def _part(path: str) -> Part | None:
    """Return the part that a path speaks of, also by its ending (eng.testa)."""
    return part_of(f"{path.replace('.', ' ')}.txt")


def _rows(text: str) -> Iterator[_Row]:
    """Yield the lines of a file, without comments.

    Raises:
        ManifestError: a line has another number of columns than those before.
    """
    tabs, width = "\t" in text, 0
    for number, line in enumerate(text.split("\n"), start=1):
        cells = [cell.strip() for cell in line.split("\t")] if tabs else line.split()
        begins = _BEGINS.match(line)
        if begins:
            yield begins[1] or ""
        elif not any(cells):
            yield None
        elif line[0] != "#" or (len(cells) > 1 if tabs else _TAG.fullmatch(cells[-1])):
            width = width or len(cells)
            if len(cells) != width:
                raise ManifestError(
                    f"line {number}: {len(cells)} columns, and {width} in the lines before"
                )
            yield cells


def _documents(rows: Sequence[_Row]) -> Iterator[tuple[str, list[_Sentence]]]:
    """Yield the id of each document, and its sentences.

    Raises:
        ManifestError: no column holds tags.
    """
    words = [row for row in rows if isinstance(row, list)]
    numbered = bool(words) and all(_NUMBER.fullmatch(row[0]) for row in words)
    places = range(1 + numbered, len(words[0]) if words else 0)
    columns = [place for place in places if any(_TAG.fullmatch(row[place]) for row in words)]
    column = None if not columns else columns[0] if numbered else columns[-1]
    if column is None and not any(_IN_FEATURES.search(row[-1]) for row in words):
        raise ManifestError("no column holds tags, O or B-NAME")
    whole = any(isinstance(row, str) for row in rows)
    name, sentences, sentence = "", list[_Sentence](), _Sentence()
    for row in [*rows, None, ""]:
        if isinstance(row, list):
            if clean(row[numbered]) and not (numbered and not row[0].isdigit()):
                found = _IN_FEATURES.search(row[-1]) if column is None else None
                sentence.append(
                    (row[numbered], row[column] if column else found[1] if found else "O")
                )
            continue
        sentences += [sentence] if sentence else []
        sentence = []
        if sentences and (row is not None or not whole):
            yield name, sentences
            sentences = []
        name = name if row is None else row


def _fill(page: Page, sentences: Sequence[_Sentence]) -> None:
    """Add sentences to a page: a paragraph each where there are several."""
    words, starts = list[Word](), list[int]()
    for sentence in sentences:
        starts.append(len(words))
        words += [Word(text) for text, _ in sentence]
        for label, inside in fields_of_tags([tag for _, tag in sentence]):
            own = tuple(starts[-1] + index for index in inside)
            page.fields.append(
                Field(label, own, value=" ".join(words[index].text for index in own))
            )
    page.words, page.paragraphs = words, tuple(starts) if len(starts) > 1 else ()


class Spans(Importer):
    """One document a line: its text, and spans of characters with a label."""

    name = "spans"
    description = "JSON lines of a text and spans of its characters (spaCy, Prodigy, Doccano)"
    marks = tuple(
        (name, r'"(entities|spans|labels?)":\s*\[\s*(\[|\{[^{}]*"(start|end)\w*":)')
        for name in ("*.jsonl", "*.json")
    )

    def pages(self, source: Source) -> Iterator[Page]:
        """See `Importer.pages`."""
        for path in source.files(
            ".jsonl", ".json", hint="give the file, or the folder that holds it"
        ):
            with source.problems.catch():
                for number, (place, row) in enumerate(source.records(path)):
                    with source.problems.catch(f"{place}:"):
                        page = _read_spans(source, place, row)
                        if page is not None:
                            page.name = page.name or f"{path.replace('/', '-')}-{number:06d}"
                            page.part = part_of(path)
                            yield page


def _read_spans(source: Source, place: str, row: Any) -> Page | None:
    """Read a text with its spans; None where the annotator did not accept it.

    Raises:
        ManifestError: a span is none of the text, or has another form.
        UsageError: there is no text with spans.
    """
    if isinstance(row, list) and len(row) == 2 and isinstance(row[1], dict):  # spaCy 2
        row = {"text": row[0], **row[1]}
    columns = Columns(row if isinstance(row, dict) else (), named=source.options.columns)
    text, spans, name = (columns.value(row, meaning) for meaning in ("text", "spans", "name"))
    if not isinstance(text, str) or not isinstance(spans, list):
        raise columns.refusal(place, "no text with a list of spans")
    if row.get("answer", "accept") != "accept":
        source.notes["texts that an annotator did not accept, left out"] += 1
        return None
    page = Page(
        clean(str(name)) if isinstance(name, str | int) else "",
        provider=source.provider(row),
        place=place,
    )
    add_spans(page, text, spans)
    return page
