"""Checkpoints of one training run: their positions on an axis, and which of them pass.

Also whether they can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from audit.attacks import TEXTS
from audit.errors import RecordError
from audit.measurements import Estimate, Unresolved
from audit.policy import EXIT_CODES, WORDS, Decision, Limit, Overall, Verdict
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.facts.questions import deciding_numbers
from audit.report.labels import LABELS

AXIS_WORDS = LABELS["axes"]
"""The word before a position on an axis; that of an axis that is not here is its own name."""
VIOLATED = EXIT_CODES["violated"]
IN_ORDER = "record, in the order given"
"""The axis of records that state no place in one training."""
BY_TIME = "scan, oldest first"
"""The axis of scans of several models that were made one after another."""
_ORDER: tuple[Overall, ...] = ("passed", "waived", "undecided", "violated")


def noun_of(axis: str) -> str:
    """Return what stands at the positions of an axis: checkpoints, or scans."""
    return LABELS["stops"].get(axis, "checkpoints")


@dataclass(frozen=True)
class Answer:
    """The answer of several verdicts: the last checkpoint that passes, and the others by outcome.

    `outcome` is that of this checkpoint; where none passes, the worst of all.
    """

    headline: str
    details: str
    outcome: Overall

    @property
    def text(self) -> str:
        """Return both sentences of the answer, joined."""
        return f"{self.headline} {self.details}"


@dataclass(frozen=True)
class Stop:
    """One checkpoint on the axis."""

    x: float
    label: str
    record: AuditRecord
    verdict: Verdict

    def measured(self, attack: str, name: str) -> Estimate | Unresolved | None:
        """Return an attack's measurement of this name, by the method that decides its limit.

        None when the record lacks it.
        """
        result = self.record.completed.get(attack)
        if result is None:
            return None
        plain = next((item for item in result.measurements if item.name == name), None)
        return deciding_numbers(self.verdict).get((attack, name), plain)

    def useful(self, name: str) -> Estimate | Unresolved | None:
        """Return a measurement of the model's usefulness."""
        return next((item for item in self.record.utility if item.name == name), None)

    def decision(self, limit: Limit) -> Decision | None:
        """Return the decision on a limit; None when the verdict has none."""
        return next((item for item in self.verdict.decisions if item.limit == limit), None)


def passes(verdict: Verdict) -> bool:
    """Return True for a verdict that lets its checkpoint through by limits that are met or waived.

    One that is let through with a warning, undecided as it is, does not pass.
    """
    return verdict.overall in ("passed", "waived") and verdict.exit_code == 0


def answer(axis: str, verdicts: Sequence[tuple[float, str, Verdict | None]]) -> Answer:
    """Name the last checkpoint that passes.

    Args:
        axis: the unit of the positions.
        verdicts: position, name and verdict of each checkpoint, in the order of the axis; None: it
            was not audited.
    """
    audited = [verdict for _, _, verdict in verdicts if verdict is not None]
    passing: list[tuple[float, str, Verdict]] = []
    for x, name, verdict in verdicts:
        if verdict is not None and passes(verdict):
            passing.append((x, name, verdict))
    if passing:
        x, name, verdict = passing[-1]
        outcome = verdict.overall
        head = f"The last checkpoint that passes is {_name_checkpoint(axis, x, name)}"
        head += ", where exceeded limits are waived." if outcome == "waived" else "."
    else:
        outcome = _worst_outcome(audited)
        head = f"None of {len(verdicts)} checkpoints passes."
        if len(verdicts) == 1:
            head = "The checkpoint does not pass."
    details = _list_by_outcome(axis, verdicts)
    return Answer(head, f"{details[0].upper()}{details[1:]}.", outcome)


def _worst_outcome(verdicts: Sequence[Verdict]) -> Overall:
    """Return the outcome of verdicts none of which passes."""
    if any(verdict.exit_code == VIOLATED for verdict in verdicts):
        return "violated"
    return "undecided"


def _list_by_outcome(axis: str, verdicts: Sequence[tuple[float, str, Verdict | None]]) -> str:
    """List the positions of checkpoints by outcome; those that were not audited come last."""
    unit = AXIS_WORDS.get(axis, axis)
    groups: list[str] = []
    for outcome in (*_ORDER, None):
        positions = [
            numbers.axis_value(x)
            for x, _, verdict in verdicts
            if (verdict.overall if verdict else None) == outcome
        ]
        if positions:
            word = "not audited" if outcome is None else WORDS[outcome]
            groups.append(f"{word}: {unit} {', '.join(positions)}")
    return "; ".join(groups)


def _name_checkpoint(axis: str, x: float, name: str) -> str:
    """Name a checkpoint by its position, and by its name where that says more."""
    where = f"{AXIS_WORDS.get(axis, axis)} {numbers.axis_value(x)}"
    return f"{name} ({where})" if where != name.replace("-", " ") else name


def summary(records: Sequence[AuditRecord]) -> dict[str, tuple[str, str]]:
    """Return attack and metric by heading.

    They sum up each attack that ran on any of the checkpoints.
    """
    ran: set[str] = set()
    for record in records:
        ran.update(result.attack for result in record.completed.values())
    metrics: dict[str, tuple[str, str]] = {}
    for name, text in TEXTS.items():
        if name in ran:
            for heading, metric in text.trend.summary.items():
                metrics[heading] = (name, metric)
    return metrics


def axis_positions(records: Sequence[AuditRecord]) -> tuple[str, list[float]]:
    """Return the label of the axis and each record's position.

    By epoch, else by step, else in the order given. An axis is taken when every record has a
    position on it and no two the same one.
    """
    candidates: dict[str, Sequence[float | None]] = {
        "epoch": [record.target.epoch for record in records],
        "training step": [record.target.step for record in records],
    }
    for axis, positions in candidates.items():
        numbered = [float(position) for position in positions if position is not None]
        if len(set(numbered)) == len(records):
            return axis, numbered
    return IN_ORDER, [float(number) for number in range(1, len(records) + 1)]


def check_comparable(stops: Sequence[Stop]) -> None:
    """Refuse records that differ in more than the training of the model.

    Raises:
        RecordError: no record at all, or every difference from the first one.
    """
    if not stops:
        raise RecordError(
            "no record to draw a trend from", "give the records of several checkpoints"
        )
    first = stops[0]
    expected = _scan_conditions(first)
    problems: list[str] = []
    for stop in stops[1:]:
        for what, condition in _scan_conditions(stop).items():
            if condition != expected.get(what, condition):
                problems.append(f"{stop.label} and {first.label} differ in {what}")
    if problems:
        raise RecordError(
            problems, "scan the checkpoints of one run with the same data, seed, budget and policy"
        )


def _scan_conditions(stop: Stop) -> dict[str, object]:
    """Collect what must not differ between checkpoints, by label."""
    record = stop.record
    return {
        "the data set": record.corpus.sha256,
        "the kind of model": (record.target.architecture, record.target.task),
        "the seed": record.seed,
        "the budget": record.budget,
        "the policy": (
            stop.verdict.policy,
            [decision.limit for decision in stop.verdict.decisions],
        ),
        **{
            f"the parameters of {result.attack}": result.parameters
            for result in record.completed.values()
        },
    }


def weaknesses(stops: Sequence[Stop]) -> list[str]:
    """List what weakens a comparison of checkpoints without forbidding it, one line each."""
    references = {_reference_digests(stop.record) for stop in stops}
    formats: set[tuple[str, str | None]] = set()
    for stop in stops:
        formats.update((item.attack, item.dtype) for item in stop.record.completed.values())
    weaknesses: list[str] = []
    if len(references) > 1:
        weaknesses.append(LABELS["weaknesses"]["references"])
    if len(formats) > len({attack for attack, _ in formats}):
        weaknesses.append(LABELS["weaknesses"]["formats"])
    return weaknesses


def _reference_digests(record: AuditRecord) -> frozenset[tuple[str, str]]:
    """Return role and sha256 of each reference model of a record."""
    return frozenset((item.role, item.card.sha256) for item in record.references)
