"""Decoys: another value of its kind in place of an answer, and what is answered beside many of them (ours).

A model that remembers a page as a whole may know it again only where a value stands, whichever it is
(methods.md#contexts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from numpy.random import Generator as Rng

from audit.attacks.attributes.hidden import select_plausible
from audit.attacks.attributes.questions import AnswerPool, kind_of_answer, pool_of
from audit.attacks.questions import AskedQuestion
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold
from audit.corpus.page_view import PageView
from audit.corpus.painting import replace_value
from audit.corpus.removal.derivable import why_derivable
from audit.corpus.removal.proof import survives

_POOL = "decoys"


def decoy_pages(
    corpus: Corpus, asked: AskedQuestion, page: PageView, words: Sequence[int], rng: Rng
) -> Iterator[tuple[str, PageView]]:
    """The page with one decoy after another in place of the answer, in random order.

    Decoys are answers and fields of public and held-out documents of the same category, or to the same question. None
    is a value of this document, and no page is given on which the answer can be read or derived.

    Args:
        corpus: the data set.
        asked: the question.
        page: its page as it is.
        words: indices of the words that were removed with the answer.
        rng: of the order.

    Yields:
        The decoy and its page.
    """
    document = asked.document
    own = {*map(fold, map(document.text_of, document.entities))}
    own |= {fold(answer) for question in document.questions for answer in question.answers}
    pool = _pool(corpus).get(kind_of_answer(asked), {})
    others = select_plausible(pool, asked.values | own, (word.text for word in page.words))
    for index in rng.permutation(len(others)):
        view = replace_value(page, words, others[index])
        if view is None:
            continue
        texts = [word.text for word in view.words]
        if not survives(texts, asked.spellings) and why_derivable(texts, asked.spellings) is None:
            yield others[index], view


def most_frequent(answers: Sequence[str], decoys: Sequence[str]) -> str:
    """The most frequent answer, folded, that does not repeat the decoy of its page; the earliest of equals.

    Args:
        answers: to one question, each beside its own decoy.
        decoys: as many.

    Returns:
        The answer as it was first written; empty where every answer is empty or a decoy.
    """
    left = [text for text, decoy in zip(answers, decoys, strict=True) if fold(text) not in ("", fold(decoy))]
    counted = Counter(map(fold, left))
    return max(left, key=lambda text: counted[fold(text)], default="")


def _pool(corpus: Corpus) -> AnswerPool:
    if _POOL not in corpus.known:
        corpus.known[_POOL] = pool_of(corpus, "public", "heldout")
    found: AnswerPool = corpus.known[_POOL]
    return found
