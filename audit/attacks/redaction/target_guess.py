"""The target's guess of a hidden value: its tags, or the words it would put there (methods.md#redaction-context)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audit.attacks.interface import ask, ask_all
from audit.case import Case
from audit.corpus.bars import BarredPage
from audit.corpus.documents import CATEGORIES, Box, Corpus, Document, Entity, Mask, Word
from audit.corpus.redaction import FIXED, STAR, is_page
from audit.engine.interface import Request
from audit.targets.encoded_page import Encoding
from audit.targets.interface import Candidates, FillMask, TagProbabilities, Target, TokenTarget

N_TOKENS = 20
"""Tokens a masked language model is asked for at a place (ours)."""
MAX_PLACES = 3
"""Tokens of a hidden value that it is asked for, the first ones (ours)."""
ELSE = len(CATEGORIES)
"""Where the probability of tags stands that are of no category."""
Guess = list[list[float]]
"""Pairs of a number (of a tag, or a token) and how much the target puts there, in [0, 1], larger first."""


def can_guess(target: Target) -> bool:
    """Return whether the target can be asked about a hidden value."""
    return bool({TagProbabilities, FillMask} & target.answers) and hasattr(target, "encode")


def categories_of_tags(corpus: Corpus, labels: Sequence[str]) -> tuple[int, ...]:
    """Return for each tag of a target the index of its category in `CATEGORIES`, as most values of that label have it.

    `ELSE` for tags that no value of the data set has.
    """
    found: dict[str, Counter[int]] = {}
    for document in corpus.documents:
        for entity in document.entities:
            found.setdefault(entity.label, Counter())[CATEGORIES.index(entity.category)] += 1
    commonest = {label: counts.most_common(1)[0][0] for label, counts in found.items()}
    return tuple(commonest.get(label, commonest.get(label.partition("-")[2], ELSE)) for label in labels)


def guess_value(case: Case, document: Document, entity: Entity, mask: Mask) -> Generator[Request, Any, Guess | None]:
    """Ask the target to guess a value that is hidden from it.

    The value's tokens are [MASK], and its place is painted white where the target sees the page. Under a mask of one
    length there is one token, whatever the value. Values that stand beside it are hidden under the mask "all" only.

    Args:
        case: the audit.
        document: that holds the value.
        entity: the value.
        mask: how values are hidden.

    Returns:
        For a tagger the probability of each tag, the mean over the value's tokens; for a masked language model the
        tokens it would put there; None when the target cannot read the place.
    """
    page, positions = _hidden(case.token_target, document, entity, mask)
    if page is None or not positions:
        return None
    if TagProbabilities in case.target.answers:
        probabilities = yield from ask(case.target, TagProbabilities(page))
        return _listed(dict(enumerate(probabilities[list(positions)].mean(axis=0).tolist())))
    queries = [FillMask(page, position, N_TOKENS) for position in positions[:MAX_PLACES]]
    answers = yield from ask_all(case.target, queries)
    return _listed(_by_token(answers))[:N_TOKENS]


def by_category(guess: Guess, tags: Sequence[int]) -> Guess:
    """The probabilities of tags summed by category; `tags` is what `categories_of_tags` gives."""
    sums = [0.0] * (ELSE + 1)
    for number, weight in guess:
        sums[tags[int(number)]] += weight
    return _listed(dict(enumerate(sums)))


def alike(first: Guess | None, second: Guess | None) -> bool:
    """Return whether two guesses have the same first."""
    return (first and first[0][0]) == (second and second[0][0])


def _hidden(
    reader: TokenTarget, document: Document, entity: Entity, mask: Mask
) -> tuple[Encoding | None, tuple[int, ...]]:
    """The page with the value hidden, and where it stood."""
    others = [other for other in document.entities if other.attack and other is not entity] if mask == "all" else []
    page, places = redacted(document, [entity, *others], mask)
    encoded = reader.encode(page, places[0])
    if encoded is None:
        return None, ()
    hidden = encoded.scrubbed(encoded.positions_of({index for words in places for index in words}))
    return _covered(hidden, document, [entity, *others]), encoded.positions_of(places[0])


def _covered(page: Encoding, document: Document, entities: Sequence[Entity]) -> Encoding:
    """The page with all of every hidden value painted over in its image, however short the bar among its words."""
    if page.page_image is None or document.size is None:
        return page
    width, height = document.size
    whole = (0.0, 0.0, float(width), float(height))
    boxes = [document.words[index].box or whole for entity in entities for index in entity.words]
    shares = np.clip(np.array(boxes, np.float64) / [width, height, width, height], 0, 1)
    return replace(page, page_image=page.page_image.painted(shares))


def redacted(
    document: Document, entities: Sequence[Entity], mask: Mask
) -> tuple[Document, tuple[tuple[int, ...], ...]]:
    """The document with values hidden, without its annotations, and the words that now stand for each value.

    Under "length" the words stay, for the caller to mask; under the others `STAR` stands for all words of a value, as
    wide as `FIXED` on a page, where `BarredPage.start` says. All other words keep their boxes, so that the gap behind
    a bar may tell how long a value was. Of values that share words the first one's star stands.
    """
    if mask == "length":
        return _bare(document, document.words), tuple(entity.words for entity in entities)
    owner: dict[int, int] = {}
    for number, entity in enumerate(entities):
        for index in entity.words:
            owner.setdefault(index, number)
    page = BarredPage(document) if is_page(document) else None
    words: list[Word] = []
    stars: dict[int, int] = {}
    for index, word in enumerate(document.words):
        number = owner.get(index, -1)
        if number in stars:
            continue
        if number >= 0:
            stars[number] = len(words)
            word = Word(STAR, None if page is None else _bar(page, word.box, entities[number], owner))
        words.append(word)
    places = tuple((stars[number],) if number in stars else () for number in range(len(entities)))
    return _bare(document, words), places


def _bare(document: Document, words: Sequence[Word]) -> Document:
    return replace(
        document, words=tuple(words), entities=(), links=(), questions=(), tags=None, intent=None, paragraphs=()
    )


def _bar(page: BarredPage, box: Box | None, entity: Entity, unread: Collection[int]) -> Box | None:
    """A bar of one length in the place of the entity's word with this box; a character is half as wide as high."""
    if box is None or page.document.size is None:
        return None
    left = page.start(entity, unread)
    width = len(FIXED) * (box[3] - box[1]) / 2
    return (left, box[1], max(left, min(left + width, float(page.document.size[0]))), box[3])


def _by_token(answers: Sequence[Candidates]) -> Mapping[int, float]:
    """The weights of the candidates, the mean over the places."""
    weights: Counter[int] = Counter()
    for answer in answers:
        powers = np.exp(answer.logits - answer.logits.max())
        for token, weight in zip(answer.ids.tolist(), (powers / powers.sum()).tolist(), strict=True):
            weights[token] += weight / len(answers)
    return weights


def _listed(weights: Mapping[int, float]) -> Guess:
    """The largest first, the lower number first of equals."""
    ordered = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return [[float(number), float(weight)] for number, weight in ordered]
