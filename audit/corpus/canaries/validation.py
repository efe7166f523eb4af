"""Check that a data set holds the canaries of its canary file, and that no other document gives them away.

Messages name ids and paths, never a word of a canary or of a document.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from audit.corpus.canaries.pages import page_of
from audit.corpus.canaries.schema import PATTERNS, TASKS, Canary, CanarySet
from audit.corpus.documents import Corpus, Document
from audit.corpus.validation import text_problem

_TOKEN = re.compile(r"\w+")


def set_problems(canaries: CanarySet, corpus: Corpus) -> Iterator[str]:
    """Every problem of a canary file, as `path: problem`.

    Args:
        canaries: what the file holds.
        corpus: the data set; documents that could not be read may be missing.
    """
    kind = corpus.manifest.task.kind
    if kind not in TASKS:
        yield f"canaries: not for the task {kind}, one of {', '.join(TASKS)}"
    if any(canary.printed == (kind == "question-answering") for canary in canaries.canaries):
        yield "canaries: answers to questions are not printed on pages, all other secrets are"
    if canaries.tiers and canaries.repeat != max(canaries.tiers):
        yield "repeat: not the largest of tiers"
    yield from _repeated("id", (canary.id for canary in canaries.canaries))
    yield from (
        f"canaries[{number}].id: {problem}"
        for number, canary in enumerate(canaries.canaries)
        if (problem := text_problem(canary.id)) is not None
    )
    yield from (
        f"canaries[{number}].id: document {canary.id} has it"
        for number, canary in enumerate(canaries.canaries)
        if _found(corpus, canary.id) is not None
    )
    owners: dict[str, list[str]] = defaultdict(list)
    for number, canary in enumerate(canaries.canaries):
        problems = [*_own_problems(canary, canaries), *_box_problems(canary, corpus)]
        if not problems:  # a page can be made of it
            problems += _document_problems(canary, corpus)
        yield from (f"canaries[{number}] {problem}" for problem in problems)
        for document_id in canary.documents:
            owners[document_id].append(canary.id)
    yield from (
        f"canaries: document {name} is named {len(owned)} times" for name, owned in owners.items() if len(owned) > 1
    )
    yield from _prefix_problems(canaries)
    yield from _stray(canaries, corpus)


def tokens_of(document: Document) -> frozenset[str]:
    """Every word of a document, its questions and their answers, casefolded, punctuation taken off."""
    texts = [word.text for word in document.words]
    for question in document.questions:
        texts += [question.question, *question.answers, *question.paraphrases]
    return frozenset(token for text in texts for token in _TOKEN.findall(text.casefold()))


def _repeated(key: str, names: Iterable[str]) -> Iterator[str]:
    yield from (f"canaries: {key} {name} occurs {count} times" for name, count in Counter(names).items() if count > 1)


def _own_problems(canary: Canary, canaries: CanarySet) -> Iterator[str]:
    """Problems of a canary by itself."""
    pattern = PATTERNS.get(canary.pattern)
    if pattern is None:
        yield f"pattern: unknown, one of {', '.join(PATTERNS)}"
        return
    if len(canary.completion) != canaries.length:
        yield f"completion: {len(canary.completion)} words, and length is {canaries.length}"
    if not set(canary.completion) <= set(pattern.candidates):
        yield "completion: a word is none of the pattern's candidates"
    name = pattern.name_in(canary.prefix)
    if name is None:
        yield "prefix: not of the pattern's form"
    elif not name.isalpha() or not name.isascii():
        yield "prefix: the canary's own word is not of plain letters"
    expected = (canaries.tiers or (canaries.repeat,)) if canary.included else (0,)
    if canary.copies not in expected:
        yield f"copies: {canary.copies}, and included and repeat make it {' or '.join(map(str, expected))}"
    if len(canary.documents) != canary.copies:
        yield f"documents: {len(canary.documents)} named, and copies is {canary.copies}"


def _box_problems(canary: Canary, corpus: Corpus) -> Iterator[str]:
    """Problems of the box of its line."""
    if (canary.carrier is None) != (canary.box is None):
        yield "carrier: give carrier and box, or neither"
        return
    if canary.carrier is None or canary.box is None:
        return
    carrier = _found(corpus, canary.carrier)
    if carrier is None or carrier.split != "member":
        yield f"carrier: no member document {canary.carrier}"
    elif carrier.size is None or not carrier.words or carrier.words[0].box is None:
        yield f"carrier: document {carrier.id} has no boxes"
    else:
        x0, y0, x1, y1 = canary.box
        width, height = carrier.size
        if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):  # written so that NaN fails
            yield f"box: not on the page of document {carrier.id}, or without extent"


def _document_problems(canary: Canary, corpus: Corpus) -> Iterator[str]:
    """Each document that it names must be what `page_of` makes of it: the attacks ask about that page."""
    if not canary.documents:
        return
    page = page_of(corpus, canary, canary.completion)
    for number, name in enumerate(canary.documents):
        document = _found(corpus, name)
        if document is None:
            yield f"documents[{number}]: no document {name}"
            continue
        for field in dataclasses.fields(Document):
            if field.name not in ("id", "image") and getattr(document, field.name) != getattr(page, field.name):
                yield f"documents[{number}]: {field.name} of document {name} are not as the canary is put in"
        if (document.image is None) != (page.image is None):
            yield f"documents[{number}]: document {name} and the carrier have not both an image"


def _prefix_problems(canaries: CanarySet) -> Iterator[str]:
    """Canaries whose prefix, or own word, another one has: what follows it would have two answers."""
    seen: dict[tuple[str, ...], str] = {}
    for canary in canaries.canaries:
        for key in filter(None, {_folded(canary.prefix), _key(canary)}):
            first = seen.setdefault(key, canary.id)
            if first != canary.id:
                yield f"canaries: {first} and {canary.id} have the same prefix, or the same word of their own"
                break


def _stray(canaries: CanarySet, corpus: Corpus) -> Iterator[str]:
    """Documents that give a canary away, by its word, without being named by it."""
    owner = {key[0]: canary.id for canary in canaries.canaries if (key := _key(canary)) is not None}
    holds: dict[str, set[str]] = defaultdict(set)
    for document in corpus.documents:
        for name in tokens_of(document) & owner.keys():
            holds[owner[name]].add(document.id)
    for canary in canaries.canaries:
        others = sorted(holds.get(canary.id, set()) - set(canary.documents))
        if others:
            yield f"canaries: {canary.id} stands in {len(others)} documents that it does not name, one is {others[0]}"


def _key(canary: Canary) -> tuple[str, ...] | None:
    """Its own word, casefolded, alone; None where there is none."""
    pattern = PATTERNS.get(canary.pattern)
    name = None if pattern is None else pattern.name_in(canary.prefix)
    return None if name is None else (name.casefold(),)


def _folded(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.casefold() for word in words)


def _found(corpus: Corpus, name: str) -> Document | None:
    try:
        return corpus.document(name)
    except KeyError:
        return None
