"""Checks of a whole scan: held-out documents that were trained on, and pages written otherwise than in training.

Both bear on every attack, so that they are made once a scan, whichever attacks run (methods.md#checks-of-the-scan).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.attacks.membership.documents import first_by_name, left_out, query_document, reference_of
from audit.attacks.membership.heldout import MOST, AskedDocument, check_heldout, comparable
from audit.attacks.membership.spellings import N_MEMBERS, check_spellings, respelled
from audit.attacks.usable import loss_kind
from audit.case import Case
from audit.corpus.canaries.schema import carrier_ids, planted_ids
from audit.corpus.documents import Document
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Progress, Trial
from audit.measurements import Check
from audit.targets.interface import Target

_MASKS = 4
"""Masks of a page for masked language models (ours): every second token is hidden, which takes seconds a scan."""
_SUBJECTS = ("whether the held-out documents were trained on", "whether the pages are written as in training")


@dataclass(frozen=True)
class ScanChecks:
    """The checks of a whole scan.

    Attributes:
        checks: those that were made.
        untested: what was not tested and why, in sentences.
    """

    checks: tuple[Check, ...] = ()
    untested: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Asking:
    """Asks the target and its references for their losses of documents; implements `Work`.

    Attributes:
        case: the audit.
        references: the models beside the target.
        documents: by the id of a trial, the document as the models read it.
    """

    case: Case
    references: Sequence[Target]
    documents: Mapping[str, Document]

    def attempt(self, trial: Trial) -> Attempt:
        """Return the target's loss and the references' mean loss, nats; NaN for one that cannot be had."""
        losses: list[float] = []
        for model in (self.case.target, *self.references):
            found = yield from query_document(self.case, model, self.documents[trial.id], _MASKS)
            losses.append(np.nan if found is None else found.loss)
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
    heldout, public = (_first(case, side, MOST) for side in comparable(case.corpus))
    members = _first(case, case.corpus.of("member"), N_MEMBERS)
    changed = respelled(case, members)
    documents = {document.id: document for document in (*heldout, *public, *members)}
    losses = _ask(_Asking(case, references, {**documents, **changed.documents}), width, progress)
    asked = [AskedDocument(document, *losses[document.id]) for document in (*heldout, *public)]
    made = (check_heldout(case.corpus, asked, role), check_spellings(changed, losses))
    return ScanChecks(
        tuple(found for found in made if isinstance(found, Check)),
        tuple(f"{subject}: {found}" for subject, found in zip(_SUBJECTS, made, strict=True) if isinstance(found, str)),
    )


def _ask(work: _Asking, width: int, progress: Progress) -> dict[str, tuple[float, float]]:
    progress.stage("checks of the scan", len(work.documents))
    losses: dict[str, tuple[float, float]] = {}
    for name, pair in drive(work, [Trial(name, name) for name in work.documents], width):
        losses[name] = pair
        progress.advance()
    return losses


def _first(case: Case, documents: Sequence[Document], count: int) -> list[Document]:
    """Choose at most `count` documents by their ids alone, without canaries and those that give no loss."""
    planted = planted_ids(case.corpus) | carrier_ids(case.corpus)
    ordinary = [document for document in documents if document.id not in planted]
    chosen = first_by_name(ordinary, count)
    return [document for document in ordinary if document.id in chosen and left_out(case, document) is None]
