"""Scores that rank documents, from the losses of models; larger = more like a member."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools, Floats
from audit.attacks.interface import AUDITED, loss_kind
from audit.attacks.measuring import DOCUMENTS, Streams
from audit.attacks.membership.documents import name_unusable_references, reference_of
from audit.attacks.score_figures import LOW, TPR, ScoreComparison, draw_roc
from audit.case import Case
from audit.corpus.near_copies import group_copies
from audit.engine.interface import Json, Progress, Trial
from audit.measurements import Curve, Diagnostic, Histogram, Measurement, Role, Unresolved
from audit.record import Result
from audit.stats.estimates import estimate
from audit.stats.likelihood_ratio import lira_offline, lira_online, sides
from audit.stats.ranking import FEWEST_PAIRS, rank_correlation
from audit.targets.interface import RowLoss

SCORES = ("loss", "calibrated", "ratio", "row", "lira")
POWER = "reference_power"
WORSE = "documents_treated_worse"
LIMITED = ("auc", LOW, DOCUMENTS)
"""What policies limit: held against the strongest of the scores."""


PRIMARIES = {
    "calibrated": "loss minus the loss of models that never saw the document",
    "loss": "loss",
}
"""What the primary score is, in words; the first one that this audit has."""
RATIO = "ratio"
FLOOR = 1e-7
"""Nats: smaller losses are rounding errors of single precision."""
_UNCALIBRATED = (
    "needs a baseline (docaudit references --train),"
    " or the pretrained model with a head for the task"
)
Score = Floats | str
"""Shape (n_documents,), NaN where a document has none; or why no document has it."""
NEEDED_DOCUMENTS = 20
"""Documents of a split under which statistics are marked "few units"."""
QUANTITIES = {
    "calibrated": "loss of models that never saw the document minus this model's loss, nats",
    "loss": "how well the model predicts the document (minus the loss, nats)",
    "ratio": "logarithm of the loss of models that never saw the document over this model's",
    "row": "how well the model predicts page, question and answer (minus the loss, nats)",
    "lira": "logarithm of LiRA's likelihood ratio",
}
"""Scores in words, as an axis has them."""
COMPARISON = ScoreComparison("document", "unseen documents", ("member", "held-out"))
_SPLITS = (
    "needs split models (K of them, each trained on half of the documents:"
    " docaudit references --train splits)"
)


@dataclass(frozen=True, eq=False)
class ScoredDocuments:
    """Hold member and held-out documents with their scores.

    Attributes:
        ids: ids of the documents.
        member: (n_documents,) whether each is a member.
        columns: columns by score, (n_documents,), NaN where a document has none.
        missing: reasons by score why no document has it.
        unusable: documents that were tried and have no finite loss.
        documents: number of documents that have a loss, by split in words.
        first_copy: first one of the copies of each document in its split, itself where it has none;
            a document that is missing has none.
        lacking: role by score of the reference that it takes and the scan was not given.
        offered: members that could be scored, tried or not.
    """

    ids: tuple[str, ...]
    member: Bools
    columns: Mapping[str, Floats]
    missing: Mapping[str, str]
    unusable: int
    documents: tuple[tuple[str, int], ...]
    first_copy: Mapping[str, str] = field(default_factory=dict)
    lacking: Mapping[str, Role] = field(default_factory=dict)
    offered: tuple[str, ...] = ()

    @property
    def primary(self) -> str:
        """Return the score that stands for the attack: the first of `PRIMARIES` that there is."""
        return next((name for name in PRIMARIES if name in self.columns), "loss")

    def split(self, name: str) -> tuple[Floats, Floats]:
        """Return the finite scores of members and of held-out documents."""
        return self._sides(name, np.ones(len(self.ids), bool))

    def single(self, name: str) -> tuple[Floats, Floats]:
        """Return a score of members and of held-out documents, without those that have copies.

        Copies are no independent units. What occurs often stays in one split by chance more often
        in the larger one, as copies between splits are left out, so that documents with copies are
        not exchangeable.
        """
        return self._sides(name, ~self._copied)

    def repeated(self, name: str) -> tuple[Floats, Floats]:
        """Return a score of one member of each group of copies, and of held-out documents.

        With them, keep the held-out documents without a copy.
        """
        originals = [self.first_copy.get(name, name) for name in self.ids]
        _, first = np.unique(originals, return_index=True)
        firsts = np.isin(np.arange(len(self.ids)), first)
        return self._sides(name, np.where(self.member, self._copied & firsts, ~self._copied))

    def without(self, name: str, score: str) -> Unresolved:
        """Make the unresolved measurement of a score that no document has, with its reason."""
        reason = self.missing.get(score, "no document was scored")
        return Unresolved(name, reason, 0, lacks=self.lacking.get(score))

    @property
    def _copied(self) -> Bools:
        """Mark documents that have a copy in their split: shape (n_documents,)."""
        return self._have_copies(self.ids)

    def _have_copies(self, names: Sequence[str]) -> Bools:
        """Mark the named documents that have a copy in their split: shape (n_names,)."""
        times = Counter(self.first_copy.values())
        return np.array([times[self.first_copy.get(name, name)] > 1 for name in names], bool)

    def n_single(self, name: str) -> int:
        """Count the members without a copy that could have this score, tried or not.

        Of those that were not tried, as large a share is taken to have it as of those that were.
        """
        tried = self.member & ~self._copied
        scored = len(self.single(name)[0])
        offered = int((~self._have_copies(self.offered)).sum())
        return max(scored, round(offered * scored / max(1, int(tried.sum()))))

    def _sides(self, name: str, taken: Bools) -> tuple[Floats, Floats]:
        """Return a score's finite values of marked members and of marked held-out documents."""
        column = self.columns[name]
        is_scored = np.isfinite(column) & taken
        return column[is_scored & self.member], column[is_scored & ~self.member]


def gated_scores(case: Case) -> tuple[str, ...]:
    """Return the scores that a limit is held against: all that this audit can have.

    They follow from the kind of the target and from the references: never from an outcome.
    """
    there = {
        "loss": True,
        "calibrated": bool(reference_of(case)[1]),
        RATIO: False,
        "row": RowLoss in case.target.answers,
        "lira": bool(case.references.splits),
    }
    return tuple(score for score in SCORES if there[score])


def counted_scores(gated: Sequence[str]) -> tuple[str, ...]:
    """Return the scores that certain documents are counted by.

    These are those of `gated_scores`, and the ratio of losses. The ratio recognises few documents
    for certain and orders the others poorly, so that no area is held against it.
    """
    return (*gated, RATIO) if "calibrated" in gated else tuple(gated)


def score_documents(
    case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], offered: Sequence[Trial] = ()
) -> ScoredDocuments:
    """Compute all scores of the member and held-out documents among the trials, in trial order.

    `offered`: all trials that there could be, which counts are of; empty: no more.
    """
    rows = [
        (trial, outcome)
        for trial, outcome in zip(trials, outcomes, strict=True)
        if outcome["target"]
    ]
    member = np.array([trial.stratum == "member" for trial, _ in rows], bool)
    columns: dict[str, Floats] = {}
    missing: dict[str, str] = {}
    for name, score in _score_rows(case, rows).items():
        if isinstance(score, str):
            missing[name] = score
        else:
            columns[name] = score
    first_copy: dict[str, str] = {}
    for split in AUDITED:
        first_copy |= group_copies(case.corpus, case.corpus.of(split))
    return ScoredDocuments(
        ids=tuple(trial.cluster for trial, _ in rows),
        member=member,
        columns=columns,
        missing=missing,
        unusable=len(trials) - len(rows),
        documents=(("member", int(member.sum())), ("held-out", int((~member).sum()))),
        first_copy=first_copy,
        lacking=lacking_references(case),
        offered=_members_of(offered),
    )


def _score_rows(case: Case, rows: Sequence[tuple[Trial, Json]]) -> dict[str, Score]:
    """Compute all scores of the documents that have a loss; empty without any."""
    if not rows:
        return {}
    outcomes = [outcome for _, outcome in rows]
    scores = _score_by_losses(outcomes, name_unusable_references(case, _UNCALIBRATED))
    scores["lira"] = _likelihood_ratios(case, rows)
    return scores


def _members_of(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the ids of the member documents that trials are about."""
    return tuple(trial.cluster for trial in trials if trial.stratum == "member")


def lacking_references(case: Case) -> dict[str, Role]:
    """Return by score the role of the reference that it takes and the scan was not given."""
    lacking: dict[str, Role] = {}
    if not reference_of(case)[1]:
        lacking |= {"calibrated": "baselines", RATIO: "baselines"}
    if not case.references.splits:
        lacking["lira"] = "splits"
    return lacking


def _score_by_losses(outcomes: Sequence[Json], uncalibrated: str) -> dict[str, Score]:
    """Score by the loss, by its difference from and its ratio to a reference's.

    With these, score by the loss of whole rows. The ratio (Carlini et al. 2021, section 5.2)
    recognises a document that the model knows by heart: its loss is near 0, however hard the
    reference finds it. The difference is largest where both losses are.
    """
    targets = [outcome["target"] for outcome in outcomes]
    losses = _column_of(targets, "loss")
    rows = _column_of(targets, "row")
    reference = _mean_of_references(outcomes, "loss")
    usual = _mean_of_references(outcomes, "row")
    shares = np.log(np.maximum(reference, FLOOR)) - np.log(np.maximum(losses, FLOOR))
    # A reference without such losses has none of any document.
    by_rows = usual - rows if np.isfinite(usual).any() else -rows
    return {
        "loss": _column_or_reason(-losses, "no finite loss"),
        "calibrated": _column_or_reason(reference - losses, uncalibrated),
        RATIO: _column_or_reason(shares, uncalibrated),
        "row": _column_or_reason(by_rows, "for decoders that read a page's words only"),
    }


def _mean_of_references(outcomes: Sequence[Json], key: str) -> Floats:
    """Average a loss over the references, (n_documents,); NaN without references."""
    means = []
    for outcome in outcomes:
        losses = outcome["reference"]
        means.append(_column_of(losses, key).mean() if losses else np.nan)
    return np.array(means)


def _likelihood_ratios(case: Case, rows: Sequence[tuple[Trial, Json]]) -> Score:
    """Score by LiRA, online where every document has models trained on it, else offline."""
    logits, trained = _by_split_models(case, rows)
    usable = np.isfinite(logits).all(axis=1)
    if not usable.any():
        return _SPLITS
    inside, outside = sides(logits[usable], trained[usable])
    if outside is None:
        return "a document is missing in all split models but one"
    observed = _column_of([outcome["target"] for _, outcome in rows], "logit")[usable]
    column = np.full(len(rows), np.nan)
    if inside is None:
        column[usable] = lira_offline(observed, outside)
    else:
        column[usable] = lira_online(observed, inside, outside)
    return _column_or_reason(column, _SPLITS)


def _by_split_models(case: Case, rows: Sequence[tuple[Trial, Json]]) -> tuple[Floats, Bools]:
    """Return each split model's logit confidence, and whether it saw the document.

    Both have shape (n_documents, n_models).
    """
    models = [
        split
        for split in case.references.splits
        if loss_kind(split.target) == loss_kind(case.target)
    ]
    values = np.full((len(rows), max(1, len(models))), np.nan)
    trained = np.empty((len(rows), len(models)), bool)
    for index, (trial, outcome) in enumerate(rows):
        if models:
            values[index] = _column_of(outcome["splits"], "logit")
        trained[index] = [trial.cluster in split.members for split in models]
    return values, trained


def _column_of(measured: Sequence[Json], key: str) -> Floats:
    """Return the number under `key` of each measured loss, (n_documents,), NaN where missing."""
    values = []
    for losses in measured:
        value = None if losses is None else losses[key]
        values.append(np.nan if value is None else value)
    return np.array(values, np.float64)


def _column_or_reason(column: Floats, reason: str) -> Score:
    """Return the column, or the reason where no document has a score."""
    return column if np.isfinite(column).any() else reason


def measure_scores(
    scored: ScoredDocuments, rng: Generator, progress: Progress, *, two_sided: bool = False
) -> Result:
    """Measure every score; draw its histogram and its ROC curve.

    Those of the primary score have bare names too.

    Args:
        scored: the documents with their scores.
        rng: draws thresholds.
        progress: advanced for every score.
        two_sided: whether to count the members that the primary score puts below the others as
            well.
    """
    progress.stage("membership: intervals", len(SCORES))
    measured: dict[str, Measurement] = {}
    rates: dict[str, float | None] = {}
    for score in SCORES:
        area, low, certain = (f"{name}.{score}" for name in LIMITED)
        measured[certain] = _count_certain(certain, scored, score)
        if score != RATIO:
            measured[area] = _measure_area(area, scored, score)
            measured[low], rates[score] = _measure_advantage(low, scored, score)
        progress.advance()
    primary = [replace(measured[f"{name}.{scored.primary}"], name=name) for name in LIMITED]
    if two_sided:
        primary.append(_count_certain(WORSE, scored, scored.primary, mirrored=True))
    lack = _unresolved(TPR, scored, scored.primary)
    tpr = lack or COMPARISON.measure_tpr(
        scored.split(scored.primary), Streams(rng)[f"{TPR}.{scored.primary}"]
    )
    result = Result(
        "membership",
        measurements=(*primary, tpr, reference_power(scored), *measured.values()),
        diagnostics=_low_rate(rates[scored.primary]),
    )
    if scored.primary not in scored.columns:
        return result
    histograms, curves = _draw_scores(scored)
    return replace(result, histograms=histograms, curves=curves)


def _draw_scores(scored: ScoredDocuments) -> tuple[tuple[Histogram, ...], tuple[Curve, ...]]:
    """Draw the histogram and the ROC curve of every score, those of the primary one first."""
    histograms = [_histogram_of(scored, scored.primary)]
    curves = []
    if _unresolved(TPR, scored, scored.primary) is None:
        curves.append(_roc_of(scored, scored.primary))
    for score in scored.columns:
        if _unresolved(score, scored, score) is None:
            histogram = _histogram_of(scored, score)
            histograms.append(replace(histogram, name=f"{histogram.name}.{score}"))
            curve = _roc_of(scored, score)
            curves.append(replace(curve, name=f"{curve.name}.{score}"))
    return tuple(histograms), tuple(curves)


def _histogram_of(scored: ScoredDocuments, score: str) -> Histogram:
    """Count the documents of both sides by a score."""
    (histogram,) = COMPARISON.histogram(QUANTITIES[score], scored.split(score))
    return histogram


def _roc_of(scored: ScoredDocuments, score: str) -> Curve:
    """Draw the ROC curve of a score."""
    x = "share of unseen documents recognised"
    y = "share of training documents recognised"
    return Curve("roc", x, y, {"members against held-out": draw_roc(scored.split(score))})


def _measure_area(name: str, scored: ScoredDocuments, score: str) -> Measurement:
    """Measure the AUC of a score, or say why it cannot be measured."""
    lack = _unresolved(name, scored, score)
    return lack or COMPARISON.measure_auc(name, scored.split(score))


def _measure_advantage(
    name: str, scored: ScoredDocuments, score: str
) -> tuple[Measurement, float | None]:
    """Measure the advantage of a score at a low false-positive rate, with that rate.

    None stands for the rate where it cannot be measured.
    """
    lack = _unresolved(name, scored, score)
    if lack is not None:
        return lack, None
    return COMPARISON.measure_advantage(name, scored.split(score))


def _low_rate(rate: float | None) -> tuple[Diagnostic, ...]:
    """State the false-positive rate of `LOW`; nothing where there is none."""
    if rate is None:
        return ()
    meaning = (
        f"the false-positive rate of {LOW}: the lowest of 10 %, 1 % and 0.1 %"
        " that the unseen documents allow"
    )
    return (Diagnostic("low_fpr", rate, meaning),)


def _count_certain(
    name: str, scored: ScoredDocuments, score: str, *, mirrored: bool = False
) -> Measurement:
    """Count the members without a copy that a score knows for certain."""
    lack = _unresolved(name, scored, score)
    if lack is not None:
        return lack
    return COMPARISON.count_certain(
        name, scored.single(score), scored.n_single(score), mirrored=mirrored
    )


def _unresolved(name: str, scored: ScoredDocuments, score: str) -> Unresolved | None:
    """Return why a score cannot be measured; None when it can."""
    if score not in scored.columns:
        return scored.without(name, score)
    for label, side in zip(COMPARISON.labels, scored.split(score), strict=True):
        if len(side) < 2:
            return Unresolved(
                name,
                f"fewer than two {label} documents have this score",
                len(side),
                NEEDED_DOCUMENTS,
            )
    return None


def reference_power(scored: ScoredDocuments) -> Measurement:
    """Measure how well the reference's losses explain the target's on held-out documents, by rank.

    A reference whose losses have nothing to do with the target's adds noise to its score and hides
    a leak. Ranks are compared because a few documents have losses many times those of the others.
    """
    if "calibrated" not in scored.columns:
        return scored.without(POWER, "calibrated")
    is_scored = (
        ~scored.member
        & np.isfinite(scored.columns["loss"])
        & np.isfinite(scored.columns["calibrated"])
    )
    n = int(is_scored.sum())
    if n < FEWEST_PAIRS:
        return Unresolved(POWER, "too few unseen documents that both models read", n, FEWEST_PAIRS)
    losses = -scored.columns["loss"][is_scored]
    interval = rank_correlation(losses, scored.columns["calibrated"][is_scored] + losses)
    return estimate(POWER, interval, "documents", 0.0, "chance")
