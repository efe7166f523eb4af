"""Documents that name something a model has no name for, and answers it cannot give: counted, and left out of an audit.

Their training loss would be read as if an unknown field were outside every entity, or an answer were none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from audit.corpus.canaries.schema import planted_ids
from audit.corpus.documents import SPLITS, Corpus, Document
from audit.corpus.folding import places_of
from audit.errors import TargetError
from audit.targets.extractive import ExtractiveTarget
from audit.targets.interface import Target

MOST_NAMED = 5
"""Names that a warning lists."""
_TITLES = {"member": "member", "heldout": "held-out", "public": "public"}


@dataclass(frozen=True)
class Unread:
    """Documents that an audit does without.

    Attributes:
        documents: their ids.
        questions: ids of a document and a question that the audit does without, of other documents.
        warnings: what they name, in plain sentences; none without any.
    """

    documents: frozenset[str] = frozenset()
    questions: frozenset[tuple[str, str]] = frozenset()
    warnings: tuple[str, ...] = ()


NONE_UNREAD = Unread()


def find_unread(target: Target, corpus: Corpus) -> Unread:
    """Look for documents with labels, tags or an intent that the target lacks, or answers that it cannot point at.

    Args:
        target: a loaded checkpoint that `audit.targets.opening.check` has let pass.
        corpus: the data set, whole.

    Raises:
        TargetError: canaries are among them: a model that has no tag for them was not trained on them.
    """
    if isinstance(target, ExtractiveTarget):
        return _off_page(corpus)
    found = target.unknown_names(corpus.documents) if hasattr(target, "unknown_names") else {}
    if not found:
        return NONE_UNREAD
    names = sorted(set().union(*found.values()))
    if planted_ids(corpus) & found.keys():
        raise TargetError(
            f"the model has no name for {', '.join(names)}, and documents with canaries need it",
            "scan the model that was trained on this data set, or the data set as it was before canaries were put in",
        )
    counts = _named(Counter(corpus.document(name).split for name in found))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return Unread(
        frozenset(found),
        warnings=(
            f"{len(found)} documents are left out of the audit ({counts}): they name what the model does not"
            f" know ({', '.join(names[:MOST_NAMED])}{more}).",
        ),
    )


def without_unread(corpus: Corpus, unread: Unread) -> Corpus:
    """The data set as it is audited: without these documents and questions, its sha256 unchanged."""
    if not unread.documents and not unread.questions:
        return corpus
    kept = (document for document in corpus.documents if document.id not in unread.documents)
    return replace(corpus, documents=tuple(_without(document, unread.questions) for document in kept))


def count_questions(corpus: Corpus, unread: Unread) -> dict[str, int]:
    """Count the questions that are left out, by split; splits without any are omitted."""
    return dict(Counter(corpus.document(name).split for name, _ in sorted(unread.questions)))


def _without(document: Document, questions: Collection[tuple[str, str]]) -> Document:
    kept = tuple(question for question in document.questions if (document.id, question.id) not in questions)
    return document if len(kept) == len(document.questions) else replace(document, questions=kept)


def _off_page(corpus: Corpus) -> Unread:
    """Questions whose answer, the one that training takes, does not stand on the page, and documents without others."""
    found: dict[str, set[str]] = {}
    for document in corpus.documents:
        gone = {
            question.id
            for question in document.questions
            if question.answers and not places_of(question.answers[0], document.words)
        }
        if gone:
            found[document.id] = gone
    planted = planted_ids(corpus)
    whole = frozenset(
        name for name, gone in found.items() if len(gone) == _n_answered(corpus.document(name)) and name not in planted
    )
    unread = Unread(whole, frozenset((name, one) for name in found.keys() - whole for one in found[name]))
    return replace(unread, warnings=(*_documents_off_page(corpus, whole), *_questions_off_page(corpus, unread)))


def _n_answered(document: Document) -> int:
    return len({question.id for question in document.questions if question.answers})


def _documents_off_page(corpus: Corpus, whole: Collection[str]) -> Iterator[str]:
    if whole:
        named = _named(Counter(corpus.document(name).split for name in whole))
        why = "no answer to their questions stands on the page"
        yield f"{len(whole)} documents are left out of the audit ({named}): {why}."


def _questions_off_page(corpus: Corpus, unread: Unread) -> Iterator[str]:
    if unread.questions:
        n, named = len(unread.questions), _named(count_questions(corpus, unread))
        yield f"{n} questions are left out of the audit ({named}): their answer does not stand on the page."


def _named(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[split]} {_TITLES[split]}" for split in SPLITS if counts.get(split))
