"""False alarms and detection of what redaction audits limit of the text.

Method: methods/redaction-context.md and methods/index.md#limits-and-methods.

No classifier is trained. What is simulated is what one says of hidden values: of a share of them it
says the truth (as many as are told, which differs from document to document), of the others what it
draws by the mix of the categories, or the commonest, whatever the truth. Documents hold unequal
numbers of values and mixes of their own. The prior, the intervals and the bounds are the attack's
own.

A violation is confirmed where the one-sided bound at 0.05 lies above the limit, and a limit is
passed where the whole 95 % interval is within it.

    python -m benchmarks.calibration.redaction_calibration  # writes redaction_calibration.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from audit.attacks.redaction.attack import Predictions, lift_share_of, worst_class_of
from audit.attacks.redaction.contexts import Samples
from audit.measurements import Estimate

LIMITS = {"lift_share": 0.20, "worst_class": 0.30}
"""Those of the default policy."""
MEASURED = {"lift_share": lift_share_of, "worst_class": worst_class_of}
ALPHA = 0.05
FOLDS = 5
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (methods/index.md#limits-and-methods)."""
EIGHT = (0.30, 0.18, 0.14, 0.12, 0.10, 0.07, 0.05, 0.04)
LOPSIDED = (0.93, 0.07)


@dataclass(frozen=True)
class Setting:
    """One kind of audit.

    Attributes:
        mix: how common each category is.
        told: the share of values whose category the text tells: by 0, `LIMITS` times this.
        rarest_only: whether only values of the rarest category are told.
        draws: whether what is not told is drawn by the mix; otherwise it is called by the commonest
            category.
        documents: how many.
        values: of a document, on average.
    """

    mix: tuple[float, ...] = EIGHT
    told: float = 0.0
    rarest_only: bool = False
    draws: bool = False
    documents: int = 100
    values: int = 8


def simulated(setting: Setting, told: float, rng: np.random.Generator) -> Predictions:
    """What is said in one audit of a text that tells so much."""
    mix = np.array(setting.mix)
    # One document in twenty is five times as long.
    sizes = 1 + rng.poisson(setting.values - 1, setting.documents) * rng.choice(
        [1, 5], setting.documents, p=[0.95, 0.05]
    )
    documents = np.repeat(np.arange(setting.documents), sizes)
    mixes = np.cumsum(rng.dirichlet(10 * mix, setting.documents), axis=1)
    classes = np.sum(rng.random(documents.size)[:, None] > mixes[documents, :-1], axis=1)
    # Beta of variance told (1 - told) / 6: values of one document go together.
    shares = (
        np.full(setting.documents, told)
        if told in (0, 1)
        else rng.beta(5 * told, 5 * (1 - told), setting.documents)
    )
    known = rng.random(documents.size) < shares[documents]
    if setting.rarest_only:
        known &= classes == mix.size - 1
    blind = (
        rng.choice(mix.size, documents.size, p=mix)
        if setting.draws
        else np.zeros(documents.size, np.int64)
    )
    predicted = np.where(known, classes, blind)
    folds = documents % FOLDS
    prior = np.zeros(documents.size, np.int64)
    for number in range(FOLDS):
        prior[folds == number] = np.bincount(classes[folds != number]).argmax()
    samples = Samples((), (), classes, documents, folds)
    return Predictions(samples, predicted, length=prior, prior=prior)


def decided(setting: Setting, audits: int) -> dict[str, dict[str, int]]:
    """How many of so many audits confirm a violation of each limit, and how many pass it."""
    found: dict[str, Counter[str]] = {name: Counter(confirmed=0, passed=0) for name in LIMITS}
    for seed in range(audits):
        for name, limit in LIMITS.items():
            rng = np.random.default_rng([seed, len(setting.mix), setting.documents])
            measured = MEASURED[name](simulated(setting, setting.told * limit, rng))
            if isinstance(measured, Estimate):
                lower = next(bound.lower for bound in measured.bounds if bound.alpha == ALPHA)
                found[name].update(
                    {"confirmed": int(lower > limit), "passed": int(measured.high <= limit)}
                )
    return {name: dict(counts) for name, counts in found.items()}


MIXES = {"eight kinds": Setting(), "93 in 100 of one kind": Setting(mix=LOPSIDED, values=12)}


def list_settings() -> dict[str, Setting]:
    """List the kinds of audits by what is said of them."""
    settings = {}
    for mix, setting in MIXES.items():
        settings[f"{mix}, nothing told, drawn by the mix"] = replace(setting, draws=True)
        settings[f"{mix}, nothing told, the commonest said"] = setting
        settings[f"{mix}, told at the limit"] = replace(setting, told=1.0)
        settings[f"{mix}, told at twice the limit"] = replace(setting, told=2.0)
    rarest = Setting(told=1.0, rarest_only=True)
    settings["eight kinds, the rarest told at the limit"] = rarest
    settings["eight kinds, the rarest told at twice the limit"] = replace(rarest, told=2.0)
    return settings


SETTINGS = list_settings()


def main() -> None:
    """Simulate every setting and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    found = {}
    for name, setting in SETTINGS.items():
        counts = decided(setting, options.audits)
        found[name] = {
            "setting": asdict(setting),
            "audits": options.audits,
            "limits": LIMITS,
            "decided": counts,
        }
        print(f"{name}: {counts}", flush=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
