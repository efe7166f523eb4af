"""Measure how well the reference's losses explain the target's, and test whether it reads as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from audit.attacks.membership.documents import first_by_name, reference_of
from audit.attacks.membership.names import POWER
from audit.attacks.membership.scores import ScoredDocuments
from audit.case import Case
from audit.measurements import ALPHAS, Check, Measurement, Unresolved
from audit.stats.paired import Ratios, ratio_difference
from audit.stats.rank_correlation import FEWEST, rank_correlation
from audit.targets.interface import Answer, BestClass, BestLinks, BestTokens, TagProbabilities
from audit.targets.utility import estimate, usefulness_by_document

MAX_GAP = 0.10
"""A reference reads as well as the target where their usefulness on held-out documents differs by at most so much (the
value that memorisation takes for its baseline): references trained too little have a power of 0.6 and hide a leak."""
MOST_READ = 100
"""Held-out documents that both are compared on, at most (ours)."""
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
    if known.sum() < FEWEST:
        return Unresolved(POWER, "too few held-out documents that both models read", int(known.sum()), FEWEST)
    own = -scored.columns["loss"][known]
    found = rank_correlation(own, scored.columns["calibrated"][known] + own, alphas=ALPHAS)
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
