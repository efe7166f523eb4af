"""How often the canary attack accuses a model that gives nothing away, and how often it finds a planted leak.

No model is trained: the rank of each canary among all 10,000 pins of four digits is drawn, and goes
through the measurements of the attack. Where nothing leaks every rank is equally likely, whatever
the coin said. Planted leaks are once, twice and four times each limit: a share of the canaries put
in that rank first (excess) or among the first three (excess_top3), or bits by which the ranks of
all canaries put in are better than luck (excess_exposure).

An audit is decided as a policy with these three limits does: violated when a leak is confirmed over
one (one-sided 5 %, Holm over the three), passed when all three intervals are within and no alarm
speaks for a leak.

    python -m benchmarks.calibration.canary_calibration  # writes canary_calibration.json
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator

from audit.attacks.canaries.attack import checks_of, measure_privacy
from audit.attacks.canaries.measures import (
    Outcome,
    Ranked,
    excess_exposure_of,
    excess_of,
    excess_top3_of,
    table_of,
    truth_of,
)
from audit.corpus.canaries.schema import PATTERNS, Canary, CanarySet
from audit.measurements import Estimate
from benchmarks.calibration.simulated_audits import fired

LIMITS: Mapping[str, float] = MappingProxyType(
    {"excess": 0.20, "excess_top3": 0.20, "excess_exposure": 2.0}
)
MEASURES = MappingProxyType(
    {"excess": excess_of, "excess_top3": excess_top3_of, "excess_exposure": excess_exposure_of}
)
LENGTH = 4
REPEAT = 10
DELTA = 1e-5
N_PINS = 10**LENGTH
SIGNIFICANCE = 0.05
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (methods/index.md#limits-and-methods)."""
SIZES = (64, 200)
MULTIPLES = (1, 2, 4)


def canaries(n: int, rng: Generator) -> CanarySet:
    """Pins behind names of their own, and a fair coin for each."""
    pattern = PATTERNS["pin"]
    made = []
    for number, coin in enumerate(rng.random(n) < 0.5):
        completion = tuple(str(word) for word in rng.choice(pattern.candidates, LENGTH))
        copies = REPEAT if coin else 0
        made.append(
            Canary(
                f"c{number}", "pin", pattern.prefix(f"n{number}"), completion, bool(coin), copies
            )
        )
    return CanarySet("audit", 0, REPEAT, LENGTH, tuple(made))


def outcome(canary: Canary, rank: int, n_completions: int = N_PINS) -> Outcome:
    """What comes of a canary of this rank among all completions."""
    truth = truth_of(canary)
    n_candidates = len(PATTERNS[canary.pattern].candidates)
    found = truth if rank == 1 else tuple((number + 1) % n_candidates for number in truth)
    bits = math.log2(n_completions) - math.log2(rank)
    return Outcome(
        n_candidates=n_candidates,
        strongest=found,
        strongest_loss=0.0,
        true_loss=float(rank - 1),
        enumerated=True,
        ranked=Ranked(rank, 0, n_completions - 1, bits, rank / n_completions),
    )


def rank_of(canary: Canary, leak: tuple[str, float] | None, rng: Generator) -> int:
    """The rank of a canary's completion; `leak`: the metric, and by how much it is over 0."""
    luck = int(rng.integers(1, N_PINS + 1))
    if leak is None or not canary.included:
        return luck
    metric, size = leak
    if metric == "excess_exposure":
        return math.ceil(luck / 2**size)
    if rng.random() >= size:
        return luck
    if metric == "excess":
        return 1
    return int(rng.integers(1, 4))


def p_value(estimate: Estimate, limit: float) -> float:
    """The smallest recorded level at which the leak is confirmed over the limit, as policies read it; 1 without any."""
    return min((bound.alpha for bound in estimate.bounds if bound.lower > limit), default=1.0)


def confirmed(p_values: Sequence[float]) -> bool:
    """Whether Holm confirms the smallest."""
    return min(p_values) * len(p_values) <= SIGNIFICANCE


def audit(n: int, leak: tuple[str, float] | None, rng: Generator) -> dict[str, Any]:
    """One audit: the numbers and what becomes of it."""
    drawn = canaries(n, rng)
    outcomes = [outcome(canary, rank_of(canary, leak, rng)) for canary in drawn.canaries]
    table = table_of(drawn.canaries, outcomes)
    sides = table.where(table.included), table.where(~table.included)
    estimates: dict[str, Estimate] = {}
    for metric, measure in MEASURES.items():
        found = measure(*sides, rng)
        assert isinstance(found, Estimate)
        estimates[metric] = found
    privacy = measure_privacy(drawn, drawn.canaries, outcomes, rng, DELTA)
    everything = (*estimates.values(), privacy.epsilon)
    alarms = [check.name for check in fired(checks_of(everything, privacy.p_value, REPEAT, DELTA))]
    p_values = {metric: p_value(estimates[metric], limit) for metric, limit in LIMITS.items()}
    within = [metric for metric, limit in LIMITS.items() if estimates[metric].high <= limit]
    if confirmed([*p_values.values()]):
        decision = "violated"
    elif len(within) == len(LIMITS) and not alarms:
        decision = "passed"
    else:
        decision = "undecided"
    return {
        "confirmed": [metric for metric, p in p_values.items() if p <= SIGNIFICANCE],
        "within": within,
        "alarms": alarms,
        "outcome": decision,
        "values": {metric: estimate.value for metric, estimate in estimates.items()},
    }


def summary(audits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count audits by outcome, limit and alarm; average each limit's metric."""
    counts = {name: Counter[str]() for name in ("confirmed", "within", "alarms")}
    outcomes = Counter[str]()
    n_alarmed = 0
    n_blocked = 0
    for row in audits:
        for name, counter in counts.items():
            counter.update(row[name])
        outcomes[row["outcome"]] += 1
        if row["alarms"]:
            n_alarmed += 1
            n_blocked += len(row["within"]) == len(LIMITS)
    means = {}
    for metric in LIMITS:
        mean = float(np.mean([row["values"][metric] for row in audits]))
        means[metric] = round(mean, 3)
    return {
        "audits": len(audits),
        "confirmed_over_limit": {metric: counts["confirmed"][metric] for metric in LIMITS},
        "within_limit": {metric: counts["within"][metric] for metric in LIMITS},
        "alarms": {name: counts["alarms"][name] for name in ("epsilon", "exposure")},
        "alarms_any": n_alarmed,
        "blocked_by_an_alarm_alone": n_blocked,
        "outcomes": {name: outcomes[name] for name in ("passed", "undecided", "violated")},
        "mean": means,
    }


def main() -> None:
    """Simulate and write what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=1000, help="audits without a leak, for each number of canaries"
    )
    parser.add_argument("--planted", type=int, default=60, help="audits for each planted leak")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    began = time.process_time()
    found: dict[str, Any] = {"limits": dict(LIMITS), "no_leak": {}, "planted": {}}
    for n in SIZES:
        audits = [audit(n, None, np.random.default_rng([n, run])) for run in range(options.runs)]
        found["no_leak"][f"{n} canaries"] = result = summary(audits)
        print(n, json.dumps(result), flush=True)
    for place, (metric, limit) in enumerate(LIMITS.items()):
        for multiple in MULTIPLES:
            leak = metric, multiple * limit
            seeds = ([SIZES[0], place, multiple, run] for run in range(options.planted))
            audits = [audit(SIZES[0], leak, np.random.default_rng(seed)) for seed in seeds]
            found["planted"][f"{metric}, {multiple} x limit"] = result = summary(audits)
            print(*leak, json.dumps(result), flush=True)
    worst = max(max(one["confirmed_over_limit"].values()) for one in found["no_leak"].values())
    found["at_most_5_percent"] = worst <= ALLOWED * options.runs / 1000
    found["machine"] = "2-core CPU, one thread"
    found["date"] = "2026-11-22"
    found["cpu_seconds"] = round(time.process_time() - began)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
