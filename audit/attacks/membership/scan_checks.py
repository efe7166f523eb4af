"""Checks of a whole scan: held-out documents that were trained on, and pages written otherwise than in training.

Both bear on every attack, so that they are made once a scan, whichever attacks run (methods.md#checks-of-the-scan).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.attacks import blind_baseline
from audit.attacks.interface import loss_kind
from audit.attacks.membership.documents import first_by_name, left_out, reference_of, without_canaries
from audit.attacks.membership.losses import Losses, LossWork, Version, ask_losses
from audit.attacks.membership.writing import N_MEMBERS, Asking, check_writing
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Membership
from audit.corpus.folding import fold
from audit.engine.interface import Progress
from audit.measurements import Check
from audit.stats.paired import UnitScores, area_change
from audit.stats.roc import auc_interval

MOST = 200
"""Held-out and public documents that are compared, of each at most: they show an area of 0.6 in 9 of 10 scans."""
FEWEST = 20
"""Held-out and public documents without which nothing is compared."""
_LEVEL = 0.05
"""One-sided level at which a check can matter, whatever the other checks of the scan: then its conditions count."""
REDRAW = SENTENCES["redraw"]
_SUBJECTS = ("training on the unseen documents", "pages written otherwise than in training")


@dataclass(frozen=True)
class ScanChecks:
    """Hold the checks of a whole scan.

    Attributes:
        checks: those that were made.
        untested: what was not tested and why, in sentences.
    """

    checks: tuple[Check, ...] = ()
    untested: tuple[str, ...] = ()


def check_scan(case: Case, width: int, progress: Progress) -> ScanChecks:
    """Make the checks of a whole scan.

    Args:
        case: the audit.
        width: documents that are asked about at a time.
        progress: advanced by every document.
    """
    if loss_kind(case.target) is None:
        return ScanChecks(untested=tuple(f"{subject}: the model gives no loss of a document" for subject in _SUBJECTS))
    role, references = reference_of(case)
    heldout, public = (_choose_documents(case, side, MOST) for side in select_comparable(case.corpus))
    versions = {document.id: Version(document) for document in (*heldout, *public)}
    progress.stage("checks of the scan", len(versions))
    losses = ask_losses(LossWork(case, references, versions), width, progress)
    unseen = check_heldout(case.corpus, [*heldout, *public], losses, role)
    members = _choose_documents(case, case.corpus.of("member"), N_MEMBERS)
    writing = [*check_writing(Asking(case, width, progress), members)]
    checks: list[Check] = []
    untested: list[str] = []
    for subject, outcomes in zip(_SUBJECTS, ([unseen], writing), strict=True):
        checks += [outcome for outcome in outcomes if isinstance(outcome, Check)]
        untested += [f"{subject}: {outcome}" for outcome in outcomes if isinstance(outcome, str)]
    return ScanChecks(tuple(checks), tuple(untested))


def _choose_documents(case: Case, documents: Sequence[Document], count: int) -> list[Document]:
    """Choose at most `count` documents by their ids alone, without canaries and those that give no loss."""
    ordinary = without_canaries(case.corpus, documents)
    chosen = first_by_name(ordinary, count)
    return [document for document in ordinary if document.id in chosen and left_out(case, document) is None]


def select_comparable(corpus: Corpus) -> tuple[list[Document], list[Document]]:
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


def check_heldout(corpus: Corpus, documents: Sequence[Document], losses: Losses, role: str) -> Check | str:
    """Test whether the target's loss on held-out documents is lower than on public ones, more than the reference's is.

    Both have to hold: the area of the target is over chance, and over the area of the reference. A reference that was
    trained on the public documents, as `docaudit references --train` does it, has a low area; then the first part
    decides, which is valid where both kinds of documents are alike. Documents that the blind check tells apart take a
    baseline that does not know the public ones.

    Args:
        corpus: the data set.
        documents: held-out and public ones.
        losses: of these.
        role: of the reference; empty without one.

    Returns:
        The check, or why it cannot be made.
    """
    known = [one for one in documents if np.isfinite(losses[one.id][0])]
    heldout = np.array([one.split == "heldout" for one in known], bool)
    counts = {"held-out": int(heldout.sum()), "public": int((~heldout).sum())}
    few = next((f"{count} {name} documents" for name, count in counts.items() if count < FEWEST), None)
    if few is not None:
        return f"only {few} can be compared, and {FEWEST} of each kind are needed"
    scores = -np.array([losses[one.id] for one in known]).T
    own = auc_interval(scores[0][heldout], scores[0][~heldout])
    p_value, beside, compared = own.p_above(0.5), None, ""
    if np.isfinite(scores[1]).all():
        beside = auc_interval(scores[1][heldout], scores[1][~heldout])
        names = [one.id for one in known]
        target, reference = (UnitScores(names, names, heldout, column, "auc") for column in scores)
        excess = area_change(reference, target)
        p_value = max(p_value, 1.0 if excess is None else excess.p_above(0.0))
        compared = f"; of its reference {beside.value:.3f}"
    # Only a baseline without the public documents shows what a difference in kind does.
    controlled = role == "baselines" and beside is not None and beside.high >= 0.5
    # The public documents were not drawn within providers, whatever the held-out ones were.
    as_drawn = replace(corpus, manifest=replace(corpus.manifest, membership=Membership("random")))
    if p_value <= _LEVEL and not controlled and blind_baseline.by_document(as_drawn, known, heldout).told_apart:
        return "public documents differ from unseen ones even without the model, and no baseline shows the effect"
    reason = SENTENCES["heldout_known"].format(own=own, compared=compared)
    return Check("held-out documents", p_value, "confounded", reason, REDRAW)
