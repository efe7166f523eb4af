"""False alarms, power and verdicts of the membership scores on simulated audits.

Method: methods/document-membership.md and methods/index.md#limits-and-methods.

No model is trained. What is simulated is what models say of documents: the logit confidence of
document i under model m is difficulty_i + quality_m + leak * (m was trained on i) + noise, all
Gaussian. Scores, intervals and bounds are the attack's own. An alarm is a one-sided bound, at 0.05,
above what no leak gives; without a leak it is a false one.

Verdicts are those of the policy's own code on three limits: AUC, the advantage at the lowest
false-positive rate, and the count of documents that are known for certain. Each is held against all
scores that an audit can have, and the check of certain documents keeps them from passing. In some a
share of the members is known for certain to every score, the others not at all: what an AUC hardly
shows.

    # writes membership_calibration.json; 9 minutes
    python -m benchmarks.calibration.membership_calibration
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.attacks.measuring import DOCUMENTS as COUNT
from audit.attacks.membership.scores import FLOOR, LIMITED, counted_scores
from audit.attacks.score_figures import LOW, ScoreComparison
from audit.cards import CorpusCard, Environment, TargetCard, Timing
from audit.measurements import Estimate, Measurement
from audit.policy import Limit, Policy, evaluate, load
from audit.record import AuditRecord, Result
from audit.stats.estimates import estimate
from audit.stats.likelihood_ratio import lira_offline, lira_online, sides
from audit.stats.ranking import count_outranking
from audit.stats.roc import auc_interval, low_advantage, tpr_at_fpr

ALPHA = 0.05
RATE = 0.1
NO_LEAK = {"auc": 0.5, LOW: 0.0, COUNT: 0.0, "tpr_at_fpr_10": RATE}
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (methods/index.md#limits-and-methods)."""


@dataclass(frozen=True)
class Setting:
    """One kind of audit.

    Attributes:
        documents: of each split.
        split_models: K.
        online: whether held-out documents are in half of the split models too; False: as `docaudit
            train-splits` does.
        leak: what training on a document adds to its logit confidence, in units of the noise; 0:
            nothing.
        known: share of the members that the target is certain of, besides.
    """

    documents: int = 150
    split_models: int = 8
    online: bool = False
    leak: float = 0.0
    known: float = 0.0


CERTAIN = 30.0
"""Logit confidence that a document known for certain has more than others."""


def scores_of(setting: Setting, rng: np.random.Generator) -> dict[str, tuple[Floats, Floats]]:
    """The scores of members and of held-out documents in one simulated audit, by name."""
    n = setting.documents
    total = 2 * setting.documents
    member = np.arange(total) < n
    drawn = np.ones(total, bool) if setting.online else member
    trained = np.zeros((total, setting.split_models), bool)
    # Each document in exactly half of the models.
    order = rng.permuted(np.tile(np.arange(setting.split_models), (int(drawn.sum()), 1)), axis=1)
    trained[drawn] = order < setting.split_models // 2
    difficulty = rng.normal(0, 2, total)

    def logits(knows: npt.NDArray[np.bool_]) -> Floats:
        """Draw a logit for each model and document, higher by the leak where it is known."""
        quality = rng.normal(0, 0.3, knows.shape[1])
        noise: Floats = rng.normal(0, 1, knows.shape) + quality
        return noise + difficulty[:, None] + setting.leak * knows

    target, baseline = (logits(column[:, None])[:, 0] for column in (member, np.zeros(total, bool)))
    target[:n] += CERTAIN * (rng.random(n) < setting.known)
    models = logits(trained)

    def confidence(values: Floats) -> Floats:
        """Return the probabilities of logits."""
        return np.asarray(1 / (1 + np.exp(-values)), np.float64)

    def loss(values: Floats) -> Floats:
        """Return the losses of logits, at least `FLOOR`."""
        return np.maximum(FLOOR, np.logaddexp(0, -values))

    inside, outside = sides(models, trained)
    assert outside is not None
    own = target
    found = {
        "loss": confidence(own),
        "calibrated": np.log(confidence(own) / confidence(baseline)),
        "ratio": np.log(loss(baseline)) - np.log(loss(own)),
        "lira": lira_offline(own, outside) if inside is None else lira_online(own, inside, outside),
    }
    return {name: (column[:n], column[n:]) for name, column in found.items()}


def alarms_of(setting: Setting, seed: int) -> set[str]:
    """The metrics of one audit whose bound at 0.05 lies above what no leak gives."""
    rng = np.random.default_rng([seed, setting.documents, setting.split_models, setting.online])
    alarms = set()
    everything = scores_of(setting, rng)
    advantages = []
    for score, (members, heldout) in everything.items():
        tpr = tpr_at_fpr(members, heldout, RATE, rng)
        found = {"auc": auc_interval(members, heldout)}
        found[COUNT] = count_outranking(members, heldout)
        low = low_advantage(members, heldout)
        if low is not None:
            found[LOW] = low.advantage
            advantages.append(estimate(LOW, low.advantage, "documents", 0.0, "chance"))
        if tpr is not None:
            found["tpr_at_fpr_10"] = tpr
        alarms |= {
            f"{what}.{score}"
            for what, interval in found.items()
            if interval.p_above(NO_LEAK[what]) <= ALPHA
        }
    (check,) = DOCUMENTS.check_certain([*everything.values()], advantages)
    return alarms | ({check.name} if check.p_value <= ALPHA else set())


def share_of_alarms(setting: Setting, audits: int) -> dict[str, int]:
    """How many of so many audits raise an alarm, by metric."""
    counts = Counter(name for seed in range(audits) for name in alarms_of(setting, seed))
    return dict(sorted(counts.items()))


DOCUMENTS = ScoreComparison("document", "held-out documents", ("member", "held-out"))


def limits_of(policy: str) -> tuple[Limit, ...]:
    """Return the limits of a shipped policy on membership, without its conditions on power and coverage."""
    limits = [limit for limit in load(policy).limits if limit.attack == "membership"]
    return tuple(replace(limit, min_power=None, min_coverage=None) for limit in limits)


def bounds_of(policy: str) -> dict[str, dict[str, float | None]]:
    """Return what the limits of a shipped policy on membership allow, by metric, for the file of results."""
    return {
        limit.metric: {"max": limit.max, "share": limit.share, "floor": limit.floor}
        for limit in limits_of(policy)
    }


OF_DEFAULT = {limit.metric: limit for limit in limits_of("default")}
LIMITS: dict[str, tuple[Limit, ...]] = {
    "default": tuple(OF_DEFAULT.values()),
    **{f"default, {metric}": (limit,) for metric, limit in OF_DEFAULT.items()},
    "strict": limits_of("strict"),
    "auc alone": (OF_DEFAULT["auc"],),
}
"""The limits that verdicts are about, by what they are called; "auc alone" of the primary score is what was limited
before."""
REFERENCED = ("loss", "calibrated")
EVERY = (*REFERENCED, "lira")
"""The scores that an audit has: with a reference, and with split models besides."""


def verdicts_of(setting: Setting, scores: Sequence[str], audits: int) -> dict[str, dict[str, int]]:
    """How many of so many audits are passed, undecided and violated, by limits."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in LIMITS}
    for seed in range(audits):
        result = completed(
            scores_of(setting, np.random.default_rng([seed, setting.documents, 1])), scores
        )
        for name, limits in LIMITS.items():
            record = record_of(
                replace(result, methods={}, checks=()) if name == "auc alone" else result
            )
            counts[name][
                evaluate(record, Policy(1, name, limits), dt.date(2026, 1, 1)).overall
            ] += 1
    return {name: dict(sorted(found.items())) for name, found in counts.items()}


def completed(found: dict[str, tuple[Floats, Floats]], scores: Sequence[str]) -> Result:
    """An audit's result; the primary score is the calibrated loss."""
    measurements: list[Measurement] = []
    advantages: list[Measurement] = []
    for score in scores:
        low = low_advantage(*found[score])
        assert low is not None
        area = estimate(f"auc.{score}", auc_interval(*found[score]), "documents", 0.5, "chance")
        advantages.append(estimate(f"{LOW}.{score}", low.advantage, "documents", 0.0, "chance"))
        measurements += [area, advantages[-1]]
    counted = counted_scores(scores)
    measurements += [
        DOCUMENTS.count_certain(f"{COUNT}.{score}", found[score], len(found[score][0]))
        for score in counted
    ]
    checks = DOCUMENTS.check_certain([found[score] for score in counted], advantages)
    measurements += [
        replace(item, name=item.name.removesuffix(".calibrated"))
        for item in measurements
        if item.name.endswith(".calibrated")
    ]
    methods = {
        name: tuple(f"{name}.{score}" for score in (counted if name == COUNT else scores))
        for name in LIMITED
    }
    return Result("membership", measurements=tuple(measurements), methods=methods, checks=checks)


def record_of(result: Result) -> AuditRecord:
    """A record around it, of a model that does its task."""
    card = TargetCard("simulated", "", "mlm", "", 0, 0, 512, "0" * 64, "cpu", "float32")
    useful = Estimate("masked_tokens", 0.6, 0.5, 0.7, 100, "pages", 100, "simulated", 0.1, "chance")
    return AuditRecord(
        schema_version=2,
        target=card,
        corpus=CorpusCard("simulated", "0" * 64, "mlm", "random", {"member": 1}, {}, 0, 0),
        references=(),
        budget="standard",
        share=1.0,
        seed=0,
        battery=("membership",),
        attacks=(result,),
        utility=(useful,),
        environment=Environment("", "", "", "", 1, {}),
        timing=Timing("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00", 0.0),
    )


SETTINGS = {
    "no leak, 150 + 150 documents, offline": Setting(),
    "no leak, 150 + 150 documents, online": Setting(online=True),
    "no leak, 40 + 40 documents, offline": Setting(documents=40, split_models=4),
    "leak of half a deviation, offline": Setting(leak=0.5),
    "leak of half a deviation, online": Setting(leak=0.5, online=True),
    "leak of one deviation, offline": Setting(leak=1.0),
}


VERDICTS = {
    f"{documents} + {documents} documents, {kind}": (
        Setting(documents=documents, known=known),
        scores,
    )
    for documents in (150, 300, 1000)
    for kind, known, scores in (
        ("no leak, two scores", 0.0, REFERENCED),
        ("no leak, three scores", 0.0, EVERY),
        ("a fifth known for certain", 0.2, REFERENCED),
        ("two fifths known for certain", 0.4, REFERENCED),
    )
}
VERDICTS |= {
    f"{documents} + {documents} documents, {known:.0%} known for certain": (
        Setting(documents, known=known),
        REFERENCED,
    )
    for documents, known in ((300, 0.05), (300, 0.1), (1000, 0.03))
}


def main() -> None:
    """Simulate every setting and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        counts = share_of_alarms(setting, options.audits)
        found[name] = {"setting": asdict(setting), "audits": options.audits, "alarms": counts}
        kind = (
            "at most 5 %"
            if setting.leak or max(counts.values(), default=0) <= ALLOWED
            else "too many"
        )
        print(f"{name}: {counts}" + ("" if setting.leak else f" ({kind})"), flush=True)
    for name, (setting, scores) in VERDICTS.items():
        judged = verdicts_of(setting, scores, options.audits)
        found[name] = {
            "setting": asdict(setting),
            "scores": scores,
            "audits": options.audits,
            "verdicts": judged,
        }
        print(f"{name}: {judged}", flush=True)
    report = {
        "machine": "2-core CPU",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor seconds": round(time.process_time()),
        "limits": {policy: bounds_of(policy) for policy in ("default", "strict")},
        "settings": found,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
