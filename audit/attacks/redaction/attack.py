"""Redaction-context leakage as an attack: what is tried, and what the text tells of hidden values.

Beyond how common each category is (methods/redaction-context.md); what the target adds is in
`target_gain`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator as Rng
from pydantic import Field

from audit.arrays import Bools, Ints
from audit.attacks import text_of
from audit.attacks.budget import FOLDS
from audit.attacks.interface import AUDITED, Attack, Evidence, Outcomes, Units
from audit.attacks.measuring import Job, Streams, run_jobs
from audit.attacks.redaction import contexts
from audit.attacks.redaction.target_gain import Guess, can_guess, guess_value, measure_gain
from audit.case import Case
from audit.corpus.bars import count_covered
from audit.corpus.documents import CATEGORIES, Corpus, Mask
from audit.corpus.redaction import redacted_spans
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.measurements import Count, Diagnostic, Measurement, Unresolved
from audit.record import Reason, Result
from audit.stats.estimates import estimate
from audit.stats.intervals import proportion
from audit.stats.lift import WorstClass, lift_share, worst_class
from audit.stats.rates import net

NOT_REDACTED = "the data set does not declare redacted values"
STATE_IT = (
    'state in manifest.toml how values are hidden: [redaction] mask = "length", "fixed" or "all"'
)
ADD_VALUES = "mark values of at least two categories for attack, in as many documents (or providers) as there are folds"
LEAK = 0.90
"""Accuracy by document above which folds leak until it is explained
(methods/redaction-context.md)."""
UNIT = "documents"


@dataclass(frozen=True)
class RedactionContext(Attack):
    """Predict categories of redacted values from their context.

    See methods/redaction-context.md; Beltrame et al. 2024. Every value that may be attacked is
    hidden as the manifest says, and a linear SVM that saw other documents tells its category from
    its sentence, or on a page with boxes from its lines, its place and the width of the bar. No
    model is needed for that; what the target adds is measured beside it, where it names tags or
    hidden words.

    Attributes:
        n_folds: number of folds of the cross-validation by document.
    """

    n_folds: Annotated[int, Field(ge=2)] = 5

    name: ClassVar[str] = "redaction"

    def applies(self, case: Case) -> list[Reason]:
        """Return why no redacted value can be inferred from its context."""
        lacks = self._lacks(case.corpus)
        return (
            []
            if lacks is None
            else [Reason("data", lacks, STATE_IT if lacks == NOT_REDACTED else ADD_VALUES)]
        )

    def _lacks(self, corpus: Corpus) -> str | None:
        """Describe what this data set lacks for the attack; None when nothing."""
        if corpus.manifest.redaction is None:
            return NOT_REDACTED
        spans = redacted_spans(corpus.documents, "fixed")
        if not spans:
            return "no value is marked for attack, so nothing is redacted"
        if len({span.category for span in spans}) < 2:
            return "all redacted values are of one category"
        groups = len(np.unique(contexts.documents_of(corpus, spans)))
        if groups < self.n_folds:
            return f"{groups} documents (or providers) with redacted values, {self.n_folds} needed for as many folds"
        return None

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """Count documents with a redacted value, those that are never divided as one.

        A lift cannot exceed what naming the commonest category leaves. Its share of that rests on
        documents with a value of another category; the category told best on those with the rarest
        that is judged, against all documents with others; what the target adds on members and held-
        out documents with a value of another category.
        """
        spans = (
            () if corpus.manifest.redaction is None else redacted_spans(corpus.documents, "fixed")
        )
        classes = np.array([CATEGORIES.index(span.category) for span in spans], np.int64)
        documents = contexts.documents_of(corpus, spans)
        uncommon = classes != np.bincount(classes, minlength=1).argmax()
        n_rarest, n_others, n_kinds = _count_rarest(classes, documents)
        with_uncommon = {span.document for span, rare in zip(spans, uncommon, strict=True) if rare}
        sides = []
        for split in AUDITED:
            ids = {document.id for document in corpus.of(split)}
            sides.append(len(ids & with_uncommon))
        paired = partial(Units, kind="paired difference", unit=UNIT, others=0, about_text=True)
        return (
            paired("lift_over_length", members=_count_distinct(documents)),
            paired(
                "lift_share",
                members=_count_distinct(documents[uncommon])
                if uncommon.sum() >= contexts.NEEDED
                else 0,
            ),
            # Each category has an interval of its own, as if it were a method: the rarest stands
            # for all.
            Units(
                "worst_class",
                "difference",
                UNIT,
                n_rarest,
                n_others,
                methods=n_kinds,
                about_text=True,
            ),
            Units(contexts.EXCESS[0], "difference", UNIT, *sides, methods=len(contexts.EXCESS)),
        )

    def trials(self, case: Case) -> list[Trial]:
        """Make a trial for each fold, and one for each document that the target is asked about."""
        if self._lacks(case.corpus) is not None:
            return []
        trials = []
        for number in range(self.n_folds):
            name = f"{_declared_mask(case.corpus)}/{number:02}/linear-svm"
            trials.append(Trial(name, name, FOLDS, subject=(str(number),)))
        if can_guess(case.target):
            redacted = {span.document for span in redacted_spans(case.corpus.of(*AUDITED), "fixed")}
            trials += [
                Trial(f"document {document.id}", document.id, document.split)
                for document in case.corpus.of(*AUDITED)
                if document.id in redacted
            ]
        return trials

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Predict the categories of a fold, or ask the target about values of a document.

        It is asked about each hidden value.

        Returns:
            Of a fold "predicted", "length" and "prior" (`predict_blindly`): indices into
            `CATEGORIES`, in the order of the data set. Of a document the target's `Guess` by the id
            of each value.
        """
        if trial.stratum == FOLDS:
            training, tried = self._samples(case.corpus).divided(number_of(trial))
            first, second = contexts.features_of(training, tried)
            classifier = contexts.fit(first, training.classes, int(rng.integers(2**31)))
            predicted = {"predicted": np.asarray(classifier.predict(second))}
            predicted |= contexts.predict_blindly(training, tried)
            return {name: column.tolist() for name, column in predicted.items()}
        document = case.corpus.document(trial.cluster)
        entities = {entity.id: entity for entity in document.entities}
        guesses: dict[str, Guess | None] = {}
        for span in redacted_spans([document], "fixed"):
            guesses[span.entity] = yield from guess_value(
                case, document, entities[span.entity], _declared_mask(case.corpus)
            )
        return guesses

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes, rng: Rng, progress: Progress
    ) -> Result:
        """Reduce the outcomes to what contexts tell of redacted values.

        What the target adds is in `target_gain`.
        """
        tried = list(zip(trials, outcomes, strict=True))
        samples = self._samples(case.corpus)
        declared = _declared_mask(case.corpus)
        streams = Streams(rng)
        predictions = gather(samples, tried)
        jobs: list[Job] = [
            partial(_accuracy, "accuracy", predictions, predictions.told),
            partial(_accuracy, "accuracy.length-only", predictions, predictions.length),
            partial(
                _lift_over_length, predictions, streams[f"lift_over_length.{declared}.linear-svm"]
            ),
            partial(lift_share_of, predictions),
            partial(worst_class_of, predictions),
        ]
        measured = run_jobs("redaction: intervals", jobs, progress)
        guesses = {trial.cluster: outcome for trial, outcome in tried if trial.stratum != FOLDS}
        gains, n_guessed = measure_gain(case, samples, guesses, streams, progress)
        progress.stage("redaction: page images", len(case.corpus.documents))
        covered = count_covered(case.corpus, progress.advance)
        text = text_of(self.name)
        on_pages = sum(bool(span.layout) for span in samples.spans)
        counts = {"values": len(samples), f"mask: {declared}": len(samples)}
        counts |= {
            "documents": len({span.document for span in samples.spans}),
            "on pages": on_pages,
        }
        images = {"looked at under the box": covered.seen, "text under the box": covered.painted}
        meaning = f"1: an accuracy above {LEAK} by document; first exclude equal text on both sides of a fold"
        leaking = float(predictions.hits(predictions.told).mean()) > LEAK
        return Result(
            "redaction",
            measurements=(*measured, *gains),
            counts=(*text.count(counts), *kinds_of(predictions), *text.count(n_guessed | images)),
            diagnostics=(Diagnostic("leak_between_folds", float(leaking), meaning),),
            methods={contexts.EXCESS[0]: contexts.EXCESS},
            about_text=tuple(item.name for item in measured),
        )

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes
    ) -> Iterator[Evidence]:
        """Yield every value with its category and the one that the classifier predicts."""
        predictions = gather(self._samples(case.corpus), list(zip(trials, outcomes, strict=True)))
        for span, category in zip(predictions.samples.spans, predictions.told, strict=True):
            yield {
                "attack": self.name,
                "document": span.document,
                "entity": span.entity,
                "category": span.category,
                "told": CATEGORIES[category],
                "right": span.category == CATEGORIES[category],
            }

    def _samples(self, corpus: Corpus) -> contexts.Samples:
        """Return the hidden values of a data set under its declared mask, in folds."""
        return contexts.samples_of(corpus, _declared_mask(corpus), self.n_folds)


def _declared_mask(corpus: Corpus) -> Mask:
    """Return the mask that the manifest declares, which it must."""
    assert corpus.manifest.redaction is not None  # `lacks` says so first
    return corpus.manifest.redaction.mask


@dataclass(frozen=True, eq=False)
class Predictions:
    """Hold predicted categories of every value, in the order of the data set.

    All arrays are (n_values,).

    Attributes:
        samples: the values.
        told: categories by the classifier, indices into `CATEGORIES`.
        length: categories by who sees the values' lengths only.
        prior: categories by who knows only how common each category is.
    """

    samples: contexts.Samples
    told: Ints
    length: Ints
    prior: Ints

    def hits(self, predicted: Ints) -> Bools:
        """Mark the values whose prediction is right."""
        return np.asarray(self.samples.classes == predicted, bool)


def gather(samples: contexts.Samples, tried: Sequence[tuple[Trial, Json]]) -> Predictions:
    """Concatenate the predictions of the folds in the order of the data set."""
    columns = {name: np.zeros(len(samples), np.int64) for name in ("predicted", "length", "prior")}
    for trial, outcome in tried:
        if trial.stratum == FOLDS:
            in_fold = samples.folds == number_of(trial)
            for name, column in columns.items():
                column[in_fold] = outcome[name]
    return Predictions(samples, *columns.values())


def number_of(trial: Trial) -> int:
    """Return the number of the fold that a trial predicts."""
    (number,) = trial.subject
    return int(number)


def kinds_of(predictions: Predictions) -> Iterator[Count]:
    """Yield counts of the rare kinds and of the kind that stands for `worst_class`.

    Count also those that are too few to stand alone.
    """
    classes, judged = _merge_rare(predictions.samples.classes, predictions.samples.classes)
    n_rare = int(np.sum(classes == RARE))
    if n_rare:
        treated = "judged as one" if judged.all() else "left out, because they are too few together"
        yield Count(
            "rare kinds",
            n_rare,
            f"values of kinds with fewer than {contexts.NEEDED} values: {treated}",
        )
    worst = _find_worst_class(predictions)
    if not isinstance(worst, Unresolved):
        name = CATEGORIES[worst.label] if worst.label < RARE else "rare"
        n = int(np.sum(classes == worst.label))
        yield Count(f"told best: {name}", n, "values of the most exposed kind, beyond false calls")


def _accuracy(name: str, predictions: Predictions, predicted: Ints) -> Measurement:
    """Estimate the share of values whose predicted category is right.

    Null: naming the commonest of the training folds.
    """
    interval = proportion(predictions.hits(predicted), predictions.samples.documents)
    return estimate(
        name, interval, "values", float(predictions.hits(predictions.prior).mean()), "chance"
    )


def _lift_over_length(predictions: Predictions, rng: Rng) -> Measurement:
    """Compute the accuracy from contexts minus that from the values' lengths; null: 0."""
    right = predictions.hits(predictions.told)
    blind = predictions.hits(predictions.length)
    interval = net(right & ~blind, blind & ~right, predictions.samples.documents, rng)
    return estimate("lift_over_length", interval, "values", 0.0, "blind")


def lift_share_of(predictions: Predictions) -> Measurement:
    """Measure `audit.stats.lift.lift_share` over naming the commonest category; null: 0.

    It is the commonest of the training folds.
    """
    prior = predictions.hits(predictions.prior)
    n_uncommon = int(np.sum(~prior))
    if n_uncommon < contexts.NEEDED:
        return Unresolved(
            "lift_share", "too few values of less common kinds", n_uncommon, contexts.NEEDED
        )
    interval = lift_share(predictions.hits(predictions.told), prior, predictions.samples.documents)
    return estimate("lift_share", interval, "values", 0.0, "blind")


def worst_class_of(predictions: Predictions) -> Measurement:
    """Measure `audit.stats.lift.worst_class` over the categories, rare ones together as one.

    Null: 0.
    """
    worst = _find_worst_class(predictions)
    return (
        worst
        if isinstance(worst, Unresolved)
        else estimate("worst_class", worst.interval, "values", 0.0, "blind")
    )


def _find_worst_class(predictions: Predictions) -> WorstClass | Unresolved:
    """Find the category told apart best, rare ones as one, or return why there is none."""
    true = predictions.samples.classes
    classes, judged = _merge_rare(true, true)
    called, _ = _merge_rare(predictions.told, true)
    counts = np.unique(classes[judged], return_counts=True)[1]
    if counts.size < 2:
        n_uncommon = classes.size - int(counts.max(initial=0))
        return Unresolved(
            "worst_class", "too few values of less common kinds", n_uncommon, contexts.NEEDED
        )
    return worst_class(classes[judged], called[judged], predictions.samples.documents[judged])


RARE = len(CATEGORIES)
"""Stands for all rare categories together."""


def _merge_rare(classes: Ints, true: Ints) -> tuple[Ints, Bools]:
    """Replace categories of which `true` holds fewer than `NEEDED` values by `RARE`.

    Returns:
        The categories, and which of the true values are judged: all but the rare ones where these
        are too few together.
    """
    categories, counts = np.unique(true, return_counts=True)
    rare = categories[counts < contexts.NEEDED]
    is_rare = np.isin(true, rare)
    return np.where(np.isin(classes, rare), RARE, classes), ~is_rare | (
        is_rare.sum() >= contexts.NEEDED
    )


def _count_rarest(classes: Ints, documents: Ints) -> tuple[int, int, int]:
    """Count documents with the rarest category that is judged, and those with others.

    The number of categories that are judged comes with them.
    """
    merged, judged = _merge_rare(classes, classes)
    categories = np.unique(merged[judged]).tolist()
    if len(categories) < 2:
        return 0, 0, 1
    n_rarest, n_others = min(
        (
            _count_distinct(documents[merged == category]),
            _count_distinct(documents[merged != category]),
        )
        for category in categories
    )
    return n_rarest, n_others, len(categories)


def _count_distinct(documents: Ints) -> int:
    """Count the distinct numbers of documents."""
    return int(np.unique(documents).size)
