"""Checks of a whole scan: held-out documents that were trained on, and pages written otherwise than in training.

Both bear on every attack, so that they are made once a scan, whichever attacks run (methods.md#checks-of-the-scan).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.attacks import blind_baseline
from audit.attacks.interface import loss_kind
from audit.attacks.membership.documents import (
    Losses,
    first_by_name,
    left_out,
    query_document,
    reference_of,
    without_canaries,
)
from audit.attacks.membership.writing import N_MEMBERS, check_writing, rewrite_members
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Membership
from audit.corpus.folding import fold
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Progress, Trial
from audit.measurements import Check
from audit.stats.paired import UnitScores, area_change
from audit.stats.roc import auc_interval
from audit.targets.interface import Target

MOST = 200
"""Held-out and public documents that are compared, of each at most: they show an area of 0.6 in 9 of 10 scans."""
FEWEST = 20
"""Held-out and public documents without which nothing is compared."""
_MASKS = 4
"""Masks of a page for masked language models: every second token is hidden, which takes seconds a scan."""
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


@dataclass(frozen=True)
class _LossWork:
    """Ask the target and its references for their losses of documents; implements `Work`, a trial for each document."""

    case: Case
    references: Sequence[Target]
    documents: Mapping[str, Document]

    def attempt(self, trial: Trial) -> Attempt:
        """Return the target's loss and the references' mean loss, nats; NaN for one that cannot be had."""
        losses: list[float] = []
        for model in (self.case.target, *self.references):
            found = yield from query_document(self.case, model, self.documents[trial.id], _MASKS)
            losses.append(np.nan if found is None else found["loss"])
        return losses[0], float(np.mean(losses[1:])) if self.references else np.nan


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
    members = _choose_documents(case, case.corpus.of("member"), N_MEMBERS)
    changed = rewrite_members(case, members)
    others = {f"{way}/{name}": other for way, documents in changed.items() for name, other in documents.items()}
    documents = {document.id: document for document in (*heldout, *public, *members)} | others
    progress.stage("checks of the scan", len(documents))
    losses: dict[str, tuple[float, float]] = {}
    for name, pair in drive(_LossWork(case, references, documents), [Trial(name, name) for name in documents], width):
        losses[name] = pair
        progress.advance()
    made = (
        check_heldout(case.corpus, [*heldout, *public], losses, role),
        check_writing(changed, losses, needs_reference=loss_kind(case.target) == "masks"),
    )
    return ScanChecks(
        tuple(found for found in made if isinstance(found, Check)),
        tuple(f"{subject}: {found}" for subject, found in zip(_SUBJECTS, made, strict=True) if isinstance(found, str)),
    )


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
