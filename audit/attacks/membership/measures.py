"""What the scores of documents add up to: AUC, true-positive rates at low false-positive rates, ROC.

Method: methods.md#statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.random import Generator

from audit.attacks.interface import Findings
from audit.attacks.membership.scores import PRIMARIES, SCORES, ScoredDocuments
from audit.engine.interface import Progress
from audit.measurements import ALPHAS, Curve, Diagnostic, Histogram, Measurement, Unresolved
from audit.stats.advantage import LOW_RATES, low_advantage
from audit.stats.roc import auc_interval, nonmembers_needed, roc_points, tpr_at_fpr
from audit.targets.utility import estimate

RATES = {"10": 0.1, "1": 0.01}
"""The false-positive rates that are looked at, in per cent and as shares."""
LOW = "low_fpr_advantage"
"""True-positive rate minus false-positive rate at the lowest rate that is resolved, see `stats.advantage`."""
LIMITED = ("auc", LOW)
"""What policies limit: held against the strongest of the scores."""
METRICS = (
    "auc",
    LOW,
    *(f"tpr_at_fpr_{rate}" for rate in RATES),
    *(f"fpr_at_{rate}" for rate in RATES),
    *(f"{what}.{score}" for what, score in product((*LIMITED, *(f"tpr_at_fpr_{rate}" for rate in RATES)), SCORES)),
)
"""Without a suffix: of the primary score. `fpr_at_...` is what the threshold gave on the evaluated documents."""
NEEDED_DOCUMENTS = 20
"""Documents of a split under which statistics are marked "few documents"."""
N_BINS = 20
QUANTITIES = {
    "calibrated": "loss of models that never saw the document minus loss of this one, nats",
    "loss": "minus the loss, nats",
}
"""The primary score in words, as an axis has it."""


def measure_scores(scored: ScoredDocuments, rng: Generator, progress: Progress) -> Findings:
    """All measurements, the histogram and the ROC curve of the primary score."""
    progress.stage("membership: intervals", len(SCORES))
    found: dict[str, Measurement] = {}
    rates: dict[str, float | None] = {}
    for score in SCORES:
        found[f"auc.{score}"] = _auc(f"auc.{score}", scored, score)
        found[f"{LOW}.{score}"], rates[score] = _low(f"{LOW}.{score}", scored, score)
        for rate in RATES:
            name = f"tpr_at_fpr_{rate}"
            tpr, fpr = _tpr(f"{name}.{score}", scored, score, rate, rng)
            found[f"{name}.{score}"] = tpr
            if score == scored.primary:
                found[name], found[f"fpr_at_{rate}"] = _renamed(tpr, name), fpr
        if score == scored.primary:
            found.update({name: _renamed(found[f"{name}.{score}"], name) for name in LIMITED})
        progress.advance()
    calibrated = Diagnostic(
        "calibrated",
        float(scored.primary == "calibrated"),
        f"1: the primary score is the {PRIMARIES['calibrated']}; 0: without such a model, the {PRIMARIES['loss']}",
    )
    return Findings(
        tuple(found[name] for name in METRICS),
        diagnostics=(calibrated, *_low_rates(rates, scored.primary), *scored.diagnostics),
        histograms=_histogram(scored),
        curves=_curves(scored),
    )


def _renamed(item: Measurement, name: str) -> Measurement:
    return replace(item, name=name)


def _unresolved(name: str, scored: ScoredDocuments, score: str) -> Unresolved | None:
    if score not in scored.columns:
        return Unresolved(name, scored.missing.get(score, "no document was scored"), 0)
    for label, side in zip(("member", "held-out"), scored.split(score), strict=True):
        if len(side) < 2:
            return Unresolved(name, f"fewer than two {label} documents have this score", len(side), NEEDED_DOCUMENTS)
    return None


def _auc(name: str, scored: ScoredDocuments, score: str) -> Measurement:
    """The chance that a member scores higher than a held-out document; null: 0.5."""
    missing = _unresolved(name, scored, score)
    if missing is not None:
        return missing
    return estimate(name, auc_interval(*scored.split(score), alphas=ALPHAS), "documents", 0.5, "chance")


def _low(name: str, scored: ScoredDocuments, score: str) -> tuple[Measurement, float | None]:
    """The advantage at the lowest false-positive rate that is resolved, and that rate; null: 0."""
    missing = _unresolved(name, scored, score)
    if missing is not None:
        return missing, None
    members, heldout = scored.split(score)
    found = low_advantage(members, heldout, alphas=ALPHAS)
    if found is None:
        reason = f"not even 10 % false alarms are resolvable with {len(heldout)} held-out documents"
        return Unresolved(name, reason, len(heldout), nonmembers_needed(max(LOW_RATES))), None
    return estimate(name, found.advantage, "documents", 0.0, "chance"), found.fpr


def _low_rates(rates: Mapping[str, float | None], primary: str) -> tuple[Diagnostic, ...]:
    """At which false-positive rate the advantage was taken, and of which scores at another one."""
    meaning = f"the false-positive rate of {LOW}: the lowest of 10 %, 1 % and 0.1 % that the held-out documents resolve"
    own = rates.get(primary)
    if own is None:
        return ()
    others = {score: rate for score, rate in rates.items() if rate not in (None, own)}
    return (
        Diagnostic("low_fpr", own, meaning),
        *(Diagnostic(f"low_fpr.{score}", rate, meaning) for score, rate in others.items() if rate is not None),
    )


def _tpr(name: str, scored: ScoredDocuments, score: str, rate: str, rng: Generator) -> tuple[Measurement, Measurement]:
    """The share of members found at a false-positive rate, and that rate as it came out; null: the rate itself."""
    fpr_name = f"fpr_at_{rate}"
    missing = _unresolved(name, scored, score)
    if missing is not None:
        return missing, _renamed(missing, fpr_name)
    members, heldout = scored.split(score)
    point = tpr_at_fpr(members, heldout, RATES[rate], rng, alphas=ALPHAS)
    if point is None:
        needed = nonmembers_needed(RATES[rate])
        reason = f"not resolvable with {len(heldout)} held-out documents, of which half set the threshold"
        unresolved = Unresolved(name, reason, len(heldout), needed)
        return unresolved, _renamed(unresolved, fpr_name)
    tpr = estimate(name, point.tpr, "documents", RATES[rate], "chance")
    return tpr, estimate(fpr_name, point.fpr, "documents", RATES[rate], "chance")


def _histogram(scored: ScoredDocuments) -> tuple[Histogram, ...]:
    if scored.primary not in scored.columns:
        return ()
    members, heldout = scored.split(scored.primary)
    edges = np.histogram_bin_edges(np.concatenate([members, heldout]), N_BINS)
    counts = {
        label: tuple(int(height) for height in np.histogram(side, edges)[0])
        for label, side in (("member", members), ("held-out", heldout))
    }
    return (Histogram("primary_score", QUANTITIES[scored.primary], tuple(float(edge) for edge in edges), counts),)


def _curves(scored: ScoredDocuments) -> tuple[Curve, ...]:
    if _unresolved("roc", scored, scored.primary) is not None:
        return ()
    members, heldout = scored.split(scored.primary)
    series = {"members against held-out": tuple(roc_points(members, heldout))}
    return (Curve("roc", "share of held-out documents called members", "share of members called members", series),)
