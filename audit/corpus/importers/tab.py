"""The Text Anonymization Benchmark (Pilan et al. 2022): `texts.json` and `mentions.json`.

The first holds {document: text}, the second {document: [[start, end, CATEGORY], ...]}; offsets count characters.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import StrictInt, TypeAdapter

from audit.corpus.documents import (
    Category,
    Document,
    Entity,
    Redaction,
    Split,
    Task,
    TaskKind,
    Word,
)
from audit.corpus.folding import fold
from audit.corpus.importers.conversion import (
    ImportReport,
    printing,
    raise_listed,
    read_json,
    split_sizes,
)
from audit.corpus.importers.interface import Collected, ImportRequest, Source
from audit.corpus.paths import inside
from audit.errors import ManifestError, UsageError

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
TASKS: Mapping[TaskKind, Task] = {
    "mlm": Task("mlm"),
    "token-classification": Task(
        "token-classification", ("O", *(f"{prefix}-{label}" for label in LABELS for prefix in "BI"))
    ),
}
TEXTS, MENTIONS = "texts.json", "mentions.json"
# When a document's offsets are doubted: so many of its mentions begin or end inside a word, and this share of them.
# Ours; in TAB it is at most 2 of a document, but 40 % and more with offsets shifted, in bytes, or made without "\r".
MIN_CUT = 3
MAX_CUT = 0.25
_texts_type = TypeAdapter(dict[str, str])
_mentions_type = TypeAdapter(dict[str, list[tuple[StrictInt, StrictInt, Label]]])


@dataclass(frozen=True)
class _Mention:
    """Characters `start` to `end` (exclusive) of a text, and what they are."""

    start: int
    end: int
    label: Label


@dataclass(frozen=True)
class _Text:
    """One text of the source: what its document will hold, and what became of its mentions.

    `lost` has the label and the reason of each mention that is no entity; `in_token` of the entities do not begin and
    end at white space; `cut` of the mentions begin or end inside a word.
    """

    words: tuple[Word, ...]
    paragraphs: tuple[int, ...]
    entities: tuple[Entity, ...]
    lost: tuple[tuple[Label, str], ...]
    in_token: Mapping[str, int]
    cut: int
    group: str


class TAB(Source):
    """One document a text, and each mention a redacted span, an entity.

    Words stand between white space, and are divided where a mention begins or ends inside one: so every span is whole
    words, and the punctuation beside it is a word of its own. Of mentions that overlap, the longest is kept; of those
    of equal length the first in the text, then the first in the file. A blank line begins a paragraph
    (`Document.paragraphs`), for headings end no sentence; a single line end does not (paper, appendix A.1). Equal texts
    stay in one split. The manifest says that values are hidden under a mask of one length, the one that shows least of
    them and leaves the text as it is; the benchmark hides nothing itself. A source is refused when a mention is outside
    its text, when the offsets do not fit the texts, and when there is no mention at all.
    """

    name = "tab"
    description = "texts.json, mentions.json"
    tasks = tuple(TASKS)
    lacks = "neither boxes nor links"

    def collect(self, src: Path, request: ImportRequest) -> Collected:
        """See `Source.collect`."""
        texts = _texts(src)
        alike: dict[str, list[str]] = defaultdict(list)
        for name, text in texts.items():
            alike[text.group].append(name)
        drawn, _ = request.divide(alike.values())
        documents = [
            Document(id=name, split=drawn[name], words=text.words, entities=text.entities, paragraphs=text.paragraphs)
            for name, text in texts.items()
            if name in drawn
        ]
        report = _report(texts, drawn, sum(len(group) > 1 for group in alike.values()))
        return Collected(documents, TASKS[request.task], report, redaction=Redaction("fixed"))


def _texts(src: Path) -> dict[str, _Text]:
    """Every text by its name, in order of names."""
    missing = [name for name in (TEXTS, MENTIONS) if not (src / name).is_file()]
    if missing:
        raise UsageError(f"{src} holds no {' and no '.join(missing)}", f"give the folder with {TEXTS} and {MENTIONS}")
    try:
        raw = read_json(_utf8(src, TEXTS), _texts_type)
        found = read_json(_utf8(src, MENTIONS), _mentions_type)
    except ManifestError as error:
        raise_listed(error.problems)
        raise
    problems = [f"{TEXTS}: {name} is missing, but has mentions" for name in sorted(found.keys() - raw.keys())]
    problems += [f"{MENTIONS}: {name} is missing" for name in sorted(raw.keys() - found.keys())]
    if not any(found.values()):
        problems.append(f"{MENTIONS}: no mention in any text, so nothing is redacted")
    texts: dict[str, _Text] = {}
    for name in sorted(raw.keys() & found.keys()):
        mentions = [_Mention(*mention) for mention in found[name]]
        faults = list(_faults(raw[name], mentions))
        problems += [f"{name} {fault}" for fault in faults]
        if not faults:
            texts[name] = _text(raw[name], mentions)
    raise_listed(problems)
    return texts


def _utf8(src: Path, name: str) -> Path:
    """A file of the source, unless it is not UTF-8: read as something else, offsets would count other characters."""
    path = inside(src.resolve(), name)
    try:
        path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{name} is not UTF-8 at byte {error.start}: save it as UTF-8, for offsets to fit"
        ) from None
    return path


def _faults(text: str, mentions: Sequence[_Mention]) -> Iterator[str]:
    """What is wrong with a text or its mentions, each with its place."""
    if not text.strip():
        yield "text: empty"
        return
    outside = False
    for number, mention in enumerate(mentions):
        place = f"mention {number}: {mention.start} to {mention.end}"
        if not 0 <= mention.start < mention.end <= len(text):
            outside = True
            yield f"{place} are no characters of a text of {len(text)}"
        elif not printing(text[mention.start : mention.end]).strip():
            yield f"{place} is white space"
    cut = sum(_cuts_word(text, mention) for mention in mentions)
    if not outside and cut >= MIN_CUT and cut > MAX_CUT * len(mentions):
        yield f"{cut} of {len(mentions)} mentions begin or end inside a word: offsets must count characters of the text"


def _cuts_word(text: str, mention: _Mention) -> bool:
    """Whether a mention begins or ends between two letters or digits."""
    edges = (text[max(edge - 1, 0) : edge + 1] for edge in (mention.start, mention.end))
    return any(len(edge) == 2 and edge.isalnum() for edge in edges)


def _text(raw: str, mentions: Sequence[_Mention]) -> _Text:
    kept, lost = _settled(mentions)
    edges = sorted({edge for mention in kept for edge in (mention.start, mention.end)})
    text = printing(raw)  # as long as `raw`: offsets hold
    places = list(_places(text, edges))
    entities: list[Entity] = []
    in_token: Counter[str] = Counter()
    inner: set[int] = set()
    for number, mention in enumerate(kept, start=1):
        words = tuple(
            index for index, (start, end) in enumerate(places) if mention.start <= start and end <= mention.end
        )
        entities.append(Entity(f"m{number}", mention.label, LABELS[mention.label], words))
        inner.update(words[1:])
        around = text[: mention.start][-1:] + text[mention.end :][:1]
        in_token[mention.label] += bool(around.strip())
    return _Text(
        words=tuple(Word(text[start:end]) for start, end in places),
        paragraphs=tuple(index for index in _paragraphs(raw, places) if index not in inner),
        entities=tuple(entities),
        lost=lost,
        in_token=in_token,
        cut=sum(_cuts_word(raw, mention) for mention in mentions),
        group=fold(raw),
    )


def _settled(mentions: Sequence[_Mention]) -> tuple[list[_Mention], tuple[tuple[Label, str], ...]]:
    """The mentions that are kept, in order of the text, and label and reason of the others."""
    kept: list[_Mention] = []
    lost: list[tuple[Label, str]] = []
    for mention in sorted(mentions, key=lambda mention: (mention.start - mention.end, mention.start)):
        if mention in kept:
            lost.append((mention.label, "repeated"))
        elif any(mention.start < other.end and other.start < mention.end for other in kept):
            lost.append((mention.label, "overlapping"))
        else:
            kept.append(mention)
    return sorted(kept, key=lambda mention: mention.start), tuple(lost)


def _places(text: str, edges: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and end of every word: between white space, and divided at `edges`."""
    for token in re.finditer(r"\S+", text):
        inside_token = [edge for edge in edges if token.start() < edge < token.end()]
        yield from pairwise([token.start(), *inside_token, token.end()])


def _paragraphs(raw: str, places: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The indices of words before which the text begins or has a blank line."""
    yield 0
    for index, ((_, end), (start, _)) in enumerate(pairwise(places), start=1):
        gap = raw[end:start]
        if max(gap.count("\n"), gap.count("\r")) > 1:
            yield index


def _report(texts: Mapping[str, _Text], drawn: Mapping[str, Split], repeated: int) -> ImportReport:
    kept = Counter(entity.label for text in texts.values() for entity in text.entities)
    in_token: Counter[str] = Counter()
    not_located: dict[str, Counter[str]] = {label: Counter() for label in LABELS}
    unlocated: list[tuple[str, str, str]] = []
    for name, text in texts.items():
        in_token.update(text.in_token)
        for label, reason in text.lost:
            not_located[label][reason] += 1
            unlocated.append((name, label, reason))
    return ImportReport(
        documents=split_sizes(texts, drawn),
        fields={label: kept[label] + not_located[label].total() for label in LABELS},
        located={
            label: {"between white space": kept[label] - in_token[label], "beside other characters": in_token[label]}
            for label in LABELS
        },
        not_located={label: dict(reasons) for label, reasons in not_located.items()},
        duplicates=(),
        unlocated=tuple(unlocated),
        notes={
            "mentions that begin or end inside a word": sum(text.cut for text in texts.values()),
            "documents without a mention": sum(not text.entities for text in texts.values()),
            "texts that stand several times, never in two splits": repeated,
        },
    )
