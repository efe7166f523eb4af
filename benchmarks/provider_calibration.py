"""False alarms and power of provider membership on simulated audits (METHODS.md, sections 3 and 6; issue 5, item 2).

No model is trained. What is simulated is what models say of providers: every provider has an ease of its own, every
document and question one on top, and with few documents and questions a provider's means scatter more. Membership is
the toss of a coin. The attacks, intervals, bounds and permutations are the attack's own. An alarm is a one-sided bound,
at 0.05, above what no leak gives, or a permutation p of at most 0.05; without a leak it is a false one.

For the power, a provider's accuracy and its user inference are Gaussian, and a leak moves those of members by a known
number of deviations: the best threshold on the first then has the balanced accuracy Phi(leak / 2), the second the AUC
Phi(leak / sqrt(2)), and `audit.stats.power` says how often so many providers should show it.

    python benchmarks/provider_calibration.py    # writes benchmarks/provider_calibration.json and .svg
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from audit.attacks.provider_membership.clustering import zero_knowledge
from audit.attacks.provider_membership.forest import SHARE
from audit.attacks.provider_membership.inference import UNLABELLED, Inference, accuracy, forest_area, infer, mean_known
from audit.attacks.provider_membership.permuting import balanced, p_value, permuted_accuracies
from audit.attacks.provider_membership.table import Table
from audit.engine.interface import SILENT
from audit.stats.intervals import Interval
from audit.stats.power import power
from audit.stats.roc import auc_interval

Floats = npt.NDArray[np.float64]
ALPHA = 0.05
CHANCE = 0.5
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (METHODS.md, section 6)."""
N_SEEDS = 5
"""Of K-means and of APK's training shares, as in a scan."""
N_PERMUTATIONS = 199
"""For the methods that look at no label: so many make a p of at most 0.05 as likely as 0.05 where nothing leaks."""
N_REFITTED = 19
"""For APK, which is fitted anew under each permutation: the fewest that do."""


@dataclass(frozen=True)
class Setting:
    """One kind of audit.

    Attributes:
        providers: half of them in training, on average.
        spread: of the providers' ease, in units of a document's.
    """

    providers: int = 600
    spread: float = 1.0


def leak_free(setting: Setting, rng: np.random.Generator) -> Table:
    """What models say of providers when training on some taught them nothing of these."""
    n = setting.providers
    ease = rng.normal(1, setting.spread, n)
    n_documents = rng.integers(1, 7, n)
    owner = np.repeat(np.arange(n), n_documents)
    per_document = rng.integers(1, 5, owner.size)
    of_document = ease[owner] + rng.normal(0, 1, owner.size)
    asked, document = owner.repeat(per_document), np.arange(owner.size).repeat(per_document)
    logit = of_document[document] + rng.normal(0, 1, asked.size)
    before = logit - 1 + rng.normal(0, 0.7, asked.size)
    right = (rng.random(asked.size) < _confidence(logit)).astype(float)
    partly = np.where(rng.random(asked.size) < 0.3, rng.uniform(0.5, 1, asked.size), 0.0)
    loss, loss_before = np.log1p(np.exp(-logit)), np.log1p(np.exp(-before))
    rows = {
        "accuracy": right,
        "similarity": np.maximum(right, partly),
        "loss": loss,
        "confidence": _confidence(logit),
        "loss_change": np.abs(loss - loss_before),
        "confidence_change": np.abs(_confidence(logit) - _confidence(before)),
        "memory_similarity": (rng.random(asked.size) < 0.06 * _confidence(logit)) * rng.uniform(0.5, 1, asked.size),
    }
    features = {name: _means(row, asked, n) for name, row in rows.items()}
    features["memory_change"] = _means(np.clip(rng.normal(0.5, 0.3, owner.size), 0, 1), owner, n)
    gained = _means(loss_before - loss, document, owner.size)
    questions = np.bincount(asked, minlength=n)
    return _table(rng.random(n) < 0.5, features, _means(gained, owner, n), questions, n_documents)


def planted(providers: int, leak: float, rng: np.random.Generator) -> Table:
    """Providers of whom training on them moves accuracy and user inference by `leak` deviations; half are members."""
    member = rng.permutation(np.arange(providers) < providers // 2)
    moved, user = (rng.normal(0, 1, providers) + leak * member for _ in range(2))
    ones = np.ones(providers, np.int64)
    return _table(member, {"accuracy": moved, "similarity": np.zeros(providers)}, user, 5 * ones, ones)


def _table(
    member: npt.NDArray[np.bool_],
    features: dict[str, Floats],
    user: Floats,
    questions: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],
) -> Table:
    names = tuple(f"provider {number:04d}" for number in range(member.size))
    return Table(names, member, questions, documents, features, user)


def _confidence(logit: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logit)), np.float64)


def _means(rows: Floats, groups: npt.NDArray[np.int64], n: int) -> Floats:
    return np.bincount(groups, rows, minlength=n) / np.bincount(groups, minlength=n)


def intervals_of(table: Table, inference: Inference, rng: np.random.Generator) -> Iterator[tuple[str, Interval]]:
    """The estimates of an audit, with what no leak gives 0.5 for."""
    for method, calls in inference.calls.items():
        found = accuracy(calls, table.member, rng, (ALPHA,))
        assert found is not None
        yield f"balanced_accuracy.{method}", found
    assert table.user is not None
    yield "auc", auc_interval(table.user[table.member], table.user[~table.member], alphas=(ALPHA,), unit="provider")
    area = forest_area(inference, table.member, (ALPHA,))
    if area is not None:
        yield "auc.apk", area


def simulate(setting: Setting, audits: int, refitted: int) -> dict[str, Any]:
    """Alarms, covered truths and mean values over leak-free audits; in the first `refitted` APK's p is computed too."""
    alarms, covered, refitted_alarms = Counter[str](), Counter[str](), Counter[str]()
    values: dict[str, list[float]] = {}
    for seed in range(audits):
        rng = np.random.default_rng([seed, setting.providers])
        table = leak_free(setting, rng)
        inference = infer(table, SILENT, n_seeds=N_SEEDS, share=SHARE)
        for name, interval in intervals_of(table, inference, rng):
            alarms[name] += interval.bounds[0][1] > CHANCE
            covered[name] += interval.low <= CHANCE <= interval.high
            values.setdefault(name, []).append(interval.value)
        unlabelled = replace(inference, calls={method: inference.calls[method] for method in UNLABELLED})
        alarms.update(_found_by_permuting(table, unlabelled, rng, N_PERMUTATIONS))
        if seed < refitted:
            refitted_alarms.update(_found_by_permuting(table, inference, rng, N_REFITTED))
        if seed % 100 == 99:
            print(setting.providers, seed + 1, dict(alarms), dict(refitted_alarms), dict(covered), flush=True)
    return {
        "setting": asdict(setting),
        "audits": audits,
        "seeds": N_SEEDS,
        "alarms": dict(sorted(alarms.items())),
        "audits with APK refitted to permuted labels": refitted,
        "permutations of these": N_REFITTED,
        "alarms of these": {name: n for name, n in sorted(refitted_alarms.items()) if ".apk" in name},
        "two-sided 95 % intervals that hold 0.5": dict(sorted(covered.items())),
        "mean": {name: float(np.mean(found)) for name, found in sorted(values.items())},
        "standard deviation": {name: float(np.std(found)) for name, found in sorted(values.items())},
    }


def _found_by_permuting(table: Table, inference: Inference, rng: np.random.Generator, n: int) -> dict[str, int]:
    null = permuted_accuracies(table, inference, rng, SILENT, n_permutations=n, share=SHARE)
    found = {}
    for method, values in null.items():
        observed = balanced(mean_known(inference.calls[method]), table.member)
        found[f"permutation_p.{method}"] = int(p_value(observed, values) <= ALPHA)
    return found


def find(providers: int, leak: float, audits: int) -> dict[str, Any]:
    """How often a planted leak is found, how often that was predicted, and how often intervals hold the truth."""
    normal = NormalDist()
    truth = {"balanced_accuracy.azk": normal.cdf(leak / 2), "auc": normal.cdf(leak / math.sqrt(2))}
    found, covered = Counter[str](), Counter[str]()
    for seed in range(audits):
        rng = np.random.default_rng([seed, providers, round(100 * leak), 1])
        table = planted(providers, leak, rng)
        calls = zero_knowledge(table.features["accuracy"], table.features["similarity"], seed=0)
        for name, interval in intervals_of(table, Inference({"azk": calls[None]}, None, {}, {}), rng):
            found[name] += interval.bounds[0][1] > CHANCE
            covered[name] += interval.low <= truth[name] <= interval.high
    half = providers // 2
    predicted = {
        "balanced_accuracy.azk": power("balanced accuracy", half, half, truth["balanced_accuracy.azk"], CHANCE),
        "auc": power("auc", half, half, truth["auc"], CHANCE),
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


SETTINGS = {
    "no leak, 300 + 300 providers": Setting(),
    "no leak, 40 + 40 providers": Setting(providers=80),
}
REFITTED = {"no leak, 300 + 300 providers": 40, "no leak, 40 + 40 providers": 100}
"""Audits of each setting in which APK is fitted to permuted labels too; of all it would take a day."""
LEAKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
SIZES = (72, 160, 600)
"""Providers of an audit with a planted leak; 72 is SROIE by company."""


def main() -> None:
    """Simulate every setting, write the counts and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--planted", type=int, default=400, help="audits for each planted leak and size")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as workers:
        leak_free_ones = {
            name: workers.submit(simulate, setting, options.audits, REFITTED[name])
            for name, setting in SETTINGS.items()
        }
        planted_ones = [workers.submit(find, size, leak, options.planted) for size in SIZES for leak in LEAKS]
        report: dict[str, Any] = {
            "allowed of 1,000": ALLOWED,
            "no leak": {name: one.result() for name, one in leak_free_ones.items()},
            "planted": [one.result() for one in planted_ones],
        }
    for name, found in report["no leak"].items():
        kind = "at most 5 %" if max(found["alarms"].values()) <= ALLOWED else "too many"
        print(f"{name}: {found['alarms']} ({kind})")
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    draw(report, options.out.with_suffix(".svg"))


def draw(report: dict[str, Any], path: Path) -> None:
    """False alarms by metric, and how often a planted leak was found beside the prediction."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "docaudit", "font.size": 8})
    import matplotlib.pyplot as plt

    figure, (alarms, areas, accuracies) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    settings = report["no leak"]
    names = sorted({name for found in settings.values() for name in found["alarms"]})
    for place, (label, found) in enumerate(settings.items()):
        shares = [100 * found["alarms"].get(name, 0) / found["audits"] for name in names]
        alarms.barh(np.arange(len(names)) + 0.38 * (place - 0.5), shares, 0.36, label=label)
    alarms.set_yticks(range(len(names)), names)
    alarms.axvline(100 * ALLOWED / 1000, color="black", linestyle="--", label="allowed of 1,000")
    alarms.set_xlabel("false alarms, % of audits")
    alarms.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.3, 1.0))
    for axes, metric, words in (
        (areas, "auc", "AUC of user inference"),
        (accuracies, "balanced_accuracy.azk", "balanced accuracy of AZK"),
    ):
        for size in SIZES:
            rows = [row for row in report["planted"] if row["providers"] == size]
            truth = [row["truth"][metric] for row in rows]
            (line,) = axes.plot(truth, [row["predicted"][metric] for row in rows], label=f"{size} providers, predicted")
            axes.plot(truth, [row["found"][metric] for row in rows], "o", color=line.get_color(), label="found")
        axes.set_xlabel(f"true {words}")
        axes.set_ylabel("share of audits that find it")
        axes.set_ylim(0, 1.02)
        axes.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
