"""The gain of the target over the context: does the model make it worse? (methods.md#redaction-context)."""

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from audit.arrays import Bools, Ints
from audit.attacks.interface import AUDITED, WORDS, ask, ask_all
from audit.attacks.measuring import Streams
from audit.attacks.redaction.contexts import (
    EXCESS,
    GAINS,
    NEEDED,
    Features,
    Samples,
    features_of,
    fit,
)
from audit.case import Case
from audit.corpus.bars import BarredPage
from audit.corpus.documents import CATEGORIES, Box, Corpus, Document, Entity, Mask, Word
from audit.corpus.redaction import FIXED, STAR, is_page
from audit.engine.interface import Json, Progress, Request
from audit.measurements import Measurement, Unresolved
from audit.stats.estimates import estimate
from audit.stats.rates import excess_rate, net
from audit.targets.encoded_page import Encoding
from audit.targets.interface import (
    NONE_AUDITED,
    Candidates,
    FillMask,
    TagProbabilities,
    Target,
    TokenTarget,
)

N_TOKENS = 20
"""Tokens a masked language model is asked for at a place."""
MAX_PLACES = 3
"""Tokens of a hidden value that it is asked for, the first ones."""
ELSE = len(CATEGORIES)
"""Where the probability of tags stands that are of no category."""
Guess = list[list[float]]
"""Pairs of a number (of a tag, or a token) and how much the target puts there, in [0, 1], larger
first."""


Side = tuple[Bools, Bools, Ints]
"""Of the values of a split: where context and target, and where context alone, are right; the
document."""


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
    return tuple(
        commonest.get(label, commonest.get(label.partition("-")[2], ELSE)) for label in labels
    )


def guess_value(
    case: Case, document: Document, entity: Entity, mask: Mask
) -> Generator[Request, Any, Guess | None]:
    """Ask the target to guess a value that is hidden from it.

    The value's tokens are [MASK], and its place is painted white where the target sees the page.
    Under a mask of one length there is one token, whatever the value. Values that stand beside it
    are hidden under the mask "all" only.

    Args:
        case: the audit.
        document: that holds the value.
        entity: the value.
        mask: how values are hidden.

    Returns:
        For a tagger the probability of each tag, the mean over the value's tokens; for a masked
        language model the tokens it would put there; None when the target cannot read the place.
    """
    page, positions = _hide_value(case.token_target, document, entity, mask)
    if page is None or not positions:
        return None
    if TagProbabilities in case.target.answers:
        probabilities = yield from ask(case.target, TagProbabilities(page))
        return _sort_guess(dict(enumerate(probabilities[list(positions)].mean(axis=0).tolist())))
    queries = [FillMask(page, position, N_TOKENS) for position in positions[:MAX_PLACES]]
    answers = yield from ask_all(case.target, queries)
    return _sort_guess(_mean_probabilities(answers))[:N_TOKENS]


def by_category(guess: Guess, tags: Sequence[int]) -> Guess:
    """Sum the probabilities of tags by category; `tags` is what `categories_of_tags` returns."""
    sums = [0.0] * (ELSE + 1)
    for number, weight in guess:
        sums[tags[int(number)]] += weight
    return _sort_guess(dict(enumerate(sums)))


def _hide_value(
    reader: TokenTarget, document: Document, entity: Entity, mask: Mask
) -> tuple[Encoding | None, tuple[int, ...]]:
    """Encode the page with the value hidden, and return the positions where it stood."""
    others = (
        [other for other in document.entities if other.attack and other is not entity]
        if mask == "all"
        else []
    )
    page, places = hide_values(document, [entity, *others], mask)
    encoded = reader.encode(page, places[0])
    if encoded is None:
        return None, ()
    hidden = encoded.scrubbed(encoded.positions_of({index for words in places for index in words}))
    return _paint_over(hidden, document, [entity, *others]), encoded.positions_of(places[0])


def _paint_over(page: Encoding, document: Document, entities: Sequence[Entity]) -> Encoding:
    """Paint over the whole of every hidden value in the page image, however short the bar among its words."""
    if page.page_image is None or document.size is None:
        return page
    width, height = document.size
    whole = (0.0, 0.0, float(width), float(height))
    boxes = [document.words[index].box or whole for entity in entities for index in entity.words]
    shares = np.clip(np.array(boxes, np.float64) / [width, height, width, height], 0, 1)
    return replace(page, page_image=page.page_image.painted(shares))


def hide_values(
    document: Document, entities: Sequence[Entity], mask: Mask
) -> tuple[Document, tuple[tuple[int, ...], ...]]:
    """Hide values of a document, drop its annotations, and return the words that now stand for each value.

    Under "length" the words stay, for the caller to mask; under the others `STAR` stands for all
    words of a value, as wide as `FIXED` on a page, where `BarredPage.start` says. All other words
    keep their boxes, so that the gap behind a bar may tell how long a value was. Of values that
    share words the first one's star stands.
    """
    if mask == "length":
        return _without_annotations(document, document.words), tuple(
            entity.words for entity in entities
        )
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
            word = Word(
                STAR,
                None if page is None else _bar_box(page, word.box, entities[number], owner),
                word.after,
            )
        words.append(word)
    places = tuple((stars[number],) if number in stars else () for number in range(len(entities)))
    return _without_annotations(document, words), places


def _without_annotations(document: Document, words: Sequence[Word]) -> Document:
    return replace(
        document,
        words=tuple(words),
        entities=(),
        links=(),
        questions=(),
        tags=None,
        intent=None,
        paragraphs=(),
    )


def _bar_box(
    page: BarredPage, box: Box | None, entity: Entity, unread: Collection[int]
) -> Box | None:
    """Return the box of a bar of one length in place of the entity's word.

    A character is half as wide as high.
    """
    if box is None or page.document.size is None:
        return None
    left = page.start(entity, unread)
    width = len(FIXED) * (box[3] - box[1]) / 2
    return (left, box[1], max(left, min(left + width, float(page.document.size[0]))), box[3])


def _mean_probabilities(answers: Sequence[Candidates]) -> Mapping[int, float]:
    """Average the probabilities of the candidates over the places."""
    weights: Counter[int] = Counter()
    for answer in answers:
        powers = np.exp(answer.logits - answer.logits.max())
        for token, weight in zip(
            answer.ids.tolist(), (powers / powers.sum()).tolist(), strict=True
        ):
            weights[token] += weight / len(answers)
    return weights


def _sort_guess(weights: Mapping[int, float]) -> Guess:
    """Sort weights, the largest first, the lower number first of equals."""
    ordered = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return [[float(number), float(weight)] for number, weight in ordered]


NOT_ASKED = "the target names neither labels nor hidden words"
NOTHING_HIDDEN = "no training or unseen document holds a redacted value"
GUESS_WEIGHT = 1.0
"""Of what the target says beside a context of length 1."""
SEED = 0


def measure_gain(
    case: Case, samples: Samples, guesses: Mapping[str, Json], streams: Streams, progress: Progress
) -> tuple[tuple[Measurement, ...], dict[str, int]]:
    """Measure the accuracy of context and target together minus that of context alone, by split.

    Null: 0.

    `target_gain` is what that is more on members than on held-out documents: what the target tells
    because it was trained on them, for a gain on both is what it knows of the language.
    `target_gain.uncommon` is the same for the values of other categories than the commonest, which
    could hide behind it. Both attackers are linear SVMs on TF-IDF, fitted in the same training
    folds on the values that the target was asked about.

    Args:
        case: the audit.
        samples: all values under the manifest's mask.
        guesses: by document, by value, what the target says of it; None where it cannot read the
            place.
        streams: of the resampling.
        progress: advanced for every fold.

    Returns:
        The measurements of `GAINS`, and counts of what was asked.
    """
    answers: list[Guess | None] = [
        guesses.get(span.document, {}).get(span.entity) for span in samples.spans
    ]
    asked = np.array([answer is not None for answer in answers], bool)
    unread = sum(answer is None for document in guesses.values() for answer in document.values())
    counts = {"asked of the target": int(asked.sum()), "not read by the target": unread}
    if not guesses:
        able = can_guess(case.target)
        reason = (
            NOTHING_HIDDEN if able else NOT_ASKED if case.target.card.is_model else NONE_AUDITED
        )
        return tuple(Unresolved(name, reason, 0, inapplicable=not able) for name in GAINS), counts
    rows = samples.of(asked)
    if len(np.unique(rows.folds)) < 2:
        reason = "the documents that the target was asked about are in one fold"
        return tuple(Unresolved(name, reason, len(rows), None) for name in GAINS), counts
    given = [answer for answer in answers if answer is not None]
    if TagProbabilities in case.target.answers:
        tags = categories_of_tags(case.corpus, case.token_target.labels)
        given = [by_category(answer, tags) for answer in given]
    alone, together = (
        predicted == rows.classes for predicted in _predict_both(rows, given, progress)
    )
    splits = np.array(
        [case.corpus.document(span.document).split for span in rows.spans], dtype=object
    )

    def sides(among: Bools) -> list[Side]:
        chosen = [among & (splits == split) for split in AUDITED]
        return [(together[own], alone[own], rows.documents[own]) for own in chosen]

    everything = sides(np.ones(len(rows), bool))
    uncommon = sides(rows.classes != np.bincount(rows.classes).argmax())
    excesses = (
        _excess(name, pair, streams[name])
        for name, pair in zip(EXCESS, (everything, uncommon), strict=True)
    )
    return (*excesses, *_by_split(everything, streams)), counts


def _by_split(sides: Sequence[Side], streams: Streams) -> Iterator[Measurement]:
    for split, (together, alone, documents) in zip(AUDITED, sides, strict=True):
        name = f"target_gain.{split}"
        if documents.size:
            found = net(together & ~alone, alone & ~together, documents, streams[name])
            yield estimate(name, found, "values", 0.0, "blind")
        else:
            yield Unresolved(name, f"the target was asked about no {WORDS[split]} document", 0)


def _excess(name: str, sides: Sequence[Side], rng: Rng) -> Measurement:
    for split, (*_, documents) in zip(AUDITED, sides, strict=True):
        if documents.size < NEEDED:
            reason = f"the target was asked about too few values of {WORDS[split]} documents"
            return Unresolved(name, reason, documents.size, NEEDED)
    return estimate(name, excess_rate(sides, rng), "values", 0.0, "held-out")


def _predict_both(rows: Samples, given: list[Guess], progress: Progress) -> tuple[Ints, Ints]:
    """Predict categories from context alone, and from context and target: (n,) each."""
    from scipy.sparse import hstack

    alone, together = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    numbers = np.unique(rows.folds)
    progress.stage("redaction: what the target adds", len(numbers))
    for number in numbers:
        held = rows.folds == number
        training, tried = rows.divided(int(number))
        first, second = features_of(training, tried)
        alone[held] = fit(first, training.classes, SEED).predict(second)
        more = _guess_rows(
            [given[index] for index in np.flatnonzero(~held)],
            [given[p] for p in np.flatnonzero(held)],
        )
        first, second = hstack([first, more[0]]).tocsr(), hstack([second, more[1]]).tocsr()
        together[held] = fit(first, training.classes, SEED).predict(second)
        progress.advance()
    return alone, together


def _guess_rows(training: list[Guess], held: list[Guess]) -> tuple[Features, Features]:
    """Turn guesses into feature rows of length `GUESS_WEIGHT`.

    Numbers that the training folds lack are left out.
    """
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.preprocessing import normalize

    vectorizer = DictVectorizer()
    known, asked = (
        [{f"{int(number)}": own for number, own in guess} for guess in part]
        for part in (training, held)
    )
    first, second = vectorizer.fit_transform(known), vectorizer.transform(asked)
    return GUESS_WEIGHT * normalize(first), GUESS_WEIGHT * normalize(second)
