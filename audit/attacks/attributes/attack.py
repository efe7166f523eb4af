"""The attack: the model ranks the hidden value among plausible others."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator as Rng
from pydantic import Field

from audit.arrays import Floats
from audit.attacks import blind_baseline, interface, measuring, text_of
from audit.attacks.attributes import hidden, measures
from audit.attacks.attributes.groups import groups_of_values
from audit.attacks.fields import trial_of, withheld
from audit.attacks.interface import AUDITED, Attack, Evidence, Outcomes, Units, kind_of_difference
from audit.attacks.questions import all_values, is_unique
from audit.attacks.text import SHARED
from audit.case import Case
from audit.corpus.documents import CATEGORIES, Corpus, Document
from audit.corpus.folding import fold, occurrences
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.record import Reason, Result
from audit.targets.interface import AnswerLoss, Target

NO_REFERENCE: str = SHARED["refusals"]["no_choice"]


@dataclass(frozen=True)
class AttributeInference(Attack):
    """Attribute inference among a closed set of values (after EDPB Opinion 28/2024, paragraph 55).

    The adversary holds the model and a page with one value hidden, knows what kind of value it is,
    and has a list of plausible ones: values of its category from public documents. The true value
    is ranked among them by the target's loss; chosen is the one of lowest loss. The same choice by
    a model that never saw the page, and on held-out pages, shows what is not memory: the excess is
    (with the model - without) on members minus the same on held-out documents.

    Two methods, fixed before the scan: the target's loss alone, and calibrated by the public
    model's. The public model is the first that can be asked: a generalisation baseline, the public
    masked language model, what the target was fine-tuned from.

    That a public model prefers public values, which it may have been trained on, is the same on
    both sides; so whether held-out documents were trained on is not told here (near copies, swapped
    sides and the other attacks tell it).

    Attributes:
        n_candidates: K, values to choose among, the true one included; fewer where the public
            documents hold fewer.
        n_per_document: values of a document that are asked about, at most, drawn by lot: documents
            are what is independent of each other, more values of one cost their time and say less.
    """

    n_candidates: Annotated[int, Field(ge=hidden.MIN_CANDIDATES)] = 16
    n_per_document: Annotated[int, Field(ge=1)] = 8

    name: ClassVar[str] = "attribute_inference"
    uses: ClassVar[tuple[str, ...]] = ("baselines", "auxiliary", "pretrained")

    def applies(self, case: Case) -> list[Reason]:
        """Return why values cannot be inferred for a case, or only by a weakened attack.

        A tagger is held against a masked language model too, which others are not.
        """
        has_model = case.target.card.is_model
        if interface.points(case.target):
            return [Reason("model", interface.POINTS)]
        if has_model and values_of(case) is None:
            return [Reason("model", "the model gives no loss of a value on a page or of an answer")]
        reasons = []
        split = interface.missing_split(document for document, _, _ in _plausible(case.corpus))
        if split is not None:
            what = "field to attack"
            if case.corpus.manifest.task.asks:
                what = "question with an answer"
            lacks = f"no {what} in {split} documents whose kind occurs in public documents"
            reasons.append(Reason("data", lacks, text_of(self.name).add))
        if has_model:
            has_reference = public_of(case, _values(case)) is not None
        else:
            has_reference = any(map(interface.given(case).get, self.uses))
        if not has_reference:
            reasons.append(
                Reason("weak", f"no reference: {NO_REFERENCE}", interface.GIVE_REFERENCE)
            )
        return reasons

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """Count documents with a value whose category public documents hold.

        They are the most: a tokenizer, or the proof that an answer is gone, may leave some out.
        """
        documents: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for document, _, unique in _plausible(corpus):
            for group in measures.GROUPS if unique else ("all",):
                documents[group].add((document.split, document.id))
        kind = kind_of_difference(corpus)
        units = []
        for group in measures.GROUPS:
            sides = Counter(split for split, _ in documents[group])
            numbers = [sides[split] for split in AUDITED]
            name = f"{measures.EXCESS}.{group}"
            units.append(Units(name, kind, "documents", *numbers, methods=len(measures.METHODS)))
        return tuple(units)

    def trials(self, case: Case) -> list[Trial]:
        """List values of member and held-out documents with enough plausible others."""
        if case.target.card.is_model:
            everything = [value.trial for value in _values(case).all() if value.left_out is None]
        else:
            everything = [trial for _, trial, _ in _plausible(case.corpus)]
        by_document: dict[str, list[Trial]] = defaultdict(list)
        for trial in everything:
            by_document[trial.cluster].append(trial)
        drawn: list[Trial] = []
        for trials in by_document.values():
            scattered = measuring.scatter(trials, [trial.id for trial in trials])
            drawn += scattered[: self.n_per_document]
        return drawn

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Ask for the losses of all candidates, the true one first.

        Asked are the target ("target") and the public model ("public"). A loss that is no finite
        number is None; "lost" says why a value could not be asked about after all.
        """
        values = _values(case)
        value = values.of(trial)
        lay_out = yield from values.lay_out(value, self.n_candidates, rng)
        if lay_out.lost is not None:
            return {"lost": lay_out.lost}
        outcome: dict[str, Json] = {"lost": None, "public": None}
        outcome["target"] = _losses_as_json((yield from values.losses(case.target, value, lay_out)))
        public = public_of(case, values)
        if public is not None:
            outcome["public"] = _losses_as_json((yield from values.losses(public, value, lay_out)))
        return outcome

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes, rng: Rng, progress: Progress
    ) -> Result:
        """Reduce the outcomes to a result: the shares of values that are inferred, and checks."""
        values = _values(case)
        tabled, table = _table(case, trials, outcomes)
        everything = [*values.all()]
        could_try = [value for value in everything if value.left_out is None]
        tried = [values.of(trial) for trial in trials]
        documents = (value.document for value in tabled)
        blind = blind_baseline.by_split(case.corpus, documents, progress)
        table, population = measures.weigh(table, could_try, tried, tabled, by_lot=blind.by_lot)
        streams = measuring.Streams(rng)
        jobs = measures.jobs(table, streams, population)
        measured = measuring.run_jobs("attribute inference: intervals", jobs, progress)
        methods = measures.methods_of(table, measures.EXCESSES)
        kept_out = Counter[str]() if case.corpus.manifest.task.asks else withheld(case.corpus)
        lost = Counter(outcome["lost"] for outcome in outcomes if outcome["lost"] is not None)
        weaknesses: tuple[str, ...] = ()
        if not table.calibrated.any():
            weaknesses = (f"{NO_REFERENCE}{interface.given_in_vain(case)}",)
        breakdowns, reached = groups_of_values(case.corpus, tabled, table)
        result = Result(
            self.name,
            measurements=tuple(measured),
            breakdowns=breakdowns,
            people=reached,
            counts=tuple(measures.counts(everything, lost, values.reasons, table)),
            checks=measures.check_kinds(table, streams, by_lot=blind.by_lot),
            controls=measures.reference_controls(table, methods, blind, streams),
            conditions=(measures.heldout_choices(table, streams),),
            methods=methods | measures.methods_of(table, (measuring.VALUES, measuring.DOCUMENTS)),
            coverage=measures.coverage(everything, tabled, kept_out),
            ablations=weaknesses,
        )
        return blind.beside(result, (), chain(*methods.values()))

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes
    ) -> Iterator[Evidence]:
        """Yield each value that was asked about, with its place among the candidates.

        The scores of values are the chance to pick one with the model, minus that without it where
        the excess is so.
        """
        tabled, table = _table(case, trials, outcomes)
        for row, value in enumerate(tabled):
            yield {
                "attack": self.name,
                "document": value.document.id,
                "field": value.name,
                "category": value.category if value.category in CATEGORIES else "",
                "split": value.document.split,
                "value": value.text,
                "candidates": int(table.n_candidates[row]),
                "place": {method: float(ranks[row]) for method, ranks in table.rank.items()},
                "chosen without the model": float(table.public[row]),
            }
        blind = blind_baseline.by_split(case.corpus, (value.document for value in tabled))
        yield from measures.paired_by_value(tabled, table, by_lot=blind.by_lot).items()


def values_of(case: Case) -> hidden.HiddenValues | None:
    """Return the hidden values of a case in the form that its target can be asked about.

    None when it cannot.
    """
    if AnswerLoss in case.target.answers:
        return hidden.Questions(case)
    return None if hidden.loss_query(case.target) is None else hidden.Fields(case)


def public_of(case: Case, values: hidden.HiddenValues) -> Target | None:
    """Return the public model that chooses without having seen the page.

    None when there is none.
    """
    references = case.references
    models = (*references.baselines, references.auxiliary, references.pretrained)
    comparable = values.comparable([model for model in models if model is not None])
    return comparable[0] if comparable else None


def _values(case: Case) -> hidden.HiddenValues:
    """Return the hidden values of a case; fail where its target cannot be asked about any."""
    values = values_of(case)
    assert values is not None  # else the attack is inapplicable
    return values


def _table(
    case: Case, trials: Sequence[Trial], outcomes: Outcomes
) -> tuple[list[hidden.Hidden], measures.AttributeTable]:
    """Return the values that were asked about, and a table of their outcomes."""
    values = _values(case)
    tabled: list[hidden.Hidden] = []
    answers: list[Json] = []
    for trial, outcome in zip(trials, outcomes, strict=True):
        if outcome["lost"] is None and outcome["target"] is not None:
            tabled.append(values.of(trial))
            answers.append(outcome)
    public = public_of(case, values)
    alike = public is not None and values.alike(public)
    return tabled, measures.build_table(tabled, answers, alike=alike)


def _losses_as_json(losses: Floats | None) -> Json:
    """Convert the losses of the candidates to a JSON list for the journal.

    None stands for a loss that is not finite, and for a page that cannot be read.
    """
    if losses is None:
        return None
    return [float(loss) if np.isfinite(loss) else None for loss in losses]


def _plausible(corpus: Corpus) -> Iterator[tuple[Document, Trial, bool]]:
    """Yield document, trial and uniqueness of every value of a kind that public documents hold."""
    pool = hidden.pool_of(corpus, "public")
    if corpus.manifest.task.asks:
        trained = hidden.trained_values(corpus)
        for question in all_values(corpus):
            if hidden.kind_of_answer(question) in pool:
                unique = is_unique(question.document, question.values, trained)
                yield question.document, question.trial, unique
        return
    seen = occurrences(corpus)
    for document in corpus.of(*AUDITED):
        for entity in document.entities:
            if entity.attack and entity.category in pool:
                unique = seen[fold(document.text_of(entity))].unique
                yield document, trial_of(document, entity), unique
