"""The verdict on an export held against the audited model, as its record compares them."""

from collections.abc import Sequence

from audit.cards import DerivedFrom, ExportNumber
from audit.policy.baseline import hold_against_baseline
from audit.policy.decision import Baseline, Change, ComparedLimit, Decision, Verdict

_WORST_FIRST: tuple[Change, ...] = (
    "worse",
    "no longer measured",
    "cannot be told",
    "not compared",
)
UNCOMPARED = "neither scan measured it, or the policy of the scan did not limit it"


def hold_against_audited(verdict: Verdict, derived: DerivedFrom) -> Verdict:
    """Let no export pass that leaks more than the audited model.

    It is held as against the baseline of `docaudit gate`: what became worse violates its limit,
    and what is no longer measured leaves it open. Growth that cannot be told changes nothing.

    Args:
        verdict: verdict by the policy alone.
        derived: audited model, with the numbers of both.
    """
    limits: dict[tuple[str, str], ComparedLimit] = {}
    for decision in verdict.decisions:
        limit = _compared_limit(decision, derived.numbers)
        limits[limit.attack, limit.metric] = limit
    baseline = Baseline(
        record_sha256=derived.record_sha256,
        subject=derived.subject,
        model_sha256=derived.model_sha256,
        scanned=derived.scanned,
        docaudit=derived.docaudit,
        limits=tuple(limits.values()),
        notes=derived.notes,
        role="audited model",
    )
    return hold_against_baseline(verdict, baseline)


def _compared_limit(decision: Decision, numbers: Sequence[ExportNumber]) -> ComparedLimit:
    """Return what became of a limit in the export, by its worst number."""
    attack = decision.limit.attack
    metric = decision.limit.metric
    by_outcome: dict[Change, ExportNumber] = {}
    for number in numbers:
        if number.attack == attack and metric in number.limits:
            by_outcome.setdefault(_change_of(number), number)
    for outcome in _WORST_FIRST:
        if outcome in by_outcome:
            return ComparedLimit(attack, metric, outcome, _reason_of(by_outcome[outcome]))
    return ComparedLimit(attack, metric, "not compared", UNCOMPARED)


def _change_of(number: ExportNumber) -> Change:
    """Return what became of a number, in the words of a baseline."""
    if number.outcome == "more":
        return "worse"
    if number.is_lost:
        return "no longer measured"
    if number.difference is None:
        return "not compared"
    return "cannot be told"


def _reason_of(number: ExportNumber) -> str:
    """Describe the change of a number: its sizes, then why nothing follows from it."""
    sizes = number.words
    if not number.reason:
        return sizes
    return f"{sizes}: {number.reason}"
