"""Results of the provider membership attack, made from plain numbers, and records around them."""

import dataclasses
import json
from pathlib import Path

from example_answers import answering, memorisation
from example_numbers import PROVIDER_COUNTS, PROVIDER_EVIDENCE
from example_records import Case, judged, mean

from audit.measurements import (
    Count,
    Curve,
    CurvePoint,
    Diagnostic,
    Estimate,
    Histogram,
    Measurement,
    Unresolved,
)
from audit.policy import Limit, Policy
from audit.record import Result

METHODS = {"azk": 0.12, "apk": 0.2, "azk_ensemble": 0.15, "apk_ensemble": 0.22}
"""What each attack gains over guessing on the leaky model, all providers together."""
FEATURES = {"loss": 0.2, "memory_similarity": 0.07}
BLOCKS = {"words": 0.03, "layout": 0.01, "image": 0.0, "metadata": 0.04, "together": 0.02}
"""How far the blind check's classifiers stay behind the best of them."""
N = 600
NAMES = tuple(f"Zylkander {letter} & Söhne" for letter in "ABCDEFGHIJKL")
"""Invented companies: they may stand in `evidence/` only."""
NO_REFERENCE = "no checkpoint from before fine-tuning to compare the losses with"
TELLING = (
    "providers trained on and providers not trained on differ even without the model (AUC 0.71 [0.66, 0.75], "
    "p = 0.002), best by how their images look: what an attacker finds may be that difference, not the training"
)


def providers(
    gain: float = 1.0,
    *,
    n: int = N,
    blind: float = 0.52,
    p: float = 0.43,
    power: float = 0.97,
    reference: bool = True,
    confounded: str | None = None,
) -> Result:
    """The attack's result; `gain` 0 is a model that gives nothing away."""
    primary = "apk" if reference else "azk"
    roc = {"APK": line(0.8 * gain, n)}
    if reference:
        roc = {"user inference": line(gain, n), **roc}
    items: list[Measurement] = [right("balanced_accuracy", gain * METHODS[primary], n)]
    for name, lead in METHODS.items():
        items.append(right(f"balanced_accuracy.{name}", gain * lead, n))
    items.append(area("auc", 0.24 * gain, n) if reference else Unresolved("auc", NO_REFERENCE, 0))
    resolved = {"": reference, ".loss": True, ".memory_similarity": True}
    for suffix, known in resolved.items():
        name = f"low_fpr_advantage{suffix}"
        items.append(advantage(name, 0.3 * gain, n) if known else Unresolved(name, NO_REFERENCE, 0))
    items.append(area("auc.apk", 0.23 * gain, n))
    items += [area(f"auc.{name}", lead * gain, n) for name, lead in FEATURES.items()]
    asked = _of_providers(mean("questions_a_provider", 8.0, 0.5, n))
    items.append(dataclasses.replace(asked, null=None, null_kind=None))
    items.append(dataclasses.replace(area("blind_auc", blind - 0.5, n), null=0.53))
    counted = zip(PROVIDER_COUNTS.items(), (n // 2, n - n // 2, 8 * n, 12, 0), strict=True)
    heights = {"providers in": (20, 60, 120, 100), "providers out": (90, 110, 70, 30)}
    return Result(
        "provider_membership",
        parameters={"n_seeds": 5, "share": 0.15},
        measurements=tuple(items),
        counts=tuple(Count(name, value, meaning) for (name, meaning), value in counted),
        diagnostics=(
            Diagnostic("low_fpr", 0.1, "the false-positive rate of low_fpr_advantage"),
            Diagnostic("blind_p", p, "share of shuffled runs"),
            Diagnostic("blind_power", power, "chance to find an AUC of 0.65"),
            *(
                Diagnostic(f"blind_auc.{name}", blind - lead, "AUC")
                for name, lead in BLOCKS.items()
            ),
        ),
        histograms=(
            Histogram(
                "primary_score", "probability of being a member", (0, 0.25, 0.5, 0.75, 1), heights
            ),
        ),
        curves=(Curve("roc", "false alarms", "found", roc),),
        ablations=() if reference else (NO_REFERENCE,),
        confounded=confounded,
    )


def right(name: str, lead: float, n: int) -> Estimate:
    """A balanced accuracy; null: guessing."""
    return _of_providers(mean(name, 0.5 + lead, 0.5 / n**0.5, n, 0.5, "chance"))


def area(name: str, lead: float, n: int) -> Estimate:
    """An AUC; null: guessing."""
    return _of_providers(mean(name, 0.5 + lead, 0.55 / n**0.5, n, 0.5, "chance"))


def advantage(name: str, value: float, n: int) -> Estimate:
    """True-positive rate minus false-positive rate at a low one; null: nothing."""
    return _of_providers(mean(name, value, 0.9 / n**0.5, n // 2, 0.0, "chance"))


def _of_providers(item: Estimate) -> Estimate:
    return dataclasses.replace(
        item, unit="providers", method=item.method.replace("documents", "providers")
    )


def line(gain: float, n: int) -> tuple[CurvePoint, ...]:
    """A ROC curve; the diagonal without a gain."""
    return tuple(
        CurvePoint(x, y, max(0.0, y - 0.06), min(1.0, y + 0.06), n)
        for x in (index / 20 for index in range(21))
        for y in (x ** (1 / (1 + 2 * gain)),)
    )


LIMIT = Limit(
    "provider_membership",
    "balanced_accuracy",
    "An attacker must not do much better than guessing.",
    max=0.6,
)


def held(*results: Result, limit: Limit = LIMIT) -> Case:
    """A record of a model that answers questions about invoices of many providers, held against one limit."""
    audited = answering(*results, name="invoices")
    corpus = dataclasses.replace(
        audited.corpus, assigned="by-provider", providers=N, questions={"heldout": 8 * N}
    )
    battery = ("reconstruction", "memorisation", "membership", "provider_membership")
    audited = dataclasses.replace(audited, corpus=corpus, battery=battery)
    described = "A limit for models trained on many providers."
    return judged(audited, Policy(1, "providers", (limit,), description=described))


def leaky() -> Case:
    """A model that tells whose documents it was trained on, and remembers answers."""
    return held(providers(), memorisation())


def clean() -> Case:
    """A model that gives nothing away, with providers enough to say so."""
    return held(providers(0.0, n=1600))


def few() -> Case:
    """Too few providers, for the attack and for the blind check."""
    return held(providers(0.35, n=72, power=0.46))


def confounded() -> Case:
    """Providers that differ in themselves."""
    return held(providers(0.8, blind=0.71, p=0.002, confounded=TELLING))


def unreferenced() -> Case:
    """No model from before fine-tuning."""
    return held(providers(0.0, n=1600, reference=False))


def unresolved() -> Case:
    """So few providers that there is no number at all."""
    gap = Unresolved(
        "balanced_accuracy", "fewer than 10 providers in training, or out of it", 11, 40
    )
    result = providers(0.35, n=72)
    kept = tuple(item for item in result.measurements if item.name != gap.name)
    return held(dataclasses.replace(result, measurements=(gap, *kept)))


CASES = {case.__name__: case for case in (leaky, clean, few, confounded, unreferenced, unresolved)}


def write_evidence(out: Path) -> None:
    """The lines that the attack writes to the owner's evidence, one a provider."""
    rows = [
        {
            **PROVIDER_EVIDENCE,
            **{
                "name": name,
                "spellings": [name, name.upper()],
                "training": "in" if place < 9 else "out",
            },
            "scores": {"score.apk": 0.97 - 0.03 * place, "score.user": 0.1},
            "ranks": {"accuracy": 1, "score.apk": place + 1, "score.user": 5},
        }
        for place, name in reversed([*enumerate(NAMES)])
    ]
    (out / "evidence").mkdir(mode=0o700)
    (out / "evidence" / "recovered.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
