"""Contexts: pages and questions given to the models in place of those of training (Pinto et al. 2024, appendix D)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, floor
from typing import Literal, get_args

from numpy.random import Generator as Rng
from numpy.random import default_rng
from PIL import Image, ImageDraw, ImageEnhance

from audit.attacks.attributes.hidden import kind_of_answer, pool_of, select_plausible
from audit.attacks.measuring import NEAR
from audit.attacks.questions import AskedQuestion
from audit.corpus.documents import Corpus, Word
from audit.corpus.folding import fold
from audit.corpus.images import PageView
from audit.corpus.paraphrases import paraphrase
from audit.corpus.removal import GROWTH, WHITE, line_height, replace_value
from audit.corpus.removal.proof import survives, why_derivable

Context = Literal["exact", "paraphrased", "no_text", "brightness_130", "decoy"]
CONTEXTS: tuple[Context, ...] = get_args(Context)
"""The context of training, and one for each thing that may differ.

Question, text, image, removed value. A limit holds against each. More would leave more models
undecided (benchmarks/calibration/memorisation_calibration.py).
"""
DISCOVERABLE = "discoverable"
"""Beside the contexts: answers that sampling gives, with page and question as in training."""
METHODS: tuple[str, ...] = (*CONTEXTS, DISCOVERABLE, NEAR)
"""The ways of asking, and of counting answers, that a limit on net is held against."""
UNASKED = "unasked"
"""Beside the contexts: values that no question of the data set asks for, on the page without
them."""
WAYS: tuple[str, ...] = (*METHODS, UNASKED)
WHOLE = "whole"
"""Beside the contexts: the complete page, with the answer on it."""
BRIGHTNESS = 1.3


def net_of(context: str) -> str:
    """Return the name of the metric "net" in a context: "net", or "net.CONTEXT"."""
    return "net" if context == "exact" else f"net.{context}"


def decoy_pages(
    corpus: Corpus, asked: AskedQuestion, page: PageView, words: Sequence[int], rng: Rng
) -> Iterator[tuple[str, PageView]]:
    """Yield the page with one decoy after another in place of the answer, in random order.

    Decoys are answers and fields of public and held-out documents of the same category, or to the
    same question. None is a value of this document, and no page is given on which the answer can be
    read or derived.

    Args:
        corpus: the data set.
        asked: the question.
        page: its page as it is.
        words: indices of the words that were removed with the answer.
        rng: random generator of the order.

    Yields:
        The decoy and its page.
    """
    document = asked.document
    values = {*map(fold, map(document.text_of, document.entities))}
    for question in document.questions:
        values.update(map(fold, question.answers))
    pool = pool_of(corpus, "public", "heldout").get(kind_of_answer(asked), {})
    decoys = select_plausible(pool, asked.values | values, (word.text for word in page.words))
    for index in rng.permutation(len(decoys)):
        view = replace_value(page, words, decoys[index])
        if view is None:
            continue
        texts = [word.text for word in view.words]
        if not survives(texts, asked.spellings) and why_derivable(texts, asked.spellings) is None:
            yield decoys[index], view


def most_frequent(answers: Sequence[str], decoys: Sequence[str]) -> str:
    """Return the most frequent answer, folded, that does not repeat the decoy of its page.

    The earliest of equals.

    Args:
        answers: answers to one question, each beside its own decoy.
        decoys: decoys of the answers, as many.

    Returns:
        The answer as it was first written; empty where every answer is empty or a decoy.
    """
    left = [
        text
        for text, decoy in zip(answers, decoys, strict=True)
        if fold(text) not in ("", fold(decoy))
    ]
    counted = Counter(map(fold, left))
    return max(left, key=lambda text: counted[fold(text)], default="")


@dataclass(frozen=True, eq=False)
class ContextProbe:
    """A question on a page view.

    `decoy` stands there in place of the answer, where the context is that.
    """

    view: PageView
    question: str
    decoy: str = ""


@dataclass(frozen=True, eq=False)
class Scene:
    """A question, its page, and the page without the answer.

    Attributes:
        corpus: the data set.
        asked: the question.
        page: the complete page.
        view: the page without the answer.
        words: indices of the words that were removed with the answer.
        n_decoys: pages with a decoy, at most; 0 leaves the context out.
        seed: every context draws from a source of its own, whichever others are tried.
    """

    corpus: Corpus
    asked: AskedQuestion
    page: PageView
    view: PageView
    words: tuple[int, ...]
    n_decoys: int
    seed: int

    def probes(self, context: str) -> tuple[ContextProbe, ...]:
        """Return the questions of a context; none where the page or the corpus does not allow it.

        The answers to several are one vote (`most_frequent`).
        """
        question = self.asked.question.question
        rng = default_rng([self.seed, *context.encode()])
        match context:
            case "paraphrased":
                words = self._paraphrase(rng)
                return () if words is None else (ContextProbe(self.view, words),)
            case "decoy":
                pages = decoy_pages(self.corpus, self.asked, self.page, self.words, rng)
                return tuple(
                    ContextProbe(view, question, decoy)
                    for decoy, view in islice(pages, self.n_decoys)
                )
            case "brightness_130":
                return (
                    ()
                    if self.view.open_page is None
                    else (ContextProbe(brightened(self.view), question),)
                )
            case "no_text":
                return (ContextProbe(without_text(self.view), question),)
        return (ContextProbe(self.page if context == WHOLE else self.view, question),)

    def _paraphrase(self, rng: Rng) -> str | None:
        """Return the question in the owner's other words, else from a template.

        None for a parsing model.
        """
        if self.corpus.manifest.task.kind == "parsing":
            return None
        question = self.asked.question
        paraphrases = [
            paraphrase
            for paraphrase in question.paraphrases
            if fold(paraphrase) != fold(question.question)
        ]
        return (
            paraphrases[int(rng.integers(len(paraphrases)))]
            if paraphrases
            else paraphrase(question.question, int(rng.integers(2**32)))
        )


def without_text(view: PageView) -> PageView:
    """Remove all words, and paint every word's box white, grown as for a removal (appendix D.1).

    What the OCR did not read stays in the image; a word without a box cannot be painted over.
    """

    def painted(image: Image.Image) -> Image.Image:
        """Return a copy of the page's image with the grown box of every word painted white."""
        page = image.copy()
        brush = ImageDraw.Draw(page)
        for box in (word.box for word in view.words):
            if box is not None:
                margin = GROWTH * line_height(view.words, box)
                left, top, right, bottom = box
                corners = (
                    floor(left - margin),
                    floor(top - margin),
                    ceil(right + margin),
                    ceil(bottom + margin),
                )
                brush.rectangle(corners, fill=WHITE)
        return page

    return _changed(view, (), painted)


def brightened(view: PageView) -> PageView:
    """Multiply every pixel by `BRIGHTNESS`, at most white (appendix D.3); the words stay."""
    return _changed(
        view, view.words, lambda image: ImageEnhance.Brightness(image).enhance(BRIGHTNESS)
    )


def _changed(
    view: PageView, words: Iterable[Word], change: Callable[[Image.Image], Image.Image]
) -> PageView:
    """Return the page view with these words, and with its image changed when it is opened.

    Its image is changed when it is asked for, and not before.
    """

    def opened() -> Image.Image:
        """Open the page's image and return it changed."""
        assert view.image is not None
        return change(view.image)

    return replace(view, words=tuple(words), open_page=None if view.open_page is None else opened)
