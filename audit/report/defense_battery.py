"""Every limited number before and after one countermeasure, as text; nothing is computed, only laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.attacks.text import AttackText, Form
from audit.defenses.measured import Comparison, Effect, LimitChange
from audit.measurements import Estimate
from audit.report import compact, numbers
from audit.report.labels import UTILITY, report_of
from audit.report.tables import OUTCOME_LABELS

NOT_PAIRED = "not paired"


@dataclass(frozen=True)
class EffectLine:
    """A number before and after: cells, the difference with p as text, its interval as a bar, and a note.

    Attributes:
        outcomes: of its limit before and after, as words and as the names of signs; empty where it has none.
    """

    label: str
    attack: str
    outcomes: tuple[tuple[str, str], ...]
    before: compact.TableCell
    after: compact.TableCell
    difference: str
    bar: compact.IntervalBar | None
    note: str


@dataclass(frozen=True)
class BatteryView:
    """One countermeasure: verdicts, its table of limited numbers, usefulness, and what is not compared."""

    comparison: Comparison
    lines: tuple[EffectLine, ...]
    useful: tuple[EffectLine, ...]
    missing: tuple[str, ...]
    methods: tuple[str, ...]


def view_of(comparison: Comparison) -> BatteryView:
    """Lay one comparison out."""
    effects, useful = comparison.effects, comparison.usefulness
    bars = [*_bars(effects)], [*_bars(useful)]
    limits = {(one.attack, one.metric): one for one in comparison.limits}
    methods = [one.difference.method for one in (*effects, *useful) if one.difference is not None]
    return BatteryView(
        comparison,
        tuple(
            _line(one, report_of(one.attack), bar, limits.get((one.attack, one.metric)))
            for one, bar in zip(effects, bars[0], strict=True)
        ),
        tuple(_line(one, UTILITY, bar, None) for one, bar in zip(useful, bars[1], strict=True)),
        tuple(_missing(one.attack, one.before, one.after) for one in comparison.missing),
        tuple(dict.fromkeys(methods)),
    )


def difference_text(effect: Effect, form: Form) -> str:
    """The difference with its interval and p; empty where there is none."""
    item = effect.difference
    if item is None or effect.p is None:
        return ""
    p = "under 0.0001" if effect.p < 0.0001 else f"{effect.p:.2g}"
    points: Form = "points" if form == "share" else form
    shown = numbers.show(item.value, points)
    sign = "+" if item.value > 0 else ""
    return f"{sign}{shown} ({numbers.between(item, points)}; p {p}{'' if effect.paired else f'; {NOT_PAIRED}'})"


def _line(effect: Effect, report: AttackText, bar: compact.IntervalBar | None, limit: LimitChange | None) -> EffectLine:
    outcomes = () if limit is None else (limit.before.outcome, limit.after.outcome)
    return EffectLine(
        label=report.label(effect.metric),
        attack=attack_words(effect.attack),
        outcomes=tuple((one, OUTCOME_LABELS.get(one, one)) for one in outcomes),
        before=compact.cell(effect.before, report),
        after=compact.cell(effect.after, report),
        difference=difference_text(effect, report.form(effect.metric)),
        bar=bar,
        note=effect.note,
    )


def _bars(effects: Sequence[Effect]) -> list[compact.IntervalBar | None]:
    """Bars on one scale for all differences of shares and areas; other numbers are not drawn beside them."""
    drawn = [
        one.difference
        if one.difference is not None and max(abs(one.difference.low), abs(one.difference.high)) <= _WIDEST
        else None
        for one in effects
    ]
    return compact.bars(drawn) if any(isinstance(one, Estimate) for one in drawn) else [None] * len(effects)


_WIDEST = 2.0
"""The largest difference that shares and areas can have; a count or bits beyond it would flatten all others."""


def attack_words(name: str) -> str:
    """The name of an attack as a reader has it."""
    return name.replace("_", " ")


def _missing(attack: str, before: str, after: str) -> str:
    name = attack_words(attack)
    if before == after:
        return f"{name}: {before}"
    sides = [f"{side} it, {reason}" for side, reason in (("without", before), ("with", after)) if reason]
    return f"{name}: {'; '.join(sides)}"
