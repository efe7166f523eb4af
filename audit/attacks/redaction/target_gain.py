"""The gain of the target over the context: does the model make it worse?

See methods/redaction-context.md.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

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
    """Return for each tag of a target the index of its category in `CATEGORIES`.

    It is the one that most values of that label have, `ELSE` for tags that no value of the data set
    has.
    """
    categories: dict[str, Counter[int]] = defaultdict(Counter)
    for document in corpus.documents:
        for entity in document.entities:
            categories[entity.label][CATEGORIES.index(entity.category)] += 1
    commonest = {label: counts.most_common(1)[0][0] for label, counts in categories.items()}
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
        document: document that holds the value.
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
    entities = [entity]
    if mask == "all":
        entities += [value for value in document.entities if value.attack and value is not entity]
    page, places = hide_values(document, entities, mask)
    encoded = reader.encode(page, places[0])
    if encoded is None:
        return None, ()
    hidden = encoded.scrubbed(encoded.positions_of(set(chain.from_iterable(places))))
    return _paint_over(hidden, document, entities), encoded.positions_of(places[0])


def _paint_over(page: Encoding, document: Document, entities: Sequence[Entity]) -> Encoding:
    """Paint over the whole of every hidden value in the page image.

    The bar among its words may be shorter.
    """
    if page.page_image is None or document.size is None:
        return page
    width, height = document.size
    full_page = (0.0, 0.0, float(width), float(height))
    boxes = []
    for entity in entities:
        boxes += [document.words[index].box or full_page for index in entity.words]
    shares = np.clip(np.array(boxes, np.float64) / [width, height, width, height], 0, 1)
    return replace(page, page_image=page.page_image.painted(shares))


def hide_values(
    document: Document, entities: Sequence[Entity], mask: Mask
) -> tuple[Document, tuple[tuple[int, ...], ...]]:
    """Hide values of a document, drop its annotations, and return what stands for each value.

    Under "length" the words stay, for the caller to mask; under the others `STAR` stands for all
    words of a value, as wide as `FIXED` on a page, where `BarredPage.start` says. All other words
    keep their boxes, so that the gap behind a bar may tell how long a value was. Of values that
    share words the first one's star stands.
    """
    if mask == "length":
        return _without_annotations(document, document.words), tuple(
            entity.words for entity in entities
        )
    owners = _owners_of_words(entities)
    page = BarredPage(document) if is_page(document) else None
    words: list[Word] = []
    stars: dict[int, int] = {}
    for index, word in enumerate(document.words):
        number = owners.get(index)
        if number is None:
            words.append(word)
        elif number not in stars:
            stars[number] = len(words)
            box = None if page is None else _bar_box(page, word.box, entities[number], owners)
            words.append(Word(STAR, box, word.after))
    places = tuple((stars[number],) if number in stars else () for number in range(len(entities)))
    return _without_annotations(document, words), places


def _owners_of_words(entities: Sequence[Entity]) -> dict[int, int]:
    """Return by word the number of the first entity that holds it."""
    owners: dict[int, int] = {}
    for number, entity in enumerate(entities):
        for index in entity.words:
            owners.setdefault(index, number)
    return owners


def _without_annotations(document: Document, words: Sequence[Word]) -> Document:
    """Return the document with these words and without annotations, questions and tags."""
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
        probabilities = (powers / powers.sum()).tolist()
        for token, probability in zip(answer.ids.tolist(), probabilities, strict=True):
            weights[token] += probability / len(answers)
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
        guesses: guesses by document, by value, what the target says of it; None where it cannot
            read the place.
        streams: random streams of the resampling.
        progress: advanced for every fold.

    Returns:
        The measurements of `GAINS`, and counts of what was asked.
    """
    answers: list[Guess | None] = [
        guesses.get(span.document, {}).get(span.entity) for span in samples.spans
    ]
    is_answered = np.array([answer is not None for answer in answers], bool)
    n_unread = _count_unread(guesses)
    counts = {"asked of the target": int(is_answered.sum()), "not read by the target": n_unread}
    if not guesses:
        return _never_asked(case.target), counts
    rows = samples.of(is_answered)
    if len(np.unique(rows.folds)) < 2:
        reason = "the documents that the target was asked about are in one fold"
        return tuple(Unresolved(name, reason, len(rows), None) for name in GAINS), counts
    usable = _weigh_by_category(case, [answer for answer in answers if answer is not None])
    predicted_alone, predicted_together = _predict_both(rows, usable, progress)
    splits = [case.corpus.document(span.document).split for span in rows.spans]
    hits = _Hits(
        predicted_together == rows.classes,
        predicted_alone == rows.classes,
        rows.documents,
        np.array(splits, dtype=object),
    )
    everything = hits.sides(np.ones(len(rows), bool))
    uncommon = hits.sides(rows.classes != np.bincount(rows.classes).argmax())
    excesses = (
        _excess(name, sides, streams[name])
        for name, sides in zip(EXCESS, (everything, uncommon), strict=True)
    )
    return (*excesses, *_by_split(everything, streams)), counts


@dataclass(frozen=True, eq=False)
class _Hits:
    """Which values both attackers classify rightly; every column has shape (n_values,).

    Attributes:
        together: where context and target together are right.
        alone: where context alone is right.
        documents: a number for the value's document.
        splits: the document's split.
    """

    together: Bools
    alone: Bools
    documents: Ints
    splits: NDArray[np.object_]

    def sides(self, among: Bools) -> list[Side]:
        """Return, for each split, the hits and documents of the marked values."""
        sides = []
        for split in AUDITED:
            rows = among & (self.splits == split)
            sides.append((self.together[rows], self.alone[rows], self.documents[rows]))
        return sides


def _count_unread(guesses: Mapping[str, Json]) -> int:
    """Count the values whose place the target cannot read."""
    return sum(list(document.values()).count(None) for document in guesses.values())


def _never_asked(target: Target) -> tuple[Measurement, ...]:
    """Return every gain as unresolved, with why the target was asked about no value."""
    if can_guess(target):
        return tuple(Unresolved(name, NOTHING_HIDDEN, 0, inapplicable=False) for name in GAINS)
    reason = NOT_ASKED if target.card.is_model else NONE_AUDITED
    return tuple(Unresolved(name, reason, 0, inapplicable=True) for name in GAINS)


def _weigh_by_category(case: Case, answers: list[Guess]) -> list[Guess]:
    """Sum a tagger's answers by category; return those of other targets as they are."""
    if TagProbabilities not in case.target.answers:
        return answers
    tags = categories_of_tags(case.corpus, case.token_target.labels)
    return [by_category(answer, tags) for answer in answers]


def _by_split(sides: Sequence[Side], streams: Streams) -> Iterator[Measurement]:
    """Measure the gain of the target on the values of each split."""
    for split, (together, alone, documents) in zip(AUDITED, sides, strict=True):
        name = f"target_gain.{split}"
        if documents.size:
            interval = net(together & ~alone, alone & ~together, documents, streams[name])
            yield estimate(name, interval, "values", 0.0, "blind")
        else:
            yield Unresolved(name, f"the target was asked about no {WORDS[split]} document", 0)


def _excess(name: str, sides: Sequence[Side], rng: Rng) -> Measurement:
    """Measure how much larger the gain of the target is on members than on held-out documents."""
    for split, (*_, documents) in zip(AUDITED, sides, strict=True):
        if documents.size < NEEDED:
            reason = f"the target was asked about too few values of {WORDS[split]} documents"
            return Unresolved(name, reason, documents.size, NEEDED)
    return estimate(name, excess_rate(sides, rng), "values", 0.0, "held-out")


def _predict_both(rows: Samples, guesses: list[Guess], progress: Progress) -> tuple[Ints, Ints]:
    """Predict categories from context alone, and from context and target: (n,) each."""
    from scipy.sparse import hstack

    alone = np.zeros(len(rows), np.int64)
    together = np.zeros(len(rows), np.int64)
    numbers = np.unique(rows.folds)
    progress.stage("redaction: what the target adds", len(numbers))
    for number in numbers:
        in_fold = rows.folds == number
        training, tried = rows.divided(int(number))
        context, tried_context = features_of(training, tried)
        alone[in_fold] = fit(context, training.classes, SEED).predict(tried_context)
        guess, tried_guess = _guess_rows(
            [guesses[index] for index in np.flatnonzero(~in_fold)],
            [guesses[index] for index in np.flatnonzero(in_fold)],
        )
        joined = hstack([context, guess]).tocsr()
        tried_joined = hstack([tried_context, tried_guess]).tocsr()
        together[in_fold] = fit(joined, training.classes, SEED).predict(tried_joined)
        progress.advance()
    return alone, together


def _guess_rows(training: list[Guess], tried: list[Guess]) -> tuple[Features, Features]:
    """Turn guesses into feature rows of length `GUESS_WEIGHT`.

    Numbers that the training folds lack are left out.
    """
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.preprocessing import normalize

    vectorizer = DictVectorizer()
    fitted = vectorizer.fit_transform([_by_name(guess) for guess in training])
    applied = vectorizer.transform([_by_name(guess) for guess in tried])
    return GUESS_WEIGHT * normalize(fitted), GUESS_WEIGHT * normalize(applied)


def _by_name(guess: Guess) -> dict[str, float]:
    """Return the weights of a guess by the text of the number that each belongs to."""
    return {f"{int(number)}": weight for number, weight in guess}
