"""Document membership as an attack: what is tried, what is asked, and what comes of it."""

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator as Rng
from pydantic import Field

from audit.arrays import Floats
from audit.attacks import blind_baseline, text_of
from audit.attacks.blind_baseline import Blind, reference_control
from audit.attacks.interface import (
    AUDITED,
    GIVE_REFERENCE,
    WORDS,
    Attack,
    Evidence,
    Units,
    given,
    loss_kind,
)
from audit.attacks.measuring import DOCUMENTS
from audit.attacks.membership import documents, innocence, mixture, scores
from audit.attacks.membership.by_name import (
    N_PROMPTS,
    ask_by_name,
    asks_by_name,
    evidence_by_name,
    measure_by_name,
    people_asked_for,
)
from audit.attacks.membership.reading import READS_CLOSE, examine_reading
from audit.attacks.people import count_recognised
from audit.attacks.score_figures import LOW, TwoSides, rank_scores
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Split
from audit.engine.interface import Attempt, Json, Progress, Request, Trial
from audit.measurements import Check, Control, Coverage, Measurement
from audit.record import Reason, Result
from audit.stats.blind import MIN_UNITS
from audit.stats.paired import UnitScores
from audit.stats.roc import FEW, auc_interval, outranks
from audit.targets.interface import Target

REPEATED_AUC = 0.65
"""The area over which repeated documents raise an alarm: what `default.toml` allows of all
documents."""


@dataclass(frozen=True)
class MembershipInference(Attack):
    """Infer which documents trained a model (methods/document-membership.md).

    Per document the mean over its questions: loss; loss minus that of models that never saw it; of
    decoders the loss of page, question and answer together; LiRA where there are split models. Each
    needs other references; those that are missing leave their scores unresolved. The primary score,
    fixed before the scan, is the calibrated loss where there is a reference, else the loss. The
    loss of a masked language model is the mean over hidden tokens of fixed masks, the same for
    every model (Mireshghallah et al. 2022; see `documents.masks_of`).

    Decoders of text are asked for people by name besides, without a limit (see `by_name`).

    Attributes:
        n_masks: number of masks of a page, for masked language models.
        n_prompts: number of prompts behind which a decoder is asked for a name; 0: it is not asked,
            as no limit is held against that.
        two_sided: whether documents that the model treats worse than unseen ones are counted, as
            for `forget-check`.
    """

    n_masks: Annotated[int, Field(ge=1)] = documents.N_MASKS
    n_prompts: Annotated[int, Field(ge=0, le=N_PROMPTS)] = N_PROMPTS
    two_sided: bool = False

    name: ClassVar[str] = "membership"
    uses: ClassVar[tuple[str, ...]] = ("baselines", "pretrained", "auxiliary", "splits")

    def applies(self, case: Case) -> list[Reason]:
        """Return why membership of documents cannot be told, or only by a weakened attack."""
        if case.target.card.is_model and loss_kind(case.target) is None:
            return [Reason("model", "the model gives no loss of a document")]
        reasons = []
        for split in AUDITED:
            lacks = _lacking_documents(case.corpus, split)
            if lacks is not None:
                reasons.append(Reason("data", lacks, text_of(self.name).add))
        if not any(map(given(case).get, documents.CALIBRATING)):
            reasons.append(
                Reason("weak", f"no reference: {documents.NO_REFERENCE}", GIVE_REFERENCE)
            )
        return reasons

    def parameters_on(self, case: Case) -> dict[str, Any]:
        """Return the parameters, without the prompts of names where no name is asked for."""
        parameters = asdict(self)
        if not asks_by_name(case):
            del parameters["n_prompts"]
        return parameters

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """Count the documents that are compared.

        For models that answer, these are documents with a question.
        """
        splits = [document.split for document in _perhaps_scored(corpus)]
        sides = [splits.count(split) for split in AUDITED]
        # Loss and calibrated loss, see `scores.gated_scores`; split models and decoders add one.
        single = [score for score in scores.SCORES if score != scores.RATIO]
        return (
            Units("auc", "auc", "documents", *sides, methods=2),
            *(Units(f"auc.{score}", "auc", "documents", *sides) for score in single),
            Units(LOW, "low advantage", "documents", *sides, methods=2),
            *(Units(f"{LOW}.{score}", "low advantage", "documents", *sides) for score in single),
        )

    def trials(self, case: Case) -> list[Trial]:
        """Make a trial for each member and held-out document that can be scored."""
        if case.target.card.is_model:
            compared = documents.select_compared(case.corpus)
            scorable = [
                document for document in compared if documents.left_out(case, document) is None
            ]
        else:
            scorable = _perhaps_scored(case.corpus)
        return [Trial(document.id, document.id, document.split) for document in scorable]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Ask each model for its loss of the document, and for a person whom it names."""
        document = case.corpus.document(trial.cluster)
        target = yield from documents.query_document(
            case, case.target, document, self.n_masks, whole=True
        )
        splits = yield from self._ask_losses(
            case, [split.target for split in case.references.splits], document
        )
        reference = yield from self._ask_losses(
            case, documents.reference_of(case)[1], document, whole=True
        )
        outcome = {"target": target, "splits": splits, "reference": reference}
        if self.n_prompts and asks_by_name(case):
            person = people_asked_for(case.corpus).get(document.id)
            if person is not None:
                outcome["by_name"] = yield from ask_by_name(case, person.name, self.n_prompts)
        return outcome

    def _ask_losses(
        self, case: Case, models: Sequence[Target], document: Document, *, whole: bool = False
    ) -> Generator[Request, Any, list[Json]]:
        """Ask each model in order for the loss of a document.

        Leave out models with another kind of loss.
        """
        losses = []
        for model in models:
            if loss_kind(model) == loss_kind(case.target):
                loss = yield from documents.query_document(
                    case, model, document, self.n_masks, whole=whole
                )
                losses.append(loss)
        return losses

    def measure(
        self,
        case: Case,
        trials: Sequence[Trial],
        outcomes: Sequence[Json],
        rng: Rng,
        progress: Progress,
    ) -> Result:
        """Reduce the outcomes to how well documents are told apart.

        The metrics are described in `scores` and `blind_baseline`.
        """
        scored = scores.score_documents(case, trials, outcomes, self.trials(case))
        measured = scores.measure_scores(scored, rng, progress, two_sided=self.two_sided)
        blind = blind_baseline.by_split(
            case.corpus, [*map(case.corpus.document, scored.ids)], progress
        )
        missing = documents.count_left_out(case)
        lacking = documents.name_unusable_references(case, documents.NO_REFERENCE)
        gated = scores.gated_scores(case)
        counted = scores.counted_scores(gated)
        methods: dict[str, tuple[str, ...]] = {}
        for name in scores.LIMITED:
            ranking = counted if name == DOCUMENTS else gated
            methods[name] = tuple(f"{name}.{score}" for score in ranking)
        measured = replace(measured, methods=methods)
        reading = examine_reading(case)
        counts = {f"{split} documents": n for split, n in scored.documents}
        counts |= {f"left out: {name}": missing[name] for name in documents.REASONS}
        counts |= {
            "left out: no finite loss": scored.unusable,
            "split models": len(case.references.splits),
        }
        partly_forgotten: tuple[Check, ...] = ()
        if self.two_sided:
            partly_forgotten = mixture.check_mixture(mixture.sides_of(scored, counted))
        by_name, named_people = measure_by_name(case, trials, outcomes)
        recognised = count_recognised(case.corpus, scored.ids, _scores_by_ending(scored))
        result = replace(
            measured,
            measurements=(*measured.measurements, *by_name),
            counts=text_of(self.name).count(counts),
            checks=(
                *check_reference_membership(case, scored, blind),
                *reading.checks,
                *check_scores(scored, counted, measured.measurements),
                *partly_forgotten,
            ),
            conditions=reading.conditions,
            controls=reference_controls(scored, measured.methods, blind),
            people=(*recognised, *named_people),
            coverage=(
                Coverage(
                    "all", int(scored.member.sum()), len(case.corpus.of("member")), "documents"
                ),
            ),
            ablations=(lacking,) * (scored.primary != "calibrated"),
        )
        return blind.beside(result, measured.methods["auc"], measured.methods[LOW])

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]
    ) -> Iterator[Evidence]:
        """Yield every score of a member or held-out document, and its rank; then people by name.

        Rank 1 is most like a member.
        """
        scored = scores.score_documents(case, trials, outcomes)
        ranks = {name: rank_scores(column) for name, column in scored.columns.items()}
        for index, document in enumerate(scored.ids):
            document_scores = {}
            document_ranks = {}
            for name, column in scored.columns.items():
                if np.isfinite(column[index]):
                    document_scores[name] = float(column[index])
                    document_ranks[name] = int(ranks[name][index])
            yield {
                "attack": self.name,
                "document": document,
                "split": "member" if scored.member[index] else "heldout",
                "primary": scores.PRIMARIES[scored.primary],
                "scores": document_scores,
                "ranks": document_ranks,
            }
        yield from evidence_by_name(case.corpus, trials, outcomes)
        for name, column in _areas(scored).items():
            yield name, UnitScores(scored.ids, scored.ids, scored.member, column, "auc")


def _lacking_documents(corpus: Corpus, split: Split) -> str | None:
    """Say that a split has no documents that can be scored; None when it has."""
    of_split = corpus.of(split)
    if not of_split:
        return f"no {WORDS[split]} documents"
    if corpus.manifest.task.asks and not any(document.questions for document in of_split):
        return f"no question in {WORDS[split]} documents"
    return None


def _areas(scored: scores.ScoredDocuments) -> dict[str, Floats]:
    """Return the scores of documents by the name of each one's AUC; "auc" is the primary one's."""
    columns = {
        f"auc.{score}": column for score, column in scored.columns.items() if score != scores.RATIO
    }
    if scored.primary in scored.columns:
        columns["auc"] = scored.columns[scored.primary]
    return columns


def _scores_by_ending(scored: scores.ScoredDocuments) -> dict[str, Floats]:
    """Return the scores of documents by the end of the names of each one's measurements.

    The primary score has the bare names too.
    """
    columns = {f".{score}": column for score, column in scored.columns.items()}
    if scored.primary in scored.columns:
        columns[""] = scored.columns[scored.primary]
    return columns


def _perhaps_scored(corpus: Corpus) -> list[Document]:
    """List the compared documents that a model may be able to score.

    Where questions are asked, one needs an answer.
    """
    compared = documents.select_compared(corpus)
    if not corpus.manifest.task.asks:
        return [*compared]
    return [document for document in compared if _has_answer(document)]


def _has_answer(document: Document) -> bool:
    """Test whether any question of a document has an answer."""
    return any(question.answers for question in document.questions)


def check_scores(
    scored: scores.ScoredDocuments, counted_by: Sequence[str], measured: Sequence[Measurement]
) -> tuple[Check, ...]:
    """Test whether a few members are known for certain.

    Test also whether those with copies among the members are known.

    Args:
        scored: the documents with their scores.
        counted_by: scores that certain documents are counted by.
        measured: everything of `measure_scores`.
    """
    scores_there = [score for score in counted_by if score in scored.columns]
    names = {f"{LOW}.{score}" for score in scores_there}
    certain = scores.COMPARISON.check_certain(
        [scored.single(score) for score in scores_there],
        [item for item in measured if item.name in names],
    )
    return (*certain, *_check_repeated(scored))


def _check_repeated(scored: scores.ScoredDocuments) -> tuple[Check, ...]:
    """Test whether members with copies among the members score higher than held-out documents.

    They are compared beside a reference. Documents that occur several times are common, and easy
    for any model: their plain loss proves nothing, and an area of up to `REPEATED_AUC` is no
    finding. Of fewer than `FEW` the test is Mann and Whitney's.
    """
    tests: list[tuple[float, float, int]] = []
    for score in ("calibrated", scores.RATIO):
        if score not in scored.columns:
            continue
        members, heldout = scored.repeated(score)
        if min(len(members), len(heldout)) > 1:
            tests.append(_test_repeated(members, heldout))
    if not tests:
        return ()
    p_value, area_value, n = min(tests)
    reason = SENTENCES["repeated_documents"].format(n=n, area=area_value)
    corrected = min(1.0, len(tests) * p_value)
    return (Check("repeated documents", corrected, "alarm", reason, SENTENCES["deduplicate"]),)


def _test_repeated(members: Floats, heldout: Floats) -> tuple[float, float, int]:
    """Return p-value and AUC of repeated members over held-out documents, and their number."""
    area = auc_interval(members, heldout)
    if len(members) >= FEW:
        p_value = area.p_above(REPEATED_AUC)
    else:
        p_value = outranks(members, heldout) if area.value > REPEATED_AUC else 1.0
    return p_value, area.value, len(members)


def check_reference_membership(
    case: Case, scored: scores.ScoredDocuments, blind: Blind
) -> tuple[Check, ...]:
    """Test whether the reference knows a side of the audited documents; empty where there is none.

    A reference that saw neither split tells member from held-out documents no better than chance by
    its own loss, on either side of chance. One that knows the members takes away from the model's
    score what the model knows; one that knows the held-out documents adds what it knows itself. The
    plain loss stands, see `innocence.plain_scores_stand`.

    Args:
        case: the audit.
        scored: the documents with their scores.
        blind: the blind check of the same documents.
    """
    role = documents.reference_of(case)[0]
    members, heldout = _reference_scores(scored)
    if not (role and len(members) and len(heldout)):
        return ()
    sides: dict[Split, Floats] = {"member": members, "heldout": heldout}
    signs = [
        innocence.compare_sides(sides, better, worse)
        for better, worse in itertools.permutations(sides)
    ]
    knowledge = innocence.judge_signs(role, signs)
    spares: tuple[str, ...] = ()
    if innocence.plain_scores_stand(case.corpus, blind, knowledge):
        spares = innocence.spared_by(role)
    check = Check(
        "reference membership",
        knowledge.p_value,
        "confounded",
        knowledge.reason,
        SENTENCES["unknowing"],
        spares=spares,
    )
    return (check,)


def reference_controls(
    scored: scores.ScoredDocuments, methods: Mapping[str, Sequence[str]], blind: Blind
) -> tuple[Control, ...]:
    """Bound what the documents explain by the reference's own loss.

    Empty without one, or where nothing is in doubt.

    Args:
        scored: the documents with their scores.
        methods: measurements by limited metric that a limit is held against.
        blind: the blind check of the same documents.
    """
    sides = _reference_scores(scored)
    if not blind.in_doubt or min(map(len, sides)) < MIN_UNITS:
        return ()
    area = scores.COMPARISON.measure_auc("auc", sides)
    advantage, _ = scores.COMPARISON.measure_advantage(LOW, sides)
    of_areas = reference_control(methods["auc"], area, READS_CLOSE)
    return of_areas + reference_control(methods[LOW], advantage, READS_CLOSE)


def _reference_scores(scored: scores.ScoredDocuments) -> TwoSides:
    """Return minus the reference's loss of members and of held-out documents.

    Empty without a reference.
    """
    if not {"loss", "calibrated"} <= scored.columns.keys():
        return np.empty(0), np.empty(0)
    values: Floats = scored.columns["loss"] - scored.columns["calibrated"]
    is_finite = np.isfinite(values)
    return values[is_finite & scored.member], values[is_finite & ~scored.member]
