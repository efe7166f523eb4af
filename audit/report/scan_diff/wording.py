"""Words and numbers of a comparison, the same in every format for readers."""

from __future__ import annotations

from audit.measurements import Estimate, Measurement
from audit.report.scan_diff.result import WITHIN, MetricChange, ScanDiff, Side

USEFULNESS = "usefulness"
HEADINGS = {"worse": "Worse", "better": "Better", "cannot be told": "Cannot be told"}


def number(value: float) -> str:
    """A number in four digits or three decimals, whichever is shorter."""
    size = abs(value)
    decimals = 3 if size < 9.9995 else 2 if size < 99.995 else 1
    return f"{value:.{decimals}f}"


def signed(value: float) -> str:
    """The same with its sign."""
    text = number(value)
    return f"+{text}" if value > 0 else text


def of(item: Measurement | None) -> str:
    """The value of a measurement; a dash where there is none."""
    return number(item.value) if isinstance(item, Estimate) else "-"


def interval(change: MetricChange) -> str:
    """The change with its 95 % interval; a dash where there is none."""
    item = change.difference
    return "-" if item is None else f"{signed(item.value)} [{number(item.low)}, {number(item.high)}]"


def change_words(change: MetricChange) -> str:
    """A change in one line: the number, before and after, and the interval."""
    paired = "" if change.paired else ", not paired"
    return f"{change.metric} {of(change.before)} before, {of(change.after)} now, change {interval(change)}{paired}"


def attack_of(change: MetricChange) -> str:
    """The attack, or usefulness."""
    return change.attack or USEFULNESS


def side(name: str, own: Side) -> str:
    """A scan in one line."""
    return f"{name} {own.subject} (sha256 {own.sha256[:12]}), scanned {own.scanned[:10]} by docaudit {own.docaudit}"


def reasons(diff: ScanDiff) -> dict[str, str]:
    """By reason, what cannot be told; the commonest reason last, for all that no other is given for."""
    found: dict[str, dict[str, list[str]]] = {}
    for change in diff.of("cannot be told"):
        found.setdefault(change.reason, {}).setdefault(attack_of(change), []).append(change.metric)
    plain = found.pop(WITHIN, None)
    named = {
        reason: "; ".join(f"{attack} {', '.join(metrics)}" for attack, metrics in own.items())
        for reason, own in found.items()
    }
    return named if plain is None else {**named, WITHIN: "all others" if named else "all of them"}


LEGEND = (
    "Change: new minus old, with its 95 % interval; of an area its distance from chance. "
    "* from both intervals, not paired unit by unit."
)
