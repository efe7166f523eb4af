"""Contexts: pages and questions given to the models in place of the original ones (Pinto et al. 2024, appendix D)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal, get_args

from numpy.random import Generator as Rng
from numpy.random import default_rng

from audit.attacks.attributes.hidden import select_plausible
from audit.attacks.attributes.questions import AnswerPool, kind_of_answer, pool_of
from audit.attacks.questions import AskedQuestion, distinct_answers
from audit.attacks.removal import stands_on, without
from audit.corpus import perturbations
from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import fold
from audit.corpus.page_view import PageView, page_view
from audit.corpus.painting import replace_value
from audit.corpus.paraphrases import paraphrase
from audit.corpus.removal.derivable import why_derivable
from audit.corpus.removal.proof import survives

Context = Literal[
    "exact",
    "decoy",
    "no_text",
    "paraphrased",
    "shuffled",
    "image_only",
    "constant",
    "rotation_5",
    "rotation_10",
    "shift_20",
    "shift_100",
    "brightness_50",
    "brightness_80",
    "brightness_130",
    "brightness_200",
]
CONTEXTS: tuple[Context, ...] = get_args(Context)
"""Degrees, pixels and per cent stand in the names."""
DISCOVERABLE = "discoverable"
"""Beside the contexts: answers that sampling gives, page and question as in training."""
PLAYERS = ("target", "baseline")
IDENTIFIED = "identified"
"""Distinct personal values, beside a share of all questions: how many people and numbers a model gives away."""
GAP = "anls_gap.heldout"
EXTRACTABLE = "extractable_memorisation"
CONTEXTS_SHOWN: tuple[Context, ...] = ("decoy", "no_text", "paraphrased", "shuffled", "image_only", "brightness_130")
"""Contexts beside the exact one with a number of their own: those that a limit is held against, and those of an
attacker who holds the question or the page alone. The journal holds what every context that was tried gave."""


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


GATED: tuple[Context, ...] = ("exact", "paraphrased", "no_text", "brightness_130", "decoy")
"""Contexts that a limit on net is held against, where they are tried (ours): that of training, and one for each thing
that may be another: the question's words, the page's text, its image, the removed value. A countermeasure that was
trained in the first alone does not pass by it. More of them would leave more models that remember nothing undecided
(benchmarks/memorisation_calibration.py)."""
METHODS: tuple[str, ...] = (*GATED, DISCOVERABLE)
"""All ways of asking that a limit on net is held against: the contexts, and sampling."""
WHOLE = "whole"
"""Beside the contexts: the page as it is, with the answer on it."""
_IMAGE_ALONE: tuple[Context, ...] = ("constant", "brightness_50", "brightness_80", "brightness_130", "brightness_200")
"""Contexts that are another one, or the page itself, where there is no image: a constant image has no text either."""


@dataclass(frozen=True, eq=False)
class ContextProbe:
    """A question on a page view; `decoy` stands there in place of the answer, where the context is that."""

    view: PageView
    question: str
    decoy: str = ""


@dataclass(frozen=True, eq=False)
class Scene:
    """A question, its page without the answer, and where other pages and questions come from.

    Attributes:
        corpus: other documents are those of the same split.
        asked: the question.
        page: its page as it is.
        view: its page without the answer.
        words: indices of the words that were removed with the answer.
        fuzzy: whether near matches of an answer are removed too, where other pages are cleared.
        n_decoys: pages with a decoy, at most; 0 leaves the context out.
        seed: of all that is drawn; every context draws from a source of its own, whichever others are tried.
    """

    corpus: Corpus
    asked: AskedQuestion
    page: PageView
    view: PageView
    words: tuple[int, ...]
    fuzzy: bool
    n_decoys: int
    seed: int

    def probes(self, context: str) -> tuple[ContextProbe, ...]:
        """The questions of this context; none where the page or the corpus does not allow it.

        The answers to several are one vote (`decoys.most_frequent`).
        """
        if context != "decoy":
            probe = self.probe(context)
            return () if probe is None else (probe,)
        rng = default_rng([self.seed, *context.encode()])
        pages = decoy_pages(self.corpus, self.asked, self.page, self.words, rng)
        question = self.asked.question.question
        return tuple(ContextProbe(view, question, decoy) for decoy, view in islice(pages, self.n_decoys))

    def probe(self, context: str) -> ContextProbe | None:
        """The question in this context, or on the whole page; None where the page or the corpus does not allow it."""
        if context == WHOLE:
            return self.on(self.page)
        if context in _IMAGE_ALONE and self.view.open_page is None:
            return None
        return _PROBES[context](self, default_rng([self.seed, *context.encode()]))

    def others(self, rng: Rng) -> Iterator[Document]:
        """The other documents of this split, in random order."""
        documents = self.corpus.of(self.asked.document.split)
        for index in rng.permutation(len(documents)):
            if documents[index].id != self.asked.document.id:
                yield documents[index]

    def on(self, view: PageView) -> ContextProbe:
        """The question itself on another page view."""
        return ContextProbe(view, self.asked.question.question)


def asks(document: Document, question: str, *, paraphrased: bool = True) -> bool:
    """Return whether the data set asks this about the document, in these words or (`paraphrased`) in others."""
    own = fold(question)
    return any(
        own in map(fold, (known.question, *(known.paraphrases if paraphrased else ()))) for known in document.questions
    )


def _exact(scene: Scene, rng: Rng) -> ContextProbe:
    return scene.on(scene.view)


def _paraphrased(scene: Scene, rng: Rng) -> ContextProbe | None:
    """The question in other words: the owner's, where there are some; a parsing model is asked in no words."""
    if scene.corpus.manifest.task.kind == "parsing":
        return None
    question = scene.asked.question
    own = [other for other in question.paraphrases if fold(other) != fold(question.question)]
    words = own[int(rng.integers(len(own)))] if own else paraphrase(question.question, int(rng.integers(2**32)))
    return ContextProbe(scene.view, words)


def _shuffled(scene: Scene, rng: Rng) -> ContextProbe | None:
    """The question on another page, on which it is never asked and the answer does not stand (D.4, questions only)."""
    for document in scene.others(rng):
        questions = [question for question in document.questions if distinct_answers(question.answers)]
        if not questions or asks(document, scene.asked.question.question, paraphrased=False):
            continue
        page = page_view(scene.corpus, document)
        if stands_on(page, scene.asked.answers):
            continue
        other = questions[int(rng.integers(len(questions)))]
        return scene.on(without(page, AskedQuestion(document, other).spellings, fuzzy=scene.fuzzy))
    return None


def _image_only(scene: Scene, rng: Rng) -> ContextProbe | None:
    """An unrelated question on the page without any of its answers (D.4, images only).

    Which answers count is known once all questions of the page were tried: see `table`.
    """
    document = scene.asked.document
    asked = (AskedQuestion(document, question) for question in document.questions)
    answers = distinct_answers([text for one in asked for text in one.spellings])
    view = without(scene.page, answers, fuzzy=scene.fuzzy)
    for other in scene.others(rng):
        unrelated = [question.question for question in other.questions if not asks(document, question.question)]
        if unrelated:
            return ContextProbe(view, unrelated[int(rng.integers(len(unrelated)))])
    return None


def _sign(rng: Rng) -> int:
    return int(rng.choice((-1, 1)))


def _rotation(scene: Scene, rng: Rng, degrees: int) -> ContextProbe | None:
    return _moved(scene, perturbations.rotated(scene.view, degrees * _sign(rng)))


def _shift(scene: Scene, rng: Rng, pixels: int) -> ContextProbe | None:
    return _moved(scene, perturbations.shifted(scene.view, (pixels * _sign(rng), pixels * _sign(rng))))


def _moved(scene: Scene, view: PageView) -> ContextProbe | None:
    """A text without image and boxes has no place to move from."""
    if view.open_page is None and all(word.box is None for word in scene.view.words):
        return None
    return scene.on(view)


def _changed(scene: Scene, rng: Rng, change: Callable[[PageView], PageView]) -> ContextProbe:
    return scene.on(change(scene.view))


def _brightness(factor: float) -> Callable[[Scene, Rng], ContextProbe]:
    return partial(_changed, change=partial(perturbations.brightened, factor=factor))


_PROBES: Mapping[str, Callable[[Scene, Rng], ContextProbe | None]] = {
    "exact": _exact,
    "no_text": partial(_changed, change=perturbations.without_text),
    "paraphrased": _paraphrased,
    "shuffled": _shuffled,
    "image_only": _image_only,
    "constant": partial(_changed, change=perturbations.blank),
    "rotation_5": partial(_rotation, degrees=5),
    "rotation_10": partial(_rotation, degrees=10),
    "shift_20": partial(_shift, pixels=20),
    "shift_100": partial(_shift, pixels=100),
    "brightness_50": _brightness(0.5),
    "brightness_80": _brightness(0.8),
    "brightness_130": _brightness(1.3),
    "brightness_200": _brightness(2.0),
}
