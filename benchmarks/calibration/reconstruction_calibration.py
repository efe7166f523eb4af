"""False alarms, verdicts and power of the reconstruction limits on simulated audits (METHODS.md, sections 1 and 6).

No model is trained. `simulated_attacks.reconstruction` draws which fields target and public model
rebuild: each guesses one field in a hundred whole without memory, and a leak adds fields, or parts
of them, in member documents. Measurements are the attack's own, verdicts those of
`audit.policy.evaluate` on the limits of the shipped policies, whatever these are on the day: Holm
runs over both methods of the three limits, in a scan over more and so to fewer violations.
Documents hold four fields, one in five with a value that stands elsewhere too. With a correlation,
fields of one document agree (beta-binomial). The check of single categories and of documents known
whole is made beside them. The attacker is strong and tries every field: what a pass needs besides
is not drawn.

Counted are what became of each limit, and one-sided bounds at 0.05 over 0 and over the default
policy's limit, before Holm. Without a leak a bound over 0 is a false alarm; a confirmed violation
is one too, and with a leak of just a limit still. A leak is as large as it says for the lowest
loss, half as large for the published method, and in values of their own and repeated ones alike.
Audits of one size and correlation share their random numbers, whatever leaks.

    # writes reconstruction_calibration.json; 21 minutes
    python -m benchmarks.calibration.reconstruction_calibration
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from audit.attacks.measuring import DOCUMENTS, VALUES
from audit.measurements import Estimate
from audit.policy import Policy, load
from audit.record import Result
from benchmarks.calibration.count_limits import most_of
from benchmarks.calibration.simulated_attacks import Audit, reconstruction
from benchmarks.calibration.simulated_audits import decisions_of, fewer_resamples

ATTACK = "reconstruction"
POLICIES = {name: load(name) for name in ("default", "strict")}
OF_DEFAULT = [limit for limit in POLICIES["default"].limits if limit.attack == ATTACK]
LIMITS = {limit.metric: limit.max for limit in OF_DEFAULT if limit.max is not None}
ALPHA = 0.05
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (METHODS.md, section 6)."""
OUTCOMES = ("violated", "undecided", "passed")
RESAMPLES = 2000
"""Of the bootstrap, 10,000 in a scan: some twenty lie beyond the outermost level that is read from
resamples alone."""

LEAK_FREE = {
    f"no leak, {documents} documents, correlation {correlation}": Audit(
        documents, correlation=correlation
    )
    for documents in (150, 300)
    for correlation in (0.0, 0.3)
}
SHARES = {
    limit.metric: limit.max
    for limit in OF_DEFAULT
    if limit.max is not None and limit.holds == "interval"
}
UNIQUE_VALUES = 3.2
"""Values of its own that a document has."""
PLANTED = {
    f"{metric}: {factor} x the limit, {documents} documents, correlation {correlation}": Audit(
        documents, correlation=correlation, leak={f"{ATTACK} {metric}": factor * limit}
    )
    for documents in (150, 300)
    for correlation in (0.0, 0.3)
    for metric, limit in SHARES.items()
    for factor in (1, 2, 4)
}


def counted_settings() -> dict[str, Audit]:
    """Return audits that leak once and four times what each limit on a count allows of so many documents."""
    settings = {}
    for documents, factor in product((150, 300), (1, 4)):
        n_values = round(UNIQUE_VALUES * documents)
        share = factor * largest(VALUES, n_values) / n_values
        of_values = Audit(documents, leak={f"{ATTACK} excess_pr": share})
        of_documents = Audit(documents, known=round(factor * largest(DOCUMENTS, documents)))
        for metric, setting in ((VALUES, of_values), (DOCUMENTS, of_documents)):
            settings[f"{metric}: {factor} x the limit, {documents} documents"] = setting
    return settings


def largest(metric: str, total: int) -> float:
    """Return the maximum of the default policy that applies to a count of so many."""
    (limit,) = (limit for limit in OF_DEFAULT if limit.metric == metric)
    return most_of(limit, total)


COUNTED = counted_settings()
"""Counts in truth; size alone never violates them, so that as many as the limit may pass."""


def audited(setting: Audit, audits: int) -> Iterator[Result]:
    """What the attack measures in audits of one kind, one after the other."""
    for seed in range(audits):
        rng = np.random.default_rng([seed, setting.documents, round(100 * setting.correlation)])
        yield reconstruction(setting, rng, LIMITS)


def tally(setting: Audit, audits: int, policies: Mapping[str, Policy] = POLICIES) -> dict[str, Any]:
    """What became of each limit over so many audits, by policy, and how often bounds lie over 0 and over the limit."""
    over: dict[str, Counter[str]] = {"over 0": Counter(), "over the limit": Counter()}
    outcomes = {name: {metric: Counter[str]() for metric in LIMITS} for name in policies}
    causes = {name: Counter[str]() for name in policies}
    for found in audited(setting, audits):
        for bound in bounds_of(found):
            over["over 0"][bound.name] += bound.lower > 0
            over["over the limit"][bound.name] += bound.lower > bound.limit
        for policy, counted in outcomes.items():
            for decision in decisions_of("tagger", {ATTACK: found}, policies[policy]).values():
                counted[decision.limit.metric][decision.outcome] += 1
                if decision.cause:
                    causes[policy][f"{decision.limit.metric}: {decision.cause}"] += 1
    counts_by_policy = {}
    for policy, counted in outcomes.items():
        counts_by_policy[policy] = {
            metric: _counts_of_outcomes(counts) for metric, counts in counted.items()
        }
    return {
        "setting": {
            "documents": setting.documents,
            "correlation": setting.correlation,
            "leak": dict(setting.leak),
            "known": setting.known,
        },
        "audits": audits,
        "bounds": {where: dict(counts) for where, counts in over.items()},
        "policies": counts_by_policy,
        "undecided because": {
            policy: dict(sorted(counts.items())) for policy, counts in causes.items()
        },
    }


def _counts_of_outcomes(counts: Counter[str]) -> dict[str, int]:
    """Give the count of every outcome, in their order."""
    return {outcome: counts[outcome] for outcome in OUTCOMES}


class LowerBound(NamedTuple):
    """A one-sided lower bound of one method at `ALPHA`, and the maximum that applies to it.

    Attributes:
        name: of the measurement.
        lower: the bound.
        limit: see `policy.Limit.applied`.
    """

    name: str
    lower: float
    limit: float


def bounds_of(found: Result) -> Iterator[LowerBound]:
    """Yield the lower bound of every method of every limited metric."""
    estimates = {item.name: item for item in found.measurements if isinstance(item, Estimate)}
    for limit in OF_DEFAULT:
        for name in found.methods[limit.metric]:
            (lower,) = (bound.lower for bound in estimates[name].bounds if bound.alpha == ALPHA)
            applied = limit.applied(estimates[name]).max
            assert applied is not None
            yield LowerBound(name, lower, applied)


def main() -> None:
    """Simulate every setting and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--audits", type=int, default=1000, help="leak-free ones of a kind; others are a fifth"
    )
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    settings: dict[str, Any] = {}
    with fewer_resamples(options.resamples):
        for name, setting in {**LEAK_FREE, **COUNTED, **PLANTED}.items():
            audits = options.audits if name in LEAK_FREE else max(1, options.audits // 5)
            settings[name] = tally(setting, audits)
            print(f"{name}: {settings[name]['policies']['default']} of {audits}", flush=True)
    report = {
        "machine": "2-core CPU",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor seconds": round(time.process_time()),
        "resamples": options.resamples,
        "limits": LIMITS,
        "allowed of 1,000": ALLOWED,
        "settings": settings,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
