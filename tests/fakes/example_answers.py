"""Results of the memorisation and the membership attack, made from plain numbers, and records around them."""

import dataclasses

from example_records import Case, judged, mean, record, share

from audit.measurements import (
    Count,
    Curve,
    CurvePoint,
    Estimate,
    Histogram,
    Measurement,
    Unresolved,
)
from audit.policy import Limit, Policy
from audit.record import AuditRecord, Result

CONTEXTS = {"decoy": 0.8, "no_text": 0.05, "paraphrased": 0.5, "brightness_130": 0.9}
"""What is left of the leak in each context."""
N = 150
GUESSED = 20
CHANCE = 6
"""Questions that one of two models answers and the other does not, without any memory."""


def memorisation(memorised: int = 63, *, n: int = N, confounded: str | None = None) -> Result:
    """The attack's result on a model that remembers `memorised` of `n` answers, and guesses as well as its baseline."""
    items: list[Measurement] = [
        *_compared("", memorised, n),
        *_compared(".heldout", 0, n),
        *(
            mean(f"net.{kind}", by * memorised / n, 0.04, n // 2)
            for kind, by in (("unique", 1), ("repeated", 0.9))
        ),
        *(
            mean(f"net.{name}", round(by * memorised) / n, 0.03, n, 0.0, "held-out")
            for name, by in CONTEXTS.items()
        ),
        Unresolved("net.heldout.decoy", "fewer than two documents have such questions", 1, 20),
        share("anls.heldout.target", 81, n),
        mean("net.discoverable", memorised / n, 0.03, n, 0.02, "held-out"),
    ]
    own = (
        dataclasses.replace(item, unit="questions") if isinstance(item, Estimate) else item
        for item in items
    )
    return Result(
        "memorisation",
        parameters={"contexts": ["exact", *CONTEXTS], "n_samples": 100, "min_probability": 0.5},
        measurements=tuple(own),
        counts=(
            Count("unproven", 4, "questions whose answer was removed without proof, counted apart"),
        ),
        confounded=confounded,
    )


def _compared(split: str, memorised: int, n: int) -> list[Measurement]:
    """E, G and net of one split."""
    documents = split or ".member"
    return [
        mean(f"net{split}", memorised / n, 0.03, n, 0.0, "held-out"),
        share(
            f"extracted{documents}",
            GUESSED + CHANCE + memorised,
            n,
            (GUESSED + CHANCE) / n,
            "public model",
        ),
        share(f"baseline_extracted{documents}", GUESSED + CHANCE, n),
    ]


SCORES = {"loss": 0.66, "calibrated": 0.78, "lira": 0.81}


def membership(gain: float = 1.0, *, n: int = 300, confounded: str | None = None) -> Result:
    """The attack's result; `gain` 0 is a model that gives nothing away."""
    items: list[Measurement] = [
        _auc("auc", 0.5 + gain * 0.28, n),
        _found("tpr_at_fpr_10", 0.1 + gain * 0.32, n),
    ]
    for name, auc in SCORES.items():
        items += [
            _auc(f"auc.{name}", 0.5 + gain * (auc - 0.5), n),
            Unresolved(
                f"low_fpr_advantage.{name}", "too few: so few documents never seen", n // 2, 368
            ),
        ]
    points = tuple(
        CurvePoint(x, y, max(0.0, y - 0.07), min(1.0, y + 0.07), n)
        for x in (index / 20 for index in range(21))
        for y in (x ** (1 / (1 + 2.5 * gain)),)
    )
    counts: dict[str, tuple[int, ...]] = {"member": (5, 40, 60, 45), "held-out": (40, 65, 35, 10)}
    return Result(
        "membership",
        parameters={"n_masks": 14},
        measurements=tuple(items),
        histograms=(
            Histogram("primary_score", "calibrated loss, nats", (-2, -1, 0, 1, 2), counts),
        ),
        curves=(Curve("roc", "false alarms", "found", {"members against held-out": points}),),
        confounded=confounded,
    )


def _auc(name: str, value: float, n: int) -> Estimate:
    return dataclasses.replace(mean(name, value, 0.03, n, 0.5, "chance"), unit="documents")


def _found(name: str, value: float, n: int) -> Estimate:
    return dataclasses.replace(share(name, round(value * n), n, 0.1, "chance"), unit="documents")


LIMITS = (
    Limit("memorisation", "net", "At most one answer in twenty may come from memory.", max=0.05),
    Limit("membership", "auc", "An attacker must not do much better than guessing.", max=0.6),
)


def answering(*results: Result, name: str = "receipts-questions", anls: int = 81) -> AuditRecord:
    """A record of a model that answers questions."""
    audited = record(*results, battery=("reconstruction", "memorisation", "membership"), name=name)
    target = dataclasses.replace(
        audited.target, family="donut", task="question-answering", architecture="Donut"
    )
    return dataclasses.replace(audited, target=target, utility=(share("anls", anls, N),))


def held(audited: AuditRecord) -> Case:
    """The record held against a limit on each attack."""
    return judged(
        audited,
        Policy(1, "default", LIMITS, description="Limits for models that answer questions."),
    )


def leaky() -> Case:
    """A model that remembers two answers in five."""
    return held(answering(memorisation(), membership()))


def clean() -> Case:
    """A model that remembers nothing, with questions enough to say so."""
    return held(answering(memorisation(0, n=1500), membership(0.0)))


def confounded() -> Case:
    """Numbers that something else than memory can explain."""
    reason = "the baseline answers complete pages 7.3 points worse than the model (ANLS), more than the 2 allowed"
    blind = "documents trained on and never seen can be told apart without the model (blind AUC 0.81, p = 0.002)"
    return held(answering(memorisation(confounded=reason), membership(confounded=blind)))


CASES = {"leaky": leaky, "clean": clean, "confounded": confounded}
