"""Two scans of the same data compared: each number better, worse, or cannot be told (methods.md#comparing-scans)."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from audit.attacks import text_of
from audit.cards import ReferenceCard
from audit.engine.interface import SILENT, Progress
from audit.errors import RecordError
from audit.files import EVIDENCE
from audit.measurements import Estimate, Measurement
from audit.policy import SIGNIFICANCE, Decision, Policy, Verdict
from audit.policy.baseline import hold_against_baseline
from audit.policy.decision import Baseline, Change, ComparedLimit
from audit.policy.facts import facts_on, power_of
from audit.policy.limits import Limit
from audit.policy.reading import PREFIX
from audit.policy.reasons import reason_of
from audit.policy.rules import hindrance
from audit.record import AuditRecord, Result, file_of
from audit.record import read as read_record
from audit.report.comparison import Effect
from audit.report.scan_diff import WITHIN, Good, MetricChange, Outcome, ScanDiff, Side
from audit.stats.p_values import holm
from audit.stats.paired import UnitScores
from audit.workflows import wording
from audit.workflows.gate import gate_record, load_policy
from audit.workflows.unit_scores import effect_of, measurement, read_scores

CHANCE = 0.5
_MANY = "beyond its interval, which is no surprise among so many comparisons (Holm)"
_UNSHOWN = "its interval excludes zero, but exchanges of both scans, unit by unit, do not show a change (p above 0.05)"
_OLD, _NEW = "OLD", "NEW"
Scores = Mapping[str, Mapping[str, UnitScores]]


def diff_scans(
    old: Path, new: Path, policy: str = "default", progress: Progress = SILENT
) -> ScanDiff:
    """Compare two scans, named by their records or folders, in the numbers that a policy limits and others.

    Raises:
        DocauditError: a record or the policy cannot be read, or the scans differ in more than the
            model.
    """
    chosen = load_policy(policy, complete=False)
    return compare(
        (read_record(old), read_record(new)), (evidence_of(old), evidence_of(new)), chosen, progress
    )


def evidence_of(path: Path) -> Path:
    """Return the folder of a scan's evidence, unless `--evidence` named another."""
    return (path if path.is_dir() else path.parent) / EVIDENCE


def compare(
    records: tuple[AuditRecord, AuditRecord],
    kept: tuple[Path, Path],
    policy: Policy,
    progress: Progress,
) -> ScanDiff:
    """Compare two records, whose evidence is in the folders `kept`; see `diff_scans`."""
    problems = differences(*records)
    if problems:
        raise RecordError(
            problems, "compare scans of the same data with the same seed, budget and parameters"
        )
    first, second = map(_read_evidence, records, kept, (_OLD, _NEW))
    changes: list[MetricChange] = []
    missing: list[str] = []
    battery = list(dict.fromkeys(name for record in records for name in record.battery))
    progress.stage("comparing attacks", len(battery))
    for attack in battery:
        progress.advance()
        results = [record.completed.get(attack) for record in records]
        reasons = [why_missing(record, attack) for record in records]
        if not any(results):
            missing.append(f"{attack}: {_both(*reasons)}")
            continue
        changes += _of_attack(
            attack, records, policy, (first[0].get(attack, {}), second[0].get(attack, {}))
        )
    changes += _of_usefulness(records)
    old, new = (
        Side(one.subject, one.target.sha256, one.environment.docaudit, one.timing.started)
        for one in records
    )
    notes = (*notes_on(*records), *first[1], *second[1])
    adjusted = holm({index: change.p for index, change in enumerate(changes)})
    with_p = [
        replace(change, p_adjusted=adjusted.get(index)) for index, change in enumerate(changes)
    ]
    judged = tuple(_judge(change, records, policy) for change in with_p)
    return ScanDiff(1, old, new, policy.name, judged, notes, tuple(missing))


def _read_evidence(record: AuditRecord, evidence: Path, name: str) -> tuple[Scores, list[str]]:
    """Read the values by unit of a scan, by attack and metric, and note for which attacks there are none."""
    found = {attack: read_scores(evidence, result) for attack, result in record.completed.items()}
    lacking = [attack for attack, scores in found.items() if scores is None]
    notes = [*wording("no_units", name=name, attacks=", ".join(lacking))] if lacking else []
    return {attack: scores for attack, scores in found.items() if scores is not None}, notes


def _of_attack(
    attack: str,
    records: tuple[AuditRecord, AuditRecord],
    policy: Policy,
    scores: tuple[Mapping[str, UnitScores], Mapping[str, UnitScores]],
) -> list[MetricChange]:
    """Compare all numbers of an attack, apart from those about the text alone."""
    results = [record.completed.get(attack) for record in records]
    rows = []
    for metric, (limits, good) in _asked(attack, records, policy).items():
        if any(
            result is not None and {metric, *limits} & {*result.about_text} for result in results
        ):
            continue
        one, other = (None if result is None else measurement(result, metric) for result in results)
        if one is None and other is None:
            continue
        if any(isinstance(item, Estimate) and item.is_area for item in (one, other)):
            good = "nearer to chance"
        row = MetricChange(attack, metric, tuple(limits), good, one, other)
        rows.append(_with_difference(row, (scores[0].get(metric), scores[1].get(metric)), records))
    return rows


def _asked(
    attack: str, records: tuple[AuditRecord, AuditRecord], policy: Policy
) -> dict[str, tuple[list[str], Good]]:
    """Choose the metrics to compare, each with its limits and the direction of improvement."""
    limited: dict[str, Good] = {
        limit.metric: "more" if limit.max is None else "less"
        for limit in policy.limits
        if limit.attack == attack
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
    """List the measurements behind a metric in either scan, one for each method."""
    results = [result for record in records if (result := record.completed.get(attack)) is not None]
    return list(
        dict.fromkeys(name for result in results for name in result.methods.get(metric, (metric,)))
    )


def _with_difference(
    row: MetricChange,
    scores: tuple[UnitScores | None, UnitScores | None],
    records: tuple[AuditRecord, AuditRecord],
) -> MetricChange:
    sides = (
        (_leak(row.before, scores[0]), _leak(row.after, scores[1]))
        if row.good == "nearer to chance"
        else None
    )
    (one, first), (other, second) = sides or ((row.before, scores[0]), (row.after, scores[1]))
    rng = np.random.default_rng([records[0].seed, *f"diff/{row.attack}/{row.metric}".encode()])
    effect = effect_of(Effect(row.attack, row.metric, one, other), (first, second), rng)
    return replace(
        row,
        difference=effect.difference,
        p=effect.p,
        paired=effect.paired,
        reason=_absent(row, records),
    )


def _leak(
    item: Measurement | None, scores: UnitScores | None
) -> tuple[Measurement | None, UnitScores | None]:
    """Mirror an AUC below chance, and its values, to the same distance above chance."""
    if not isinstance(item, Estimate) or item.value >= CHANCE:
        return item, scores
    bounds = tuple(replace(own, lower=1 - own.upper, upper=1 - own.lower) for own in item.bounds)
    mirrored = replace(
        item, value=1 - item.value, low=1 - item.high, high=1 - item.low, bounds=bounds
    )
    return mirrored, None if scores is None else replace(scores, values=-scores.values)


def _absent(row: MetricChange, records: tuple[AuditRecord, AuditRecord]) -> str:
    """Explain why a scan lacks the number; empty where both have it."""
    reasons = []
    for item, record in zip((row.before, row.after), records, strict=True):
        if isinstance(item, Estimate):
            reasons.append("")
        elif item is not None:
            reasons.append(f"not resolved: {item.reason}")
        else:
            renamed = (
                ""
                if _same_version(*records)
                else "; another version of docaudit may call it otherwise"
            )
            reasons.append(
                why_missing(record, row.attack) or f"the record has no such number{renamed}"
            )
    return _both(*reasons)


def _both(old: str, new: str) -> str:
    if old == new:
        return old
    return "; ".join(f"{name}: {reason}" for name, reason in ((_OLD, old), (_NEW, new)) if reason)


def _of_usefulness(records: tuple[AuditRecord, AuditRecord]) -> list[MetricChange]:
    """Compare the measures of usefulness, for which scans store no values by document."""
    before, after = ({item.name: item for item in record.utility} for record in records)
    names = dict.fromkeys([*before, *after])
    rows = (MetricChange("", name, (), "more", before.get(name), after.get(name)) for name in names)
    return [_with_difference(row, (None, None), records) for row in rows]


def _judge(
    change: MetricChange, records: tuple[AuditRecord, AuditRecord], policy: Policy
) -> MetricChange:
    """Judge a change better, worse or undecided, by p adjusted over all changes (Holm)."""
    item = change.difference
    if item is None or change.p_adjusted is None:
        return change
    if item.low <= 0 <= item.high:
        return replace(change, reason=WITHIN)
    if change.p_adjusted > SIGNIFICANCE:
        shown = change.p is not None and change.p <= SIGNIFICANCE
        return replace(change, reason=_MANY if shown else _UNSHOWN)
    rose = item.value > 0
    outcome: Outcome = "better" if rose == (change.good == "more") else "worse"
    against = _against(change, outcome, records, policy)
    return replace(change, reason=against) if against else replace(change, outcome=outcome)


def _against(
    change: MetricChange, outcome: Outcome, records: tuple[AuditRecord, AuditRecord], policy: Policy
) -> str:
    """Explain why a significant change is no evidence; empty where it is evidence."""
    old, new = (record.completed.get(change.attack) for record in records)
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
    change: MetricChange,
    records: tuple[AuditRecord, AuditRecord],
    results: tuple[Result, Result],
    policy: Policy,
) -> str:
    """Explain why a lower number is no improvement: another reference, or an attack with less power."""
    other = other_reference(*records)
    if other:
        return other
    old, new = (power_of(result) for result in results)
    weaker = old is not None and (new is None or new.value < old.value)
    asked = [limit.min_power for limit in policy.limits if limit.attack == change.attack]
    least = max((own for own in asked if own is not None), default=None) if weaker else None
    assert isinstance(change.after, Estimate)
    limit = Limit(change.attack, change.metric, "compared", max=0.0, min_power=least)
    finding = hindrance(facts_on(records[1], limit))
    if finding is None:
        return ""
    return f"{_NEW}: {reason_of(finding)}"


ABOUT_TEXT = "concerns the documents themselves, whatever the model"


def why_missing(record: AuditRecord, attack: str) -> str:
    """Explain why an attack did not complete; empty where it did."""
    found = next((one for one in record.attacks if one.attack == attack), None)
    if found is not None:
        return found.why
    if attack not in record.battery:
        return f"docaudit {record.environment.docaudit} had no such attack"
    return "it was not asked for"


def differences(old: AuditRecord, new: AuditRecord) -> list[str]:
    """List what differs between two scans and must not: then their numbers are not compared."""
    first, second = _conditions(old), _conditions(new)
    pairs = [(f"{name} differs", one, second[name]) for name, one in first.items()]
    results = new.completed
    for result in old.attacks:
        if result.status == "completed" and result.attack in results:
            pairs += _parameters(result, results[result.attack], _same_version(old, new))
            if old.budget == new.budget:
                pairs.append(_shares(result.attack, old, new))
    return [f"{name}: OLD {one}, NEW {other}" for name, one, other in pairs if one != other]


def _conditions(record: AuditRecord) -> dict[str, str]:
    """Return what must not differ, whatever the attacks, by label."""
    bounds = record.bounds
    side = (
        ""
        if bounds is None
        else f"{bounds.documents or 'all'} documents, {bounds.part:.0%} of each side"
    )
    return {
        "what was audited": "a model" if record.target.is_model else "the text alone",
        "the documents to be forgotten": forgotten.sha256
        if (forgotten := record.corpus.forgotten)
        else "none",
        "the data set": f"{record.corpus.name} (sha256 {record.corpus.sha256[:PREFIX]})",
        "the seed": str(record.seed),
        "the budget": record.budget,
        "the bound on trials": side or "none",
    }


def _shares(attack: str, old: AuditRecord, new: AuditRecord) -> tuple[str, str, str]:
    """Return the shares of an attack's trials that one budget took in both scans."""
    name = f"{attack}: the share of its trials differs (--budget standard takes all)"
    return name, f"{old.share_of(attack):.0%}", f"{new.share_of(attack):.0%}"


def _parameters(old: Result, new: Result, same_version: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the parameters of an attack in both scans.

    Those that only another version has are left out.
    """
    # As JSON: a record that was read has lists where one that was just made has tuples.
    first, second = (
        {key: json.dumps(own) for key, own in one.parameters.items()} for one in (old, new)
    )
    names = first.keys() | second.keys() if same_version else first.keys() & second.keys()
    for name in sorted(names):
        yield (
            f"{old.attack}: the parameter {name} differs",
            first.get(name, "none"),
            second.get(name, "none"),
        )


def notes_on(old: AuditRecord, new: AuditRecord) -> Iterator[str]:
    """Yield what differs and does not forbid a comparison, and whether both are of one record or model."""
    if old == new:
        yield "OLD and NEW are the same record: there is no change to measure"
    elif old.target.is_model and old.target.sha256 == new.target.sha256:
        yield "OLD and NEW are of the same model (same sha256)"
    if not _same_version(old, new):
        versions = f"OLD {old.environment.docaudit}, NEW {new.environment.docaudit}"
        yield f"docaudit differs: {versions}; versions may measure differently"
    if reason := other_reference(old, new):
        yield f"{reason}: nothing is called better"
    one, other = (f"{record.environment.device} in {record.target.dtype}" for record in (old, new))
    if one != other:
        yield f"the device differs: OLD {one}, NEW {other}"


def other_reference(old: AuditRecord, new: AuditRecord) -> str:
    """Say that both scans rest on other references, so that either attacker may be the weaker.

    Empty if they do not.
    """
    first, second = (
        {card.role: _identity(card) for card in record.references} for record in (old, new)
    )
    roles = [
        role for role in dict.fromkeys([*first, *second]) if first.get(role) != second.get(role)
    ]
    if not roles or not (first and second):
        return ""
    return f"the references differ ({', '.join(roles)}), so that either attacker may be the weaker"


def _identity(card: ReferenceCard) -> str:
    """Identify a reference by its weights, or by its recipe and data: a GPU does not repeat the bits of a training."""
    if card.source == "trained" and card.recipe is not None:
        return json.dumps([card.recipe, card.corpus], sort_keys=True)
    return card.card.sha256


def _same_version(old: AuditRecord, new: AuditRecord) -> bool:
    return old.environment.docaudit == new.environment.docaudit


UNMEASURED = "neither scan measured it"


def gate_against_baseline(
    path: Path,
    policy: str,
    baseline: Path,
    model: Path | None = None,
    data: Path | None = None,
    *,
    no_model: bool = False,
    progress: Progress = SILENT,
) -> tuple[AuditRecord, Verdict, ScanDiff]:
    """Hold a record against a policy and against an earlier scan; see `gate_record`.

    Returns:
        The record, the verdict by both, and the comparison.

    Raises:
        DocauditError: as `gate_record` does; or the baseline is the same record, or does not fit
            it.
    """
    record, verdict = gate_record(path, policy, model, data, no_model=no_model)
    chosen, earlier = load_policy(policy, complete=False), read_record(baseline)
    if earlier == record:
        raise RecordError(*wording("own_baseline", baseline=baseline))
    found = compare((earlier, record), (evidence_of(baseline), evidence_of(path)), chosen, progress)
    digest, old = hashlib.sha256(file_of(baseline).read_bytes()).hexdigest(), found.old
    limits = tuple(_limits(verdict.decisions, found))
    held = Baseline(digest, old.subject, old.sha256, old.scanned, old.docaudit, limits, found.notes)
    return record, hold_against_baseline(verdict, held), found


def _limits(decisions: Sequence[Decision], found: ScanDiff) -> list[ComparedLimit]:
    """Summarise the change of each limit, by its worst method."""
    limits: dict[tuple[str, str], ComparedLimit] = {}
    for decision in decisions:
        attack, metric = decision.limit.attack, decision.limit.metric
        changes = [one for one in found.changes if one.attack == attack and metric in one.limits]
        outcome, reason = (
            _worst(changes) if changes else ("not compared", _missing(decision, found))
        )
        limits[attack, metric] = ComparedLimit(attack, metric, outcome, reason)
    return [*limits.values()]


def _worst(changes: Sequence[MetricChange]) -> tuple[Change, str]:
    """Return the outcome of a limit: better only where every compared method is better."""
    if worse := [one for one in changes if one.outcome == "worse"]:
        return "worse", max(worse, key=_size).words
    if lost := [one for one in changes if one.lost]:
        return (
            "no longer measured",
            f"{lost[-1].metric} was measured in the baseline: {lost[-1].reason}",
        )
    compared = [one for one in changes if one.compared]
    if not compared:
        return "not compared", changes[0].reason
    untold = [one for one in compared if one.outcome != "better"]
    if untold:
        largest = max(untold, key=_size)
        return "cannot be told", f"{largest.words}: {largest.reason}"
    return "better", min(compared, key=_size).words


def _missing(decision: Decision, found: ScanDiff) -> str:
    if decision.about_text:
        return ABOUT_TEXT
    attack = f"{decision.limit.attack}: "
    return next(
        (one.removeprefix(attack) for one in found.missing if one.startswith(attack)), UNMEASURED
    )


def _size(change: MetricChange) -> float:
    return 0.0 if change.difference is None else abs(change.difference.value)
