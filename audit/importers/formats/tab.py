"""The Text Anonymization Benchmark (Pilan et al. 2022).

Its files are `echr_*.json`, or `texts.json` and `mentions.json`.

The files that the benchmark comes in are a list of court cases each. A case has its text and
`annotations`, by annotator, each with `entity_mentions` (or these at once, an entry for each
annotator). Hidden is what one annotator marked as DIRECT or QUASI: the one whose work was checked
by others, else the first. Of the two files, the first holds {document: text}, the second {document:
[[start, end, CATEGORY], ...]}. Offsets count characters.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, StrictInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import Category, Redaction
from audit.errors import ManifestError, UsageError
from audit.files import decode_text
from audit.importers import pages as drafts
from audit.importers.faults import name_of, problems_of_form
from audit.importers.files import read_json, read_source
from audit.importers.interface import Importer
from audit.importers.pages import Page, Part, Span, clean, split_words
from audit.importers.source import Source

Label = Literal["PERSON", "CODE", "LOC", "ORG", "DEM", "DATETIME", "QUANTITY", "MISC"]
LABELS: Mapping[Label, Category] = {
    "PERSON": "person",
    "CODE": "code",
    "LOC": "location",
    "ORG": "organization",
    "DEM": "demographic",
    "DATETIME": "datetime",
    "QUANTITY": "quantity",
    "MISC": "misc",
}
PATTERN = "echr_*.json"
TEXTS = "texts.json"
MENTIONS = "mentions.json"
PARTS: Mapping[str, Part] = {"train": "train", "dev": "validation", "test": "validation"}
MASKED = ("DIRECT", "QUASI")
CUT = "mentions that begin or end inside a word"
BARE = "documents without a mention"
# When a document's offsets are doubted: so many of its mentions begin or end inside a word, and
# this share of them. In TAB it is at most 2 of a document, but 40 % and more with offsets shifted,
# in bytes, or made without "\r".
MIN_CUT = 3
MAX_CUT = 0.25
_LOOSE = ConfigDict(hide_input_in_errors=True)
_Marked = tuple[StrictInt, StrictInt, Label]
_texts_type = TypeAdapter(dict[str, str])
_mentions_type = TypeAdapter(dict[str, list[_Marked]])


@strict_dataclass(frozen=True, config=_LOOSE)
class _Mention:
    start: StrictInt = Field(validation_alias="start_offset")
    end: StrictInt = Field(validation_alias="end_offset")
    kind: str = Field(validation_alias="entity_type")
    masked: str = Field(default="DIRECT", validation_alias="identifier_type")


@strict_dataclass(frozen=True, config=_LOOSE)
class _Annotation:
    mentions: tuple[_Mention, ...] = Field(validation_alias="entity_mentions")


@strict_dataclass(frozen=True, config=_LOOSE)
class _Case:
    text: str
    name: str = Field(validation_alias="doc_id")
    annotations: dict[str, _Annotation] = Field(default_factory=dict)
    mentions: tuple[_Mention, ...] | None = Field(default=None, validation_alias="entity_mentions")
    checked: bool = Field(default=False, validation_alias="quality_checked")


_cases_type = TypeAdapter(list[_Case])


@dataclass(frozen=True)
class _Text:
    """A text, its mentions and its part."""

    text: str
    mentions: Sequence[_Marked]
    part: Part = "train"


class TAB(Importer):
    """One document a text, and each mention a redacted span, an entity.

    Words are separated by white space, and divided where a mention begins or ends inside one: so
    every span is whole words, and the punctuation beside it is a word of its own. Of mentions that
    overlap, the longest is kept; of those of equal length the first in the text, then the first in
    the file. A blank line begins a paragraph (`Document.paragraphs`), for headings end no sentence;
    a single line end does not (paper, appendix A.1). The manifest says that values are hidden under
    a mask of one length, the one that shows least of them and leaves the text as it is; the
    benchmark hides nothing itself. A source is refused when a mention is outside its text, when the
    offsets do not fit the texts, and when there is no mention at all.
    """

    name = "tab"
    description = "echr_train.json, echr_dev.json, echr_test.json; or texts.json, mentions.json"
    tasks = ("mlm", "token-classification")
    labels = tuple(LABELS)
    providers = recognises = False
    marks = ((MENTIONS, ""), (PATTERN, '"doc_id":'))

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of TAB as it is published."""
        is_official = any(source.path.glob(PATTERN))
        texts = _read_official(source) if is_official else _read_two_files(source)
        if not any(text.mentions for text in texts.values()):
            source.problems.add("", [f"{MENTIONS}: no mention in any text, so nothing is redacted"])
        source.redaction = Redaction("fixed")
        for number, (name, text) in enumerate(sorted(texts.items()), start=1):
            place = f"document {number} by name"
            faults = [*_mention_problems(text)]
            source.problems.add(place, faults)
            if not faults:
                source.notes[CUT] += sum(
                    _cuts_word(text.text, mention) for mention in text.mentions
                )
                source.notes[BARE] += not text.mentions
                page = page_of(name, text.text, text.mentions, text.part)
                page.place = place
                yield page


def _read_official(source: Source) -> dict[str, _Text]:
    """Return the cases of TAB's official files as texts, by name.

    Raises:
        ManifestError: a file is broken, or a case is in two files or has two texts; all problems
            are listed.
    """
    cases = _read_cases(source)
    marked = {name: _marked_mentions(case) for name, (case, _) in cases.items()}
    for number, mentions in enumerate(marked.values(), start=1):
        if mentions is None:
            source.problems.add(f"case {number}:", ["no entity_mentions"])
    source.problems.raise_if_any()
    spans = {name: _masked_spans(mentions or ()) for name, mentions in marked.items()}
    try:
        checked = _mentions_type.validate_python(spans)
    except ValidationError as error:
        raise ManifestError([*problems_of_form(error)]) from None
    return {name: _Text(case.text, checked[name], part) for name, (case, part) in cases.items()}


def _read_cases(source: Source) -> dict[str, tuple[_Case, Part]]:
    """Read the cases of the official files, by name, each with its part.

    Of several entries of a case the first that was checked is taken, else the first. Broken files,
    and entries that contradict each other, are problems of the source.
    """
    cases: dict[str, tuple[_Case, Part]] = {}
    for path in sorted(source.path.glob(PATTERN)):
        part = PARTS.get(path.stem.removeprefix("echr_"))
        with source.problems.catch():
            if part is None:
                raise ManifestError(f"{name_of(path)}: the name says none of {', '.join(PARTS)}")
            cases_of_file = read_json(source.at(path.name), _cases_type)
            for number, case in enumerate(cases_of_file):
                first, first_part = cases.setdefault(case.name, (case, part))
                if first.text != case.text or first_part != part:
                    source.problems.add(
                        f"{name_of(path)}[{number}]:",
                        ["another text or part than in an earlier entry of its name"],
                    )
                elif case.checked and not first.checked:
                    cases[case.name] = case, part
    return cases


def _marked_mentions(case: _Case) -> tuple[_Mention, ...] | None:
    """Return the mentions of a case's first annotator, or its own; None where it has none."""
    for annotation in case.annotations.values():
        return annotation.mentions
    return case.mentions


def _masked_spans(mentions: Sequence[_Mention]) -> list[tuple[int, int, str]]:
    """Return (begin, end, kind) of the mentions that an annotator marked for masking."""
    return [
        (mention.start, mention.end, mention.kind)
        for mention in mentions
        if mention.masked in MASKED
    ]


def _read_two_files(source: Source) -> dict[str, _Text]:
    """Return the texts with mentions, by name, from the two files of docaudit's layout."""
    missing = [name for name in (TEXTS, MENTIONS) if not (source.path / name).is_file()]
    if missing:
        hint = f"give the folder with echr_train.json, or with {TEXTS} and {MENTIONS}"
        raise UsageError(f"{source.path} holds no {' and no '.join(missing)}", hint)
    texts = read_json(_checked_utf8(source, TEXTS), _texts_type)
    mentions = read_json(_checked_utf8(source, MENTIONS), _mentions_type)
    n_alone = len(mentions.keys() - texts.keys())
    source.problems.add("", [f"{TEXTS}: a document of {MENTIONS} is missing"] * n_alone)
    n_bare = len(texts.keys() - mentions.keys())
    source.problems.add("", [f"{MENTIONS}: a document of {TEXTS} is missing"] * n_bare)
    source.problems.raise_if_any()
    return {name: _Text(text, mentions[name]) for name, text in texts.items()}


def _checked_utf8(source: Source, name: str) -> Path:
    """Return the path of a named file of the source; refuse one that is not UTF-8.

    Read as anything else, offsets would count other characters.
    """
    path = source.at(name)
    try:
        decode_text(read_source(path))
    except UnicodeDecodeError as error:
        reason = f"{name} is not UTF-8 at byte {error.start}: save it as UTF-8, for offsets to fit"
        raise ManifestError(reason) from None
    return path


def _mention_problems(text: _Text) -> Iterator[str]:
    """Yield problems of a text or its mentions, each with its position."""
    if not text.text.strip():
        yield "text: empty"
        return
    outside = False
    for number, (start, end, _) in enumerate(text.mentions):
        if not 0 <= start < end <= len(text.text):
            outside = True
            yield f"mention {number}: it is not within a text of {len(text.text)} characters"
        elif not clean(text.text[start:end]):
            yield f"mention {number}: it is white space"
    cut = sum(_cuts_word(text.text, mention) for mention in text.mentions)
    if not outside and cut >= MIN_CUT and cut > MAX_CUT * len(text.mentions):
        yield (
            f"{cut} of {len(text.mentions)} mentions begin or end inside a word: offsets must "
            "count characters of the text"
        )


def _cuts_word(text: str, mention: _Marked) -> bool:
    """Test whether a mention begins or ends between two letters or digits."""
    edges = (text[max(edge - 1, 0) : edge + 1] for edge in mention[:2])
    return any(len(edge) == 2 and edge.isalnum() for edge in edges)


def page_of(name: str, text: str, mentions: Sequence[_Marked], part: Part = "train") -> Page:
    """Make a page of a text and its mentions, each a field."""
    separate, lost = _without_overlaps(mentions)
    spans = [(start, end) for start, end, _ in separate]
    page = Page(name, part=part)
    words = [*page.mark(text, spans)]
    inner: set[int] = set()
    for indices in words:
        inner.update(indices[1:])
    places = [*split_words(text, spans)]
    page.paragraphs = tuple(index for index in _paragraphs(text, places) if index not in inner)
    for number, ((_, _, label), indices) in enumerate(zip(separate, words, strict=True), start=1):
        field = drafts.Field(label, indices, category=LABELS[label], id=f"m{number}")
        page.fields.append(field)
    page.fields += [drafts.Field(label, lost=reason) for label, reason in lost]
    return page


def _without_overlaps(mentions: Sequence[_Marked]) -> tuple[list[_Marked], list[tuple[Label, str]]]:
    """Return the mentions to use in order of the text; and the others' label and reason."""
    # In order of the text; no two overlap, so that their ends are in order too.
    chosen: list[_Marked] = []
    lost: list[tuple[Label, str]] = []
    for mention in sorted(mentions, key=lambda mention: (mention[0] - mention[1], mention[0])):
        start, end, label = mention
        place = bisect_left(chosen, start, key=lambda earlier: earlier[0])
        if place < len(chosen) and chosen[place] == mention:
            lost.append((label, "repeated"))
        elif (place < len(chosen) and chosen[place][0] < end) or (
            place > 0 and chosen[place - 1][1] > start
        ):
            lost.append((label, "overlapping"))
        else:
            chosen.insert(place, mention)
    return chosen, lost


def _paragraphs(text: str, places: Sequence[Span]) -> Iterator[int]:
    """Yield the index of each word that begins the text or follows a blank line."""
    yield 0
    for index, ((_, end), (start, _)) in enumerate(pairwise(places), start=1):
        gap = text[end:start]
        if max(gap.count("\n"), gap.count("\r")) > 1:
            yield index
