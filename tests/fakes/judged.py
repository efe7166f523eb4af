"""Results made from plain numbers, held against limits: what tests of policies judge."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import fields, replace
from statistics import NormalDist
from typing import Any, Literal

import tiny

from audit.cards import CorpusCard, ReferenceCard
from audit.measurements import ALPHAS, Bound, Estimate, Measurement, Unresolved
from audit.policy import Demand, Gap, Limit, Policy, Verdict, Waiver, evaluate
from audit.record import AuditRecord, Reason, Result
from audit.report.answer import decides_most
from audit.report.facts.build import facts_of

TODAY = dt.date(2026, 3, 2)


def estimate(
    name: str,
    low: float,
    high: float,
    *,
    lower_p: float = 1.0,
    upper_p: float = 1.0,
    edge: float = 0.05,
):
    """Return an interval whose bounds lie beyond `edge` from a level on.

    Lower bounds lie over it from `lower_p` on, upper ones under it from `upper_p` on. Value and
    interval lie within the bounds, as a scan's do.
    """
    bounds: dict[float, Bound] = {}
    for alpha in ALPHAS:
        lower = min(low, edge)
        if alpha >= lower_p:
            lower = edge + 1e-6
        upper = max(high, edge)
        if alpha >= upper_p:
            upper = edge - 1e-6
        bounds[alpha] = Bound(alpha, lower, upper)
    widest = bounds[max(ALPHAS)]
    value = min(max((low + high) / 2, widest.lower), widest.upper)
    low = max(low, bounds[0.025].lower)
    high = min(high, bounds[0.025].upper)
    levels = tuple(bounds.values())
    return Estimate(
        name, value, low, high, 100, "fields", 50, "made up", 0.0, "held-out", bounds=levels
    )


def measured(
    name: str, low: float, high: float, n: int = 100, unit: str = "fields", **more: Any
) -> Estimate:
    """An interval that is its own bound at every level."""
    bounds = tuple(Bound(alpha, low, high) for alpha in ALPHAS)
    return Estimate(name, (low + high) / 2, low, high, n, unit, n, "made up", bounds=bounds, **more)


def normal(name: str, value: float, error: float, null: float | None = None) -> Estimate:
    """A coherent estimate with normal bounds of standard error `error`.

    `null` is of held-out documents.
    """
    z = NormalDist().inv_cdf
    bounds = tuple(
        Bound(alpha, value - z(1 - alpha) * error, value + z(1 - alpha) * error) for alpha in ALPHAS
    )
    reach = z(0.975) * error
    low = value - reach
    high = value + reach
    kind: Literal["held-out"] | None = None
    if null is not None:
        kind = "held-out"
    return Estimate(name, value, low, high, 100, "fields", 50, "normal", null, kind, bounds=bounds)


def area(name: str, value: float, error: float = 0.02) -> Estimate:
    """An area under the curve: chance is 0.5."""
    return replace(normal(name, value, error), null=0.5, null_kind="chance")


def power(value: float) -> Estimate:
    """Return the strength of an attacker."""
    return measured("power", value - 0.05, value + 0.05)


def completed(*measurements: Measurement, attack: str = "reconstruction", **more: Any) -> Result:
    """Return a result of these numbers, of which the strength is called `power`."""
    return Result(attack, measurements=measurements, **{"power": "power", **more})


def gone(status: Any, kind: Any, why: str, fix: str = "", attack: str = "reconstruction") -> Result:
    """A result without numbers."""
    return Result(attack, status=status, reason=Reason(kind, why, fix))


def limit(metric: str = "leak", attack: str = "reconstruction", **settings: Any) -> Limit:
    if "max" not in settings and "min" not in settings:
        settings["max"] = 0.05
    return Limit(attack, metric, "because", **settings)


GAPS = (Gap("reconstruction", ("mlm",), "made up"),)
"""Attacks that the model of these records cannot be put to, and that the policies of these tests do
without."""
OF_RECORD = {field.name for field in fields(AuditRecord)} - {"policy"}
OF_CORPUS = {field.name for field in fields(CorpusCard)} - {"name", "task", *OF_RECORD}
OF_TARGET = {"family", "task"}


def judged(
    results: Sequence[Result], *limits: Limit, **settings: Any
) -> tuple[AuditRecord, Verdict]:
    """Hold results against limits.

    `settings` are fields of the policy, the record, its data set or its target.
    """
    battery = dict.fromkeys(["reconstruction", *(limit.attack for limit in limits)])
    record = tiny.record(*results, battery=tuple(battery))
    record = replace(
        record,
        corpus=replace(record.corpus, **take(settings, OF_CORPUS)),
        target=replace(record.target, **take(settings, OF_TARGET)),
    )
    record = replace(record, **take(settings, OF_RECORD))
    settings.setdefault("gaps", GAPS)
    policy = Policy(schema=1, name="test", limits=limits or (limit(),), **settings)
    return record, evaluate(record, policy, TODAY)


def take(settings: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Move the settings of these names out of all settings."""
    return {name: settings.pop(name) for name in names & settings.keys()}


def judge(results: Sequence[Result], *limits: Limit, **settings: Any) -> Verdict:
    """Return the verdict of results that are held against limits, as `judged`."""
    return judged(results, *limits, **settings)[1]


SAFE = estimate("leak", -0.01, 0.05)
LEAKY = estimate("leak", 0.2, 0.3, lower_p=0.001)
OTHER = estimate("other", 0.0, 0.01)
INAPPLICABLE = gone("inapplicable", "model", "no such head")
BARELY = estimate("leak", 0.04, 0.3, lower_p=0.05)
SECOND = limit(attack="membership")
OTHER_SAFE = completed(SAFE, attack="membership")
OTHER_LEAKY = completed(LEAKY, attack="membership")
BOTH = (limit(), SECOND)
MET_BESIDE = completed(SAFE, attack="beside")
"""A limit that is met beside those of a row: without any a warning covers nothing."""
METHODS = {"leak": ("leak", "leak.strong")}
STRONGER = replace(LEAKY, name="leak.strong")
WIDER = estimate("leak.strong", 0.0, 0.06)
SPLITS = (ReferenceCard("split-0", "manifest", tiny.record().target),)
OTHERS = tuple(normal(f"other{number}", 0.0, 0.01) for number in range(6))
LIMITED = tuple(limit(other.name, max=0.5) for other in OTHERS)


def counted(n: int, low: float = 0.0, high: float = 3.0) -> Result:
    return completed(measured("leak", low, high, n, "values", null=0.0, null_kind="held-out"))


def waiver(
    days: int, metric: str = "leak", owner: str = "A. Officer", attack: str = "reconstruction"
) -> Waiver:
    end = TODAY + dt.timedelta(days)
    return Waiver(
        attack, metric, owner, "head of data", "the weights stay here", "one locked machine", end
    )


def words_of(record: AuditRecord, verdict: Verdict) -> str:
    """Join all that a verdict says.

    There is a line for each limit and waiver, the headline, and what would decide most.
    """
    lines = [
        f"({decision.cause}) {decision.reason} -> {decision.remedy}"
        for decision in verdict.decisions
    ]
    lines.extend(waiver.sentence for waiver in verdict.waivers)
    lines.append(f"headline: {verdict.reason}")
    lines.append(f"text: {verdict.text}, {verdict.text_reason}")
    lines.append(f"first: {decides_most(facts_of(record, verdict))}")
    return "\n".join(lines)


WIDE = estimate("leak", 0.0, 0.0501)
NONE = Unresolved("leak", "fewer than two documents", 1, 20)
SKIPPED = gone("skipped", "missing", "it needs a reference", "--reference auxiliary=PATH")
NO_DATA = gone("skipped", "data", "no canaries", "plant some")
FAILED = gone("failed", "error", "IndexError at audit/x.py:3")
OPTIONAL = limit(required=False)
PLENTY = {"member": 100, "heldout": 100}
EXTRACTS = Demand("repeated text", ("reconstruction", "memorisation", "canaries"), "why")
