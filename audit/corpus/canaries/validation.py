"""Check that a data set holds the canaries of its file, and that no other document tells them.

Messages name ids and paths, never a word of a canary or of a document.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain

from audit.corpus.canaries.pages import page_of
from audit.corpus.canaries.schema import PATTERNS, TASKS, Canary, CanarySet
from audit.corpus.documents import Corpus, Document, TaskKind
from audit.corpus.problems import repeated
from audit.corpus.validation import text_problem

_TOKEN = re.compile(r"\w+")


def set_problems(canaries: CanarySet, corpus: Corpus) -> Iterator[str]:
    """List every problem of a canary file, as `path: problem`.

    Args:
        canaries: what the file holds.
        corpus: the data set; documents that could not be read may be missing.
    """
    documents = {document.id: document for document in corpus.documents}
    yield from _file_problems(canaries, corpus.manifest.task.kind)
    for number, canary in enumerate(canaries.canaries):
        problem = _form_problem(canary, canaries, documents)
        problems = [problem] if problem else _document_problems(canary, corpus, documents)
        yield from (f"canaries[{number}] {problem}" for problem in problems)
    names = chain.from_iterable(canary.documents for canary in canaries.canaries)
    for name, count in repeated(names):
        yield f"canaries: document {name} is named {count} times"
    yield from _name_problems(canaries, corpus)


def _file_problems(canaries: CanarySet, kind: TaskKind) -> Iterator[str]:
    """List the problems of a canary file that are none of a single canary, for a kind of task."""
    if kind not in TASKS:
        yield f"canaries: not for the task {kind}, one of {', '.join(TASKS)}"
    if any(canary.printed == (kind == "question-answering") for canary in canaries.canaries):
        yield "canaries: answers to questions are not printed on pages, all other secrets are"
    if canaries.tiers and canaries.repeat != max(canaries.tiers):
        yield "repeat: not the largest of tiers"
    for name, count in repeated(canary.id for canary in canaries.canaries):
        yield f"canaries: id {name} occurs {count} times"


def tokens_of(document: Document) -> frozenset[str]:
    """Collect every word of a document, its questions and their answers.

    Words are casefolded, with punctuation taken off.
    """
    texts = [word.text for word in document.words]
    for question in document.questions:
        texts += [question.question, *question.answers, *question.paraphrases]
    return frozenset(chain.from_iterable(_TOKEN.findall(text.casefold()) for text in texts))


def _form_problem(
    canary: Canary, canaries: CanarySet, documents: Mapping[str, Document]
) -> str | None:
    """Return the first problem that keeps a page from being made of the canary."""
    pattern = PATTERNS.get(canary.pattern)
    if pattern is None:
        return f"pattern: unknown, one of {', '.join(PATTERNS)}"
    name = pattern.name_in(canary.prefix)
    words = canary.completion
    expected = (canaries.tiers or (canaries.repeat,)) if canary.included else (0,)
    sound = {
        "id: empty, or the id of a document": text_problem(canary.id) is None
        and canary.id not in documents,
        f"completion: give {canaries.length} of the pattern's candidates": (
            len(words) == canaries.length and {*words} <= {*pattern.candidates}
        ),
        "prefix: not of the pattern's form, its own word in plain letters": (
            name is not None and name.isalpha() and name.isascii()
        ),
        f"copies: included and repeat make it {' or '.join(map(str, expected))}": canary.copies
        in expected,
        f"documents: name {canary.copies}, as many as copies": len(canary.documents)
        == canary.copies,
        "carrier: give a member document with boxes and a box on its page, or neither": _has_place(
            canary, documents
        ),
    }
    return next((problem for problem, holds in sound.items() if not holds), None)


def _has_place(canary: Canary, documents: Mapping[str, Document]) -> bool:
    """Test whether a canary's line is on a page, or on none."""
    if canary.carrier is None or canary.box is None:
        return canary.carrier is None and canary.box is None
    carrier = documents.get(canary.carrier)
    if carrier is None or carrier.split != "member" or carrier.size is None or not carrier.words:
        return False
    x0, y0, x1, y1 = canary.box
    width, height = carrier.size  # NaN fails, too
    return carrier.words[0].box is not None and 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height


def _document_problems(
    canary: Canary, corpus: Corpus, documents: Mapping[str, Document]
) -> Iterator[str]:
    """List how documents differ from what `page_of` makes of the canary.

    The attacks ask about that page.
    """
    page = page_of(corpus, canary, canary.completion) if canary.documents else None
    for number, name in enumerate(canary.documents):
        document = documents.get(name)
        if document is None:
            yield f"documents[{number}]: no document {name}"
            continue
        for field_name in _different_fields(document, page):
            yield (
                f"documents[{number}]: {field_name} of document {name} "
                "are not as the canary is put in"
            )
        if page is not None and (document.image is None) != (page.image is None):
            yield f"documents[{number}]: document {name} and the carrier have not both an image"


def _different_fields(document: Document, page: Document | None) -> Iterator[str]:
    """Yield the names of the fields in which a document is not the canary's page.

    Its id and image are its own.
    """
    for field in dataclasses.fields(Document):
        name = field.name
        if name not in ("id", "image") and getattr(document, name) != getattr(page, name):
            yield name


def _name_problems(canaries: CanarySet, corpus: Corpus) -> Iterator[str]:
    """List canaries with one word of their own.

    Also those whose word stands in documents that they do not name.
    """
    owner: dict[str, str] = {}
    for canary in canaries.canaries:
        pattern = PATTERNS.get(canary.pattern)
        name = None if pattern is None else pattern.name_in(canary.prefix)
        if name is None:
            continue
        first = owner.setdefault(name.casefold(), canary.id)
        if first != canary.id:
            yield f"canaries: {first} and {canary.id} have the same word of their own"
    holders: dict[str, set[str]] = defaultdict(set)
    for document in corpus.documents:
        for name in tokens_of(document) & owner.keys():
            holders[owner[name]].add(document.id)
    for canary in canaries.canaries:
        unnamed = sorted(holders[canary.id] - {*canary.documents})
        if unnamed:
            yield (
                f"canaries: {canary.id} occurs in {len(unnamed)} documents that it does not name, "
                f"one is {unnamed[0]}"
            )
