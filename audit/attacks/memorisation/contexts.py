"""Contexts: pages and questions given to the models in place of the original ones (Pinto et al. 2024, appendix D)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

from numpy.random import Generator as Rng
from numpy.random import default_rng

from audit.attacks.memorisation.decoys import decoy_pages
from audit.attacks.memorisation.names import DISCOVERABLE, Context
from audit.attacks.questions import AskedQuestion, distinct_answers
from audit.attacks.removal import stands_on, without
from audit.corpus import perturbations
from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import fold
from audit.corpus.page_view import PageView, page_view
from audit.corpus.paraphrases import paraphrase

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
