"""What a token classifier makes of one page: its loss, its fields, how sure it is (methods.md#provider-membership)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, cast

import numpy as np

from audit.arrays import Floats, Ints
from audit.attacks.interface import ask
from audit.attacks.provider_membership.question_scores import QuestionScores
from audit.corpus.documents import Document
from audit.engine.interface import Request
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.interface import BestLinks, TagProbabilities, Target, TokenTarget, TrainingLoss
from audit.targets.utility import Entities, bio_spans, spade_entities


def read_page(model: Target, document: Document) -> Generator[Request, Any, QuestionScores | None]:
    """What the model makes of the page; None where its loss reads nothing of it. Used with `yield from`.

    Accuracy is F1 of the page's fields (entities, or links where the model only links), none where neither page nor
    model has any; similarity the share of the tokens that the loss reads which are tagged, or linked, right; confidence
    the mean probability of the best tag over these tokens (ours), which models that only link do not have.
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
        return bio_spans([labels[index] for index in classes[classes != NOT_READ]])
    return spade_entities(page.words, classes, links, labels)


def _linked(page: Encoding, loss: float, links: Ints) -> QuestionScores:
    """Of SPADE linking."""
    assert page.links is not None
    true, found = ({(int(child), int(own[child])) for child in np.flatnonzero(own >= 0)} for own in (page.links, links))
    right = (links == page.links)[page.links != NOT_READ].mean()
    return QuestionScores(loss, None, _f1(true, found), float(right))


def _f1(true: Entities, found: Entities) -> float | None:
    return 2 * len(true & found) / (len(true) + len(found)) if true or found else None
