"""False alarms and power of the membership scores on simulated audits (METHODS.md, sections 3b and 6; issue 4, item 7).

No model is trained. What is simulated is what models say of documents: the logit confidence of document i under model
m is difficulty_i + quality_m + leak * (m was trained on i) + noise, all Gaussian; adapting the target to a document
takes the fewer steps, and the shorter way, the more confident it is. Scores, intervals and bounds are the attack's own.
An alarm is a one-sided bound, at 0.05, above what no leak gives; without a leak it is a false one.

    python benchmarks/membership_calibration.py            # writes benchmarks/membership_calibration.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from audit.attacks.membership.scores import cluster
from audit.stats.likelihood_ratio import lira_offline, lira_online, marginal, rmia, sides
from audit.stats.roc import auc_interval, tpr_at_fpr

Floats = npt.NDArray[np.float64]
ALPHA = 0.05
RATE = 0.1
NO_LEAK = {"auc": 0.5, "tpr_at_fpr_10": RATE}
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (METHODS.md, section 6)."""


@dataclass(frozen=True)
class Setting:
    """One kind of audit.

    Attributes:
        documents: of each split.
        split_models: K.
        public: documents that RMIA compares with.
        online: whether held-out documents are in half of the split models too; False: as `docaudit train-splits` does.
        leak: what training on a document adds to its logit confidence, in units of the noise; 0: nothing.
    """

    documents: int = 150
    split_models: int = 8
    public: int = 100
    online: bool = False
    leak: float = 0.0


def scores_of(setting: Setting, rng: np.random.Generator) -> dict[str, tuple[Floats, Floats]]:
    """The scores of members and of held-out documents in one simulated audit, by name."""
    n, total = setting.documents, 2 * setting.documents + setting.public
    member, scored = np.arange(total) < n, np.arange(total) < 2 * n
    drawn = scored if setting.online else member
    trained = np.zeros((total, setting.split_models), bool)
    # Each document in exactly half of the models.
    order = rng.permuted(np.tile(np.arange(setting.split_models), (int(drawn.sum()), 1)), axis=1)
    trained[drawn] = order < setting.split_models // 2
    difficulty = rng.normal(0, 2, total)

    def logits(knows: npt.NDArray[np.bool_]) -> Floats:
        quality = rng.normal(0, 0.3, knows.shape[1])
        noise: Floats = rng.normal(0, 1, knows.shape) + quality
        return noise + difficulty[:, None] + setting.leak * knows

    target, baseline = (logits(column[:, None])[:, 0] for column in (member, np.zeros(total, bool)))
    models = logits(trained)

    def confidence(values: Floats) -> Floats:
        return np.asarray(1 / (1 + np.exp(-values)), np.float64)

    inside, outside = sides(models[scored], trained[scored])
    assert outside is not None
    within, without = sides(confidence(models[scored]), trained[scored])
    _, public = sides(confidence(models[~scored]), trained[~scored])
    assert without is not None
    assert public is not None
    own = target[scored]
    steps = np.exp(3 - 0.3 * own + rng.normal(0, 0.5, 2 * n)).round() + 1
    right = np.clip(0.6 + 0.1 * own + rng.normal(0, 0.2, 2 * n), 0, 1)
    features = np.column_stack([0.1 * steps**0.8 * rng.lognormal(0, 0.2, 2 * n), steps, right, np.ones(2 * n)])
    found = {
        "loss": confidence(own),
        "calibrated": np.log(confidence(own) / confidence(baseline[scored])),
        "lira": lira_offline(own, outside) if inside is None else lira_online(own, inside, outside),
        "rmia": rmia(confidence(own), marginal(within, without), confidence(target[~scored]), marginal(None, public)),
        "docmia": cluster(features),
    }
    return {name: (column[:n], column[n:]) for name, column in found.items()}


def alarms_of(setting: Setting, seed: int) -> set[str]:
    """The metrics of one audit whose bound at 0.05 lies above what no leak gives."""
    rng = np.random.default_rng([seed, setting.documents, setting.split_models, setting.online])
    alarms = set()
    for score, (members, heldout) in scores_of(setting, rng).items():
        point = tpr_at_fpr(members, heldout, RATE, rng, alphas=(ALPHA,))
        found = {"auc": auc_interval(members, heldout, alphas=(ALPHA,))}
        if point is not None:
            found["tpr_at_fpr_10"] = point.tpr
        alarms |= {f"{what}.{score}" for what, interval in found.items() if interval.bounds[0][1] > NO_LEAK[what]}
    return alarms


def share_of_alarms(setting: Setting, audits: int) -> dict[str, int]:
    """How many of so many audits raise an alarm, by metric."""
    counts = Counter(name for seed in range(audits) for name in alarms_of(setting, seed))
    return dict(sorted(counts.items()))


SETTINGS = {
    "no leak, 150 + 150 documents, offline": Setting(),
    "no leak, 150 + 150 documents, online": Setting(online=True),
    "no leak, 40 + 40 documents, offline": Setting(documents=40, split_models=4),
    "leak of half a deviation, offline": Setting(leak=0.5),
    "leak of half a deviation, online": Setting(leak=0.5, online=True),
    "leak of one deviation, offline": Setting(leak=1.0),
}


def main() -> None:
    """Simulate every setting and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    found = {}
    for name, setting in SETTINGS.items():
        counts = share_of_alarms(setting, options.audits)
        found[name] = {"setting": asdict(setting), "audits": options.audits, "alarms": counts}
        kind = "at most 5 %" if setting.leak or max(counts.values(), default=0) <= ALLOWED else "too many"
        print(f"{name}: {counts}" + ("" if setting.leak else f" ({kind})"), flush=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
