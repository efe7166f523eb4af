"""Records and verdicts of every kind, made from plain numbers: what report, gate and console are tried on."""

import dataclasses
import datetime as dt
import math
from statistics import NormalDist

import example_numbers

from audit import __version__
from audit.cards import CorpusCard, Environment, ReferenceCard, TargetCard, Timing
from audit.compare.defended import MeasuredDefense
from audit.measurements import (
    ALPHAS,
    Bound,
    Breakdown,
    Count,
    Diagnostic,
    Estimate,
    Group,
    Histogram,
    Measurement,
    PeopleCount,
    Share,
    Unresolved,
)
from audit.policy import Policy, Verdict, Waiver, evaluate
from audit.record import AuditRecord, Reason, Result

TODAY = dt.date(2026, 3, 2)
CATEGORIES = ("person", "organization", "location", "datetime", "amount", "code")
EXCESSES = (
    "excess_pr.unique",
    "excess_pr.repeated",
    "excess_pr.all",
    "excess_hamming.unique",
    "excess_hamming.all",
)
MULTISHOT = ("acc_at_5",)
SERIES = (("member", "attack"), ("member", "baseline"), ("heldout", "attack"))
Case = tuple[AuditRecord, Verdict, Policy]


def share(
    name: str, hits: int, n: int, null: float | None = None, null_kind: str | None = "public model"
) -> Estimate:
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
    name: str,
    value: float,
    error: float,
    n: int,
    null: float | None = None,
    null_kind: str | None = None,
) -> Estimate:
    """A mean with normal intervals of standard error `error`."""
    quantile = NormalDist().inv_cdf
    bounds = tuple(
        Bound(a, value - quantile(1 - a) * error, value + quantile(1 - a) * error) for a in ALPHAS
    )
    reach = quantile(0.975) * error
    method = "BCa bootstrap over documents, 10,000 resamples"
    return Estimate(
        name,
        value,
        value - reach,
        value + reach,
        n,
        "fields",
        n,
        method,
        null,
        null_kind,
        bounds=bounds,
    )  # type: ignore[arg-type]


def reconstruction(
    leak: float,
    *,
    n: int = 150,
    power: float = 0.81,
    unresolved: bool = False,
    distinct: float = 5.5,
) -> Result:
    """The reconstruction attack's result on a model that gives back a share `leak` of its training values.

    `distinct` attempts at a field differ (median), and the surest tenth of the fields is right
    three times as often.
    """
    clean = round(0.02 * n)
    found = clean + round(leak * n)
    items: list[Measurement] = []
    for kind, factor, size in (
        ("unique", 1.0, n),
        ("repeated", 1.2, n // 2),
        ("all", 1.07, n + n // 2),
    ):
        error = math.sqrt((leak * (1 - leak) + 0.02) / size)
        items.append(mean(f"excess_pr.{kind}", leak * factor, error * 0.7, size, 0.0, "held-out"))
        if kind != "repeated":
            similar = leak * factor * 0.9 + 0.01
            items.append(
                mean(f"excess_hamming.{kind}", similar, error * 0.8, size, 0.0, "held-out")
            )
    if unresolved:
        items[0] = Unresolved(
            "excess_pr.unique", "fewer than 20 documents hold a value of their own", 12, 150
        )
    items += [
        share("planted_detection.unique", round(power * n), n),
        mean("heldout_gain.unique", 0.01, 0.01, n),
        share("pr.member.attack.unique", found, n, clean / n),
        share("pr.member.baseline.unique", clean, n),
        share("pr.heldout.attack.unique", clean + 1, n, clean / n),
    ]
    for split, attacker in SERIES:
        rate = 0.02 + (leak if (split, attacker) == ("member", "attack") else 0.0)
        hits = min(n, round(rate * n))
        null = 0.02 if attacker == "attack" else None
        items.append(share(f"pr.{split}.{attacker}", hits, n, null))
    items += multishot(leak, n)
    too_long = "fields left out because they have fewer than 3 or more than 15 word pieces"
    differing = Diagnostic(
        "distinct attempts", distinct, "median number of different reconstructions of a field"
    )
    unusable = Diagnostic(
        "unusable losses", 0.0004, "share of steps at which the target's losses could not be used"
    )
    return Result(
        "reconstruction",
        parameters=dict(example_numbers.RECONSTRUCTION),
        measurements=tuple(items),
        counts=(
            Count("member fields", n, "fields that were attacked"),
            Count("left out, length", 37, too_long),
        ),
        diagnostics=(differing, unusable),
        histograms=(_histogram(leak, n),),
        power="planted_detection.unique",
    )


def gone(attack: str, status: str, kind: str, why: str, fix: str = "") -> Result:
    """An attack that gave no numbers."""
    return Result(attack, status=status, reason=Reason(kind, why, fix))  # type: ignore[arg-type]


def accuracy_at(leak: float, p: float) -> float:
    """AccAt(p) of an attacker who is right three times as often where it is sure."""
    return min(1.0, (0.02 + leak) * (1 + 2 * math.exp(-10 * p)))


def multishot(leak: float, n: int) -> list[Measurement]:
    """The multi-shot measurements of `reconstruction`."""
    items: list[Measurement] = []
    for split, player in SERIES:
        rate = leak if (split, player) == ("member", "attack") else 0.0
        size = math.ceil(0.05 * n)
        items.append(
            share(f"acc_at_5.{split}.{player}", round(accuracy_at(rate, 0.05) * size), size)
        )
    return items


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
    *attacks: Result,
    battery: tuple[str, ...] = ("reconstruction",),
    name: str = "receipts-model",
    documents: int = 150,
) -> AuditRecord:
    """A record around these results, from so many member and as many held-out documents."""
    card = TargetCard(name=name, sha256="3fa94c1b" * 8, **example_numbers.TARGET)
    public = dataclasses.replace(card, name="public-mlm", sha256="77ab01cd" * 8)
    fields = {
        "member": dict.fromkeys(CATEGORIES, documents // 6),
        "heldout": dict.fromkeys(CATEGORIES, documents // 6),
    }
    split = {"member": documents, "heldout": documents, "public": 300}
    versions = {"numpy": "2.3.4", "torch": "2.9.0", "transformers": "5.0.0"}
    return AuditRecord(
        schema_version=2,
        target=card,
        corpus=CorpusCard(
            sha256="0c51e7aa" * 8, documents=split, fields=fields, **example_numbers.CORPUS
        ),
        references=(
            ReferenceCard("auxiliary", "manifest", public, {"epochs": 20, "learning_rate": 5e-5}),
        ),
        budget="standard",
        share=1.0,
        seed=0,
        battery=battery,
        attacks=attacks,
        utility=(share("masked_token_accuracy", 3120, 5000),),
        environment=Environment("0.1.0", "3.12.3", "Linux x86_64", "cpu", 2, versions),
        timing=Timing("2026-03-02T09:15:00+00:00", "2026-03-02T09:17:31+00:00", 151.4),
    )


def policy(*waivers: Waiver, undecided: str = "fail") -> Policy:
    """Two limits on the reconstruction attack, as in the shipped default policy."""
    return Policy(
        schema=1,
        name="default",
        limits=tuple(example_numbers.LIMITS),
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
    return judged(record(reconstruction(0.0, n=600, power=0.02), documents=600))


def wide() -> Case:
    """Too few documents for a narrow interval."""
    return judged(record(reconstruction(0.02, n=60), documents=60))


def unresolved() -> Case:
    """The gated number could not be computed at all."""
    return judged(record(reconstruction(0.0, n=600, unresolved=True), documents=600))


def skipped() -> Case:
    """The attack lacked a reference."""
    fix = "--reference auxiliary=PATH, or public documents"
    return judged(
        record(gone("reconstruction", "skipped", "missing", "no public language model", fix))
    )


def failed() -> Case:
    """The attack broke down."""
    reason = "IndexError at attacks/reconstruction/scores.py:88"
    return judged(record(gone("reconstruction", "failed", "error", reason)))


def inapplicable() -> Case:
    """This kind of model cannot be attacked so."""
    reason = "the target answers questions and has no loss for a token of the page"
    return judged(record(gone("reconstruction", "inapplicable", "model", reason)))


def waived() -> Case:
    """Violations that somebody takes responsibility for."""
    said = (
        "A. Officer",
        "head of data",
        "the weights stay here",
        "one locked machine",
        dt.date(2026, 12, 31),
    )
    reasons = [
        Waiver("reconstruction", metric, *said)
        for metric in ("excess_pr.unique", "excess_hamming.unique")
    ]
    return judged(record(reconstruction(0.6)), policy(*reasons))


def one_shot() -> Case:
    """A record of a version that made one attempt at every field: it has no number of several attempts."""
    result = reconstruction(0.6)
    single = dataclasses.replace(
        result,
        measurements=tuple(
            item for item in result.measurements if not item.name.startswith(MULTISHOT)
        ),
        diagnostics=result.diagnostics[1:],
        curves=(),
        parameters={
            name: value for name, value in result.parameters.items() if name != "n_attempts"
        },
    )
    return judged(record(single))


def equals_one_shot() -> Case:
    """Several attempts that are all the same."""
    return judged(record(reconstruction(0.6, distinct=1.0)))


def comparison(name: str, **changes: object) -> MeasuredDefense:
    """What a countermeasure was measured to do to the model of `violated`."""
    record, _, _ = violated()
    made = MeasuredDefense(
        3, __version__, name, name.title(), "training", "k", "default", record.target.sha256, record.corpus.sha256,
        "1" * 64, record.budget, record.seed, "violated", "violated", (), (), (), (),
    )  # fmt: skip
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


Stops = list[tuple[float, str, AuditRecord, Verdict]]


def training(*leaks: float, first: float = 4.0, every: float = 4.0) -> Stops:
    """Checkpoints of one run, whose leak grows as given.

    Usefulness rises to the middle and falls again.
    """
    stops = []
    for place, leak in enumerate(leaks):
        epoch = first + place * every
        audited = record(
            reconstruction(leak, n=400), documents=400, name=f"checkpoint-{50 * (place + 1)}"
        )
        useful = share("masked_token_accuracy", 3000 - 40 * abs(2 * place - len(leaks)), 5000)
        target = dataclasses.replace(audited.target, epoch=epoch, step=50 * (place + 1))
        audited = dataclasses.replace(audited, target=target, utility=(useful,))
        stops.append((epoch, audited.target.name, *judged(audited)[:2]))
    return stops


def divided() -> Case:
    """A model that gives values back, divided by two methods of which the second decides."""
    result = reconstruction(0.6, n=600)
    shares = {item.name: item for item in result.measurements if isinstance(item, Estimate)}
    excess = shares["excess_pr.unique"]
    names = ("excess_pr.unique", "pr.member.attack.unique", "pr.heldout.attack.unique")
    strongest = [dataclasses.replace(shares[name], name=f"{name}.lowest_loss") for name in names]
    weaker = dataclasses.replace(excess, value=0.0, low=-0.1, high=0.1, bounds=())
    others = [item for item in result.measurements if item.name != "excess_pr.unique"]
    member = shares["pr.member.attack.unique"]
    heldout = dataclasses.replace(shares["pr.heldout.attack.unique"], name="people.heldout")
    breakdowns = []
    people = []
    for method, hits in (("", 1.0), (".lowest_loss", 37.0)):
        group = Group("person", Share(hits, 43), Share(0.0, 41))
        rare = Group("amount", Share(2.0, 50), Share(1.0, 48))
        breakdowns.append(Breakdown("kind", method, "fields", (rare, group)))
        copies = (
            Group("1", Share(hits, 80), Share(0.0, 80)),
            Group("over 10", Share(3.0, 3), Share(0.0, 0)),
        )
        breakdowns.append(Breakdown("copies", method, "fields", copies))
        reached = dataclasses.replace(member, name="people.member", value=hits / 43, n=43)
        people.append(PeopleCount(method, "names", reached, heldout))
    result = dataclasses.replace(
        result,
        measurements=(*others, weaker, *strongest),
        methods={"excess_pr.unique": ("excess_pr.unique", "excess_pr.unique.lowest_loss")},
        breakdowns=tuple(breakdowns),
        people=tuple(people),
    )
    return judged(record(result, documents=600))


NAMED = (violated, passed, weak, wide, unresolved, skipped, failed, inapplicable, waived)
CASES = {case.__name__: case for case in NAMED} | {
    "one-shot": one_shot,
    "equals one-shot": equals_one_shot,
}
