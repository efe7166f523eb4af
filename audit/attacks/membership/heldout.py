"""The test whether held-out documents were trained on: they are compared with public documents, beside a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks import blind_baseline
from audit.corpus.documents import Corpus, Document, Membership
from audit.corpus.folding import fold
from audit.measurements import ALPHAS, Check
from audit.stats.intervals import Interval
from audit.stats.paired import UnitScores, paired_difference
from audit.stats.roc import auc_interval

MOST = 200
"""Documents of a side that are compared, at most (ours): they show an area of 0.6 in 9 of 10 scans."""
FEWEST = 20
"""Documents of a side without which nothing is compared (ours)."""
_LEVEL = 0.05
"""One-sided level at which the check can matter, whatever the other checks of the scan: then its conditions count."""
_SEED = 11
REDRAW = (
    "draw other held-out documents that no training of this model saw, its last fit and the choice of its checkpoint "
    "included (docaudit init), and scan again"
)


@dataclass(frozen=True)
class AskedDocument:
    """A held-out or public document with the losses of the target and its reference, nats; NaN where there is none."""

    document: Document
    target: float
    reference: float


def comparable(corpus: Corpus) -> tuple[list[Document], list[Document]]:
    """Choose the held-out and public documents that can be compared.

    A model knows the companies of its training. So the documents of both sides are of companies that members name, or
    those of neither are, whichever leaves more.
    """
    known = {fold(one.provider) for one in corpus.of("member") if one.provider is not None}
    sides: list[tuple[list[Document], list[Document]]] = [([], []), ([], [])]
    for document in corpus.of("heldout", "public"):
        trained = document.provider is not None and fold(document.provider) in known
        sides[trained][document.split == "public"].append(document)
    return max(sides, key=lambda side: min(map(len, side)))


def check_heldout(corpus: Corpus, asked: Sequence[AskedDocument], role: str) -> Check | str:
    """Test whether the target's loss on held-out documents is lower than on public ones, more than the reference's is.

    Both have to hold: the area of the target is over chance, and over the area of the reference. A reference that was
    trained on the public documents, as `docaudit train-baseline` does it, has a low area; then the first part decides,
    which is valid where both kinds of documents are alike. Documents that the blind check tells apart take a baseline
    that does not know the public ones.

    Args:
        corpus: the data set.
        asked: the documents with their losses.
        role: of the reference; empty without one.

    Returns:
        The check, or why it cannot be made.
    """
    known = [one for one in asked if np.isfinite(one.target)]
    heldout = np.array([one.document.split == "heldout" for one in known], bool)
    counts = {"held-out": int(heldout.sum()), "public": int((~heldout).sum())}
    few = next((f"{count} {name} documents" for name, count in counts.items() if count < FEWEST), None)
    if few is not None:
        return f"{few} can be compared, and {FEWEST} of either kind are needed"
    scores = (np.array([-one.target for one in known]), np.array([-one.reference for one in known]))
    own, beside = (_area(column, heldout) for column in scores)
    assert own is not None
    p_value = _p_above(own, 0.5)
    if beside is not None:
        p_value = max(p_value, _p_excess(known, heldout, scores))
    if p_value <= _LEVEL and not _controlled(beside, role) and _told_apart(corpus, known, heldout):
        return "public documents can be told from held-out ones without the model, and no baseline shows what that does"
    return Check("held-out documents", p_value, "confounded", _reason(own, beside), REDRAW)


def _area(scores: Floats, heldout: Bools) -> Interval | None:
    """The chance that a held-out document has a lower loss than a public one; None where losses are missing."""
    if not np.isfinite(scores).all():
        return None
    return auc_interval(scores[heldout], scores[~heldout], alphas=ALPHAS)


def _p_above(interval: Interval, null: float) -> float:
    """Read a conservative one-sided p from the bounds."""
    return min((alpha for alpha, lower, _ in interval.bounds if lower > null), default=1.0)


def _p_excess(known: Sequence[AskedDocument], heldout: Bools, scores: Sequence[Floats]) -> float:
    names = [one.document.id for one in known]
    target, reference = (UnitScores(names, names, heldout, column, "auc") for column in scores)
    found = paired_difference(reference, target, np.random.default_rng(_SEED))
    return 1.0 if found is None else _p_above(found.interval, 0.0)


def _controlled(beside: Interval | None, role: str) -> bool:
    """Test whether the reference shows what a difference in kind does: a baseline without the public documents."""
    return role == "baselines" and beside is not None and beside.high >= 0.5


def _told_apart(corpus: Corpus, known: Sequence[AskedDocument], heldout: Bools) -> bool:
    # The public documents were not drawn within providers, whatever the held-out ones were.
    as_drawn = replace(corpus, manifest=replace(corpus.manifest, membership=Membership("random")))
    return blind_baseline.by_document(as_drawn, [one.document for one in known], heldout).told_apart


def _reason(own: Interval, beside: Interval | None) -> str:
    compared = "" if beside is None else f"; of its reference {beside.value:.3f}"
    return (
        "the held-out documents look trained on, unless this is chance: the model's loss tells them from public"
        f" documents, AUC {own.value:.3f} [{own.low:.3f}, {own.high:.3f}]{compared}"
    )
