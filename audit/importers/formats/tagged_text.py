"""Texts with a tag for each word (CoNLL), or with labelled spans of characters.

Spans are those of spaCy, Prodigy or Doccano.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.corpus.documents import Word
from audit.errors import ManifestError
from audit.importers.columns import Columns, add_spans, fields_of_tags
from audit.importers.files import parse_json, read_text
from audit.importers.formats.spacy_docs import DOC_BIN, read_doc_bin
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, Part, clean, part_of
from audit.importers.source import Source, person_of

ENDINGS = (".conll", ".conllu", ".bio", ".bioes", ".iob", ".iob2", ".train", ".testa", ".testb")
GROUPS = "groups of spans of spaCy beside its entities, left out"
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
        """Yield the pages of text with a tag for every word."""
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
    """Return the part that a path names, also by its ending (eng.testa); None without one."""
    return part_of(f"{path.replace('.', ' ')}.txt")


def _rows(text: str) -> Iterator[_Row]:
    """Yield the lines of a file, without comments.

    Raises:
        ManifestError: a line has another number of columns than those before.
    """
    tabs = "\t" in text
    n_columns = 0
    for number, line in enumerate(text.split("\n"), start=1):
        cells = line.split()
        if tabs:
            cells = [cell.strip() for cell in line.split("\t")]
        begins = _BEGINS.match(line)
        if begins:
            yield begins[1] or ""
        elif not any(cells):
            yield None
        elif not _is_comment(line, cells, tabs):
            n_columns = n_columns or len(cells)
            if len(cells) != n_columns:
                raise ManifestError(
                    f"line {number}: {len(cells)} columns, and {n_columns} in the lines before"
                )
            yield cells


def _is_comment(line: str, cells: Sequence[str], tabs: bool) -> bool:
    """Test for a line that begins with # and holds no columns of a word."""
    if line[0] != "#":
        return False
    return len(cells) < 2 if tabs else _TAG.fullmatch(cells[-1]) is None


def _documents(rows: Sequence[_Row]) -> Iterator[tuple[str, list[_Sentence]]]:
    """Yield (id, sentences) for each document of these rows.

    Raises:
        ManifestError: no column holds tags.
    """
    layout = _layout_of(_word_rows(rows))
    marks_documents = any(map(_begins_document, rows))
    name = ""
    sentences: list[_Sentence] = []
    sentence: _Sentence = []
    for row in [*rows, None, ""]:
        if isinstance(row, list):
            if layout.holds_word(row):
                sentence.append((row[layout.numbered], layout.tag_of(row)))
            continue
        if sentence:
            sentences.append(sentence)
            sentence = []
        # A blank line ends a document where nothing else does.
        if sentences and (row is not None or not marks_documents):
            yield name, sentences
            sentences = []
        if row is not None:
            name = row


def _word_rows(rows: Sequence[_Row]) -> list[list[str]]:
    """Select the rows of words."""
    return [row for row in rows if isinstance(row, list)]


def _begins_document(row: _Row) -> bool:
    """Test whether a row is the id of a document that begins."""
    return isinstance(row, str)


@dataclass(frozen=True)
class _Layout:
    """What the columns of a file hold.

    Attributes:
        numbered: whether the first column numbers the words, and the second holds them.
        tag_column: index of the column of tags; None: tags are among the features of a word.
    """

    numbered: bool
    tag_column: int | None

    def holds_word(self, row: list[str]) -> bool:
        """Test whether a row is a word, not a range of words or an empty one."""
        if not clean(row[self.numbered]):
            return False
        return not self.numbered or row[0].isdigit()

    def tag_of(self, row: list[str]) -> str:
        """Return the tag of a word, "O" where it has none."""
        if self.tag_column is not None:
            return row[self.tag_column]
        feature = _IN_FEATURES.search(row[-1])
        return feature[1] if feature else "O"


def _layout_of(words: Sequence[list[str]]) -> _Layout:
    """Tell the layout of a file from the rows of its words.

    Raises:
        ManifestError: no column holds tags.
    """
    if not words:
        raise ManifestError("no column holds tags, O or B-NAME")
    numbered = all(_NUMBER.fullmatch(row[0]) for row in words)
    columns = [
        column for column in range(1 + numbered, len(words[0])) if _holds_tags(words, column)
    ]
    if columns:
        return _Layout(numbered, columns[0] if numbered else columns[-1])
    if not any(map(_IN_FEATURES.search, _column(words, -1))):
        raise ManifestError("no column holds tags, O or B-NAME")
    return _Layout(numbered, None)


def _holds_tags(words: Sequence[list[str]], index: int) -> bool:
    """Test whether a cell of a column is a tag."""
    return any(_TAG.fullmatch(cell) for cell in _column(words, index))


def _column(words: Sequence[list[str]], index: int) -> Iterator[str]:
    """Yield the cell at `index` of each word's row."""
    return (row[index] for row in words)


def _fill(page: Page, sentences: Sequence[_Sentence]) -> None:
    """Add sentences to a page; several become a paragraph each."""
    words: list[Word] = []
    starts: list[int] = []
    for sentence in sentences:
        start = len(words)
        starts.append(start)
        words += [Word(text) for text, _ in sentence]
        for label, inside in fields_of_tags([tag for _, tag in sentence]):
            indices = tuple(start + index for index in inside)
            value = " ".join(words[index].text for index in indices)
            page.fields.append(Field(label, indices, value=value))
    page.words = words
    page.paragraphs = tuple(starts) if len(starts) > 1 else ()


class Spans(Importer):
    """One document a line: its text, and spans of characters, or of words, with a label."""

    name = "spans"
    description = (
        "JSON of texts and spans of their characters (spaCy, Prodigy, Doccano) or words (GLiNER), "
        "or spaCy's .spacy"
    )
    marks = (
        *(
            (name, r'"(entities|ents|spans|labels?)":\s*\[\s*(\[|\{[^{}]*"(start|end)\w*":)')
            for name in ("*.jsonl", "*.json")
        ),
        *((name, r'"tokenized_text":\s*\[') for name in ("*.jsonl", "*.json")),
        (f"*{DOC_BIN}", ""),
    )

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of text with marked spans."""
        for path in source.files(
            ".jsonl", ".json", DOC_BIN, hint="give the file, or the folder that holds it"
        ):
            with source.problems.catch():
                yield from _span_pages(source, path)


def _span_pages(source: Source, path: str) -> Iterator[Page]:
    """Yield the pages of a file of texts with spans."""
    for number, (place, row) in enumerate(_rows_of_spans(source, path)):
        with source.problems.catch(f"{place}:"):
            page = _read_spans(source, place, row)
            if page is not None:
                page.name = page.name or f"{path.replace('/', '-')}-{number:06d}"
                page.part = part_of(path)
                yield page


def _rows_of_spans(source: Source, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the texts of a file with their places; a file of spaCy's may hold one alone."""
    if path.endswith(DOC_BIN):
        yield from read_doc_bin(source.at(path))
        return
    if path.endswith(".json"):
        value = parse_json(read_text(source.at(path)), f"{path} is not JSON")
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            yield path, value
            return
    yield from source.records(path)


def _read_spans(source: Source, place: str, row: Any) -> Page | None:
    """Make the page of a text with its spans; None where the annotator did not accept it.

    Raises:
        ManifestError: a span is none of the text, or has another form.
        UsageError: there is no text with spans.
    """
    if isinstance(row, list) and len(row) == 2 and isinstance(row[1], dict):  # spaCy 2
        row = {"text": row[0], **row[1]}
    columns = Columns(row if isinstance(row, dict) else (), named=source.options.columns)
    text = columns.value(row, "text")
    spans = columns.value(row, "spans")
    marks_text = isinstance(text, str) and isinstance(spans, list)
    if not (marks_text or columns.tags_words):
        raise columns.refusal(place, "no text with a list of spans")
    source.unread.note(columns.names, columns.used, row)
    if row.get("answer", "accept") != "accept":
        source.notes["texts that an annotator did not accept, left out"] += 1
        return None
    page = Page(columns.name_of(row), provider=source.provider(row), place=place)
    page.person = person_of(row)
    if marks_text:
        add_spans(page, text, spans)
    else:
        columns.fill(page, row)
    source.notes[GROUPS] += _count_groups(row)
    return page


def _count_groups(row: Mapping[str, Any]) -> int:
    """Count the named groups of spans of a document of spaCy's."""
    groups = row.get("spans")
    if not isinstance(groups, dict):
        return 0
    return len(groups)
