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
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from audit.attacks.provider_membership.clustering import zero_knowledge
from audit.attacks.provider_membership.forest import SHARE
from audit.attacks.provider_membership.inference import Inference, infer, says_nothing
from audit.attacks.provider_membership.intervals import accuracy, forest_area
from audit.attacks.provider_membership.matching import IN, OUT
from audit.attacks.provider_membership.outcomes import table_of
from audit.attacks.provider_membership.permuting import permuted_accuracies
from audit.attacks.provider_membership.table import Table
from audit.engine.interface import SILENT, Trial
from audit.stats.intervals import Interval
from audit.stats.power import power
from audit.stats.roc import auc_interval

Floats = npt.NDArray[np.float64]
ALPHA = 0.05
CHANCE = 0.5
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (METHODS.md, section 6)."""
N_SEEDS = 25
"""Of APK's training shares, as in a scan."""
N_PERMUTATIONS = 199
"""So many make a p of at most 0.05 as likely as 0.05 where nothing leaks."""


@dataclass(frozen=True)
class Setting:
    """One kind of audit.

    Attributes:
        providers: half of them in training, on average.
        spread: of the providers' ease, in units of a document's.
        documents: kept-aside documents of a provider that is in, and of one that is out, on average; where they differ
            a provider has one and a Poisson number besides, else evenly one to six.
        seeds: of APK's training shares.
    """

    providers: int = 600
    spread: float = 1.0
    documents: tuple[float, float] = (3.5, 3.5)
    seeds: int = N_SEEDS


def leak_free(setting: Setting, rng: np.random.Generator) -> Table:
    """What an attack compares where training on some providers taught the model nothing of these."""
    return table_of(*answered(setting, rng))


def answered(setting: Setting, rng: np.random.Generator) -> tuple[list[Trial], list[Any]]:
    """What such a model says of each provider: trials and outcomes."""
    n = setting.providers
    member = rng.random(n) < 0.5
    ease = rng.normal(1, setting.spread, n)
    n_documents = rng.integers(1, 7, n)
    if len(set(setting.documents)) > 1:
        n_documents = 1 + rng.poisson(np.where(member, *setting.documents) - 1)
    owner = np.repeat(np.arange(n), n_documents)
    per_document = rng.integers(1, 5, owner.size)
    of_document = ease[owner] + rng.normal(0, 1, owner.size)
    document = np.arange(owner.size).repeat(per_document)
    logit = of_document[document] + rng.normal(0, 1, document.size)
    before = logit - 1 + rng.normal(0, 0.7, document.size)
    right = (rng.random(document.size) < _confidence(logit)).astype(float)
    partly = np.where(rng.random(document.size) < 0.3, rng.uniform(0.5, 1, document.size), 0.0)
    remembered = rng.random(document.size) < 0.06 * _confidence(logit)
    rows = {
        "loss": np.log1p(np.exp(-logit)),
        "confidence": _confidence(logit),
        "accuracy": right,
        "similarity": np.maximum(right, partly),
        "memory_similarity": remembered * rng.uniform(0.5, 1, document.size),
    }
    known = {"loss": np.log1p(np.exp(-before)), "confidence": _confidence(before)}
    changes = np.clip(rng.normal(0.5, 0.3, owner.size), 0, 1)
    said = [{**one, "pretrained": past} for one, past in zip(_records(rows), _records(known), strict=True)]
    asked = iter(said)
    outcomes: list[Any] = [{"documents": []} for _ in range(n)]
    for number, (provider, n_questions, change) in enumerate(zip(owner, per_document, changes.tolist(), strict=True)):
        questions = list(islice(asked, int(n_questions)))
        found = {"id": f"document {number}", "questions": questions, "memory_change": change, "absent": []}
        outcomes[provider]["documents"].append(found)
    names = [f"provider {number:04d}" for number in range(n)]
    trials = [Trial(name, name, IN if inside else OUT) for name, inside in zip(names, member, strict=True)]
    return trials, outcomes


def _records(columns: dict[str, Floats]) -> list[dict[str, float]]:
    return [dict(zip(columns, row, strict=True)) for row in np.column_stack([*columns.values()]).tolist()]


def planted(providers: int, leak: float, rng: np.random.Generator) -> Table:
    """Providers of whom training on them moves accuracy and user inference by `leak` deviations; half are members."""
    member = rng.permutation(np.arange(providers) < providers // 2)
    moved, user = (rng.normal(0, 1, providers) + leak * member for _ in range(2))
    ones = np.ones(providers, np.int64)
    names = tuple(f"provider {number:04d}" for number in range(providers))
    return Table(names, member, 5 * ones, ones, {"accuracy": moved, "similarity": np.zeros(providers)}, user)


def _confidence(logit: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logit)), np.float64)


def intervals_of(table: Table, inference: Inference, rng: np.random.Generator) -> Iterator[tuple[str, Interval]]:
    """The estimates of an audit, with what no leak gives 0.5 for."""
    for method, calls in inference.calls.items():
        found = None if says_nothing(calls) else accuracy(calls, table.member, rng, (ALPHA,))
        if found is not None:
            yield f"balanced_accuracy.{method}", found
    assert table.user is not None
    yield "auc", auc_interval(table.user[table.member], table.user[~table.member], alphas=(ALPHA,), unit="provider")
    if inference.probabilities is not None:
        area = forest_area(inference.probabilities, table.member, (ALPHA,))
        if area is not None:
            yield "auc.apk", area


def simulate(setting: Setting, audits: int) -> dict[str, Any]:
    """Alarms, covered truths and mean values over leak-free audits."""
    alarms, covered = Counter[str](), Counter[str]()
    values: dict[str, list[float]] = {}
    for seed in range(audits):
        rng = np.random.default_rng([seed, setting.providers, *map(round, setting.documents)])
        table = leak_free(setting, rng)
        inference = infer(table, SILENT, n_seeds=setting.seeds, share=SHARE)
        for name, interval in intervals_of(table, inference, rng):
            alarms[name] += interval.bounds[0][1] > CHANCE
            covered[name] += interval.low <= CHANCE <= interval.high
            values.setdefault(name, []).append(interval.value)
        alarms.update(_found_by_permuting(table, inference, rng))
        if seed % 100 == 99:
            print(setting, seed + 1, dict(alarms), dict(covered), flush=True)
    return {
        "setting": asdict(setting),
        "audits": audits,
        "seeds": setting.seeds,
        "alarms": dict(sorted(alarms.items())),
        "permutations": N_PERMUTATIONS,
        "two-sided 95 % intervals that hold 0.5": dict(sorted(covered.items())),
        "mean": {name: float(np.mean(found)) for name, found in sorted(values.items())},
        "standard deviation": {name: float(np.std(found)) for name, found in sorted(values.items())},
    }


def _found_by_permuting(table: Table, inference: Inference, rng: np.random.Generator) -> dict[str, int]:
    null = permuted_accuracies(inference, table.member, rng, SILENT, n_permutations=N_PERMUTATIONS)
    return {f"permutation_p.{method}": int(one.p_value <= ALPHA) for method, one in null.items()}


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
    "no leak, 80 + 80 providers, 3 documents in and 1.3 out": Setting(providers=160, documents=(3.0, 1.3), seeds=10),
    "no leak, 80 + 80 providers, 6 documents in and 3 out": Setting(providers=160, documents=(6.0, 3.0), seeds=10),
}
UNEQUAL = [name for name, setting in SETTINGS.items() if len(set(setting.documents)) > 1]
"""Providers that are in have other numbers of documents than those that are out, which the attack cuts to match; fewer
seeds save time."""
LEAKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
SIZES = (72, 160, 600)
"""Providers of an audit with a planted leak; 72 is SROIE by company."""


def main() -> None:
    """Simulate every setting, write the counts and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--planted", type=int, default=400, help="audits for each planted leak and size")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", choices=("all", "unequal"), default="all", help="unequal: the rest stays as it was")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    before = json.loads(options.out.read_text(encoding="utf-8")) if options.only == "unequal" else {"no leak": {}}
    chosen = UNEQUAL if options.only == "unequal" else [*SETTINGS]
    with ProcessPoolExecutor(options.jobs) as workers:
        leak_free_ones = {name: workers.submit(simulate, SETTINGS[name], options.audits) for name in chosen}
        sizes = SIZES if options.only == "all" else ()
        planted_ones = [workers.submit(find, size, leak, options.planted) for size in sizes for leak in LEAKS]
        report: dict[str, Any] = {
            "allowed of 1,000": ALLOWED,
            "no leak": before["no leak"] | {name: one.result() for name, one in leak_free_ones.items()},
            "planted": before.get("planted", []) + [one.result() for one in planted_ones],
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
        alarms.barh(np.arange(len(names)) + 0.2 * (place - 1.5), shares, 0.18, label=label)
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
