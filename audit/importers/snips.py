"""Snips (Coucke et al. 2018) as slot-filling models take it: `train/`, `valid/` and `test/` with three files each.

A line of `seq.in` is an utterance, the same line of `seq.out` its tags, one a word, and of `label` its intent.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from audit.corpus.documents import Document, Task, Word
from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.corpus.validation import is_bio
from audit.errors import UsageError
from audit.importers.interface import ImportRequest, Source, SourceContents
from audit.importers.report import FieldTally
from audit.importers.source_files import read_source, replace_controls
from audit.importers.splits import OfficialPart

FOLDERS: Mapping[str, OfficialPart] = {"train": "train", "valid": "validation", "test": "validation"}
FILES = ("seq.in", "seq.out", "label")
_NOT_UTF8 = "lines that are not UTF-8, read as Latin-1"
_SPACES = "utterances with spaces at an end or doubled, which were dropped"
_EMPTY = "empty lines, left out"


@dataclass(frozen=True)
class _Utterance:
    """One utterance of the source; `reason` says why it is left out, if it is."""

    part: OfficialPart
    words: tuple[str, ...]
    tags: tuple[str, ...]
    intent: str
    reason: str | None


class Snips(Source):
    """One document an utterance, its id the folder and the number of its line; in the report a field is a slot.

    Equal utterances, but for case and spacing, stay in one split. The labels of the task are all tags of the source,
    sorted. Officially, an utterance of `valid/` or `test/` that is in `train/` too is left out.
    """

    name = "snips"
    description = "train/, valid/, test/, each with seq.in, seq.out, label"
    tasks = ("intent-slots",)
    divisions = frozenset({"official"})
    holds = "intents and slots"
    repeated = "utterances that stand several times, never in two splits"
    copied = "utterances of valid/ and test/ that stand in train/ too, left out"

    def read(self, src: Path, request: ImportRequest) -> SourceContents:
        """See `Source.read`."""
        folders = [name for name in FOLDERS if (src / name).is_dir()]
        if "train" not in folders:
            raise UsageError(f"{src} has no folder train/", "give the folder that holds it")
        if request.rule == "official" and len(folders) == 1:
            raise UsageError(f"{src} holds one part only; the official division needs train/ and valid/ or test/")
        notes: Counter[str] = Counter({_NOT_UTF8: 0, _SPACES: 0, _EMPTY: 0})
        read = _read(src, folders, notes)
        kept = {name: utterance for name, utterance in read.items() if utterance.reason is None}
        if not kept:
            raise UsageError(f"{src} holds no utterance with a tag for each word and an intent")
        fields = FieldTally(sorted({slot for u in read.values() for slot in _slots(u.tags)}), ["annotated"])
        for name, utterance in read.items():
            if utterance.reason is not None:
                notes[f"utterances left out: {utterance.reason}"] += 1
            for slot in _slots(utterance.tags):
                if utterance.reason is None:
                    fields.locate(slot, "annotated")
                else:
                    fields.miss(name, slot, utterance.reason)
        return SourceContents(
            Task(request.task, tuple(sorted({tag for utterance in kept.values() for tag in utterance.tags}))),
            {
                name: partial(Document, words=tuple(map(Word, u.words)), tags=u.tags, intent=u.intent)
                for name, u in kept.items()
            },
            fields,
            texts={name: " ".join(utterance.words) for name, utterance in kept.items()},
            parts={name: utterance.part for name, utterance in kept.items()},
            n_unusable=len(read) - len(kept),
            notes=notes,
        )


def _read(src: Path, folders: Sequence[str], notes: Counter[str]) -> dict[str, _Utterance]:
    """Every utterance by its id, in order of the files; counts in `notes` what was odd."""
    problems = Problems()
    utterances: dict[str, _Utterance] = {}
    for folder in folders:
        missing = [name for name in FILES if not (src / folder / name).is_file()]
        problems.add("", (f"{folder}/{name}: missing" for name in missing))
        if missing:
            continue
        files = [list(_lines(inside(src.resolve(), f"{folder}/{name}"), notes)) for name in FILES]
        if len({len(lines) for lines in files}) > 1:
            counts = ", ".join(f"{name} {len(lines)}" for name, lines in zip(FILES, files, strict=True))
            problems.add(f"{folder}:", [f"numbers of lines differ: {counts}"])
            continue
        for number, (sentence, tags, intent) in enumerate(zip(*files, strict=True), start=1):
            if not (sentence.strip() or tags.strip() or intent.strip()):
                notes[_EMPTY] += 1
                continue
            utterance = _utterance(FOLDERS[folder], sentence, tags, intent)
            notes[_SPACES] += sentence != " ".join(utterance.words)
            if not all(map(is_bio, utterance.tags)):
                problems.add(f"{folder}/seq.out:{number}:", ["a tag is none of O, B-..., I-..."])
            utterances[f"{folder}-{number:05d}"] = utterance
    problems.raise_if_any()
    return utterances


def _lines(path: Path, notes: Counter[str]) -> Iterator[str]:
    """The lines of a file; one that is not UTF-8 is read as Latin-1, by itself. Control characters become spaces."""
    content = read_source(path).removeprefix(codecs.BOM_UTF8).removesuffix(b"\n")
    for line in content.split(b"\n") if content else []:
        line = line.removesuffix(b"\r")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("latin-1")
            notes[_NOT_UTF8] += 1
        yield replace_controls(text)


def _utterance(part: OfficialPart, sentence: str, tagged: str, intent: str) -> _Utterance:
    words, tags, intent = tuple(sentence.split()), tuple(tagged.split()), " ".join(intent.split())
    reason = None
    if len(words) != len(tags):
        reason = "another number of tags than words"
    elif not intent:
        reason = "no intent"
    elif not words:
        reason = "no words"
    return _Utterance(part, words, tags, intent, reason)


def _slots(tags: Sequence[str]) -> Iterator[str]:
    """The label of each slot; an I- tag that goes on with no slot of its label begins one."""
    before = "O"
    for tag in tags:
        if tag.startswith("B-") or (tag.startswith("I-") and before[2:] != tag[2:]):
            yield tag[2:]
        before = tag
