"""Place what an attack reached, and what its limit allows, on one scale from 0 to 100 %."""

from __future__ import annotations

from dataclasses import dataclass

from audit.attacks import text_of
from audit.measurements import Estimate
from audit.policy import Decision
from audit.report import numbers


@dataclass(frozen=True)
class ScaleFacts:
    """What an attack reached as shares, 0 to 1, each placed so that the outcome can be seen.

    A limit on a difference is placed at the share of training documents at which it would be
    reached: the share that is no leak, plus the limit. The interval of the difference is placed in
    the same way, so that it crosses the limit here exactly where it crosses the limit itself.

    Attributes:
        trained: share that the attack reached on training documents.
        low, high: ends of the interval of the leak, placed beside `trained`.
        limit: share at which the limit is reached.
        is_upper: whether what lies below the limit is allowed.
        unseen: the same share on unseen documents; None where the number compares both sides, or
            nothing was measured there.
    """

    trained: float
    low: float
    high: float
    limit: float
    is_upper: bool
    unseen: float | None = None


def scale_of(
    deciding: Decision | None, trained: Estimate | None, unseen: Estimate | None
) -> ScaleFacts | None:
    """Place the deciding number of an attack on the scale; None where it is no share of anything.

    Args:
        deciding: the decision that decides the attack's row.
        trained: what the attack reached on training documents, by the method that decides.
        unseen: the same on unseen documents.
    """
    if deciding is None or deciding.measured is None or deciding.measured.total is not None:
        return None
    measured = deciding.measured
    if measured.is_area:
        return _placed(deciding, measured, 0.0)
    form = text_of(deciding.limit.attack).metric(deciding.limit.metric).form
    if form == "points":
        return _placed_difference(deciding, measured, trained, unseen)
    if form != "share":
        return None
    is_trained = trained is not None and trained.name == measured.name
    return _placed(deciding, measured, 0.0, unseen if is_trained else None)


def _placed_difference(
    deciding: Decision, measured: Estimate, trained: Estimate | None, unseen: Estimate | None
) -> ScaleFacts:
    """Place a difference above the share that is no leak, where it is one of both sides' shares."""
    text = text_of(deciding.limit.attack)
    is_of_sides = deciding.limit.metric == text.difference
    if not is_of_sides or trained is None or trained.total is not None:
        return _placed(deciding, measured, 0.0)
    return _placed(deciding, measured, trained.value - measured.value, unseen)


def _placed(
    deciding: Decision, measured: Estimate, no_leak: float, unseen: Estimate | None = None
) -> ScaleFacts:
    """Place a number and its limit above the share that is no leak, cut at 0 and 1."""
    limit = deciding.limit
    return ScaleFacts(
        trained=_cut(no_leak + measured.value),
        low=_cut(no_leak + measured.low),
        high=_cut(no_leak + measured.high),
        limit=_cut(no_leak + numbers.bound_of(limit)),
        is_upper=limit.max is not None,
        unseen=None if unseen is None else _cut(unseen.value),
    )


def _cut(share: float) -> float:
    """Cut a share at 0 and at 1: a method may give an end beyond them."""
    return min(1.0, max(0.0, share))
