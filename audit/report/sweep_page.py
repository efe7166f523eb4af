"""Checkpoints of one training run: their positions on an axis, and if their records can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.errors import RecordError
from audit.measurements import Estimate, Unresolved
from audit.policy import Decision, Limit, Verdict
from audit.record import AuditRecord, Completed

OTHER_REFERENCE = (
    "the attacker's reference models are not the same at every checkpoint: part of a difference can come from them"
)
OTHER_FORMAT = (
    "the encoder did not compute in the same number format at every checkpoint: part of a difference can come from "
    "rounding"
)


@dataclass(frozen=True)
class Stop:
    """One checkpoint on the axis."""

    x: float
    label: str
    record: AuditRecord
    verdict: Verdict

    def measured(self, attack: str, name: str) -> Estimate | Unresolved | None:
        """A measurement of an attack; None when the record lacks it."""
        for result in self.record.attacks:
            if isinstance(result, Completed) and result.attack == attack:
                return next((item for item in result.measurements if item.name == name), None)
        return None

    def useful(self, name: str) -> Estimate | Unresolved | None:
        """A measurement of the model's usefulness."""
        return next((item for item in self.record.utility if item.name == name), None)

    def decision(self, limit: Limit) -> Decision | None:
        """The decision on a limit; None when the verdict has none."""
        return next((item for item in self.verdict.decisions if item.limit == limit), None)


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
        raise RecordError("no record to draw a trend from", "give the records of several checkpoints")
    first = stops[0]
    problems = [
        f"{stop.label} and {first.label} differ in {what}"
        for stop in stops[1:]
        for what, own in _conditions(stop).items()
        if own != _conditions(first).get(what, own)
    ]
    if problems:
        raise RecordError(problems, "scan the checkpoints of one run with the same data, seed, budget and policy")


def _conditions(stop: Stop) -> dict[str, object]:
    """What must not differ, by label; the parameters of attacks that ran at one checkpoint only cannot."""
    record = stop.record
    return {
        "the data set": record.corpus.sha256,
        "the kind of model": (record.target.architecture, record.target.task),
        "the seed": record.seed,
        "the budget": record.budget,
        "the policy": (stop.verdict.policy, [decision.limit for decision in stop.verdict.decisions]),
        **{
            f"the parameters of {result.attack}": result.parameters
            for result in record.attacks
            if isinstance(result, Completed)
        },
    }


def weaknesses(stops: Sequence[Stop]) -> list[str]:
    """Return what weakens the comparison without forbidding it, one line each."""
    references = {frozenset((item.role, item.card.sha256) for item in stop.record.references) for stop in stops}
    done = [result for stop in stops for result in stop.record.attacks if isinstance(result, Completed)]
    formats = {(result.attack, result.dtype) for result in done}
    notes = {
        OTHER_REFERENCE: len(references) > 1,
        OTHER_FORMAT: len(formats) > len({attack for attack, _ in formats}),
    }
    return [note for note, holds in notes.items() if holds]
