"""How numbers are printed: sensible digits, never "0.00" for something small, the count beside a share where it is exact."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from typing import Literal

from audit.record import Estimate

Form = Literal["share", "points", "ratio", "number"]
"""share: a proportion, as percent; points: a difference of proportions; ratio: 1 means no difference; number: as it is."""

NBSP = "\u00a0"
MINUS = "\u2212"
SMALLEST = 1e-4
"""Nothing smaller than this is written out (chosen here: it is below the resolution of any corpus docaudit can read)."""
UNIT_WORDS: dict[Form, str] = {"share": "%", "points": "points", "ratio": "", "number": ""}


def plain(value: float, digits: int = 2) -> str:
    """`value` with `digits` significant digits, without an exponent; what is under `SMALLEST` says so."""
    if value == 0:
        return "0"
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if size < SMALLEST:
        return f"under{NBSP}{SMALLEST:.4f}" if value > 0 else f"between 0 and {MINUS}{SMALLEST:.4f}"
    rounded = float(f"{size:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(rounded)))
    text = f"{size:.{decimals}f}"
    return sign + (f"{size:,.0f}" if decimals == 0 else text)


def _percent(value: float, digits: int) -> str:
    """100 * `value`, never rounded up to 100 (or down to it) when it is not."""
    text = plain(100 * value, digits)
    if text.removeprefix(MINUS) == "100" and abs(value) != 1:
        return text if digits >= 6 else _percent(value, digits + 1)
    return text


def bare(value: float, form: Form, digits: int = 2) -> str:
    """The number of `show` without its unit."""
    if form in ("share", "points"):
        return _percent(value, digits)
    return plain(value, digits)


def show(value: float, form: Form, digits: int = 2) -> str:
    """A value with its unit: "62 %", "5.0 points", "1.54"."""
    unit = UNIT_WORDS[form]
    return f"{bare(value, form, digits)}{NBSP}{unit}" if unit else bare(value, form, digits)


def interval(estimate: Estimate, form: Form, digits: int = 2) -> str:
    """Both ends of the interval, with the unit once: "55 to 69 %"."""
    return f"{bare(estimate.low, form, digits)} to {show(estimate.high, form, digits)}"


def exact_count(estimate: Estimate) -> int | None:
    """How many of `estimate.n` a proportion stands for, when it is a whole number; None when units were weighted."""
    hits = estimate.value * estimate.n
    if estimate.n == 0 or not 0 <= estimate.value <= 1 or abs(hits - round(hits)) > 1e-6 * estimate.n:
        return None
    return round(hits)


def reached(estimate: Estimate) -> str:
    """A proportion as one says it: "93 of 150", or "62 %" where it is not a whole number of units."""
    hits = exact_count(estimate)
    return show(estimate.value, "share") if hits is None else f"{hits:,} of {estimate.n:,}"


def distinct_digits(values: Iterable[float], limit: float, form: Form, digits: int = 2) -> int:
    """The fewest significant digits with which no value that differs from `limit` is printed like it."""
    apart = [value for value in values if value != limit]
    for count in range(digits, 7):
        if all(bare(value, form, count) != bare(limit, form, count) for value in apart):
            return count
    return 7


def limit_text(value: float, form: Form) -> str:
    """A limit as its author wrote it: "5 points", without zeros that nobody typed."""
    factor = 100 if form in ("share", "points") else 1
    unit = UNIT_WORDS[form]
    text = f"{round(value * factor, 6):g}".replace("-", MINUS)
    return f"{text}{NBSP}{unit}" if unit else text


def moment(text: str) -> str:
    """An ISO 8601 moment as people write it: "21 November 2025, 13:27 UTC"; anything else as it stands."""
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = f" {when.tzname()}" if when.tzinfo else ""
    return f"{when.day} {when:%B %Y, %H:%M}{zone}"


def day(text: str) -> str:
    """The day of an ISO 8601 moment: "21 November 2025"; anything else as it stands."""
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{when.day} {when:%B %Y}"


def duration(seconds: float) -> str:
    """A span of time in the two largest units that matter: "2 h 5 min", "48 s"."""
    if seconds < 60:
        return f"{plain(seconds)}{NBSP}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{NBSP}min {rest}{NBSP}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{NBSP}h {minutes}{NBSP}min"
