"""Redaction-context leakage as an attack: what is tried, what is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks.budget import FOLDS
from audit.attacks.interface import Attack, Evidence, Units
from audit.attacks.redaction.contexts import features_of, fit, predict_blindly
from audit.attacks.redaction.samples import Samples, documents_of, samples_of
from audit.attacks.redaction.target_gain import Guess, can_guess, guess_value
from audit.attacks.redaction.text_leak import gather, measure_redaction, number_of, units_of
from audit.attacks.splits import AUDITED
from audit.case import Case
from audit.corpus.documents import CATEGORIES, Corpus, Mask
from audit.corpus.redaction import redacted_spans
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.record import Reason, Result

NOT_REDACTED = "the data set does not say that values are redacted"
STATE_IT = 'state in manifest.toml how values are hidden: [redaction] mask = "length", "fixed" or "all"'
ADD_VALUES = "mark values of two categories at least for attack, in as many documents (or providers) as there are folds"


@dataclass(frozen=True)
class RedactionContext(Attack):
    """What the text around a redaction gives away (methods.md#redaction-context; Beltrame et al. 2024).

    Every value that may be attacked is hidden as the manifest says, and a linear SVM that saw other documents tells its
    category from its sentence, or on a page with boxes from its lines, its place and the width of the bar. No model is
    needed for that; what the target adds is measured beside it, where it names tags or hidden words.

    Attributes:
        n_folds: of the cross-validation by document.
    """

    n_folds: Annotated[int, Field(ge=2)] = 5

    name: ClassVar[str] = "redaction"

    def applies(self, case: Case) -> list[Reason]:
        """See `Attack.applies`."""
        lacks = self._lacks(case.corpus)
        if lacks is None:
            return []
        return [Reason("data", lacks, STATE_IT if lacks == NOT_REDACTED else ADD_VALUES)]

    def _lacks(self, corpus: Corpus) -> str | None:
        """Say what this data set lacks to feed the attack; None when nothing."""
        if corpus.manifest.redaction is None:
            return NOT_REDACTED
        spans = redacted_spans(corpus.documents, "fixed")
        if not spans:
            return "no value is marked for attack, so nothing is redacted"
        if len({span.category for span in spans}) < 2:
            return "all redacted values are of one category"
        groups = len(np.unique(documents_of(corpus, spans)))
        if groups < self.n_folds:
            return f"{groups} documents (or providers) with redacted values, {self.n_folds} needed for as many folds"
        return None

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """See `Attack.units`, and `units_of`."""
        return units_of(corpus)

    def trials(self, case: Case) -> list[Trial]:
        """One for each fold, and one for each document that the target is asked about."""
        if self._lacks(case.corpus) is not None:
            return []
        folds = [f"{_declared(case.corpus)}/{number:02}/linear-svm" for number in range(self.n_folds)]
        found = [Trial(fold, fold, FOLDS) for fold in folds]
        if can_guess(case.target):
            asked = {span.document for span in redacted_spans(case.corpus.of(*AUDITED), "fixed")}
            found += [
                Trial(f"document {document.id}", document.id, document.split)
                for document in case.corpus.of(*AUDITED)
                if document.id in asked
            ]
        return found

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Predict the categories of a fold, or ask the target about each hidden value of a document.

        Returns:
            Of a fold "predicted", "length" and "prior" (`predict_blindly`): indices into `CATEGORIES`, in the order of
            the data set. Of a document the target's `Guess` by the id of each value.
        """
        if trial.stratum == FOLDS:
            training, held = self._samples(case.corpus).divided(number_of(trial))
            first, second = features_of(training, held)
            classifier = fit(first, training.classes, int(rng.integers(2**31)))
            predicted = {"predicted": np.asarray(classifier.predict(second)), **predict_blindly(training, held)}
            return {name: column.tolist() for name, column in predicted.items()}
        document = case.corpus.document(trial.unit)
        entities = {entity.id: entity for entity in document.entities}
        found: dict[str, Guess | None] = {}
        for span in redacted_spans([document], "fixed"):
            found[span.entity] = yield from guess_value(case, document, entities[span.entity], _declared(case.corpus))
        return found

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], rng: Rng, progress: Progress
    ) -> Result:
        """See `Attack.measure`; the metrics are described in `text_leak` and `target_gain`."""
        tried = list(zip(trials, outcomes, strict=True))
        samples, declared = self._samples(case.corpus), _declared(case.corpus)
        return measure_redaction(case, samples, declared, self.n_folds, tried, rng, progress)

    def evidence(self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]) -> Iterator[Evidence]:
        """Every value, what it is and what the classifier takes it for."""
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

    def _samples(self, corpus: Corpus) -> Samples:
        return samples_of(corpus, _declared(corpus), self.n_folds)


def _declared(corpus: Corpus) -> Mask:
    assert corpus.manifest.redaction is not None  # `lacks` says so first
    return corpus.manifest.redaction.mask
