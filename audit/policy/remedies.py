"""The remedy at hand: what closes an open limit with the least effort."""

from collections.abc import Callable
from dataclasses import replace

from audit.cards import Forgotten
from audit.policy.findings import Finding
from audit.policy.grounds import Remedy
from audit.policy.guarantees import MEMBERSHIP


def with_remedy_at_hand(finding: Finding) -> Finding:
    """Send for unseen documents where there are none, and for more only where all were tried.

    What is unresolved knows its need. Where one reference was compared with, split models come
    before more documents.
    """
    if finding.facts.number is None:
        return finding
    forgotten = finding.facts.record.corpus.forgotten
    if forgotten is not None and finding.outcome == "undecided":
        longer = _with_longer_list(finding, forgotten)
        if longer is not None:
            return longer
    for find_remedy in REMEDIES_AT_HAND:
        remedy = find_remedy(finding)
        if remedy is not None:
            return replace(finding, remedy_id=remedy)
    return finding


def _with_longer_list(finding: Finding, forgotten: Forgotten) -> Finding | None:
    """Send for a longer list of documents to be forgotten; None where that would not help.

    Say which limit this list can show.
    """
    if finding.cause == "uncovered":
        return replace(finding, remedy_id=Remedy.LIST_COPIES)
    longer = None
    limit = finding.facts.limit
    least = forgotten.shown.get(limit.metric, 0.0)
    if least and (finding.cause == "wide" or least > (limit.max or 0.0)):
        longer = replace(finding, least=least, remedy_id=Remedy.LIST_MORE_OR_LIMIT)
    # No limit of an owner's policy strengthens the blind check.
    if finding.cause == "confounded" and finding.facts.is_unvouched:
        longer = replace(longer or finding, remedy_id=Remedy.LIST_MORE)
    return longer


def _unseen_documents(finding: Finding) -> Remedy | None:
    """Send for unseen documents where only the documents of training are there."""
    record = finding.facts.record
    splits = [split for split, n in record.corpus.documents.items() if n and split != "public"]
    if splits != ["member"] or not record.target.is_model:
        return None
    if finding.remedy_id not in (Remedy.MORE, Remedy.ASK_ALIKE):
        return None
    return Remedy.NO_HELDOUT


def _all_that_there_are(finding: Finding) -> Remedy | None:
    """Send for what a bound or the budget left untried, before more is gathered."""
    if finding.cause == "unresolved" or finding.facts.about_text or not finding.facts.untried:
        return None
    if finding.remedy_id not in (Remedy.MORE, Remedy.MORE_PROVIDERS, Remedy.MORE_OF_THEM):
        return None
    return Remedy.ALL


def _split_models(finding: Finding) -> Remedy | None:
    """Send for split models where membership was compared with one reference."""
    record = finding.facts.record
    if finding.facts.limit.attack != MEMBERSHIP or not record.target.is_model:
        return None
    if finding.remedy_id is not Remedy.MORE or finding.cause != "wide":
        return None
    if any(card.role.startswith("split") for card in record.references):
        return None
    return Remedy.SPLIT_MODELS


REMEDIES_AT_HAND: tuple[Callable[[Finding], Remedy | None], ...] = (
    _unseen_documents,
    _all_that_there_are,
    _split_models,
)
