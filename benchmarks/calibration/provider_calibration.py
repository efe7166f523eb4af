"""False alarms, coverage and power of provider membership on simulated audits.

Method: methods/provider-membership.md and methods/index.md#limits-and-methods.

No model is trained: `provider_simulated` says what models say of providers. The attacks, intervals,
bounds and the verdict are those of a scan.

    no leak    each audit is decided as a scan is, with limits on balanced accuracy, AUC and what is
    known for certain,
               held against every method, Holm over all of them. Counted are confirmed violations,
               by limit and method that the verdict rests on, audits that pass, and one-sided bounds
               at 0.05 above what no leak gives.
    leak       members are easier: how often the 95 % interval of each method holds the mean over
    audits, how often it
               ends under it, and how often the bound at 0.01 lies above it.
    detection  on such audits without a leak something is planted that has twice the excess of a
    limit, or four times
               where there is room: how often it is violated, and how often it passes.
    planted    accuracy and user inference are Gaussian, and a leak moves those of members by a
    known number of
               deviations: the best threshold on the first then has the balanced accuracy Phi(leak /
               2), the second the AUC Phi(leak / sqrt(2)), and `accuracy_power` and `area_power` say
               how often so many providers should show it.

    # writes provider_calibration.json and .svg; 48 minutes
    python -m benchmarks.calibration.provider_calibration
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import logit, ndtr, ndtri, stdtrit
from scipy.stats import binom

from audit.attacks.provider_membership.measures import STRONGEST, measure_table
from audit.attacks.provider_membership.methods import (
    SHARE,
    Inference,
    measure_accuracy,
    zero_knowledge,
)
from audit.attacks.provider_membership.providers import ProviderTable
from audit.attacks.score_figures import LOW as CERTAIN
from audit.engine.interface import SILENT
from audit.measurements import Estimate
from audit.record import Result
from audit.stats.intervals import Interval, beta_bounds
from audit.stats.roc import auc_interval
from benchmarks.calibration.provider_simulated import N_SEEDS, Setting, leaking, planted, simulated
from benchmarks.calibration.provider_verdicts import LIMITS, decided
from benchmarks.calibration.simulated_audits import fired

ALPHA = 0.05
CHANCE = 0.5
METHODS = sorted({name for names in STRONGEST.values() for name in names})
MACHINE = "2-core CPU"


def allowed(audits: int) -> int:
    """False alarms that "at most 5 %" may show: 64 of 1,000.

    See methods/index.md#limits-and-methods.
    """
    return int(binom.ppf(0.975, audits, ALPHA))


def measured(table: ProviderTable, rng: np.random.Generator, seeds: int = N_SEEDS) -> Result:
    """What a scan measures.

    Providers with many questions are not looked at apart, which no limit hangs on.
    """
    few = replace(table, n_questions=np.minimum(table.n_questions, 4))
    return measure_table(few, rng, SILENT, n_seeds=seeds, share=SHARE)


def estimates(found: Result) -> dict[str, Estimate]:
    """The methods that limits are held against, as far as they are resolved."""
    return {
        item.name: item
        for item in found.measurements
        if item.name in METHODS and isinstance(item, Estimate)
    }


def bound_at(item: Estimate, alpha: float) -> tuple[float, float]:
    """The one-sided bounds at a level."""
    (found,) = (bound for bound in item.bounds if bound.alpha == alpha)
    return found.lower, found.upper


def audited(
    setting: Setting, audits: int
) -> Iterator[tuple[ProviderTable, Result, np.random.Generator]]:
    """Audits of one kind, one after the other."""
    for seed in range(audits):
        documents = map(round, setting.documents)
        rng = np.random.default_rng(
            [seed, setting.providers, *documents, round(100 * setting.leak)]
        )
        table = simulated(setting, rng)
        yield table, measured(table, rng, setting.seeds), rng


def simulate(setting: Setting, audits: int) -> dict[str, Any]:
    """Violations, passes, alarms and mean values over leak-free audits."""
    alarms, violated, strongest, passed, covered = (Counter[str]() for _ in range(5))
    values: dict[str, list[float]] = {}
    for _, found, _ in audited(setting, audits):
        for name, item in estimates(found).items():
            assert item.null is not None
            alarms[name] += bound_at(item, ALPHA)[0] > item.null
            covered[name] += item.low <= item.null <= item.high
            values.setdefault(name, []).append(item.value)
        overall, outcomes = decided(found)
        violated.update(limit for limit, (outcome, _) in outcomes.items() if outcome == "violated")
        strongest.update(method for outcome, method in outcomes.values() if outcome == "violated")
        passed.update(
            limit for limit, (outcome, _) in outcomes.items() if outcome in ("passed", "not run")
        )
        passed["all limits"] += overall == "passed"
        violated["any limit"] += overall == "violated"
        alarms["alarm: known for certain"] += bool(fired(found.checks))
    return {
        "setting": asdict(setting),
        "audits": audits,
        "allowed": allowed(audits),
        "limits": LIMITS,
        "violated": {name: violated[name] for name in (*LIMITS, "any limit")},
        "violated by method": {name: strongest[name] for name in METHODS},
        "passed, or left out for want of providers": {
            name: passed[name] / audits for name in (*LIMITS, "all limits")
        },
        "alarms": dict(sorted(alarms.items())),
        "two-sided 95 % intervals that hold what no leak gives": dict(sorted(covered.items())),
        "mean": {name: float(np.mean(found)) for name, found in sorted(values.items())},
        "standard deviation": {
            name: float(np.std(found)) for name, found in sorted(values.items())
        },
    }


def cover(setting: Setting, audits: int) -> dict[str, Any]:
    """How often intervals hold the mean over audits in which something leaks."""
    found = [estimates(item) for _, item, _ in audited(setting, audits)]
    shown: dict[str, Any] = {}
    for name in METHODS:
        items = [one[name] for one in found if name in one]
        if len(items) < audits:
            continue
        mean = float(np.mean([item.value for item in items]))
        shown[name] = {
            "mean": mean,
            "standard deviation": float(np.std([item.value for item in items], ddof=1)),
            "half width": float(np.mean([item.high - item.low for item in items]) / 2),
            "covered": float(np.mean([item.low <= mean <= item.high for item in items])),
            "ends under it": float(np.mean([item.high < mean for item in items])),
            "bound at 0.01 above it": float(
                np.mean([bound_at(item, 0.01)[0] > mean for item in items])
            ),
        }
    return {"setting": asdict(setting), "audits": audits, "methods": shown}


def detect(
    providers: int, metric: str, times: int, audits: int, seeds: int = N_SEEDS
) -> dict[str, Any]:
    """How often something planted is violated, and how often it passes.

    None where there is no room for it.
    """
    null = 0.0 if metric == CERTAIN else CHANCE
    truth = null + times * (LIMITS[metric] - null)
    violated = Counter[str]()
    passed = Counter[str]()
    for seed in range(audits):
        rng = np.random.default_rng([seed, providers, times, len(metric)])
        found = measured(
            leaking(simulated(Setting(providers), rng), metric, truth, rng), rng, seeds
        )
        overall, outcomes = decided(found)
        violated.update([metric] * (outcomes[metric][0] == "violated"), any=overall == "violated")
        passed.update([metric] * (outcomes[metric][0] == "passed"), all=overall == "passed")
    return {
        "providers": providers,
        "metric": metric,
        "times the excess of the limit": times,
        "truth": truth,
        "audits": audits,
        "violated": violated[metric] / audits,
        "any limit violated": violated["any"] / audits,
        "passed": passed[metric] / audits,
        "all limits passed": passed["all"] / audits,
    }


def find(providers: int, leak: float, audits: int) -> dict[str, Any]:
    """How often a planted leak is found, how often that was predicted, and how often intervals hold the truth."""
    normal = NormalDist()
    truth = {"balanced_accuracy.azk": normal.cdf(leak / 2), "auc": normal.cdf(leak / math.sqrt(2))}
    found = Counter[str]()
    covered = Counter[str]()
    for seed in range(audits):
        rng = np.random.default_rng([seed, providers, round(100 * leak), 1])
        table = planted(providers, leak, rng)
        calls = zero_knowledge(table.features["accuracy"], table.features["similarity"], seed=0)
        for name, interval in _intervals(table, Inference({"azk": calls[None]}, None, {}), rng):
            found[name] += interval.p_above(CHANCE) <= ALPHA
            covered[name] += interval.low <= truth[name] <= interval.high
    half = providers // 2
    predicted = {
        "balanced_accuracy.azk": accuracy_power(half, truth["balanced_accuracy.azk"]),
        "auc": area_power(half, truth["auc"]),
    }
    return {
        "providers": providers,
        "leak": leak,
        "audits": audits,
        "truth": truth,
        "found": {name: found[name] / audits for name in truth},
        "predicted": predicted,
        "covered": {name: covered[name] / audits for name in truth},
    }


def accuracy_power(n: int, effect: float) -> float:
    """Compute the chance that a balanced accuracy over `n` units a side is confirmed above chance."""
    shares = np.arange(n + 1) / n
    chances = binom.pmf(np.arange(n + 1), n, effect)
    reach = shares - [
        beta_bounds(float(share), np.float64(n), np.array([ALPHA]))[0][0] for share in shares
    ]
    lower = np.add.outer(shares, shares) / 2 - np.hypot.outer(reach, reach) / 2
    return float(np.outer(chances, chances)[lower > CHANCE].sum())


def area_power(n: int, effect: float) -> float:
    """Return the power to confirm a true AUC of `effect` above chance, `n` units a side.

    It never falls as the AUC grows, though the normal approximation does near 1 with few units:
    beyond the largest chance the effect that has it is taken.
    """
    effects = [one for one in np.arange(50, 100) / 100 if one < effect]
    return max(_area_chance(n, float(one)) for one in (*effects, effect))


def _area_chance(n: int, effect: float) -> float:
    """Return the power to confirm that a true AUC of `effect` is above chance."""
    grid = ndtri((np.arange(999) + 0.5) / 999)
    spread = float(np.var(ndtr(grid + np.sqrt(2) * ndtri(effect))))  # of the placements of one side
    error = (
        (effect * (1 - effect) - 2 * spread + 2 * n * spread) ** 0.5 / n / (effect * (1 - effect))
    )
    return float(ndtr((logit(effect) - logit(CHANCE)) / error + stdtrit(2 * (n - 1), ALPHA)))


def _intervals(
    table: ProviderTable, inference: Inference, rng: np.random.Generator
) -> Iterator[tuple[str, Interval]]:
    """The estimates of a planted table."""
    found = measure_accuracy(inference.calls["azk"], table.member, rng)
    assert found is not None
    assert table.user is not None
    yield "balanced_accuracy.azk", found
    yield "auc", auc_interval(table.user[table.member], table.user[~table.member])


N_LEAK_FREE = 1000
SETTINGS = {
    "no leak, 45 + 45 providers": Setting(providers=90),
    "no leak, 100 + 100 providers": Setting(providers=200),
    "no leak, 250 + 250 providers": Setting(providers=500),
    "no leak, 80 + 80 providers, 3 documents in and 1.3 out": Setting(
        providers=160, documents=(3.0, 1.3), seeds=10
    ),
    "no leak, 80 + 80 providers, 6 documents in and 3 out": Setting(
        providers=160, documents=(6.0, 3.0), seeds=10
    ),
}
"""Kinds of leak-free audits."""
UNEQUAL = [name for name, setting in SETTINGS.items() if len(set(setting.documents)) > 1]
"""Providers that are in have other numbers of documents than those that are out, which the attack cuts to match; fewer
seeds save time."""
LEAKS = {
    "leak 0.8, 45 + 45 providers": (Setting(providers=90, leak=0.8), 150),
    "leak 1.3, 45 + 45 providers": (Setting(providers=90, leak=1.3), 150),
    "leak 0.8, 150 + 150 providers": (Setting(providers=300, leak=0.8), 80),
}
DETECTED = (
    *((size, metric, 2) for size in (90, 200) for metric in ("balanced_accuracy", "auc")),
    *((size, CERTAIN, times) for size in (200, 500) for times in (2, 4)),
)
"""Providers, metric, and times the excess of the limit; four times that of an AUC or a balanced
accuracy is over 1."""
N_DETECTED = 25
N_PLANTED = 400
MOVED = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
SIZES = (72, 160, 600)
"""Providers of an audit with a planted leak; 72 is SROIE by company."""


def main() -> None:
    """Simulate every setting, write the counts and draw them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--times", type=float, default=1.0, help="so many times the audits of each kind"
    )
    parser.add_argument(
        "--planted", action="store_true", help="the planted leaks anew as well; else as they were"
    )
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    before = (
        json.loads(options.out.read_text(encoding="utf-8")).get("planted", [])
        if options.out.exists()
        else []
    )
    began = time.process_time()

    def many(audits: int) -> int:
        """Return how many audits to draw, scaled by --times, at least 2."""
        return max(2, round(float(options.times) * audits))

    report: dict[str, Any] = {
        "machine": MACHINE,
        "date": options.date,
        "no leak": {},
        "leak": {},
        "detection": [],
    }
    for name, setting in SETTINGS.items():
        report["no leak"][name] = found = simulate(setting, many(N_LEAK_FREE))
        print(name, found["violated"], found["alarms"], flush=True)
    for name, (setting, audits) in LEAKS.items():
        report["leak"][name] = covered = cover(setting, many(audits))
        print(name, covered["methods"].get("balanced_accuracy.apk"), flush=True)
    for size, metric, times in DETECTED:
        report["detection"].append(detect(size, metric, times, many(N_DETECTED)))
        print(report["detection"][-1], flush=True)
    if options.planted or not before:
        before = [find(size, leak, many(N_PLANTED)) for size in SIZES for leak in MOVED]
    report["planted"] = before
    report["processor seconds"] = round(time.process_time() - began)
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    draw(report, options.out.with_suffix(".svg"))


def draw(report: dict[str, Any], path: Path) -> None:
    """False alarms by metric, and how often a planted leak was found beside the prediction."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "docaudit", "font.size": 8})
    import matplotlib.pyplot as plt

    figure, (alarms, areas, accuracies) = plt.subplots(
        1, 3, figsize=(12, 3.6), layout="constrained"
    )
    settings = report["no leak"]
    names = sorted({name for found in settings.values() for name in found["alarms"]})
    for place, (label, found) in enumerate(settings.items()):
        shares = [100 * found["alarms"].get(name, 0) / found["audits"] for name in names]
        alarms.barh(
            np.arange(len(names)) + 0.16 * (place - 2),
            shares,
            0.15,
            label=f"{label} ({found['audits']})",
        )
    alarms.set_yticks(range(len(names)), names)
    alarms.axvline(100 * ALPHA, color="black", linestyle="--", label="5 %")
    alarms.set_xlabel("false alarms, % of audits")
    alarms.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.3, 1.0))
    for axes, metric, words in (
        (areas, "auc", "AUC of user inference"),
        (accuracies, "balanced_accuracy.azk", "balanced accuracy of AZK"),
    ):
        for size in SIZES:
            rows = [row for row in report["planted"] if row["providers"] == size]
            truth = [row["truth"][metric] for row in rows]
            (line,) = axes.plot(
                truth,
                [row["predicted"][metric] for row in rows],
                label=f"{size} providers, predicted",
            )
            axes.plot(
                truth,
                [row["found"][metric] for row in rows],
                "o",
                color=line.get_color(),
                label="found",
            )
        axes.set_xlabel(f"true {words}")
        axes.set_ylabel("share of audits that find it")
        axes.set_ylim(0, 1.02)
        axes.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
