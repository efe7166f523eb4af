"""Snips (Coucke et al. 2018) as slot-filling models take it.

Folders `train/`, `valid/` and `test/` have three files each.

A line of `seq.in` is an utterance, the same line of `seq.out` its tags, one a word, and of `label`
its intent.
"""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from audit.corpus.documents import Word
from audit.corpus.validation import is_bio
from audit.errors import UsageError
from audit.files import decode_text, encoding_of
from audit.importers.columns import fields_of_tags
from audit.importers.files import read_source
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, Part, WordList, replace_controls
from audit.importers.source import Source

FOLDERS: Mapping[str, Part] = {"train": "train", "valid": "validation", "test": "validation"}
FILES = ("seq.in", "seq.out", "label")
_NOT_UTF8 = "lines that are not UTF-8, read as Latin-1"
_SPACES = "utterances with spaces at an end or doubled, which were dropped"
_EMPTY = "empty lines, left out"


class Snips(Importer):
    """One document an utterance, its id the folder and the number of its line.

    In the report a field is a slot.

    The labels of the task are all tags of the source, sorted. Officially, an utterance of `valid/`
    or `test/` that is in `train/` too is left out.
    """

    name = "snips"
    description = "train/, valid/, test/, each with seq.in, seq.out, label"
    tasks = ("intent-slots",)
    providers = recognises = False
    marks = (("seq.in", ""),)

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of SNIPS as it is published."""
        if not (source.path / "train").is_dir():
            raise UsageError(f"{source.path} has no folder train/", "give the folder that holds it")
        for folder, part in FOLDERS.items():
            if (source.path / folder).is_dir():
                yield from _pages_of(source, folder, part)


def _pages_of(source: Source, folder: str, part: Part) -> Iterator[Page]:
    """Yield the utterances of a folder; faults in it become problems of the source."""
    for number, lines in enumerate(_rows(source, folder), start=1):
        sentence, tags, intent = lines
        if not any(line.strip() for line in lines):
            source.notes[_EMPTY] += 1
            continue
        page = _utterance(f"{folder}-{number:05d}", sentence, tags, intent)
        page.part = part
        source.notes[_SPACES] += sentence != " ".join(word.text for word in page.words)
        if not all(map(is_bio, page.tags or ())):
            place = f"{folder}/seq.out:{number}:"
            source.problems.add(place, ["a tag is none of O, B-..., I-..."])
        yield page


def _rows(source: Source, folder: str) -> Sequence[tuple[str, str, str]]:
    """Return (sentence, tags, intent) of each utterance of a folder; none where files differ.

    None where the files do not fit.
    """
    missing = [name for name in FILES if not (source.path / folder / name).is_file()]
    source.problems.add("", (f"{folder}/{name}: missing" for name in missing))
    if missing:
        return []
    sentences, tags, intents = ([*_lines(source, source.at(f"{folder}/{name}"))] for name in FILES)
    n_lines = [len(sentences), len(tags), len(intents)]
    if len(set(n_lines)) > 1:
        counts = ", ".join(f"{name} {n}" for name, n in zip(FILES, n_lines, strict=True))
        source.problems.add(f"{folder}:", [f"numbers of lines differ: {counts}"])
        return []
    return [*zip(sentences, tags, intents, strict=True)]


def _lines(source: Source, path: Path) -> Iterator[str]:
    """Yield the lines of a file as text: UTF-8, else Latin-1, decided line by line.

    Controls become spaces.
    """
    content = read_source(path)
    if not encoding_of(content).startswith("utf-8"):
        content = decode_text(content).encode()
    content = content.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n")
    for line in content.split(b"\n") if content else []:
        line = line.removesuffix(b"\r")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("latin-1")
            source.notes[_NOT_UTF8] += 1
        yield replace_controls(text)


def _utterance(name: str, sentence: str, tagged: str, intent: str) -> Page:
    """Make the page of an utterance; note on it why it can be no document, if it cannot."""
    words = sentence.split()
    tags = tuple(tagged.split())
    intent = " ".join(intent.split())
    reason = ""
    if len(words) != len(tags):
        reason = "another number of tags than words"
    elif not intent:
        reason = "no intent"
    elif not words:
        reason = "no words"
    page = Page(name, words=WordList(map(Word, words)), tags=tags, intent=intent, place=name)
    page.fields = [Field(label, inside, lost=reason) for label, inside in fields_of_tags(tags)]
    page.unusable = f"utterances left out: {reason}" if reason else ""
    return page
