"""How a model and a data set fit: the words that it reads, and its task on a few training pages.

A model that does not do its task on pages of its own training is asked or read in another way than
in training. A scan would find no leak then, which says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from audit.corpus.documents import Corpus, Document
from audit.corpus.images import PageView, page_view
from audit.files import table_beside
from audit.measurements import Estimate
from audit.targets import interface, wording
from audit.targets.answering.reader import TokenReader
from audit.targets.answering.words_reader import DecoderReader
from audit.targets.utility import Usefulness, measure_usefulness

NAMES_OF_SCORES: dict[str, list[str]] = table_beside(__file__, "fit.toml")["scores"]
"""Names of measures of usefulness, each with what to look at where the score is doubtful."""
PAGES = 10
"""Training pages that the task is tried on."""
QUESTIONS = 3
"""Questions of each, at most."""
SECONDS = 40.0
"""Of the answers to all of them: fewer pages are tried where one takes longer."""
FEWEST_PAGES = 2
"""Pages without which nothing is said of the task."""
CERTAIN = 0.5
"""A trained model reaches more of its measure on its own training pages, where chance is below
this. Ours."""
MOST_READ = 200
"""Pages whose words are counted, at most."""
SIGNIFICANCE = 0.05
"""Of a check of how the model is asked and read."""
SCORES = (
    "entity_f1",
    "link_f1",
    "class_accuracy",
    "intent_accuracy",
    "masked_token_accuracy",
    "anls",
)
"""Measures that texts.toml has words for."""


@dataclass(frozen=True)
class WordsRead:
    """How many words of pages a model reads.

    Attributes:
        words: words of the pages.
        behind: words behind what the model reads of its page.
        pages: pages looked at.
        cut: pages of which some words are behind.
        most: tokens that the model reads at once.
    """

    words: int
    behind: int
    pages: int
    cut: int
    most: int

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say how many words the model does not read; nothing where it reads all."""
        if not self.behind:
            return ()
        share = 100 * self.behind / self.words
        return wording("words_behind", share=share, cut=self.cut, pages=self.pages, most=self.most)


@dataclass(frozen=True)
class TaskScore:
    """How well a model does its task on pages of its training.

    Attributes:
        measure: name of the measure.
        value: its value.
        chance: what somebody without the model reaches; None where that is not known.
        pages: pages of training that it was measured on.
    """

    measure: str
    value: float
    chance: float | None
    pages: int

    @property
    def is_doubtful(self) -> bool:
        """Test whether the model does no better than chance, or than half where that is more."""
        chance = self.chance or 0.0
        if self.measure == "masked_token_accuracy":
            return self.value <= chance
        return self.value <= max(chance, CERTAIN)

    @property
    def sentence(self) -> str:
        """Say the score, and what to look at where it is doubtful."""
        name, doubt = NAMES_OF_SCORES[self.measure]
        text = f"The task on {self.pages} training pages: {name} {self.value:.2f}"
        if self.chance is not None:
            text += f", and {self.chance:.2f} by chance"
        if self.is_doubtful:
            return f"{text}. {doubt}"
        return f"{text}."


@dataclass(frozen=True)
class Fit:
    """How a model and a data set fit.

    Attributes:
        read: how many words it reads; None where it reads pictures alone, or windows all over.
        scores: how well it does its task on pages of its training.
        warnings: what speaks against the fit, a sentence each.
    """

    read: WordsRead | None
    scores: tuple[TaskScore, ...]
    warnings: tuple[str, ...]


def fit_of(target: interface.Target, corpus: Corpus, seed: int = 0) -> Fit:
    """Look how a model and a data set fit.

    Args:
        target: the model.
        corpus: the data set without what the model does not read.
        seed: seed of the drawn pages.
    """
    members = corpus.of("member")
    read = words_read(target, members)
    warnings = [] if read is None else [*read.sentences]
    usefulness, n_pages = _try_task(target, corpus, seed)
    scores = tuple(_scores_of(usefulness, n_pages))
    warnings += [score.sentence for score in scores if score.is_doubtful]
    for check in usefulness.checks:
        if check.p_value < SIGNIFICANCE:
            warnings.append(f"{check.reason}: {check.remedy}")
    return Fit(read, scores, tuple(warnings))


def words_read(target: interface.Target, documents: Sequence[Document]) -> WordsRead | None:
    """Count the words of pages that a model does not read, as they are behind its window.

    Args:
        target: the model.
        documents: pages; of many, evenly spaced ones are looked at.

    Returns:
        None for a model that reads pictures alone, or windows all over a page.
    """
    step = max(1, -(-len(documents) // MOST_READ))
    pages = [document for document in documents[::step] if document.words]
    n_behind: list[int] = []
    for document in pages:
        n_read = _count_read(target, document)
        if n_read is None:
            return None
        n_behind.append(len(document.words) - n_read)
    n_words = sum(len(document.words) for document in pages)
    n_cut = sum(n > 0 for n in n_behind)
    return WordsRead(n_words, sum(n_behind), len(pages), n_cut, target.card.max_tokens)


def _count_read(target: interface.Target, document: Document) -> int | None:
    """Count the words of a page up to the last that a model reads; None: see `words_read`."""
    if interface.Answer in target.answers:
        return _count_in_row(target, document)
    page = cast("interface.TokenTarget", target).encode(document)
    if page is None:
        return None
    most = target.card.max_tokens
    if len(page.ids) < most:
        # Words that give no token are read too.
        return len(document.words)
    return int(page.words.max(initial=-1)) + 1


def _count_in_row(target: interface.Target, document: Document) -> int | None:
    """Count the words of a page that stand in the row of a model that answers."""
    reader = getattr(target, "reader", None)
    reader = getattr(reader, "inner", reader)
    view = PageView(document.words, document.size)
    question = ""
    if document.questions:
        question = document.questions[0].question
    if isinstance(reader, DecoderReader):
        return reader.count_words(view, question)
    if isinstance(reader, TokenReader):
        words = reader.page_tokens(view, question).words
        return max(words, default=-1) + 1
    return None


def _try_task(target: interface.Target, corpus: Corpus, seed: int) -> tuple[Usefulness, int]:
    """Measure a model's task on a few pages of its training, as on unseen ones.

    Returns:
        What was measured, and on how many pages; nothing on none where too few can be tried in
        `SECONDS`.
    """
    pages = _draw_pages(corpus, seed, asks=interface.Answer in target.answers)
    if interface.Answer in target.answers and pages:
        pages = pages[: _count_in_time(target, corpus, pages[0])]
    if len(pages) < FEWEST_PAGES:
        return Usefulness([]), 0
    names = {document.id for document in pages}
    learned = [document for document in corpus.of("member") if document.id not in names]
    few = replace(corpus, documents=(*learned, *pages))
    return measure_usefulness(target, few, seed), len(pages)


def _draw_pages(corpus: Corpus, seed: int, *, asks: bool) -> list[Document]:
    """Draw pages of training, as if they were unseen; where these are asked, with questions."""
    members = corpus.of("member")
    if asks:
        members = tuple(document for document in members if document.questions)
    drawn = np.random.default_rng(seed).permutation(len(members))[:PAGES]
    return [_as_unseen(members[index], corpus) for index in sorted(drawn)]


def _as_unseen(document: Document, corpus: Corpus) -> Document:
    """Return a page of training as if it were unseen, with a few of its questions.

    Of an output all fields stay: it is written once for all of them.
    """
    questions = document.questions
    if corpus.manifest.task.kind != "parsing":
        questions = questions[:QUESTIONS]
    return replace(document, split="heldout", questions=questions)


def _count_in_time(target: interface.Target, corpus: Corpus, page: Document) -> int:
    """Count the pages whose questions a model answers in `SECONDS`, by those of the first."""
    began = time.perf_counter()
    view = page_view(corpus, page)
    target.ask([interface.Answer(view, page.questions[0].question)])
    seconds = time.perf_counter() - began
    n_written = 1
    if corpus.manifest.task.kind != "parsing":
        n_written = len(page.questions)
    return int(SECONDS / max(1e-6, seconds * n_written))


def _scores_of(usefulness: Usefulness, n_pages: int) -> Iterator[TaskScore]:
    """Yield the measures that the pages give."""
    for measurement in usefulness.measures:
        if isinstance(measurement, Estimate) and measurement.name in SCORES:
            yield TaskScore(measurement.name, measurement.value, measurement.null, n_pages)
