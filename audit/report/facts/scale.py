"""Place the number that decides about an attack, and its limit, on one scale from 0 to 100 %."""

from __future__ import annotations

from dataclasses import dataclass

from audit.attacks import text_of
from audit.policy import Decision
from audit.report import numbers


@dataclass(frozen=True)
class ScaleFacts:
    """The deciding number of an attack with its limit as shares, 0 to 1.

    It is the number that the row prints: of a difference the leak, and not the share of training
    documents. Readers took a leak's interval beside that share for a contradiction.

    Attributes:
        value: the number.
        low, high: ends of its interval.
        limit: limit on it.
        is_upper: whether what lies below the limit is allowed.
    """

    value: float
    low: float
    high: float
    limit: float
    is_upper: bool


def scale_of(deciding: Decision | None) -> ScaleFacts | None:
    """Place the deciding number of an attack on the scale; None where it is no share of anything.

    Args:
        deciding: the decision that decides the attack's row.
    """
    if deciding is None or deciding.measured is None or deciding.measured.total is not None:
        return None
    measured = deciding.measured
    limit = deciding.limit
    form = text_of(limit.attack).metric(limit.metric).form
    if not measured.is_area and form not in ("points", "share"):
        return None
    return ScaleFacts(
        value=_cut(measured.value),
        low=_cut(measured.low),
        high=_cut(measured.high),
        limit=_cut(numbers.bound_of(limit)),
        is_upper=limit.max is not None,
    )


def _cut(share: float) -> float:
    """Cut a share at 0 and at 1: a method may give an end beyond them."""
    return min(1.0, max(0.0, share))
