"""An export of an audited model compared with that model: does it leak more?

Method: methods/index.md#exports-of-an-audited-model.
"""

import re

from audit.cards import DerivedFrom, ExportNumber, ExportOutcome
from audit.compare.comparison import Comparison, MetricChange
from audit.compare.conditions import NEW, OLD, other_reference, why_missing
from audit.compare.scans import CHANCE, ScanPair
from audit.measurements import Estimate, Unresolved
from audit.policy.facts import facts_on
from audit.policy.limits import Limit
from audit.policy.reasons import reason_of
from audit.policy.rules import hindrance
from audit.record import AuditRecord

AUDITED = "the audited model"
"""What sentences on an export call the earlier scan."""
EXPORT = "the export"
"""What they call the later scan."""
SHARE_OF_LIMIT = 0.5
"""Part of what a limit of the policy accepts, from no leak to the limit, within which growth still
counts as no more."""
TOO_WIDE = "too few documents to exclude that it grew by more"
MORE_DOCUMENTS = "To decide, scan the audited model {change}, then this export again"
LESS_USEFUL = (
    "The export does its task worse: {metric} {before} before, {after} now. Check that it has the "
    "whole training in it"
)


def derive(pair: ScanPair, comparison: Comparison, record_sha256: str) -> DerivedFrom:
    """Say for each number under a limit whether an export leaks more than the audited model.

    Args:
        pair: scan of the audited model, and that of the export.
        comparison: comparison of both.
        record_sha256: digest of the file of the audited model's record.
    """
    numbers = []
    notes = [in_words(note) for note in comparison.notes]
    for change in comparison.changes:
        if not change.attack and change.outcome == "worse":
            notes.append(_note_less_useful(change))
        if change.limits and isinstance(change.before, Estimate):
            numbers.append(_number_of(change, pair))
    if any(_is_too_wide(number, pair) for number in numbers):
        notes.append(MORE_DOCUMENTS.format(change=_way_to_more(pair.old)))
    return DerivedFrom(
        record_sha256=record_sha256,
        subject=comparison.old.subject,
        model_sha256=comparison.old.sha256,
        scanned=comparison.old.scanned,
        docaudit=comparison.old.docaudit,
        numbers=tuple(numbers),
        notes=tuple(notes),
    )


def _note_less_useful(change: MetricChange) -> str:
    """Say that the export does its task worse, which an export without its training does too."""
    before, after = change.values
    return LESS_USEFUL.format(metric=change.metric, before=before, after=after)


def _way_to_more(record: AuditRecord) -> str:
    """Say how a scan of the audited model tries more documents."""
    if record.budget == "quick":
        return "with --budget standard"
    if record.bounds is not None:
        return "without --documents or --time"
    return "on more documents"


def _number_of(change: MetricChange, pair: ScanPair) -> ExportNumber:
    """Decide on one number that the audited model has."""
    margin = None
    if _bears_margin(change, pair):
        margin = _margin_of(change, pair)
    outcome, reason = _decide(change, margin, pair)
    return ExportNumber(
        attack=change.attack,
        metric=change.metric,
        limits=change.limits,
        outcome=outcome,
        before=change.before,
        after=change.after,
        difference=change.difference,
        p_adjusted=change.p_adjusted,
        paired=change.paired,
        margin=margin,
        is_lost=change.lost,
        reason=in_words(reason),
    )


def _is_too_wide(number: ExportNumber, pair: ScanPair) -> bool:
    """Test whether nothing but too few documents leaves a number undecided."""
    if number.outcome != "undecided" or number.difference is None or number.margin is None:
        return False
    return not _objection(number, pair)


def in_words(text: str) -> str:
    """Return a sentence of a comparison with the names of an audited model and its export."""
    return re.sub(rf"\b{NEW}\b", EXPORT, re.sub(rf"\b{OLD}\b", AUDITED, text))


def _bears_margin(change: MetricChange, pair: ScanPair) -> bool:
    """Test whether a number can show that the export leaks no more.

    It can where docaudit keeps its values by unit. Of an attack without any, every number can that
    is no count.
    """
    by_unit = pair.new_scores.get(change.attack, {})
    if by_unit:
        return change.metric in by_unit
    return all(limit.holds == "interval" for limit in _limits_on(change, pair))


def _limits_on(change: MetricChange | ExportNumber, pair: ScanPair) -> list[Limit]:
    """List the limits of the policy that a number answers for."""
    return [
        limit
        for limit in pair.policy.limits
        if limit.attack == change.attack and limit.metric in change.limits
    ]


def _margin_of(change: MetricChange, pair: ScanPair) -> float | None:
    """Return the growth within which a number still counts as no more; None without a maximum."""
    no_leak = 0.0
    if change.good == "nearer to chance":
        no_leak = CHANCE
    accepted = [limit.max - no_leak for limit in _limits_on(change, pair) if limit.max is not None]
    if not accepted:
        return None
    return SHARE_OF_LIMIT * min(accepted)


def _decide(
    change: MetricChange, margin: float | None, pair: ScanPair
) -> tuple[ExportOutcome, str]:
    """Return the outcome of a number, and why it is undecided."""
    if change.outcome == "worse":
        return "more", ""
    if change.difference is None:
        return "undecided", _why_lost(change, pair)
    if margin is None:
        return "undecided", "it can only show that the export leaks more"
    objection = _objection(change, pair)
    if objection:
        return "undecided", objection
    if change.difference.pass_bound.upper < margin:
        return "no more", ""
    return "undecided", TOO_WIDE


def _why_lost(change: MetricChange, pair: ScanPair) -> str:
    """Explain why the export has no such number."""
    if isinstance(change.after, Unresolved):
        return f"not resolved in the export: {change.after.reason}"
    return f"not measured in the export: {why_missing(pair.new, change.attack) or 'no such number'}"


def _objection(change: MetricChange | ExportNumber, pair: ScanPair) -> str:
    """Explain why a number that did not grow shows nothing; empty where it does.

    Something else than memory moves it, or the attack on the export was weaker than that on the
    audited model.
    """
    for settled in (pair.old_settled, pair.new_settled):
        confounded = settled.confounded(change.attack)
        if confounded is not None:
            return confounded
    references = other_reference(pair.old, pair.new)
    if references:
        return references
    for limit in _limits_on(change, pair):
        finding = hindrance(facts_on(pair.new_settled, limit))
        if finding is None:
            continue
        earlier = hindrance(facts_on(pair.old_settled, limit))
        if earlier is None or earlier.ground is not finding.ground:
            return reason_of(finding)
    return ""
