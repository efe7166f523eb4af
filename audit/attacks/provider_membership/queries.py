"""Queries about a kept-aside document, and what comes of them, as it goes into the journal.

Method: methods.md#provider-membership.

One object a document: {"id", "questions": one object each (see `QuestionScores`), "memory_change"}. What does not exist
is None. "pretrained" stands for the reference, see `reference_of`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from audit.arrays import Floats, Ints
from audit.attacks.interface import ask, ask_all
from audit.attacks.masking import N_MASKS, maskable, masked_losses
from audit.attacks.provider_membership.providers import answers_of, knows_public, questions_of
from audit.attacks.usable import loss_kind
from audit.case import Case
from audit.corpus.documents import Document, Question
from audit.corpus.folding import fold
from audit.corpus.images import PageView, page_view
from audit.corpus.removal import Removal, remove
from audit.corpus.tagging import scheme_of
from audit.engine.interface import Json, Request
from audit.stats.distances import anls, similarity
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.interface import (
    Answer,
    AnswerLoss,
    BestClass,
    BestLinks,
    Reply,
    TagProbabilities,
    Target,
    TokenTarget,
    TrainingLoss,
)
from audit.targets.utility import Entities, spade_entities

BLUR = 20.0
"""Radius in pixels of the Gaussian blur over what is removed (Tito et al. 2024, appendix D.1.1)."""
NO_QUESTION = ""
"""Stands for no query (section 5.2.2): of what a model is asked only the frame of its prompt is left."""
NO_REFERENCE = "no model that knows none of the providers to compare with"
GIVE = "give the pretrained model with a head for the task, or a baseline trained on documents of other providers"
"""What would mend it."""


def reference_of(case: Case) -> Target | None:
    """Return the model that the target is compared with, which knows of no provider; None without one.

    That is the pretrained model. Often it has no head for the task, as what token classifiers are fine-tuned from; then
    it is the first baseline, provided that it learned nothing of the providers that are asked about. Baselines
    are trained on public documents, so no public document may be of a provider with kept-aside ones: a reference that
    knows some providers, of one side rather than of the other, would tilt the comparison.
    """
    kind, references = loss_kind(case.target), case.references
    if references.pretrained is not None and loss_kind(references.pretrained) == kind:
        return references.pretrained
    found = next((model for model in references.baselines if loss_kind(model) == kind), None)
    return None if found is None or knows_public(case.corpus) else found


def missing_reference(case: Case) -> str | None:
    """Why the target is compared with nothing, and what to give; None when `reference_of` finds a model."""
    if reference_of(case) is not None:
        return None
    pretrained = case.references.pretrained is not None
    why = "the pretrained model has no head for the task" if pretrained else "no pretrained model was given"
    if not case.references.baselines:
        return f"{NO_REFERENCE}: {why}, and no baseline; {GIVE}"
    if knows_public(case.corpus):
        return f"{NO_REFERENCE}: {why}, and baselines saw public documents of providers that are asked about; {GIVE}"
    return f"{NO_REFERENCE}: {why}, and no baseline can be asked the same; {GIVE}"


def ask_about(case: Case, document: Document, reference: Target | None) -> Generator[Request, Any, Json]:
    """Ask all that is asked about one kept-aside document; used with `yield from`.

    Args:
        case: the target and the data set.
        document: one that can be asked about.
        reference: see `reference_of`.
    """
    if loss_kind(case.target) == "answers":
        return (yield from _ask_answers(case, document, reference))
    scores = yield from _read(case, case.target, document)
    known = None if reference is None else (yield from _read(case, reference, document))
    assert scores is not None
    return {"id": document.id, "questions": [scores.as_json(known)], "memory_change": None}


def _read(case: Case, model: Target, document: Document) -> Generator[Request, Any, QuestionScores | None]:
    """What an encoder makes of the page; of a masked language model the mean loss of the tokens that masks hide."""
    if loss_kind(model) != "masks":
        return (yield from read_page(model, document))
    page = maskable(case.target, document)
    assert page is not None
    hidden = yield from masked_losses(model, document, page, N_MASKS)
    return None if hidden is None else QuestionScores(float(hidden.mean()))


def _ask_answers(case: Case, document: Document, reference: Target | None) -> Generator[Request, Any, Json]:
    view, questions = page_view(case.corpus, document), questions_of(document)
    texts = [question.question for question in questions]
    given, losses = yield from _ask_model(case.target, view, questions, [*texts, NO_QUESTION])
    known: list[Reply] = []
    if reference is not None:
        known, known_losses = yield from _ask_model(reference, view, questions, texts)
    memory = yield from _without_answers(case.target, view, questions)
    change = yield from _change(case.target, view, given[-1].text)
    rows = []
    for index, question in enumerate(questions):
        before = QuestionScores(known_losses[index], known[index].confidence) if known else None
        rows.append(_score_reply(given[index], losses[index], question).as_json(before, memory[index]))
    return {"id": document.id, "questions": rows, "memory_change": change}


def _ask_model(
    model: Target, view: PageView, questions: Sequence[Question], texts: Sequence[str]
) -> Generator[Request, Any, tuple[list[Reply], list[float]]]:
    """What a model replies to each of `texts`, and its losses of the questions."""
    given = yield from ask_all(model, [Answer(view, text) for text in texts])
    losses = yield from _losses(model, view, questions)
    return given, losses


def _losses(model: Target, view: PageView, questions: Sequence[Question]) -> Generator[Request, Any, list[float]]:
    """The training loss of each question's first accepted answer, nats a token."""
    queries = [AnswerLoss(view, question.question, answers_of(question)[0]) for question in questions]
    found = yield from ask_all(model, queries)
    return [float(-tokens.mean()) for tokens in found]


def _score_reply(given: Reply, loss: float, question: Question) -> QuestionScores:
    answers = answers_of(question)
    exact = fold(given.text) in {fold(answer) for answer in answers}
    return QuestionScores(loss, given.confidence, float(exact), anls(given.text, answers))


def _without_answers(
    target: Target, view: PageView, questions: Sequence[Question]
) -> Generator[Request, Any, list[float | None]]:
    """NLS_mem of each question: the similarity of the reply when the answer is gone, in [0, 1].

    None where the answer does not stand on the page, or cannot be taken out of its image.
    """
    removals = [remove(view, answers_of(question), blur=BLUR) for question in questions]
    gone = [bool(removal.words) and _hidden(view, removal) for removal in removals]
    asked = zip(removals, questions, gone, strict=True)
    queries = [Answer(removal.view, question.question) for removal, question, removed in asked if removed]
    replies = iter((yield from ask_all(target, queries)))
    return [
        anls(next(replies).text, answers_of(question)) if removed else None
        for question, removed in zip(questions, gone, strict=True)
    ]


def _change(target: Target, view: PageView, output: str) -> Generator[Request, Any, float | None]:
    """dNLS_mem: how much the output to no question changes when it is taken from the page; 1 - NLS, in [0, 1].

    An output that does not stand on the page leaves nothing to remove: the model says the same again, and the change is
    0, as for one that it knows by heart. None where that would mean nothing: the model says nothing at all, or
    nobody knows which words stand on the page, or where in its image.
    """
    if not fold(output) or not view.words:
        return None
    removal = remove(view, [output], blur=BLUR)
    if not removal.words:
        return 0.0
    if not _hidden(view, removal):
        return None
    again = yield from ask(target, Answer(removal.view, NO_QUESTION))
    return 1.0 - similarity(output, again.text)


def _hidden(view: PageView, removal: Removal) -> bool:
    """Whether the image, where there is one, does not show the removed words any more."""
    return view.open_page is None or len(removal.boxes) == len(removal.words)


@dataclass(frozen=True)
class QuestionScores:
    """What a model showed of one question; a page of a token classifier is one question. None: there is no such number.

    Attributes:
        loss: the training loss, nats a token.
        confidence: that of its own answer, in [0, 1].
        accuracy: of its own answer, in [0, 1].
        similarity: of its own answer to the true one, in [0, 1].
    """

    loss: float
    confidence: float | None = None
    accuracy: float | None = None
    similarity: float | None = None

    def as_json(self, pretrained: QuestionScores | None, memory_similarity: float | None = None) -> dict[str, Json]:
        """For the journal, beside what the reference showed of the same question; None where not finite."""
        known = None
        if pretrained is not None:
            known = {"loss": finite(pretrained.loss), "confidence": finite(pretrained.confidence)}
        return {
            "loss": finite(self.loss),
            "confidence": finite(self.confidence),
            "accuracy": finite(self.accuracy),
            "similarity": finite(self.similarity),
            "memory_similarity": finite(memory_similarity),
            "pretrained": known,
        }


def finite(value: float | None) -> float | None:
    """The number, or None where there is none, or it is infinite or NaN, which JSON does not know."""
    return value if value is not None and math.isfinite(value) else None


def read_page(model: Target, document: Document) -> Generator[Request, Any, QuestionScores | None]:
    """Read a page with the model; None where its loss reads nothing of it. Used with `yield from`.

    Accuracy is F1 of the page's fields (entities, or links where the model only links), none where neither page nor
    model has any; similarity the share of the tokens that the loss reads which are tagged, or linked, right; confidence
    the mean probability of the best tag over these tokens, which models that only link do not have. Of a
    classifier of pages accuracy and similarity are 1 where the class is right, and there is no confidence.
    """
    reader = cast("TokenTarget", model)
    page = reader.encode(document)
    if page is None or not page.has_loss:
        return None
    # The loss of the page as it is: a token in its own place.
    losses = yield from ask(model, TrainingLoss(page, 0, page.ids[:1]))
    tags = (yield from ask(model, TagProbabilities(page))) if TagProbabilities in model.answers else None
    links = (yield from ask(model, BestLinks(page))) if BestLinks in model.answers else None
    loss = float(losses[0])
    if BestClass in model.answers:
        right = float((yield from ask(model, BestClass(page))) == page.page_class)
        return QuestionScores(loss, accuracy=right, similarity=right)
    if tags is not None:
        return _tagged(page, loss, tags, links, reader.labels)
    return QuestionScores(loss) if links is None else _linked(page, loss, links)


def _tagged(page: Encoding, loss: float, tags: Floats, links: Ints | None, labels: Sequence[str]) -> QuestionScores:
    """Of a tagger; with links, of SPADE extraction."""
    assert page.labels is not None
    read = page.labels != NOT_READ
    best = np.where(read, tags.argmax(axis=1), NOT_READ)
    true, found = (_entities(page, classes, own, labels) for classes, own in ((page.labels, page.links), (best, links)))
    right, confidence = (best == page.labels)[read].mean(), tags.max(axis=1)[read].mean()
    return QuestionScores(loss, float(confidence), _f1(true, found), float(right))


def _entities(page: Encoding, classes: Ints, links: Ints | None, labels: Sequence[str]) -> Entities:
    if links is None:
        return scheme_of(labels).spans([labels[index] for index in classes[classes != NOT_READ]])
    return spade_entities(page.words, classes, links, labels)


def _linked(page: Encoding, loss: float, links: Ints) -> QuestionScores:
    """Of SPADE linking."""
    assert page.links is not None
    true, found = ({(int(child), int(own[child])) for child in np.flatnonzero(own >= 0)} for own in (page.links, links))
    right = (links == page.links)[page.links != NOT_READ].mean()
    return QuestionScores(loss, None, _f1(true, found), float(right))


def _f1(true: Entities, found: Entities) -> float | None:
    return 2 * len(true & found) / (len(true) + len(found)) if true or found else None
