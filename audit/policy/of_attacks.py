"""A record held against what the attacks of this version can give, and against the day on which it is read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from audit import __version__
from audit.cards import SCANNED_WITH, DeclaredPolicy
from audit.errors import PolicyError, RecordError
from audit.measurements import Estimate, Unresolved
from audit.policy.reading import load, shipped_policies
from audit.record import AuditRecord, Completed

FIRST_TO_DECLARE = (
    "reconstruction",
    "memorisation",
    "attribute_inference",
    "membership",
    "provider_membership",
    "redaction",
    "canaries",
)
"""The battery of docaudit 0.11.0, the first version whose records declare a policy."""
AHEAD = dt.timedelta(days=1)
"""By which the clock of the machine that scanned may be ahead of this one's (ours)."""
_SPLITS = {"member documents": "member", "held-out documents": "heldout"}


@dataclass(frozen=True)
class Facts:
    """What is known of an attack's numbers before any is measured.

    Attributes:
        about_text: metrics that may tell of the documents' own text; all others tell of the model.
        follows: by metric, numbers beside which it cannot be missing, where each rests on two units or more.
    """

    about_text: frozenset[str] = frozenset()
    follows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def check_against_attacks(record: AuditRecord, facts: Mapping[str, Facts], now: dt.datetime) -> None:
    """Refuse a record that no scan with these attacks gives, whatever its numbers.

    Args:
        record: what to check; it does not contradict itself.
        facts: by attack; results of others are left alone.
        now: nothing was finished a day after this.

    Raises:
        RecordError: every problem.
    """
    problems = [*_of_case(record, now), *_of_declared(record)]
    for result in record.attacks:
        if isinstance(result, Completed) and result.attack in facts:
            problems += _of_result(result, facts[result.attack], record.corpus.documents)
    if problems:
        listed = [f"record: {problem}" for problem in problems]
        raise RecordError(listed, "give the record as docaudit scan wrote it")


def _of_case(record: AuditRecord, now: dt.datetime) -> Iterator[str]:
    model, documents = record.target.task, record.corpus.task
    if model != documents and documents not in SCANNED_WITH.get(model, ()):
        yield f"a model for {model} was not scanned with documents for {documents}"
    finished = dt.datetime.fromisoformat(record.timing.finished)
    if (finished if finished.tzinfo else finished.replace(tzinfo=dt.UTC)) > now + AHEAD:
        yield "the scan finished in the future"


def _of_declared(record: AuditRecord) -> Iterator[str]:
    if record.policy is None:
        return
    for attack in FIRST_TO_DECLARE:
        if attack not in record.battery:
            yield f"{attack} is missing from the battery: every version that declares a policy has it"
    if record.policy.shipped and record.environment.docaudit == __version__ and not _is_shipped(record.policy):
        yield f"policy {record.policy.name} is not the one that docaudit ships"


def _is_shipped(declared: DeclaredPolicy) -> bool:
    if declared.name not in shipped_policies():
        return False
    try:
        origin = load(declared.name).origin
    except PolicyError:
        return False
    return origin is not None and origin.toml == declared.toml


def _of_result(result: Completed, facts: Facts, documents: Mapping[str, int]) -> Iterator[str]:
    for name in sorted({*result.about_text} & {*result.metrics} - facts.about_text):
        yield f"{result.attack} {name} tells of the model, and is listed as telling of the text alone"
    for count in result.counts:
        split = _SPLITS.get(count.name)
        if split is not None and count.value > documents.get(split, 0):
            held = documents.get(split, 0)
            yield f"{result.attack} used {count.value} {count.name}, and the corpus has {held}"
    measured = {item.name: item for item in result.measurements}
    for name, others in facts.follows.items():
        found = [measured.get(other) for other in others]
        if isinstance(measured.get(name), Unresolved) and all(
            isinstance(item, Estimate) and item.n > 1 for item in found
        ):
            yield f"{result.attack} {name} could not be had, though {' and '.join(others)} were"
