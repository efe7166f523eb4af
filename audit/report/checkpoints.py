"""Checkpoints of one training run: their positions on an axis, which of them pass, and if they can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from audit.attacks import TEXTS
from audit.errors import RecordError
from audit.measurements import Estimate, Unresolved
from audit.policy import EXIT_CODES, Decision, Limit, Overall, Verdict
from audit.record import AuditRecord
from audit.report import numbers
from audit.report.answer import LABELS, deciding_numbers

AXIS_WORDS = LABELS["axes"]
"""The word before a position on an axis; that of an axis that is not here is its own name."""
VIOLATED = EXIT_CODES["violated"]
_ORDER: tuple[Overall, ...] = ("passed", "waived", "undecided", "violated")


@dataclass(frozen=True)
class Answer:
    """The answer of several verdicts: the last checkpoint that passes, if one does, and the others by outcome.

    `outcome` is that of this checkpoint; where none passes, the worst of all.
    """

    headline: str
    details: str
    outcome: Overall

    @property
    def text(self) -> str:
        """Join both sentences."""
        return f"{self.headline} {self.details}"


@dataclass(frozen=True)
class Stop:
    """One checkpoint on the axis."""

    x: float
    label: str
    record: AuditRecord
    verdict: Verdict

    def measured(self, attack: str, name: str) -> Estimate | Unresolved | None:
        """Return a measurement of an attack, by the method that decides its limit.

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
    """Return True for a verdict that lets its checkpoint through because its limits are met or waived.

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
    passing = [
        (x, name, verdict)
        for x, name, verdict in verdicts
        if verdict is not None and passes(verdict)
    ]
    audited = [verdict for _, _, verdict in verdicts if verdict is not None]
    outcome: Overall = (
        "violated" if any(verdict.exit_code == VIOLATED for verdict in audited) else "undecided"
    )
    if passing:
        x, name, verdict = passing[-1]
        head = f"The last checkpoint that passes is {_name_checkpoint(axis, x, name)}"
        head += ", where violated limits are waived." if verdict.overall == "waived" else "."
        outcome = verdict.overall
    elif len(verdicts) == 1:
        head = "The checkpoint does not pass."
    else:
        head = f"None of {len(verdicts)} checkpoints passes."
    groups = {
        outcome: [
            x for x, _, verdict in verdicts if (verdict.overall if verdict else None) == outcome
        ]
        for outcome in (*_ORDER, None)
    }
    listed = "; ".join(
        f"{outcome or 'not audited'}: {AXIS_WORDS.get(axis, axis)} {', '.join(map(numbers.axis_value, positions))}"
        for outcome, positions in groups.items()
        if positions
    )
    return Answer(head, f"{listed[0].upper()}{listed[1:]}.", outcome)


def _name_checkpoint(axis: str, x: float, name: str) -> str:
    """Name a checkpoint by its position, and by its name where that says more."""
    where = f"{AXIS_WORDS.get(axis, axis)} {numbers.axis_value(x)}"
    return f"{name} ({where})" if where != name.replace("-", " ") else name


def summary(records: Sequence[AuditRecord]) -> dict[str, tuple[str, str]]:
    """Return attack and metric by heading: what sums up each attack that ran on any of the checkpoints."""
    ran = {item.attack for record in records for item in record.completed.values()}
    return {
        heading: (name, metric)
        for name, text in TEXTS.items()
        if name in ran
        for heading, metric in text.trend.summary.items()
    }


def axis_positions(records: Sequence[AuditRecord]) -> tuple[str, list[float]]:
    """Return the label of the axis and each record's position: by epoch, else by step, else in the order given.

    An axis is taken when every record has a position on it and no two the same one.
    """
    candidates: dict[str, Sequence[float | None]] = {
        "epoch": [record.target.epoch for record in records],
        "training step": [record.target.step for record in records],
    }
    for axis, positions in candidates.items():
        known = [float(position) for position in positions if position is not None]
        if len(set(known)) == len(records):
            return axis, known
    return "record, in the order given", [float(number) for number in range(1, len(records) + 1)]


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
    problems = [
        f"{stop.label} and {first.label} differ in {what}"
        for stop in stops[1:]
        for what, own in _scan_conditions(stop).items()
        if own != _scan_conditions(first).get(what, own)
    ]
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
    """Return what weakens the comparison without forbidding it, one line each."""
    references = {
        frozenset((item.role, item.card.sha256) for item in stop.record.references)
        for stop in stops
    }
    done = [result for stop in stops for result in stop.record.completed.values()]
    formats = {(result.attack, result.dtype) for result in done}
    differs = {
        "references": len(references) > 1,
        "formats": len(formats) > len({attack for attack, _ in formats}),
    }
    return [LABELS["weaknesses"][what] for what, holds in differs.items() if holds]
