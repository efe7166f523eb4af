"""Measurements on the scores of documents: AUC, true-positive rates at low false-positive rates, ROC.

Method: methods.md#statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from audit.arrays import Floats
from audit.attacks.blind_baseline import Blind, reference_control
from audit.attacks.measuring import DOCUMENTS, Streams
from audit.attacks.membership.documents import first_by_name, reference_of
from audit.attacks.membership.scores import LIMITED, POWER, RATIO, SCORES, ScoredDocuments
from audit.attacks.score_figures import LOW, TPR, ScoreComparison, draw_roc
from audit.case import Case
from audit.engine.interface import Progress
from audit.measurements import Check, Control, Curve, Diagnostic, Histogram, Measurement, Unresolved
from audit.record import Result
from audit.stats.blind import MIN_UNITS
from audit.stats.paired import Ratios, ratio_difference
from audit.stats.ranking import FEWEST_PAIRS, rank_correlation
from audit.stats.roc import FEW, auc_interval, outranks
from audit.targets.interface import Answer, BestClass, BestLinks, BestTokens, TagProbabilities
from audit.targets.utility import estimate, usefulness_by_document

MAX_GAP = 0.10
"""A reference reads as well as the target where their usefulness on held-out documents differs by at most so much (the
value that memorisation takes for its baseline): references trained too little have a power of 0.6 and hide a leak."""
MOST_READ = 100
"""Held-out documents that both are compared on, at most."""
BETTER = "give a reference that was trained as the model was, on other documents (docaudit references), and scan again"
_READING = frozenset({Answer, BestClass, BestLinks, BestTokens, TagProbabilities})
"""Queries that show how well a model does its task."""
_SEED = 12


def reference_power(scored: ScoredDocuments) -> Measurement:
    """Measure how well the reference's losses explain the target's on held-out documents, by rank.

    A reference whose losses have nothing to do with the target's adds noise to its score and hides a leak. Ranks are
    compared because a few documents have losses many times those of the others.

    Args:
        scored: the documents with their scores.
    """
    if "calibrated" not in scored.columns:
        return Unresolved(POWER, scored.missing.get("calibrated", "no document was scored"), 0)
    known = ~scored.member & np.isfinite(scored.columns["loss"]) & np.isfinite(scored.columns["calibrated"])
    if known.sum() < FEWEST_PAIRS:
        return Unresolved(POWER, "too few held-out documents that both models read", int(known.sum()), FEWEST_PAIRS)
    own = -scored.columns["loss"][known]
    found = rank_correlation(own, scored.columns["calibrated"][known] + own)
    return estimate(POWER, found, "documents", 0.0, "chance")


def reads_otherwise(case: Case) -> Iterator[Check]:
    """Test whether a reference does the task much worse or better than the target, on held-out documents.

    Args:
        case: the audit; nothing is tested where it has no reference that shows how it does the task.
    """
    models = [model for model in reference_of(case)[1] if _READING & model.answers]
    if not models or not _READING & case.target.answers:
        return
    chosen = first_by_name(case.corpus.of("heldout"), MOST_READ)
    documents = tuple(one for one in case.corpus.documents if one.split != "heldout" or one.id in chosen)
    corpus = replace(case.corpus, documents=documents)
    own = usefulness_by_document(case.target, corpus, _SEED)
    gaps = [gap for model in models for gap in _gaps(own, usefulness_by_document(model, corpus, _SEED))]
    if gaps:
        p_value, reason = min(gaps)
        yield Check("reference reads otherwise", min(1.0, len(gaps) * p_value), "alarm", reason, BETTER)


def _gaps(own: dict[str, Ratios], other: dict[str, Ratios]) -> Iterator[tuple[float, str]]:
    """Compare two models by each measure of usefulness: the p of a difference beyond `MAX_GAP`, and its reason."""
    for name in own.keys() & other.keys():
        found = ratio_difference(own[name], other[name], None, np.random.default_rng(_SEED))
        if found is None:
            continue
        gap = found.interval
        beyond = [alpha for alpha, low, high in gap.bounds if low > MAX_GAP or high < -MAX_GAP]
        word = "better" if gap.value > 0 else "worse"
        reason = (
            f"the reference reads held-out documents much {word} than the model, {name.replace('_', ' ')} different by"
            f" {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}], so that it does not show how hard these are"
        )
        yield min(1.0, 2 * min(beyond, default=1.0)), reason


NEEDED_DOCUMENTS = 20
"""Documents of a split under which statistics are marked "few units"."""
REPEATED_AUC = 0.65
"""The area over which repeated documents raise an alarm: what `default.toml` allows of all documents."""
DEDUPLICATE = "train again with one copy of each document (docaudit defend), and scan again"
_DOCUMENTS = ScoreComparison("document", "held-out documents", ("member", "held-out"))
QUANTITIES = {
    "calibrated": "loss of models that never saw the document minus loss of this one, nats",
    "loss": "minus the loss, nats",
}
"""The primary score in words, as an axis has it."""


def measure_scores(scored: ScoredDocuments, rng: Generator, progress: Progress) -> Result:
    """Measure every score; draw the histogram and the ROC curve of the primary one."""
    progress.stage("membership: intervals", len(SCORES))
    streams = Streams(rng)
    found: dict[str, Measurement] = {}
    rates: dict[str, float | None] = {}
    for score in SCORES:
        name = f"{DOCUMENTS}.{score}"
        found[name] = _unresolved(name, scored, score) or _DOCUMENTS.count_certain(name, scored.single(score))
        if score != RATIO:
            found[f"auc.{score}"] = _auc(f"auc.{score}", scored, score)
            found[f"{LOW}.{score}"], rates[score] = _low(f"{LOW}.{score}", scored, score)
        progress.advance()
    primary = [replace(found[f"{name}.{scored.primary}"], name=name) for name in LIMITED]
    gap = _unresolved(TPR, scored, scored.primary)
    tpr = gap or _DOCUMENTS.measure_tpr(scored.split(scored.primary), streams[f"{TPR}.{scored.primary}"])
    rate = rates[scored.primary]
    meaning = f"the false-positive rate of {LOW}: the lowest of 10 %, 1 % and 0.1 % that the held-out documents resolve"
    return Result(
        "membership",
        measurements=(*primary, tpr, reference_power(scored), *found.values()),
        diagnostics=() if rate is None else (Diagnostic("low_fpr", rate, meaning),),
        histograms=_histogram(scored),
        curves=_curves(scored),
    )


def _unresolved(name: str, scored: ScoredDocuments, score: str) -> Unresolved | None:
    if score not in scored.columns:
        return Unresolved(name, scored.missing.get(score, "no document was scored"), 0)
    for label, side in zip(_DOCUMENTS.labels, scored.split(score), strict=True):
        if len(side) < 2:
            return Unresolved(name, f"fewer than two {label} documents have this score", len(side), NEEDED_DOCUMENTS)
    return None


def _auc(name: str, scored: ScoredDocuments, score: str) -> Measurement:
    return _unresolved(name, scored, score) or _DOCUMENTS.measure_auc(name, scored.split(score))


def _low(name: str, scored: ScoredDocuments, score: str) -> tuple[Measurement, float | None]:
    missing = _unresolved(name, scored, score)
    return (missing, None) if missing is not None else _DOCUMENTS.measure_advantage(name, scored.split(score))


def check_scores(scored: ScoredDocuments, scores: Sequence[str], measured: Sequence[Measurement]) -> tuple[Check, ...]:
    """Test whether a few members are known for certain, and whether those with copies among the members are known.

    Args:
        scored: the documents with their scores.
        scores: those that certain documents are counted by.
        measured: everything of `measure_scores`.
    """
    known = [score for score in scores if score in scored.columns]
    names = {f"{LOW}.{score}" for score in known}
    certain = _DOCUMENTS.check_certain(
        [scored.single(score) for score in known], [item for item in measured if item.name in names]
    )
    return (*certain, *_repeated(scored))


def _repeated(scored: ScoredDocuments) -> tuple[Check, ...]:
    """Test whether members that have copies among the members are told from held-out documents, beside a reference.

    Documents that occur several times are common, and easy for any model: their plain loss proves nothing, and an area
    of up to `REPEATED_AUC` is no finding. Of fewer than `FEW` the test is Mann and Whitney's.
    """
    found: list[tuple[float, float, int]] = []
    for score in ("calibrated", RATIO):
        members, heldout = scored.repeated(score) if score in scored.columns else (np.empty(0), np.empty(0))
        if min(len(members), len(heldout)) > 1:
            area = auc_interval(members, heldout)
            exact = outranks(members, heldout) if area.value > REPEATED_AUC else 1.0
            p_value = exact if len(members) < FEW else area.p_above(REPEATED_AUC)
            found.append((p_value, area.value, len(members)))
    if not found:
        return ()
    p_value, area_value, n = min(found)
    reason = (
        f"documents that occur several times in training are known: {n} with their copies are told from held-out ones, "
        f"AUC {area_value:.3f}"
    )
    return (Check("repeated documents", min(1.0, len(found) * p_value), "alarm", reason, DEDUPLICATE),)


def _histogram(scored: ScoredDocuments) -> tuple[Histogram, ...]:
    if scored.primary not in scored.columns:
        return ()
    return _DOCUMENTS.histogram(QUANTITIES[scored.primary], scored.split(scored.primary))


def _curves(scored: ScoredDocuments) -> tuple[Curve, ...]:
    if _unresolved("roc", scored, scored.primary) is not None:
        return ()
    series = {"members against held-out": draw_roc(scored.split(scored.primary))}
    return (Curve("roc", "share of held-out documents called members", "share of members called members", series),)


def reference_knows_members(scored: ScoredDocuments) -> tuple[Check, ...]:
    """Test whether the reference looks trained on the audited documents; empty where there is none.

    A reference that saw neither split tells member from held-out documents no better than chance by its own loss. One
    that knows the members takes away from the model's score what the model knows.

    Args:
        scored: the documents with their scores.
    """
    if not {"loss", "calibrated"} <= scored.columns.keys():
        return ()
    members, heldout = (_reference(scored, member=side) for side in (True, False))
    if not (len(members) and len(heldout)):
        return ()
    found = auc_interval(members, heldout)
    p_value = found.p_above(0.5)
    reason = (
        "the reference looks trained on the audited documents, or these differ in themselves: its own loss tells member"
        f" from held-out ones, AUC {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    )
    remedy = "give a reference that saw neither side (docaudit references), and scan again"
    return (Check("reference knows members", p_value, "confounded", reason, remedy),)


def reference_controls(
    scored: ScoredDocuments, methods: Mapping[str, Sequence[str]], blind: Blind
) -> tuple[Control, ...]:
    """Bound what the documents explain by the reference's own loss; empty without one, or where nothing is in doubt.

    Args:
        scored: the documents with their scores.
        methods: by limited metric, the measurements that a limit is held against.
        blind: the blind check of the same documents.
    """
    if not blind.in_doubt or not {"loss", "calibrated"} <= scored.columns.keys():
        return ()
    sides = _reference(scored, member=True), _reference(scored, member=False)
    if min(map(len, sides)) < MIN_UNITS:
        return ()
    area, (advantage, _) = _DOCUMENTS.measure_auc("auc", sides), _DOCUMENTS.measure_advantage(LOW, sides)
    return reference_control(methods["auc"], area) + reference_control(methods[LOW], advantage)


def _reference(scored: ScoredDocuments, *, member: bool) -> Floats:
    """Minus the reference's loss of each document of one side: the score by loss without the calibrated one."""
    values: Floats = (scored.columns["loss"] - scored.columns["calibrated"])[scored.member == member]
    return values[np.isfinite(values)]
