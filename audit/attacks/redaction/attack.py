"""Redaction-context leakage as an attack: what is tried, what is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks.budget import FOLDS
from audit.attacks.interface import Attack, Findings, Units
from audit.attacks.redaction.classifiers import CLASSIFIERS
from audit.attacks.redaction.embedding import EmbeddingName
from audit.attacks.redaction.folds import FoldTrial, predict
from audit.attacks.redaction.measures import measure_redaction
from audit.attacks.redaction.samples import groups_of, samples_of
from audit.attacks.redaction.target_gain import Guess, alike, can_guess, guess_value
from audit.attacks.redaction.text_leak import units_of
from audit.attacks.splits import AUDITED
from audit.case import Case
from audit.corpus.documents import CATEGORIES, Corpus, Document, Mask
from audit.corpus.kinds import MASKS
from audit.corpus.redaction import redacted_spans
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.targets.interface import Target

FULL = ("linear-svm", "random-forest", "bagged-svm", "gradient-boosting")
"""Classifiers of the budget "full" (ours). The paper's two networks take minutes a fold without a GPU: name them in a
file of attack parameters."""
NOT_REDACTED = "the data set does not say that values are redacted"
NO_EMBEDDER = "no sentence embedder was given"
STATE_IT = 'state in manifest.toml how values are hidden: [redaction] mask = "length", "fixed" or "all"'
ADD_VALUES = "mark values of two categories at least for attack, in as many documents (or providers) as there are folds"


@dataclass(frozen=True)
class RedactionContext(Attack):
    """What the text around a redaction gives away (methods.md#redaction-context; Beltrame et al. 2024).

    Every value that may be attacked is hidden, and a classifier that saw other documents tells its category from its
    sentence, or on a page with boxes from its lines, its place and the width of the bar. No model is needed for that;
    what the target adds is measured beside it, where it names tags or hidden words.

    Attributes:
        masks: how values are hidden, beside how the manifest says that they are.
        classifiers: of `classifiers.CLASSIFIERS`; limits hold for the first.
        embedding: "tfidf"; "embedder", as it is; "embedder-tuned", fine-tuned in each training fold, as in the paper.
        n_folds: of the cross-validation by document.
    """

    masks: tuple[Mask, ...] = MASKS
    classifiers: tuple[str, ...] = ("linear-svm",)
    embedding: EmbeddingName = "tfidf"
    n_folds: Annotated[int, Field(ge=2)] = 5

    name: ClassVar[str] = "redaction"
    uses: ClassVar[tuple[str, ...]] = ("embedder",)
    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        unknown = sorted({*self.classifiers} - CLASSIFIERS.keys())
        if unknown or not self.classifiers:
            raise ValueError(f"classifiers: one or more of {', '.join(CLASSIFIERS)}")
        if len({*self.classifiers}) < len(self.classifiers) or len({*self.masks}) < len(self.masks):
            raise ValueError("masks and classifiers are named once each")
        if self.n_folds < 2:
            raise ValueError("n_folds must be at least 2")

    @property
    def ablations(self) -> tuple[str, ...]:
        """See `Attack.ablations`: fewer folds, or another first reading of the text, than every budget has."""
        standard = type(self)()
        found = []
        if self.n_folds < standard.n_folds:
            found.append(f"classifiers learn from {self.n_folds - 1} of {self.n_folds} parts only")
        if not {*standard.classifiers} <= {*self.classifiers}:
            found.append(f"without {', '.join(standard.classifiers)}")
        if self.embedding == "embedder":
            found.append("the words are not read, only an embedding of them that was not tuned")
        return tuple(found)

    @classmethod
    def preset(cls, budget: str) -> Self:
        """See `Attack.preset`."""
        return cls(classifiers=FULL) if budget == "full" else cls()

    def lacks(self, corpus: Corpus) -> str | None:
        """See `Attack.lacks`."""
        if corpus.manifest.redaction is None:
            return NOT_REDACTED
        spans = redacted_spans(corpus.documents, "fixed")
        if not spans:
            return "no value is marked for attack, so nothing is redacted"
        if len({span.category for span in spans}) < 2:
            return "all redacted values are of one category"
        names = sorted({span.document for span in spans})
        groups = len(np.unique(groups_of([corpus.document(name) for name in names])))
        if groups < self.n_folds:
            return f"{groups} documents (or providers) with redacted values, {self.n_folds} needed for as many folds"
        return None

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """See `Attack.units`, and `units.units_of`."""
        return units_of(corpus, len(self.classifiers))

    def trials(self, case: Case) -> list[Trial]:
        """One for each mask, fold and classifier; one for each document that the target is asked about."""
        if self.lacks(case.corpus) is not None or self._no_embedder(case):
            return []
        folds = [
            FoldTrial(mask, number, classifier)
            for mask in self.tried(case.corpus)
            for number in range(self.n_folds)
            for classifier in self.classifiers
        ]
        found = [Trial(fold.id, fold.id, FOLDS) for fold in folds]
        if can_guess(case.target):
            asked = {span.document for span in redacted_spans(case.corpus.of(*AUDITED), "fixed")}
            found += [
                Trial(f"document {document.id}", document.id, document.split)
                for document in case.corpus.of(*AUDITED)
                if document.id in asked
            ]
        return found

    def tried(self, corpus: Corpus) -> tuple[Mask, ...]:
        """The masks that are tried: those of the parameters, and the manifest's."""
        declared = _declared(corpus)
        return tuple(mask for mask in MASKS if mask in self.masks or mask == declared)

    def _no_embedder(self, case: Case) -> bool:
        return self.embedding != "tfidf" and case.references.embedder is None

    def no_trials(self, case: Case) -> tuple[str, str]:
        """See `Attack.no_trials`."""
        lacks = self.lacks(case.corpus)
        if lacks is None:
            return NO_EMBEDDER, "--reference embedder=PATH, a folder of sentence-transformers"
        return lacks, STATE_IT if lacks == NOT_REDACTED else ADD_VALUES

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """A fold: what classifiers that saw the others say. A document: what the target says of each hidden value."""
        if trial.stratum == FOLDS:
            return predict(case, FoldTrial.of(trial.id), self.embedding, self.n_folds, int(rng.integers(2**31)))
        document = case.corpus.document(trial.unit)
        return (yield from self._guess_values(case, case.target, document))

    def _guess_values(self, case: Case, target: Target, document: Document) -> Attempt:
        """By the id of each value, what `asking.guess_value` gives."""
        asked = Case(target, case.corpus)
        entities = {entity.id: entity for entity in document.entities}
        found: dict[str, Guess | None] = {}
        for span in redacted_spans([document], "fixed"):
            found[span.entity] = yield from guess_value(asked, document, entities[span.entity], _declared(case.corpus))
        return found

    def preflight(self, case: Case, rounded: Target, trial: Trial, rng: Rng) -> Attempt:
        """See `Attack.preflight`; a decision is what the target puts first. Folds do not ask it, and decide nothing."""
        if trial.stratum == FOLDS:
            return {"alike": 0, "steps": 0}
        document = case.corpus.document(trial.unit)
        exact = yield from self._guess_values(case, case.target, document)
        coarse = yield from self._guess_values(case, rounded, document)
        return {"alike": sum(alike(exact[name], coarse[name]) for name in exact), "steps": len(exact)}

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], rng: Rng, progress: Progress
    ) -> Findings:
        """See `Attack.measure`; the metrics are described in `measures`."""
        return measure_redaction(
            case,
            _declared(case.corpus),
            self.classifiers,
            self.n_folds,
            list(zip(trials, outcomes, strict=True)),
            rng,
            progress,
        )

    def evidence(self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]) -> Iterator[dict[str, Any]]:
        """Every value under the manifest's mask, what it is and what the first classifier takes it for."""
        declared = _declared(case.corpus)
        samples = samples_of(case.corpus, declared, self.n_folds)
        predicted = np.zeros(len(samples), np.int64)
        for trial, outcome in zip(trials, outcomes, strict=True):
            if trial.stratum == FOLDS:
                fold = FoldTrial.of(trial.id)
                if (fold.mask, fold.classifier) == (declared, self.classifiers[0]):
                    predicted[samples.folds == fold.number] = outcome["predicted"]
        for span, category in zip(samples.spans, predicted, strict=True):
            yield {
                "attack": self.name,
                "document": span.document,
                "entity": span.entity,
                "category": span.category,
                "told": CATEGORIES[category],
                "right": span.category == CATEGORIES[category],
            }


def _declared(corpus: Corpus) -> Mask:
    assert corpus.manifest.redaction is not None  # `lacks` says so first
    return corpus.manifest.redaction.mask
