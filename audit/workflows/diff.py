"""Two scans of the same data compared: each number better, worse, or cannot be told (methods.md#comparing-scans)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from audit.attacks import text_of
from audit.engine.interface import SILENT, Progress
from audit.errors import RecordError
from audit.files import EVIDENCE
from audit.measurements import Estimate, Measurement
from audit.policy import SIGNIFICANCE, Policy
from audit.policy.limits import Limit
from audit.policy.reasons import against_model, hindrance, power_of
from audit.record import AuditRecord, Result
from audit.record import read as read_record
from audit.report.comparison import Effect
from audit.report.scan_diff import WITHIN, Good, MetricChange, Outcome, ScanDiff, Side
from audit.stats.multiplicity import holm
from audit.stats.paired import UnitScores
from audit.workflows.changes import (
    completed,
    differences,
    effect_of,
    measurement,
    notes_on,
    other_reference,
    why_missing,
)
from audit.workflows.gate import load_policy
from audit.workflows.unit_scores import read_scores

CHANCE = 0.5
_MANY = "beyond its interval, which is no surprise among so many comparisons (Holm)"
_OLD, _NEW = "OLD", "NEW"
Scores = Mapping[str, Mapping[str, UnitScores]]


def diff_scans(
    old: Path,
    new: Path,
    policy: str = "default",
    progress: Progress = SILENT,
) -> ScanDiff:
    """Compare two scans.

    Args:
        old: its record, or the folder that it wrote.
        new: the same of the other.
        policy: whose limits are among the numbers; a shipped one or a file.
        progress: advanced by every attack.

    Raises:
        DocauditError: a record or the policy cannot be read, or the scans differ in more than the model.
    """
    chosen = load_policy(policy, complete=False)
    return compare((read_record(old), read_record(new)), (evidence_of(old), evidence_of(new)), chosen, progress)


def evidence_of(path: Path) -> Path:
    """The folder where the scan of a record kept its evidence, unless `--evidence` named another."""
    return (path if path.is_dir() else path.parent) / EVIDENCE


def compare(
    records: tuple[AuditRecord, AuditRecord], kept: tuple[Path, Path], policy: Policy, progress: Progress
) -> ScanDiff:
    """Compare two records.

    Args:
        records: of the old scan and of the new one.
        kept: the folders of their evidence.
        policy: whose limits are among the numbers.
        progress: advanced by every attack.

    Raises:
        RecordError: the scans differ in more than the model.
    """
    problems = differences(*records)
    if problems:
        raise RecordError(problems, "compare scans of the same data with the same seed, budget and parameters")
    scores, unpaired = _read_evidence(records, kept)
    changes: list[MetricChange] = []
    missing: list[str] = []
    battery = list(dict.fromkeys(name for record in records for name in record.battery))
    progress.stage("comparing attacks", len(battery))
    for attack in battery:
        progress.advance()
        results = [completed(record, attack) for record in records]
        reasons = [why_missing(record, attack) for record in records]
        if not any(results):
            missing.append(f"{attack}: {_both(*reasons)}")
            continue
        changes += _of_attack(attack, records, policy, (scores[0].get(attack, {}), scores[1].get(attack, {})))
    changes += _of_usefulness(records)
    old, new = (_side(record) for record in records)
    notes = (*notes_on(*records), *unpaired)
    return ScanDiff(1, old, new, policy.name, tuple(_judged(changes, records, policy)), notes, tuple(missing))


def _read_evidence(
    records: tuple[AuditRecord, AuditRecord], kept: tuple[Path, Path]
) -> tuple[tuple[Scores, Scores], list[str]]:
    """The values by unit of both scans, by attack and metric, and for which attacks there are none."""
    found: tuple[dict[str, Mapping[str, UnitScores]], ...] = ({}, {})
    lacking: dict[str, list[str]] = {}
    for own, record, evidence, name in zip(found, records, kept, (_OLD, _NEW), strict=True):
        for result in record.completed.values():
            scores = read_scores(evidence, result)
            if scores is None:
                lacking.setdefault(name, []).append(result.attack)
            else:
                own[result.attack] = scores
    notes = [
        f"{name} has no values of units in evidence/ for {', '.join(attacks)}: compared by both intervals, which is "
        "wider; scan again into the same folder to pair them"
        for name, attacks in lacking.items()
    ]
    return (found[0], found[1]), notes


def _of_attack(
    attack: str,
    records: tuple[AuditRecord, AuditRecord],
    policy: Policy,
    scores: tuple[Mapping[str, UnitScores], Mapping[str, UnitScores]],
) -> list[MetricChange]:
    """The changes of all numbers of an attack that either scan has, apart from what the text alone gives away."""
    results = [completed(record, attack) for record in records]
    rows = []
    for metric, (limits, good) in _asked(attack, records, policy).items():
        if any(result is not None and {metric, *limits} & {*result.about_text} for result in results):
            continue
        one, other = (None if result is None else measurement(result, metric) for result in results)
        if one is None and other is None:
            continue
        if any(isinstance(item, Estimate) and item.is_area for item in (one, other)):
            good = "nearer to chance"
        row = MetricChange(attack, metric, tuple(limits), good, one, other)
        rows.append(_with_difference(row, (scores[0].get(metric), scores[1].get(metric)), records))
    return rows


def _asked(attack: str, records: tuple[AuditRecord, AuditRecord], policy: Policy) -> dict[str, tuple[list[str], Good]]:
    """The numbers to compare: for each the limits that it answers for, and the direction in which it is better."""
    limited: dict[str, Good] = {
        limit.metric: "more" if limit.max is None else "less" for limit in policy.limits if limit.attack == attack
    }
    told: dict[str, Good] = dict.fromkeys(text_of(attack).leaks(), "less")
    asked: dict[str, tuple[list[str], Good]] = {}
    for question, good in {**told, **limited}.items():
        for metric in _methods(attack, records, question):
            limits, _ = asked.setdefault(metric, ([], good))
            if question in limited:
                limits.append(question)
    return asked


def _methods(attack: str, records: Sequence[AuditRecord], metric: str) -> list[str]:
    """The measurements that answer for a metric in either scan."""
    results = [result for record in records if (result := completed(record, attack)) is not None]
    return list(dict.fromkeys(name for result in results for name in result.methods.get(metric, (metric,))))


def _with_difference(
    row: MetricChange, scores: tuple[UnitScores | None, UnitScores | None], records: tuple[AuditRecord, AuditRecord]
) -> MetricChange:
    sides = (_leak(row.before, scores[0]), _leak(row.after, scores[1])) if row.good == "nearer to chance" else None
    (one, first), (other, second) = sides or ((row.before, scores[0]), (row.after, scores[1]))
    rng = np.random.default_rng([records[0].seed, *f"diff/{row.attack}/{row.metric}".encode()])
    effect = effect_of(Effect(row.attack, row.metric, one, other), (first, second), rng)
    return replace(row, difference=effect.difference, p=effect.p, paired=effect.paired, reason=_absent(row, records))


def _leak(item: Measurement | None, scores: UnitScores | None) -> tuple[Measurement | None, UnitScores | None]:
    """An area and its values as they lie over chance: one under it tells as much as its mirror image."""
    if not isinstance(item, Estimate) or item.value >= CHANCE:
        return item, scores
    bounds = tuple(replace(own, lower=1 - own.upper, upper=1 - own.lower) for own in item.bounds)
    mirrored = replace(item, value=1 - item.value, low=1 - item.high, high=1 - item.low, bounds=bounds)
    return mirrored, None if scores is None else replace(scores, values=-scores.values)


def _absent(row: MetricChange, records: tuple[AuditRecord, AuditRecord]) -> str:
    """Why a scan has no such number; empty where both have it."""
    reasons = []
    for item, record in zip((row.before, row.after), records, strict=True):
        if isinstance(item, Estimate):
            reasons.append("")
        elif item is not None:
            reasons.append(f"not resolved: {item.reason}")
        else:
            reasons.append(why_missing(record, row.attack) or _unknown(row, records))
    return _both(*reasons)


def _unknown(row: MetricChange, records: tuple[AuditRecord, AuditRecord]) -> str:
    versions = [record.environment.docaudit for record in records]
    renamed = "; another version of docaudit may call it otherwise" if len(set(versions)) > 1 else ""
    return f"the record has no such number{renamed}"


def _both(old: str, new: str) -> str:
    if old == new:
        return old
    return "; ".join(f"{name}: {reason}" for name, reason in ((_OLD, old), (_NEW, new)) if reason)


def _of_usefulness(records: tuple[AuditRecord, AuditRecord]) -> list[MetricChange]:
    """The measures of the model's own task; scans keep no values of documents for these."""
    before, after = ({item.name: item for item in record.utility} for record in records)
    rows = []
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name), after.get(name)
        row = MetricChange("", name, (), "more", one, other)
        rows.append(_with_difference(row, (None, None), records))
    return rows


def _judged(
    changes: Sequence[MetricChange], records: tuple[AuditRecord, AuditRecord], policy: Policy
) -> list[MetricChange]:
    """The changes with their outcomes, p adjusted over all of them."""
    adjusted = holm({index: change.p for index, change in enumerate(changes)})
    with_p = [replace(change, p_adjusted=adjusted.get(index)) for index, change in enumerate(changes)]
    return [_judge(change, records, policy) for change in with_p]


def _judge(change: MetricChange, records: tuple[AuditRecord, AuditRecord], policy: Policy) -> MetricChange:
    item = change.difference
    if item is None or change.p_adjusted is None:
        return change
    if item.low <= 0 <= item.high:
        return replace(change, reason=WITHIN)
    if change.p_adjusted > SIGNIFICANCE:
        return replace(change, reason=_MANY)
    rose = item.value > 0
    outcome: Outcome = "better" if rose == (change.good == "more") else "worse"
    against = _against(change, outcome, records, policy)
    return replace(change, reason=against) if against else replace(change, outcome=outcome)


def _against(change: MetricChange, outcome: Outcome, records: tuple[AuditRecord, AuditRecord], policy: Policy) -> str:
    """Why a change that is beyond chance still tells nothing; empty where it tells something."""
    old, new = (completed(record, change.attack) for record in records)
    if old is None or new is None:
        return ""
    for result, name in ((old, _OLD), (new, _NEW)):
        if result.confounded is not None:
            return f"{name}: {result.confounded}"
    if outcome == "better":
        return _not_better(change, records, (old, new), policy)
    lifted = sorted({*old.ablations} - {*new.ablations})
    return f"{_OLD}: the attacker was weakened: {', '.join(lifted)}" if lifted else ""


def _not_better(
    change: MetricChange, records: tuple[AuditRecord, AuditRecord], results: tuple[Result, Result], policy: Policy
) -> str:
    """Why less found is not better: another reference, a weaker attacker, or what speaks against any pass of NEW."""
    other = other_reference(*records)
    if other:
        return other
    old, new = (power_of(result) for result in results)
    weaker = old is not None and (new is None or new.value < old.value)
    asked = [limit.min_power for limit in policy.limits if limit.attack == change.attack]
    least = max((own for own in asked if own is not None), default=None) if weaker else None
    assert isinstance(change.after, Estimate)
    limit = Limit(change.attack, change.metric, "compared", max=0.0, min_power=least)
    found = hindrance(limit, results[1], {change.metric: change.after}, against_model(records[1]))
    return "" if found is None else f"{_NEW}: {found[0]}"


def _side(record: AuditRecord) -> Side:
    return Side(record.subject, record.target.sha256, record.environment.docaudit, record.timing.started)
