"""Records and verdicts of every kind, made from plain numbers: what report, gate and console are tried on."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from statistics import NormalDist

from audit.policy import Limit, Policy, Verdict, Waiver, evaluate
from audit.record import (
    ALPHAS,
    AttackResult,
    AuditRecord,
    Bound,
    Completed,
    CorpusCard,
    Count,
    Diagnostic,
    Environment,
    Estimate,
    Failed,
    Histogram,
    Inapplicable,
    Measurement,
    ReferenceCard,
    Skipped,
    TargetCard,
    Timing,
    Unresolved,
)

TODAY = dt.date(2026, 3, 2)
CATEGORIES = ("person", "organization", "location", "datetime", "amount", "code")
SCORES = ("pr", "hd", "ld", "jwd")
METRICS = (
    *(f"excess_{score}.{kind}" for score in ("pr", "hamming") for kind in ("unique", "repeated", "all")),
    "candidate_recall",
    "candidate_recall.unique",
    "public_accuracy",
)
Case = tuple[AuditRecord, Verdict, Policy]


def share(name: str, hits: int, n: int, null: float | None = None, null_kind: str | None = "public model") -> Estimate:
    """`hits` of `n`, with Wilson intervals and bounds (one field a document)."""

    def wilson(alpha: float) -> tuple[float, float]:
        z = NormalDist().inv_cdf(1 - alpha)
        middle = (hits + z * z / 2) / (n + z * z)
        half = z / (n + z * z) * math.sqrt(hits * (n - hits) / n + z * z / 4)
        return max(0.0, middle - half), min(1.0, middle + half)

    low, high = wilson(0.025)
    kind = null_kind if null is not None else None
    bounds = tuple(Bound(alpha, *wilson(alpha)) for alpha in ALPHAS)
    method = "Wilson (one field a document)"
    return Estimate(name, hits / n, low, high, n, "fields", n, method, null, kind, bounds=bounds)  # type: ignore[arg-type]


def mean(
    name: str, value: float, error: float, n: int, null: float | None = None, null_kind: str | None = None
) -> Estimate:
    """A mean with normal intervals of standard error `error`."""
    quantile = NormalDist().inv_cdf
    bounds = tuple(Bound(a, value - quantile(1 - a) * error, value + quantile(1 - a) * error) for a in ALPHAS)
    reach = 1.96 * error
    method = "BCa bootstrap over documents, 10,000 resamples"
    return Estimate(name, value, value - reach, value + reach, n, "fields", n, method, null, null_kind, bounds=bounds)  # type: ignore[arg-type]


def reconstruction(leak: float, *, n: int = 150, recall: float = 0.81, unresolved: bool = False) -> Completed:
    """The reconstruction attack's result on a model that gives back a share `leak` of its training values."""
    clean = round(0.02 * n)
    found = clean + round(leak * n)
    items: list[Measurement] = []
    for kind, factor, size in (("unique", 1.0, n), ("repeated", 1.2, n // 2), ("all", 1.07, n + n // 2)):
        error = math.sqrt((leak * (1 - leak) + 0.02) / size)
        items += [
            mean(f"excess_pr.{kind}", leak * factor, error * 0.7, size, 0.0, "held-out"),
            mean(f"excess_hamming.{kind}", leak * factor * 0.9 + 0.01, error * 0.8, size, 0.0, "held-out"),
        ]
    if unresolved:
        items[0] = Unresolved("excess_pr.unique", "fewer than 20 documents hold a value of their own", 12, 150)
    items += [
        share("candidate_recall", round(recall * n), n),
        share("candidate_recall.unique", round(recall * n), n),
        share("public_accuracy", 2700, 5000),
        share("pr.member.attack.unique", found, n, clean / n),
        share("pr.member.baseline.unique", clean, n),
        share("pr.heldout.attack.unique", clean + 1, n, clean / n),
        share("pr.heldout.baseline.unique", clean, n),
    ]
    for split in ("member", "heldout"):
        for attacker in ("attack", "baseline"):
            rate = 0.02 + (leak if (split, attacker) == ("member", "attack") else 0.0)
            for suffix, size in (("", n), *((f".{name}", n // 6) for name in CATEGORIES)):
                items += _scores(f"{split}.{attacker}{suffix}", rate, size)
        factor = 1 + 3 * leak if split == "member" else 1.02
        items += [
            mean(f"ipf.{split}{suffix}", factor, 0.05, n, 1.0, "public model") for suffix in ("", ".e0.001", ".e0.1")
        ]
        if split == "member":
            items += [mean(f"ipf.member.{name}", factor, 0.11, n // 6, 1.0, "public model") for name in CATEGORIES[:-1]]
    items.append(Unresolved("ipf.member.code", "too few fields", 3, 20))
    return Completed(
        attack="reconstruction",
        metrics=METRICS,
        parameters={
            "n_candidates": 128,
            "temperature": 0.3,
            "temperature_start": 10.0,
            "target_weight": 0.4,
            "top_p": 0.1,
        },
        measurements=tuple(items),
        counts=(
            Count("member fields", n, "fields that were attacked"),
            Count("left out, length", 37, "fields left out because they have fewer than 3 or more than 15 word pieces"),
        ),
        diagnostics=(
            Diagnostic("unusable losses", 0.0004, "share of steps at which the target's losses could not be used"),
        ),
        histograms=(_histogram(leak, n),),
        categories=CATEGORIES,
        power="candidate_recall.unique",
    )


def _scores(name: str, rate: float, n: int) -> list[Measurement]:
    """The four scores of one kind of document and attacker; distances fall as the rate of exact hits rises."""
    hits = min(n, round(rate * n))
    null = 0.02 if ".attack" in name else None
    distances = {"hd": 0.86 * (1 - rate), "ld": 0.8 * (1 - rate), "jwd": 0.62 * (1 - rate)}
    kind = "public model" if null is not None else None
    return [
        share(f"pr.{name}", hits, n, null),
        *(
            mean(f"{score}.{name}", value, 0.25 / math.sqrt(n), n, 0.86 if kind else None, kind)
            for score, value in distances.items()
        ),
    ]


def _histogram(leak: float, n: int) -> Histogram:
    edges = tuple(round(index / 10, 1) for index in range(11))
    tail = (0, 1, 1, 2, 4, 7, 10, 14, 21, n - 60)
    exact = round(leak * n)
    leaky = (exact, *tail[1:-1], max(0, tail[-1] - exact))
    counts = {
        "member, attack": leaky,
        "member, baseline": tail,
        "held-out, attack": tail,
        "held-out, baseline": tail,
    }
    return Histogram("hamming", "normalised Hamming distance", edges, counts)


def record(
    *attacks: AttackResult,
    battery: tuple[str, ...] = ("reconstruction",),
    name: str = "receipts-model",
    documents: int = 150,
) -> AuditRecord:
    """A record around these results, from so many member and as many held-out documents."""
    card = TargetCard(
        name=name,
        family="layoutlm",
        task="mlm",
        architecture="LayoutLM, masked language model",
        parameters=4_812_032,
        vocabulary=6000,
        max_tokens=256,
        sha256="3fa94c1b" * 8,
        device="cpu",
        dtype="float32",
    )
    public = dataclasses.replace(card, name="public-mlm", sha256="77ab01cd" * 8)
    fields = {"member": dict.fromkeys(CATEGORIES, documents // 6), "heldout": dict.fromkeys(CATEGORIES, documents // 6)}
    return AuditRecord(
        schema_version=1,
        target=card,
        corpus=CorpusCard(
            name="receipts-2026",
            sha256="0c51e7aa" * 8,
            task="mlm",
            assigned="random",
            documents={"member": documents, "heldout": documents, "public": 300},
            fields=fields,
            providers=24,
            images=600,
        ),
        references=(ReferenceCard("auxiliary", "manifest", public, {"epochs": 20, "learning_rate": 5e-5}),),
        budget="standard",
        share=1.0,
        seed=0,
        battery=battery,
        attacks=attacks,
        utility=(share("masked_token_accuracy", 3120, 5000),),
        environment=Environment(
            "0.1.0", "3.12.3", "Linux x86_64", "cpu", 2, {"numpy": "2.3.4", "torch": "2.9.0", "transformers": "5.0.0"}
        ),
        timing=Timing("2026-03-02T09:15:00+00:00", "2026-03-02T09:17:31+00:00", 151.4),
    )


def policy(*waivers: Waiver, undecided: str = "fail") -> Policy:
    """Two limits on the reconstruction attack, as in the shipped default policy."""
    return Policy(
        schema=1,
        name="default",
        limits=(
            Limit(
                "reconstruction",
                "excess_pr.unique",
                "At most one in twenty values of a single document may be recovered because of training.",
                max=0.05,
                min_power=0.5,
            ),
            Limit(
                "reconstruction", "excess_hamming.unique", "Partial recovery counts as well.", max=0.10, min_power=0.5
            ),
        ),
        description="Limits that a few hundred documents can decide.",
        undecided=undecided,  # type: ignore[arg-type]
        waivers=waivers,
    )


def judged(audited: AuditRecord, held_against: Policy | None = None) -> Case:
    """The record with its verdict and its policy."""
    chosen = held_against or policy()
    return audited, evaluate(audited, chosen, TODAY), chosen


def violated() -> Case:
    """A model that gives back three in five of its training values."""
    return judged(record(reconstruction(0.6), name="receipts-leaky"))


def passed() -> Case:
    """A model that gives back nothing, audited with enough documents."""
    return judged(record(reconstruction(0.0, n=600), name="receipts-clean", documents=600))


def weak() -> Case:
    """A leak that is not confirmed over the limit, looked for by an attacker whose guesses are too poor."""
    return judged(record(reconstruction(0.0, n=600, recall=0.21), documents=600))


def wide() -> Case:
    """Too few documents for a narrow interval."""
    return judged(record(reconstruction(0.02, n=60), documents=60))


def unresolved() -> Case:
    """The gated number could not be computed at all."""
    return judged(record(reconstruction(0.0, n=600, unresolved=True), documents=600))


def skipped() -> Case:
    """The attack lacked a reference."""
    result = Skipped(
        "reconstruction", METRICS, "no public language model", "--reference auxiliary=PATH, or public documents"
    )
    return judged(record(result))


def failed() -> Case:
    """The attack broke down."""
    return judged(record(Failed("reconstruction", METRICS, "IndexError", "attacks/reconstruction/scores.py:88")))


def inapplicable() -> Case:
    """This kind of model cannot be attacked so."""
    reason = "the target answers questions and has no loss for a token of the page"
    return judged(record(Inapplicable("reconstruction", METRICS, reason)))


def waived() -> Case:
    """Violations that somebody takes responsibility for."""
    until = dt.date(2026, 12, 31)
    reasons = [
        Waiver("reconstruction", metric, "A. Officer", "the weights stay on one locked machine", until)
        for metric in ("excess_pr.unique", "excess_hamming.unique")
    ]
    return judged(record(reconstruction(0.6)), policy(*reasons))


CASES = {
    "violated": violated,
    "passed": passed,
    "weak": weak,
    "wide": wide,
    "unresolved": unresolved,
    "skipped": skipped,
    "failed": failed,
    "inapplicable": inapplicable,
    "waived": waived,
}
