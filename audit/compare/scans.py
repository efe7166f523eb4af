"""Two scans of the same data compared: each number better, worse, or cannot be told.

Method: methods/index.md#comparing-scans.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from audit.attacks import text_of
from audit.compare.comparison import (
    WITHIN,
    Comparison,
    Good,
    MetricChange,
    MissingAttack,
    Outcome,
    Side,
)
from audit.compare.conditions import (
    NEW,
    OLD,
    both_reasons,
    differences,
    notes_on,
    other_reference,
    same_version,
    why_missing,
)
from audit.compare.paired import change_of, measurement, read_scores
from audit.engine.interface import Progress
from audit.errors import RecordError
from audit.measurements import Estimate, Measurement
from audit.policy import SIGNIFICANCE, Policy
from audit.policy.checks import SettledRecord, settle
from audit.policy.facts import facts_on, power_of
from audit.policy.limits import Limit
from audit.policy.reasons import reason_of
from audit.policy.rules import hindrance
from audit.record import AuditRecord, Result
from audit.stats.p_values import holm
from audit.stats.paired import UnitScores

CHANCE = 0.5
_MANY = "beyond its interval, which is no surprise among so many comparisons (Holm)"
_UNSHOWN = (
    "its interval excludes zero, but exchanges of both scans, unit by unit, do not show a change "
    "(p above 0.05)"
)
Scores = Mapping[str, Mapping[str, UnitScores]]
"""Values by unit, by attack and metric."""


@dataclass(frozen=True)
class ScanPair:
    """Two scans and the policy whose limits are among their numbers.

    Attributes:
        old_settled, new_settled: records of the earlier and of the later scan, settled by the
            limits of the policy.
        old_scores, new_scores: their values by unit.
    """

    old_settled: SettledRecord
    new_settled: SettledRecord
    policy: Policy
    old_scores: Scores
    new_scores: Scores

    @property
    def old(self) -> AuditRecord:
        """Return the record of the earlier scan."""
        return self.old_settled.record

    @property
    def new(self) -> AuditRecord:
        """Return the record of the later scan."""
        return self.new_settled.record

    def results(self, attack: str) -> tuple[Result | None, Result | None]:
        """Return an attack's results in both scans; None where it did not complete."""
        return self.old.completed.get(attack), self.new.completed.get(attack)

    def scores(self, attack: str, metric: str) -> tuple[UnitScores | None, UnitScores | None]:
        """Return the values by unit behind a number in both scans; None where there are none."""
        old = self.old_scores.get(attack, {}).get(metric)
        new = self.new_scores.get(attack, {}).get(metric)
        return old, new


@dataclass
class Question:
    """A number to compare: the direction in which it is better, and the limits that it answers."""

    good: Good
    limits: list[str] = field(default_factory=list)


def compare(
    records: tuple[AuditRecord, AuditRecord],
    evidence: tuple[Path | None, Path | None],
    policy: Policy,
    progress: Progress,
) -> Comparison:
    """Compare two scans in the numbers that a policy limits, and in others that speak for a leak.

    Args:
        records: records of the earlier and of the later scan.
        evidence: folders of their evidence, with the values by unit; None: none is read, and both
            intervals are compared.
        policy: policy whose limits are among the numbers.
        progress: advanced by every attack.

    Raises:
        RecordError: the scans differ in more than the model, or evidence is damaged.
    """
    pair = pair_scans(records, evidence, policy)
    return compare_pair(pair, evidence, progress)


def pair_scans(
    records: tuple[AuditRecord, AuditRecord],
    evidence: tuple[Path | None, Path | None],
    policy: Policy,
) -> ScanPair:
    """Put two scans together, with their values by unit; see `compare`."""
    old, new = records
    problems = differences(old, new)
    if problems:
        raise RecordError(
            problems, "compare scans of the same data with the same seed, budget and parameters"
        )
    old_scores = _read_evidence(old, evidence[0])
    new_scores = _read_evidence(new, evidence[1])
    return ScanPair(
        settle(old, policy.limits), settle(new, policy.limits), policy, old_scores, new_scores
    )


def compare_pair(
    pair: ScanPair, evidence: tuple[Path | None, Path | None], progress: Progress
) -> Comparison:
    """Compare two scans that `pair_scans` put together; see `compare`."""
    old = pair.old
    new = pair.new
    changes: list[MetricChange] = []
    missing: list[MissingAttack] = []
    battery = list(dict.fromkeys([*old.battery, *new.battery]))
    progress.stage("comparing attacks", len(battery))
    for attack in battery:
        progress.advance()
        if pair.results(attack) == (None, None):
            reason = both_reasons(why_missing(old, attack), why_missing(new, attack))
            missing.append(MissingAttack(attack, reason))
        else:
            changes += _attack_changes(attack, pair)
    changes += _usefulness_changes(pair)
    notes = [*notes_on(old, new)]
    if evidence[0] is not None:
        notes += _unpaired_note(old, pair.old_scores, OLD)
    if evidence[1] is not None:
        notes += _unpaired_note(new, pair.new_scores, NEW)
    judged = _judge_all(changes, pair)
    return Comparison(
        1, _side_of(old), _side_of(new), pair.policy.name, judged, tuple(notes), tuple(missing)
    )


def _side_of(record: AuditRecord) -> Side:
    """Say which scan a record is of."""
    return Side(
        record.subject,
        record.target.sha256,
        record.environment.docaudit,
        record.timing.started,
    )


def _read_evidence(record: AuditRecord, evidence: Path | None) -> Scores:
    """Read the values by unit of a scan; attacks without any are left out."""
    scores: dict[str, dict[str, UnitScores]] = {}
    if evidence is None:
        return scores
    for attack, result in record.completed.items():
        attack_scores = read_scores(evidence, result)
        if attack_scores is not None:
            scores[attack] = attack_scores
    return scores


def _unpaired_note(record: AuditRecord, scores: Scores, name: str) -> list[str]:
    """Note which attacks of a scan have no values by unit; empty where all have them."""
    attacks = [attack for attack in record.completed if attack not in scores]
    if not attacks:
        return []
    return [
        f"{name} has no values of units in evidence/ for {', '.join(attacks)}. Both intervals are "
        "compared, which is wider. Scan again into the same folder to pair them"
    ]


def _attack_changes(attack: str, pair: ScanPair) -> list[MetricChange]:
    """Compare all numbers of an attack, apart from those about the text alone."""
    results = pair.results(attack)
    changes: list[MetricChange] = []
    for metric, question in _questions(attack, pair).items():
        before, after = (_measured(result, metric) for result in results)
        if before is None and after is None:
            continue
        names = {metric, *question.limits}
        if any(_is_about_text(result, names) for result in results):
            continue
        good = question.good
        if _is_area(before) or _is_area(after):
            good = "nearer to chance"
        change = MetricChange(attack, metric, tuple(question.limits), good, before, after)
        changes.append(_with_difference(change, pair))
    return changes


def _measured(result: Result | None, metric: str) -> Measurement | None:
    """Look up a number of an attack; None where the attack did not complete."""
    if result is None:
        return None
    return measurement(result, metric)


def _is_about_text(result: Result | None, metrics: set[str]) -> bool:
    """Test whether a number is about the documents' own text, itself or by its limits."""
    return result is not None and not metrics.isdisjoint(result.about_text)


def _is_area(item: Measurement | None) -> bool:
    """Test whether a measurement is an estimate for which 0.5 is chance, as an AUC."""
    return isinstance(item, Estimate) and item.is_area


def _questions(attack: str, pair: ScanPair) -> dict[str, Question]:
    """Choose the numbers of an attack to compare, by name."""
    limited: dict[str, Good] = {}
    for limit in pair.policy.limits:
        if limit.attack == attack:
            limited[limit.metric] = "more" if limit.max is None else "less"
    goods: dict[str, Good] = dict.fromkeys(text_of(attack).leaks(), "less")
    goods.update(limited)
    questions: dict[str, Question] = {}
    for metric, good in goods.items():
        for method in _methods(attack, pair, metric):
            question = questions.setdefault(method, Question(good))
            if metric in limited:
                question.limits.append(metric)
    return questions


def _methods(attack: str, pair: ScanPair, metric: str) -> list[str]:
    """List the measurements behind a metric in either scan, one for each method."""
    methods: dict[str, None] = {}
    for result in pair.results(attack):
        if result is not None:
            methods.update(dict.fromkeys(result.methods.get(metric, (metric,))))
    return [*methods]


def _with_difference(change: MetricChange, pair: ScanPair) -> MetricChange:
    """Fill in the difference of a number, or why there is none."""
    before = change.before
    after = change.after
    old_scores, new_scores = pair.scores(change.attack, change.metric)
    if change.good == "nearer to chance":
        before, old_scores = _mirrored_leak(before, old_scores)
        after, new_scores = _mirrored_leak(after, new_scores)
    rng = np.random.default_rng([pair.old.seed, *f"diff/{change.attack}/{change.metric}".encode()])
    measured = change_of(change.metric, (before, after), (old_scores, new_scores), rng)
    return replace(
        change,
        difference=measured.difference,
        p=measured.p,
        paired=measured.paired,
        reason=_why_absent(change, pair),
    )


def _mirrored_leak(
    item: Measurement | None, scores: UnitScores | None
) -> tuple[Measurement | None, UnitScores | None]:
    """Mirror an AUC below chance, and its values, to the same distance above chance."""
    if not isinstance(item, Estimate) or item.value >= CHANCE:
        return item, scores
    bounds = tuple(
        replace(bound, lower=1 - bound.upper, upper=1 - bound.lower) for bound in item.bounds
    )
    mirrored = replace(
        item, value=1 - item.value, low=1 - item.high, high=1 - item.low, bounds=bounds
    )
    if scores is not None:
        scores = replace(scores, values=-scores.values)
    return mirrored, scores


def _why_absent(change: MetricChange, pair: ScanPair) -> str:
    """Explain why a scan lacks a number; empty where both have it."""
    same = same_version(pair.old, pair.new)
    return both_reasons(
        _why_unmeasured(change.before, pair.old, change.attack, same),
        _why_unmeasured(change.after, pair.new, change.attack, same),
    )


def _why_unmeasured(item: Measurement | None, record: AuditRecord, attack: str, same: bool) -> str:
    """Explain why one scan lacks a number; empty where it has it.

    Args:
        item: the number of the scan.
        record: its record.
        attack: the attack whose number it is.
        same: whether both scans are of the same version.
    """
    if isinstance(item, Estimate):
        return ""
    if item is not None:
        return f"not resolved: {item.reason}"
    reason = why_missing(record, attack)
    if reason:
        return reason
    if same:
        return "the record has no such number"
    return "the record has no such number; another version of docaudit may call it otherwise"


def _usefulness_changes(pair: ScanPair) -> list[MetricChange]:
    """Compare the measures of usefulness, for which scans store no values by document."""
    before = {item.name: item for item in pair.old.utility}
    after = {item.name: item for item in pair.new.utility}
    changes: list[MetricChange] = []
    for name in dict.fromkeys([*before, *after]):
        change = MetricChange("", name, (), "more", before.get(name), after.get(name))
        changes.append(_with_difference(change, pair))
    return changes


def _judge_all(changes: Sequence[MetricChange], pair: ScanPair) -> tuple[MetricChange, ...]:
    """Judge all changes, by p adjusted over all of them (Holm)."""
    adjusted = holm({index: change.p for index, change in enumerate(changes)})
    judged: list[MetricChange] = []
    for index, change in enumerate(changes):
        judged.append(_judge_change(replace(change, p_adjusted=adjusted.get(index)), pair))
    return tuple(judged)


def _judge_change(change: MetricChange, pair: ScanPair) -> MetricChange:
    """Judge a change better, worse or undecided."""
    item = change.difference
    if item is None or change.p_adjusted is None:
        return change
    if item.low <= 0 <= item.high:
        return replace(change, reason=WITHIN)
    if change.p_adjusted > SIGNIFICANCE:
        if change.p is not None and change.p <= SIGNIFICANCE:
            return replace(change, reason=_MANY)
        return replace(change, reason=_UNSHOWN)
    outcome: Outcome = "worse"
    rose = item.value > 0
    if rose == (change.good == "more"):
        outcome = "better"
    objection = _why_no_evidence(change, outcome, pair)
    if objection:
        return replace(change, reason=objection)
    if outcome == "worse":
        return replace(change, outcome=outcome)
    return _better_or_lower(change, pair)


def _better_or_lower(change: MetricChange, pair: ScanPair) -> MetricChange:
    """Judge a number that fell for certain."""
    weakness = _why_only_lower(change, pair)
    if weakness:
        return replace(change, outcome="lower", reason=weakness)
    return replace(change, outcome="better")


def _why_no_evidence(change: MetricChange, outcome: Outcome, pair: ScanPair) -> str:
    """Explain why a significant change is no evidence; empty where it is evidence."""
    old, new = pair.results(change.attack)
    if old is None or new is None:
        return ""
    for settled, name in ((pair.old_settled, OLD), (pair.new_settled, NEW)):
        confounded = settled.confounded(change.attack)
        if confounded is not None:
            return f"{name}: {confounded}"
    if outcome == "better":
        return other_reference(pair.old, pair.new)
    lifted = sorted({*old.ablations} - {*new.ablations})
    if not lifted:
        return ""
    return f"{OLD}: the attacker was weakened: {', '.join(lifted)}"


def _why_only_lower(change: MetricChange, pair: ScanPair) -> str:
    """Explain why a number that fell for certain is only called lower; empty where it is better.

    The attacker of the later scan was weaker, or something keeps its numbers from a pass.
    """
    old, new = pair.results(change.attack)
    if old is None or new is None:
        return ""
    least = None
    if _has_less_power(old, new):
        least = _largest_demand(change.attack, pair.policy.limits)
    limit = Limit(change.attack, change.metric, "compared", max=0.0, min_power=least)
    finding = hindrance(facts_on(pair.new_settled, limit))
    if finding is None:
        return ""
    return f"{NEW}: {reason_of(finding)}"


def _has_less_power(old: Result, new: Result) -> bool:
    """Test whether the later scan's attack has less power than the earlier one's."""
    before = power_of(old)
    after = power_of(new)
    if before is None:
        return False
    return after is None or after.value < before.value


def _largest_demand(attack: str, limits: Iterable[Limit]) -> float | None:
    """Return the largest power that limits ask of an attack; None where none asks for any."""
    demands = [limit.min_power for limit in limits if limit.attack == attack]
    return max((demand for demand in demands if demand is not None), default=None)
