"""The remedy at hand: what closes an open limit with the least effort, and how soon."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from audit.cards import Forgotten
from audit.measurements import (
    KNOWS_A_SIDE,
    LABEL_ORDER,
    READS_ALIKE,
    REFUSALS,
    UNLIKE_SIDES,
    WAY_OF_WRITING,
    Check,
    Condition,
)
from audit.policy.checks import WRONG_SIDES
from audit.policy.findings import Finding
from audit.policy.grounds import Ground, Remedy, Urgency
from audit.policy.guarantees import MEMBERSHIP

OF_REMEDY: Mapping[Remedy, Urgency] = {
    Remedy.ALL: Urgency.UNTRIED,
    Remedy.AS_IN_BASELINE: Urgency.REPAIR,
    Remedy.ASK_ALIKE: Urgency.USELESS,
    Remedy.AUDIT_WEIGHTS: Urgency.POLICY,
    Remedy.CHECK_SIDES: Urgency.SWAPPED_SIDES,
    Remedy.FIT_ALIKE: Urgency.USELESS,
    Remedy.GIVE_BASELINE: Urgency.REFERENCE,
    Remedy.LIST_COPIES: Urgency.DOCUMENTS,
    Remedy.LIST_MORE: Urgency.DOCUMENTS,
    Remedy.LIST_MORE_OR_LIMIT: Urgency.DOCUMENTS,
    Remedy.MEASURABLE: Urgency.DOCUMENTS,
    Remedy.MORE: Urgency.DOCUMENTS,
    Remedy.MORE_OF_THEM: Urgency.UNTRIED,
    Remedy.MORE_PROVIDERS: Urgency.DOCUMENTS,
    Remedy.NO_HELDOUT: Urgency.NO_UNSEEN,
    Remedy.NO_OTHER_ATTACK: Urgency.POLICY,
    Remedy.OTHER_ATTACK: Urgency.POLICY,
    Remedy.OTHER_DOCUMENTS: Urgency.OTHER_ALARM,
    Remedy.REPORT_FAILURE: Urgency.REPAIR,
    Remedy.RUN_AGAIN: Urgency.REPAIR,
    Remedy.SCAN_WITH_THIS_VERSION: Urgency.REPAIR,
    Remedy.SPLIT_MODELS: Urgency.DOCUMENTS,
    Remedy.STATE_RULE: Urgency.DOCUMENTS,
    Remedy.STRENGTHEN: Urgency.ATTACKER,
    Remedy.STRONGER: Urgency.ATTACKER,
    Remedy.STRONGER_REFERENCE: Urgency.ATTACKER,
    Remedy.TRAIN_SPLITS: Urgency.REFERENCE,
    Remedy.TRAINING_LABELS: Urgency.OTHER_ALARM,
}
"""The urgency of remedies that do not depend on what the record says."""
OF_REASON: Mapping[str, Urgency] = {
    "missing": Urgency.REFERENCE,
    "left out": Urgency.UNTRIED,
    "data": Urgency.DOCUMENTS,
}
"""The urgency of an attack that was not run, by the kind of its reason."""
OF_CHECK: Mapping[str, Urgency] = {
    LABEL_ORDER: Urgency.LABEL_ORDER,
    REFUSALS: Urgency.REFUSALS,
    WAY_OF_WRITING: Urgency.WAY_OF_WRITING,
    **dict.fromkeys(KNOWS_A_SIDE, Urgency.KNOWING_REFERENCE),
    **dict.fromkeys((*UNLIKE_SIDES, *WRONG_SIDES), Urgency.SWAPPED_SIDES),
}
"""The urgency of checks, by name; that of others is `OTHER_ALARM`."""
_UNKNOWN_USEFULNESS = (Ground.UNMEASURED_USEFULNESS, Ground.UNRESOLVED_USEFULNESS)


def with_remedy_at_hand(finding: Finding) -> Finding:
    """Return a finding with the remedy at hand of its limit, and how soon this is needed."""
    finding = _with_remedy(finding)
    return replace(finding, urgency=_urgency_of(finding))


def _with_remedy(finding: Finding) -> Finding:
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


def _urgency_of(finding: Finding) -> Urgency | None:
    """Return how soon the cause of an open limit has to be mended; None of a decided limit."""
    remedy = finding.remedy_id
    if remedy is None:
        return None
    if remedy is Remedy.OF_ATTACK:
        reason = finding.facts.result.reason
        assert reason is not None
        return OF_REASON.get(reason.kind, Urgency.REPAIR)
    objection = finding.also or finding
    if remedy is Remedy.OF_RECORD:
        return _of_source(objection)
    if objection.ground in _UNKNOWN_USEFULNESS and OF_REMEDY[remedy] is Urgency.USELESS:
        return Urgency.DOCUMENTS
    return OF_REMEDY[remedy]


def _of_source(finding: Finding) -> Urgency:
    """Return the urgency of the check or condition that a finding quotes."""
    source = finding.source
    if isinstance(source, Check):
        return OF_CHECK.get(source.name, Urgency.OTHER_ALARM)
    assert isinstance(source, Condition)
    if source.name == READS_ALIKE:
        return Urgency.ATTACKER
    return Urgency.DOCUMENTS
