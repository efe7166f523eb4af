"""Measured effects of a countermeasure that are to stand in a report, held against the record of that report."""

from __future__ import annotations

from collections.abc import Iterator

from audit.defenses.measured import Comparison
from audit.errors import RecordError
from audit.measurements import ALPHAS, Estimate, Measurement
from audit.policy.consistency import of_measurements
from audit.record import AuditRecord, Completed

_ROUNDING = 1e-9


def refuse_another_audit(comparison: Comparison, record: AuditRecord) -> None:
    """Refuse a comparison that was made on another model or data set, or that nobody measured.

    Raises:
        RecordError: it was, its numbers contradict each other, or what it found before is not what the record holds.
    """
    pairs = {"model": (comparison.target, record.target.sha256), "data set": (comparison.data, record.corpus.sha256)}
    others = [what for what, (own, other) in pairs.items() if own != other]
    if others:
        raise RecordError(
            f"{comparison.name} was measured on another {' and '.join(others)} than this record's",
            "give what docaudit defend wrote for this model and data set",
        )
    problems = [*_of_effects(comparison, record), *_of_limits(comparison)]
    if problems:
        listed = [f"{comparison.name}: {problem}" for problem in problems]
        raise RecordError(listed, "give it as docaudit defend wrote it")


def _of_effects(comparison: Comparison, record: AuditRecord) -> Iterator[str]:
    measured: dict[tuple[str, str], Measurement] = {("", item.name): item for item in record.utility}
    for result in record.attacks:
        if isinstance(result, Completed):
            measured |= {(result.attack, item.name): item for item in result.measurements}
    for effect in (*comparison.effects, *comparison.usefulness):
        source = effect.attack or "usefulness"
        for side in (effect.before, effect.after):
            yield from () if side is None else _of_side(source, side)
        here = measured.get((effect.attack, effect.metric))
        if isinstance(here, Estimate) and isinstance(effect.before, Estimate) and _apart(here, effect.before):
            yield f"{source} {effect.metric} before: {_shown(effect.before)}, and this record has {_shown(here)}"


def _of_side(source: str, side: Measurement) -> Iterator[str]:
    yield from of_measurements(source, [side])
    if isinstance(side, Estimate) and len(side.bounds) < len(ALPHAS):
        yield f"{source} {side.name}: it has bounds at {len(side.bounds)} of {len(ALPHAS)} levels"
    if isinstance(side, Estimate) and side.low == side.high and side.null is not None:
        yield f"{source} {side.name}: its interval has no width"


def _apart(one: Estimate, other: Estimate) -> bool:
    """Whether two numbers cannot be of one model: other references move them, and within their intervals."""
    return one.low > other.high or other.low > one.high


def _shown(item: Estimate) -> str:
    return f"{item.value:.3f} [{item.low:.3f}, {item.high:.3f}]"


def _of_limits(comparison: Comparison) -> Iterator[str]:
    for limit in comparison.limits:
        for use in (limit.before, limit.after):
            if use.outcome == "passed" and use.reach is not None and use.reach > 1 + _ROUNDING:
                yield f"{limit.attack} {limit.metric}: passed, and its interval reaches over the limit"
