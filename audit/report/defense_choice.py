"""Several countermeasures beside each other: leak against usefulness, and the cheapest that meets the policy.

The leak is one number, ours: the worst limit used up, the largest of number / limit over the limits of the policy that
every one of the compared scans could be held against (areas counted from chance). It is that of the interval's end that
the policy looks at, so that under 100 % all of these limits are met; the same of the numbers themselves stands beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from audit.defenses.measured import KINDS, Comparison, Effect, LimitUse
from audit.measurements import Estimate
from audit.report import compact, numbers
from audit.report.defense_battery import difference_text
from audit.report.figures import FrontPoint, Point, front
from audit.report.labels import UTILITY, report_of

AS_IT_WAS = "As it was"
KIND_WORDS = {"query": "while the model is used", "data": "rewrites the data", "training": "another training"}


@dataclass(frozen=True)
class Choice:
    """The model as it was, or one countermeasure.

    Attributes:
        kind: in words; empty for the model as it was.
        verdict: of the policy.
        value, reach: the worst limit used up by the numbers, and by the ends of their intervals; None: no limit.
        worst: the limit of `reach`, in words.
        useful: the first measure of usefulness.
        cell, difference: the same as text, and its difference from the model as it was.
        on_front: whether no other is both at most as leaky and more useful, or less leaky and at least as useful.
    """

    name: str
    kind: str
    verdict: str
    value: float | None
    reach: float | None
    worst: str
    useful: Estimate | None
    cell: compact.TableCell
    difference: str
    on_front: bool = False


@dataclass(frozen=True)
class ChoiceView:
    """All of them, the figure, the sentence on the cheapest, and limits left out of the leak."""

    choices: tuple[Choice, ...]
    measure: str
    figure: Markup
    sentence: str
    left_out: tuple[str, ...]


def view_of(comparisons: Sequence[Comparison]) -> ChoiceView:
    """Lay the choice out.

    Args:
        comparisons: at least one, of the same model, data set and policy.
    """
    common, left_out = _limits(comparisons)
    first = comparisons[0]
    rows = [
        _choice(AS_IT_WAS, "", first.verdict_before, _uses(first, common, after=False), _useful(first), after=False)
    ]
    for one in comparisons:
        uses = _uses(one, common, after=True)
        rows.append(_choice(one.title, KIND_WORDS[one.kind], one.verdict_after, uses, _useful(one), after=True))
    choices = tuple(replace(row, on_front=_undominated(row, rows)) for row in rows)
    effect = _useful(first)
    measure = UTILITY.label(effect.metric) if effect is not None else "Usefulness"
    left = tuple(_limit_words(*pair) for pair in left_out)
    return ChoiceView(choices, measure, _figure(choices, measure), cheapest_sentence(comparisons), left)


def cheapest_sentence(comparisons: Sequence[Comparison]) -> str:
    """Name the cheapest countermeasure that meets the policy: by kind, then by the usefulness lost."""
    policy = comparisons[0].policy
    passing = [one for one in comparisons if one.verdict_after == "passed"]
    if comparisons[0].verdict_before == "passed":
        return f"The model meets the policy “{policy}” without a countermeasure."
    if len(comparisons) == 1:
        only = comparisons[0]
        sides = f"{only.verdict_before} without it, {only.verdict_after} with it"
        return f"{only.title}: the verdict by the policy “{policy}” is {sides}."
    if not passing:
        return f"None of the countermeasures that were measured meets the policy “{policy}”."
    best = min(passing, key=lambda one: (KINDS.index(one.kind), _lost(one)))
    return (
        f"{best.title} is the cheapest countermeasure that meets the policy “{policy}” ({KIND_WORDS[best.kind]}; "
        f"{len(passing)} of {len(comparisons)} meet it)."
    )


def _lost(comparison: Comparison) -> float:
    """The usefulness lost by the first measure; infinite where it is not known."""
    effect = _useful(comparison)
    return float("inf") if effect is None or effect.difference is None else -effect.difference.value


def _useful(comparison: Comparison) -> Effect | None:
    return next(iter(comparison.usefulness), None)


def _limits(comparisons: Sequence[Comparison]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The limits that every scan was held against, and those that some were."""
    reached = [
        {(one.attack, one.metric) for one in comparison.limits if getattr(one, side).reach is not None}
        for comparison in comparisons
        for side in ("before", "after")
    ]
    every, some = set.intersection(*reached), set.union(*reached)
    order = [(one.attack, one.metric) for one in comparisons[0].limits]
    return [pair for pair in order if pair in every], [pair for pair in order if pair in some - every]


def _uses(
    comparison: Comparison, common: Sequence[tuple[str, str]], *, after: bool
) -> list[tuple[tuple[str, str], LimitUse]]:
    found = {(one.attack, one.metric): one.after if after else one.before for one in comparison.limits}
    return [(pair, found[pair]) for pair in common]


def _choice(
    name: str,
    kind: str,
    verdict: str,
    uses: Sequence[tuple[tuple[str, str], LimitUse]],
    effect: Effect | None,
    *,
    after: bool,
) -> Choice:
    worst = max(uses, key=lambda pair: pair[1].reach or 0.0, default=None)
    measured = None if effect is None else (effect.after if after else effect.before)
    form = "share" if effect is None else UTILITY.form(effect.metric)
    return Choice(
        name=name,
        kind=kind,
        verdict=verdict,
        value=max((use.value or 0.0 for _, use in uses), default=None),
        reach=None if worst is None else worst[1].reach,
        worst="" if worst is None else _limit_words(*worst[0]),
        useful=measured if isinstance(measured, Estimate) else None,
        cell=compact.cell(measured, UTILITY),
        difference=difference_text(effect, form) if after and effect is not None else "",
    )


def _limit_words(attack: str, metric: str) -> str:
    return report_of(attack).label(metric)


def _undominated(row: Choice, rows: Sequence[Choice]) -> bool:
    if row.reach is None or row.useful is None:
        return False
    own = row.reach, -row.useful.value
    others = [(one.reach, -one.useful.value) for one in rows if one.reach is not None and one.useful is not None]
    return not any(other[0] <= own[0] and other[1] <= own[1] and other != own for other in others)


def _figure(choices: Sequence[Choice], measure: str) -> Markup:
    points = [
        FrontPoint(
            one.name,
            Point(one.useful.value, one.useful.low, one.useful.high),
            one.value or 0.0,
            one.reach,
            one.on_front,
        )
        for one in choices
        if one.useful is not None and one.reach is not None
    ]
    return Markup(front("choice", points, measure)) if len(points) > 1 else Markup()


def percent(share: float | None) -> str:
    """A limit used up, in percent; what is far over it is not written to the last digit."""
    return "not measured" if share is None else numbers.show(share, "share")
