"""Print numbers: sensible digits, never "0.00" for what is small, a count with an exact share."""

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from audit.attacks.figure_text import Form
from audit.measurements import Estimate
from audit.policy import Decision, Limit

NBSP = "\u00a0"
MINUS = "\u2212"
SMALLEST = 1e-4
"""Nothing smaller than this is written out (chosen here: below the resolution of any corpus that is
audited)."""
AREA_DECIMALS = 2
"""Decimals that an area's interval has at least."""
UNIT_LABELS: dict[Form, str] = {
    "share": "%",
    "points": "points",
    "ratio": "",
    "count": "",
    "number": "",
}
WHOLE_DIGITS = 2
"""Digits up to which a count is written as a whole number; more tell it from a limit."""


def plain(value: float, digits: int = 2) -> str:
    """Write `value` with `digits` significant digits and no exponent.

    What is under `SMALLEST` says so.
    """
    return _format_fixed(value, _decimals(value, digits))


def exact(value: float) -> str:
    """Write a setting without an exponent, and with one where it is under `SMALLEST`."""
    return f"{value:.2g}" if 0 < abs(value) < SMALLEST else plain(value)


def at_least(value: float, digits: int = 2) -> str:
    """Write a lower bound with `digits` significant digits, never rounded up."""
    decimals = _decimals(value, digits)
    return _format_fixed(math.floor(value * 10**decimals) / 10**decimals, decimals)


def _decimals(value: float, digits: int) -> int:
    """Return how many decimals `digits` significant digits of `value` need; 0 for zero itself."""
    if abs(value) < SMALLEST:
        return 0
    rounded = float(f"{abs(value):.{digits - 1}e}")
    return max(0, digits - 1 - math.floor(math.log10(rounded)))


def _format_fixed(value: float, decimals: int) -> str:
    """Write `value` with `decimals` decimals; halves are rounded up, as readers do.

    They are as many more as keep it from being printed as zero.
    """
    if value == 0:
        return "0"
    if abs(value) < SMALLEST:
        return f"under{NBSP}{SMALLEST:.4f}" if value > 0 else f"between 0 and {MINUS}{SMALLEST:.4f}"
    sign = MINUS if value < 0 else ""
    rounded = Decimal(repr(abs(float(value)))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    text = f"{rounded:,f}"
    return sign + text if float(text.replace(",", "")) else _format_fixed(value, decimals + 1)


def scale_of(form: Form) -> float:
    """Return the factor a value is printed with: 100 for shares and points, else 1."""
    return 100 if form in ("share", "points") else 1


def _decimals_in_form(value: float, form: Form, digits: int) -> int:
    """Return the decimals to print `value` with: a share under 1 is never rounded up to 100 %."""
    if form == "count" and digits <= WHOLE_DIGITS:
        return 0
    for count in range(digits, digits + 5):
        decimals = _decimals(scale_of(form) * value, count)
        if form != "share" or value == 1 or _format_fixed(100 * value, decimals) != "100":
            break
    return decimals


def bare(value: float, form: Form, digits: int = 2) -> str:
    """Write a value in its form, as "62" for a share of 0.62, without its unit."""
    return _format_in_form(scale_of(form) * value, form, _decimals_in_form(value, form, digits))


def _format_in_form(value: float, form: Form, decimals: int) -> str:
    """Write a scaled value with `decimals` decimals; a count that rounds to none is "0"."""
    if form == "count" and not decimals and not round(value):
        return "0"
    return _format_fixed(value, decimals)


def show(value: float, form: Form, digits: int = 2) -> str:
    """Write a value with its unit: "62 %", "5.0 points", "1.54"."""
    return _with_unit(bare(value, form, digits), form)


def share_tried(least: float, larger: Mapping[str, float]) -> str:
    """Write the share of the trials that a budget took: "25 %", or "25 % to 100 %"."""
    most = max(larger.values(), default=least)
    return " to ".join(dict.fromkeys([show(least, "share"), show(most, "share")]))


def _with_unit(text: str, form: Form) -> str:
    """Append the unit of a form to a written number, where the form has a unit."""
    return f"{text}{NBSP}{UNIT_LABELS[form]}" if UNIT_LABELS[form] else text


def ends(estimate: Estimate, form: Form, digits: int = 2) -> tuple[str, str]:
    """Write both ends of an estimate's interval.

    Each is no finer than the finer one of the value and the other end.
    No end that differs from a value that is printed exactly is printed like it. Ends of an area
    have two decimals at least, as a share none, and are rounded outwards: there the last digit is
    the difference between telling surely and telling well.
    Ends of shares and differences are cut at what is possible: a method may give more than 100
    points.
    """
    if form in ("share", "points"):
        estimate = replace(estimate, low=max(-1.0, estimate.low), high=min(1.0, estimate.high))
    low = _decimals_in_form(estimate.low, form, digits)
    value = _decimals_in_form(estimate.value, form, digits)
    high = _decimals_in_form(estimate.high, form, digits)
    least = 0
    downwards = ""
    upwards = ""
    if estimate.is_area:
        downwards = ROUND_FLOOR
        upwards = ROUND_CEILING
        if form == "number":
            least = AREA_DECIMALS
    decimals_low = max(least, min(low, max(value, high)))
    decimals_high = max(least, min(high, max(value, low)))
    return (
        _format_end(estimate.low, estimate.value, form, decimals_low, downwards),
        _format_end(estimate.high, estimate.value, form, decimals_high, upwards),
    )


def lower_end(estimate: Estimate, form: Form, digits: int = 2) -> str:
    """Write the lower end of an estimate's interval with its unit: "45 points"."""
    low, _ = ends(estimate, form, digits)
    return _with_unit(low, form)


def cut(estimate: Estimate, form: Form) -> Estimate:
    """Return an estimate with value and interval cut to the possible range of shares.

    A method may give more than 100 points.
    """
    if form not in ("share", "points"):
        return estimate
    return replace(
        estimate,
        low=_cut_to_unit(estimate.low),
        value=_cut_to_unit(estimate.value),
        high=_cut_to_unit(estimate.high),
    )


def _cut_to_unit(value: float) -> float:
    """Cut a share or a difference of shares to [-1, 1]."""
    return min(1.0, max(-1.0, value))


def _format_end(end: float, value: float, form: Form, decimals: int, rounding: str) -> str:
    """Write an end of an interval, with more decimals where it would look equal to the value.

    An end that three more do not tell from the value is written like it.
    `rounding`: rounding mode of `decimal`; empty rounds to the nearest.
    """
    scale = scale_of(form)
    texts = []
    # Between a rounded value and its own digits an end would seem to lie on the other side.
    exact_value = math.isclose(round(scale * value, decimals), scale * value, abs_tol=1e-9)
    for count in range(decimals, decimals + 4):
        shown = scale * end
        if rounding:
            shown = float(
                (Decimal(repr(end)) * int(scale)).quantize(Decimal(1).scaleb(-count), rounding)
            )
        texts.append(_format_in_form(shown, form, count))
        if end == value or not exact_value or texts[-1] != _format_fixed(scale * value, count):
            return texts[-1]
    return texts[0]


def interval(estimate: Estimate, form: Form, digits: int = 2) -> str:
    """Write the interval of an estimate with the unit once.

    That is "55 to 69 %", or "at least 55 %" where it has no upper end.
    """
    low, high = ends(estimate, form, digits)
    if estimate.open_above:
        return f"at least {_with_unit(low, form)}"
    return f"{low} to {_with_unit(high, form)}"


def between(estimate: Estimate, form: Form, digits: int = 2) -> str:
    """Write the interval of an estimate without its unit.

    That is "55 to 69", or "at least 55" where it has no upper end.
    """
    low, high = ends(estimate, form, digits)
    if estimate.open_above:
        return f"at least {low}"
    return f"{low} to {high}"


def amount(estimate: Estimate, form: Form, digits: int = 2) -> str:
    """Write a value with its unit; a count with what it counts.

    That is "390 of 812", or "about 390 of 812" if it is scaled. An area that lies wholly under
    chance tells as much as its mirror image: "0.17, as good as 0.83".
    """
    shown = show(cut(estimate, form).value, form, digits)
    if estimate.is_below_chance:
        return f"{shown}, as good as {show(1 - estimate.value, form, digits)}"
    if estimate.total is None:
        return shown
    about = "about " if estimate.n < estimate.total else ""
    return f"{about}{shown} of {estimate.total:,}"


def basis(estimate: Estimate) -> str:
    """Write how many units a value rests on, "93 values"; of a scaled count "204 values tried"."""
    if estimate.total is None or estimate.n == estimate.total:
        return f"{estimate.n:,}{NBSP}{estimate.unit}"
    return f"{estimate.n:,}{NBSP}{estimate.unit} tried"


def exact_count(estimate: Estimate) -> int | None:
    """Return a proportion as a whole number of its units.

    None when it is none, as where units were weighted.
    """
    hits = estimate.value * estimate.n
    if (
        estimate.n == 0
        or not 0 <= estimate.value <= 1
        or abs(hits - round(hits)) > 1e-6 * estimate.n
    ):
        return None
    return round(hits)


def reached(estimate: Estimate) -> str:
    """Write a proportion as a count, "93 of 150".

    As "62 %" where it is no whole number of units.
    """
    hits = exact_count(estimate)
    return show(estimate.value, "share") if hits is None else f"{hits:,} of {estimate.n:,}"


def distinct_digits(estimate: Estimate, limit: float, form: Form, digits: int = 2) -> int:
    """Return the fewest significant digits that tell an estimate from a limit.

    With them no part of the estimate is printed like a limit from which it differs.
    """
    parts = (estimate.value, estimate.low, estimate.high)
    for count in range(digits, 7):
        printed = (bare(estimate.value, form, count), *ends(estimate, form, count))
        bounds = {limit_number(limit, form), bare(limit, form, count)}
        if all(
            part == limit or text not in bounds for part, text in zip(parts, printed, strict=True)
        ):
            return count
    return 7


def bound_of(limit: Limit) -> float:
    """Return the number that a limit allows at most, or asks for at least."""
    if limit.max is not None:
        return limit.max
    return limit.min or 0.0


def digits_of(decision: Decision, form: Form) -> int:
    """Return the significant digits that tell a limited number from its limit; 2 without one."""
    if decision.measured is None:
        return 2
    return distinct_digits(decision.measured, bound_of(decision.limit), form)


def limit_number(value: float, form: Form) -> str:
    """Write a limit as its author wrote it, without zeros that nobody typed."""
    return f"{round(value * scale_of(form), 6):g}".replace("-", MINUS)


def limit_text(value: float, form: Form) -> str:
    """Write a limit with its unit: "5 points"."""
    return _with_unit(limit_number(value, form), form)


def axis_value(value: float) -> str:
    """Return a value on an axis as text: "12", "0.5", "120,000"."""
    return f"{value:,.10g}"


def moment(text: str) -> str:
    """Write an ISO 8601 moment as "21 November 2025, 13:27 UTC"; anything else unchanged."""
    return _format_moment(text, "%B %Y, %H:%M %Z")


def day(text: str) -> str:
    """Write the day of an ISO 8601 moment as "21 November 2025"; anything else unchanged."""
    return _format_moment(text, "%B %Y")


def _format_moment(text: str, form: str) -> str:
    """Write an ISO moment as its day of the month, then as strftime's `form`.

    Keep a text that is none.
    """
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{when.day} {when.strftime(form)}".rstrip()


def duration(seconds: float) -> str:
    """Write a span of time in its two largest units: "2 h 5 min", "48 s"."""
    if seconds < 60:
        return f"{plain(seconds)}{NBSP}s"
    minutes, left_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{NBSP}min {left_seconds}{NBSP}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{NBSP}h {minutes}{NBSP}min"
