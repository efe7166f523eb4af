"""Whether the target was trained on the held-out documents as well, as a model refitted on everything is.

Then held-out documents are no control, and a model that leaks looks clean. Public documents are:
the target's loss on them is compared with that on held-out ones.

Method: methods/checks.md#checks-of-the-documents.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from audit.arrays import Bools, Floats
from audit.attacks.interface import HELDOUT_GAIN
from audit.attacks.membership.documents import choose_readable, select_compared
from audit.attacks.membership.innocence import (
    FEWEST,
    LEVEL,
    MEMBERSHIP,
    ComparedDocuments,
    Knowledge,
    RoleLosses,
)
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus, Document
from audit.corpus.folding import fold
from audit.measurements import READS_ALIKE, Check, Condition
from audit.stats.intervals import Interval
from audit.stats.paired import UnitScores, area_change
from audit.stats.roc import auc_interval

MOST = 200
"""Documents of a split that are compared, at most: they show an area of 0.6 in 9 of 10 scans."""
HIGHEST = 0.65
"""Area up to which the target may separate held-out documents from public ones.

What `default.toml` allows members. That a test was made shows nothing: of 20 public documents a
refitted model separates many without being noticed.
"""
REDRAW = SENTENCES["redraw"]
SUBJECT = "training on the unseen documents"
UNCONTROLLED = "public documents differ from unseen ones even without the model, and no baseline shows the effect"


def choose_compared(case: Case) -> ComparedDocuments:
    """Choose the documents that losses are compared on, by their ids alone.

    The losses are those of target and references.

    Held-out and public documents are of companies that members name, or none of them is. Where that
    leaves too few, all of them are compared, as documents that differ.
    """
    heldout, public = (choose_readable(case, side, MOST) for side in select_comparable(case.corpus))
    alike = min(len(heldout), len(public)) >= FEWEST
    if not alike:
        heldout = choose_readable(case, case.corpus.of("heldout"), MOST)
        public = choose_readable(case, case.corpus.of("public"), MOST)
    members = [document for document in select_compared(case.corpus) if document.split == "member"]
    strangers = [
        document for document in public if not _is_of_companies(document, _companies(case.corpus))
    ]
    members_alike = not strangers or not _companies(case.corpus)
    chosen = (*choose_readable(case, members, MOST), *heldout, *public)
    return ComparedDocuments(case.corpus, chosen, alike, members_alike)


def select_comparable(corpus: Corpus) -> tuple[list[Document], list[Document]]:
    """Choose the held-out and public documents that can be compared.

    A model knows the companies of its training. So the documents of both sides are of companies
    that members name, or those of neither are, whichever leaves more.
    """
    companies = _companies(corpus)
    sides: list[tuple[list[Document], list[Document]]] = [([], []), ([], [])]
    for document in corpus.of("heldout", "public"):
        sides[_is_of_companies(document, companies)][document.split == "public"].append(document)
    return max(sides, key=lambda side: min(map(len, side)))


def _companies(corpus: Corpus) -> frozenset[str]:
    """Return the companies that members name, folded."""
    return frozenset(
        fold(document.provider) for document in corpus.of("member") if document.provider is not None
    )


def _is_of_companies(document: Document, companies: frozenset[str]) -> bool:
    """Test whether a document is of one of these companies, by its folded provider."""
    return document.provider is not None and fold(document.provider) in companies


class Reference(NamedTuple):
    """The models that the target's loss is compared with.

    See `reference_of`, and `innocence.examine`.

    Attributes:
        role: empty without a reference.
        losses: losses by document, of each model.
        knowledge: what they seem to know; None where that could not be tested.
    """

    role: str
    losses: RoleLosses
    knowledge: Knowledge | None

    @property
    def guilty(self) -> bool:
        """Tell whether the references look trained on audited documents."""
        return self.knowledge is not None and self.knowledge.guilty

    def controls(self, area: Interval) -> bool:
        """Test whether the references are innocent and fit both kinds of documents alike.

        Baselines that know neither kind of documents.

        Args:
            area: their own, of held-out documents against public ones.
        """
        return self.role == "baselines" and not self.guilty and area.low <= 0.5 <= area.high


NO_REFERENCE = Reference("", {}, None)


class UnseenTest(NamedTuple):
    """Hold what a test of training on the held-out documents shows.

    Attributes:
        check: whether it is noticed.
        highest: the largest area, of held-out documents against public ones, that is not excluded.
    """

    check: Check
    highest: float


def check_heldout(
    compared: ComparedDocuments, losses: RoleLosses, reference: Reference = NO_REFERENCE
) -> UnseenTest | str:
    """Test whether the target's loss on held-out documents is lower than on public ones.

    It must be so more than the reference's is.

    Both have to hold: the area of the target is over chance, and over the area of the reference. A
    reference that was trained on the public documents, as `docaudit references --train` does it,
    has a low area; then the first part decides. It decides too where the reference looks trained on
    audited documents: it would excuse what it shares.

    The first part is valid where both kinds of documents are alike. Documents that differ in their
    companies, or that the blind check tells apart, take a baseline as control, which itself does
    not separate them.

    Args:
        compared: the documents.
        losses: losses of the target.
        reference: what it is compared with.

    Returns:
        What the test shows, or why it cannot be made.
    """
    documents = _with_losses(compared, losses)
    lack = _split_with_too_few(documents)
    if lack is not None:
        return lack
    target = _scores_of(documents, losses)
    of_reference = _scores_of(documents, reference.losses)
    area = _heldout_area(target)
    p_value = area.p_above(0.5)
    highest = area.high
    if not np.isfinite(of_reference.values).all():
        return (
            UNCONTROLLED
            if compared.public_differs
            else UnseenTest(_heldout_known_check(area, p_value, ""), highest)
        )
    beside = _heldout_area(of_reference)
    if not reference.guilty:
        excess = area_change(of_reference, target)
        if excess is None:
            p_value = 1.0
        else:
            p_value = max(p_value, excess.p_above(0.0))
            highest = min(highest, 0.5 + excess.high)
    if compared.public_differs and not reference.controls(beside):
        return UNCONTROLLED
    if not compared.alike and p_value <= LEVEL:
        # The target may know the companies of the held-out documents, and no baseline does.
        return "the public documents are of other companies than the unseen ones"
    return UnseenTest(
        _heldout_known_check(area, p_value, f"; of its reference {beside.value:.3f}"), highest
    )


def _split_with_too_few(documents: Sequence[Document]) -> str | None:
    """Return which split has too few documents that can be compared; None where none has."""
    for split, kind in (("heldout", "held-out"), ("public", "public")):
        count = sum(document.split == split for document in documents)
        if count < FEWEST:
            return f"only {count} {kind} documents can be compared, and {FEWEST} of each kind are needed"
    return None


def _heldout_known_check(area: Interval, p_value: float, clause: str) -> Check:
    """Build the check of held-out documents: unseen documents look trained on."""
    reason = SENTENCES["heldout_known"].format(own=area, compared=clause)
    return Check("held-out documents", p_value, "confounded", reason, REDRAW)


def _with_losses(compared: ComparedDocuments, losses: RoleLosses) -> list[Document]:
    """List the held-out, then the public documents of which the target gives a loss."""
    documents = [*compared.of("heldout"), *compared.of("public")]
    return [document for document in documents if np.isfinite(losses[document.id]).all()]


def _scores_of(documents: Sequence[Document], losses: RoleLosses) -> UnitScores:
    """Return minus the mean loss of the models of each document, NaN where there is none."""
    names = [document.id for document in documents]
    heldout = np.array([document.split == "heldout" for document in documents], bool)
    return UnitScores(names, names, heldout, _scores(losses, names), "auc")


def _scores(losses: RoleLosses, names: Sequence[str]) -> Floats:
    """Return minus the mean loss of the models: (n_documents,); NaN where there is none."""
    return -np.array(
        [np.mean(losses[name]) if name in losses else np.nan for name in names], np.float64
    )


def _heldout_area(scores: UnitScores) -> Interval:
    """Measure the AUC by which held-out documents score higher than public ones."""
    heldout: Bools = np.asarray(scores.member, bool)
    return auc_interval(scores.values[heldout], scores.values[~heldout])


def condition_of(outcome: UnseenTest | str) -> Condition:
    """Say whether training on the held-out documents is excluded.

    Document membership passes on nothing less.

    Where it is not, two measurements stand in for it: what the target restores of held-out
    documents beyond the public model, and how much better it reads them than a reference does. A
    model that was trained on them shows in these.

    Args:
        outcome: outcome of `check_heldout`.
    """
    substitutes = (HELDOUT_GAIN, READS_ALIKE)
    if isinstance(outcome, str):
        reason = SENTENCES["refit_untested"].format(why=outcome)
        return Condition(
            SUBJECT,
            "unmeasured",
            (MEMBERSHIP,),
            substitutes,
            reason,
            SENTENCES["add_public"].format(needed=FEWEST),
        )
    if outcome.highest <= HIGHEST:
        return Condition(SUBJECT, "met", (MEMBERSHIP,), substitutes)
    reason = SENTENCES["refit_possible"].format(highest=outcome.highest, needed=HIGHEST)
    return Condition(SUBJECT, "unmet", (MEMBERSHIP,), substitutes, reason, SENTENCES["more_public"])
