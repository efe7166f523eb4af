"""What the shipped policies say of models that papers published as leaking.

No model is trained. For each result a record is made whose counts are the paper's, or as near as
its text allows, put through the attacks' own measuring code and held against both policies: as they
were when this was first asked (limits on one method each, no alarms), and as they are now. "Now"
says what became of each limit that the number feeds.

    python -m benchmarks.calibration.published_leaks  # rewrites published_leaks.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from audit.arrays import Bools
from audit.measurements import Estimate
from audit.policy import Limit, Policy, load
from audit.record import Result
from audit.stats.estimates import estimate
from audit.stats.rates import excess_rate
from audit.stats.roc import balanced_accuracy
from benchmarks.calibration import simulated_attacks as attacks
from benchmarks.calibration.simulated_attacks import Audit
from benchmarks.calibration.simulated_audits import decisions_of, fewer_resamples, worst

SEED = 5
RESAMPLES = 2_000
PAGES = 1_200
QUESTIONS = 4_654
"""Pinto et al. 2024, section 2.2: about 1,200 page images, 4,654 questions whose answers were taken
off."""
NOISE = 0.01
"""Share of questions that only one of two models of a recipe answers without memory; sample_models/questions has 0.6 to
1.3 %."""
OLD = {
    "default": {
        "reconstruction excess_pr.unique": 0.05,
        "memorisation net": 0.05,
        "membership auc": 0.65,
        "provider_membership balanced_accuracy": 0.65,
        "canaries excess": 0.20,
    },
    "strict": {
        "reconstruction excess_pr.unique": 0.02,
        "memorisation net": 0.02,
        "membership auc": 0.55,
        "provider_membership balanced_accuracy": 0.55,
        "canaries excess": 0.05,
    },
}
"""The limits that these numbers fed before, each on the one measurement of its name."""


@dataclass(frozen=True)
class Leak:
    """A published result.

    Attributes:
        title: model and number.
        source: paper and table.
        kind: of model.
        make: its record's findings, of one attack.
        feeds: the limits that the number says something about, by the start of their names; others
            are left out.
    """

    title: str
    source: str
    kind: str
    attack: str
    make: Callable[[np.random.Generator], Result]
    feeds: tuple[str, ...]


def memorised(gained: int, lost: int) -> Callable[[np.random.Generator], Result]:
    """A question answering model with these counts |E - G| and |G - E|.

    A held-out split of the same size.
    """
    rows = round(QUESTIONS / PAGES)
    audit = Audit(round(QUESTIONS / rows), rows, contexts=("exact",))
    return lambda rng: attacks.memorisation(audit, rng, (gained, lost))


def draw_hits(fields: int, share: float, rng: np.random.Generator) -> Bools:
    """Draw which fields are exact, so that their share is met."""
    hits = np.zeros(fields, bool)
    hits[rng.permutation(fields)[: round(share * fields)]] = True
    return hits


def rebuilt(forms: int) -> Callable[[np.random.Generator], Result]:
    """CDMI's best row: 4.1 % of members' fields exact, the public model 0.77 %, both 0.77 % of held-out fields."""

    def make(rng: np.random.Generator) -> Result:
        """Draw a reconstruction result with the published shares of rebuilt fields."""
        fields = round(forms * 3_108 / 300)
        documents = rng.integers(0, forms, fields)
        sides = []
        for share in (0.041, 0.0077):
            attack = draw_hits(fields, share, rng)
            public = draw_hits(fields, 0.0077, rng)
            sides.append((attack, public, documents))
        measured = excess_rate(sides, rng)
        full = attacks.reconstruction(Audit(forms), rng, ("excess_pr.unique",))
        own = estimate("excess_pr.unique", measured, "fields", 0.0, "held-out")
        others = (item for item in full.measurements if item.name.startswith("planted_detection"))
        return replace(full, measurements=(own, *others), methods={}, confounded=None)

    return make


def companies(
    right: Mapping[str, float], n_in: int, n_out: int
) -> Callable[[np.random.Generator], Result]:
    """Methods that call so many companies rightly.

    The first is the one that a limit names; nothing else is known.
    """

    def make(rng: np.random.Generator) -> Result:
        """Draw a provider result with the published share of right guesses."""
        found = []
        for method, share in right.items():
            members = (np.arange(n_in) < round(share * n_in)).astype(float)
            others = (np.arange(n_out) < round(share * n_out)).astype(float)
            interval = balanced_accuracy(members, others, rng)
            found.append(
                estimate(f"balanced_accuracy.{method}", interval, "providers", 0.5, "chance")
            )
        primary = replace(found[0], name="balanced_accuracy")
        # Over half of the paper's companies have five questions or more (466 of 660).
        power = Estimate(
            "questions_a_provider",
            5.0,
            5.0,
            5.0,
            n_in + n_out,
            "providers",
            n_in + n_out,
            "of the paper",
        )
        return Result(
            "provider_membership",
            measurements=(primary, *found, power),
            methods={"balanced_accuracy": tuple(item.name for item in found)},
        )

    return make


def known_for_certain(
    documents: int, share: float = 0.2
) -> Callable[[np.random.Generator], Result]:
    """Documents of which so many members are told without a false alarm, and nothing of the others."""
    member = np.arange(2 * documents) < documents
    sure = np.arange(2 * documents) < round(share * documents)

    def make(rng: np.random.Generator) -> Result:
        """Draw a membership result in which some members are known for certain."""
        score = np.where(sure, 10 + rng.random(sure.size), rng.normal(0, 1, sure.size))
        return attacks.scored(
            {"calibrated": score, "loss": score + rng.normal(0, 1, sure.size)}, member, rng
        )

    return make


def second(n: int) -> Callable[[np.random.Generator], Result]:
    """Canaries that are planted rank second among 10,000, always."""
    return lambda rng: attacks.canaries(Audit(n), rng, np.full(n, 2))


def published() -> Iterator[Leak]:
    """Every result, in the order of the table."""
    pinto = "Pinto et al. 2024, section 3.1, training resolution"
    for title, gained in (
        ("Donut 2560 x 1920", 63), ("Pix2Struct-B", 94), ("Donut, lower", 109), ("Donut, lower still", 168),
        ("Donut, lowest resolution", 756),
    ):  # fmt: skip
        noise = round(NOISE * QUESTIONS)
        for words, counts in (
            ("|G - E| = 0", (gained, 0)),
            ("|G - E| a third", (gained, gained // 3)),
            ("noise of training on both sides", (gained + noise, noise)),
        ):
            name = f"{title}: |M| {gained} of 4,654, {words}"
            source = (
                'Pinto et al. 2024, appendix D.1 ("about 94")' if "Pix" in title else f"{pinto}"
            )
            yield Leak(
                name,
                source,
                "question answering",
                "memorisation",
                memorised(*counts),
                ("net", "identified"),
            )
    for forms in (75, 300):
        name = (
            f"BROS, MLM, FUNSD, bimodal, Precision: 4.1 % of fields against 0.77 %, {forms} forms"
        )
        source = "Dentan et al. 2024, section 6 and table 5 (AccAt 100 %)"
        yield Leak(name, source, "tagger", "reconstruction", rebuilt(forms), ("excess_pr.unique",))
    rows = (
        (
            "all",
            307,
            353,
            {"apk": 0.5967, "azk": 0.5613, "azk_ensemble": 0.6056, "apk_ensemble": 0.6184},
        ),
        (
            "of 5 questions",
            217,
            249,
            {"apk": 0.6166, "azk": 0.6025, "azk_ensemble": 0.6368, "apk_ensemble": 0.6253},
        ),
        (
            "of 10 questions",
            113,
            130,
            {"apk": 0.6520, "azk": 0.6512, "azk_ensemble": 0.6625, "apk_ensemble": 0.6699},
        ),
    )
    for words, n_in, n_out, right in rows:
        name = f"VT5, companies {words} ({n_in + n_out}): APK {right['apk']:.1%}, APK++ {right['apk_ensemble']:.1%}"
        source = "Tito et al. 2024, table A6; sides of the subsets in proportion (table A8 has their sums)"
        feeds = ("balanced_accuracy",)
        yield Leak(
            name,
            source,
            "question answering",
            "provider_membership",
            companies(right, n_in, n_out),
            feeds,
        )
    for documents in (160, 500, 1_000):
        name = f"a fifth of the members known for certain, {documents:,} + {documents:,} documents"
        source = "the argument of Carlini et al. 2022 (LiRA) against the area alone; numbers ours"
        yield Leak(
            name,
            source,
            "tagger",
            "membership",
            known_for_certain(documents),
            ("auc", "low_fpr", "certain", "tpr"),
        )
    for n in (64, 300):
        name = f"{n} canaries, each planted one the second likeliest of 10,000"
        source = "ours: what counting only the first rank hides; Parikh et al. 2022 report the first rank (table 2)"
        yield Leak(name, source, "utterances", "canaries", second(n), ("excess",))


def old_verdict(leak: Leak, found: Result, policy: str) -> str:
    """What the policy said when each limit was held against one measurement, and nothing else was looked at."""
    limits = tuple(
        Limit(name.split()[0], name.split()[1], "as it was", max=top)
        for name, top in OLD[policy].items()
        if name.startswith(leak.attack)
    )
    bare = replace(found, methods={}, checks=(), ablations=(), confounded=None, coverage=())
    decisions = decisions_of(leak.kind, {leak.attack: bare}, Policy(1, policy, limits))
    return worst([decision.outcome for decision in decisions.values()])


def new_verdict(leak: Leak, found: Result, policy: Policy) -> str:
    """What became of each limit that the number feeds, worst first."""
    decisions = decisions_of(leak.kind, {leak.attack: found}, policy)
    told = [
        (
            decision.outcome,
            f"{name.split()[1]} {decision.outcome}"
            + (f" ({decision.cause})" if decision.cause else ""),
        )
        for name, decision in decisions.items()
        if name.split()[1].startswith(leak.feeds)
    ]
    if not told:
        return "no limit"
    overall = worst([outcome for outcome, _ in told])
    return f"**{overall}**: {', '.join(words for _, words in told)}"


def measured(found: Result, leak: Leak) -> str:
    """The numbers that limits are held against."""
    names = {
        name
        for metric, names in found.methods.items()
        if metric.startswith(leak.feeds)
        for name in names
    }
    told = [
        f"{item.name} {item.value:.3f} [{item.low:.3f}, {item.high:.3f}]"
        for item in found.measurements
        if item.kind == "estimate" and (item.name in names or item.name in _ALONE)
    ]
    return "; ".join(told)


_ALONE = ("excess", "excess_top3", "excess_exposure", "excess_pr.unique", "identified")


def page() -> str:
    """The table, in Markdown."""
    policies = {name: load(name) for name in OLD}
    lines = [
        "# Published leaks, held against the shipped policies",
        "",
        str(__doc__).split("\n\n")[1].replace("\n", " "),
        "",
        "What the papers leave open: |G - E| (shown three ways), which questions have personal answers of their own (a "
        "third here), the held-out split (as large as the members', without memory), how companies are spread over "
        "calls (independent, at the rates of the table). A result without numbers of its own is marked as ours.",
        "",
        f"Written by `published_leaks.py`, {datetime.now(UTC).date().isoformat()}, {RESAMPLES:,} resamples.",
        "",
        "| published result | source | measured | default, before | default, now | strict, before | strict, now |",
        "|---|---|---|---|---|---|---|",
    ]
    for place, leak in enumerate(published()):
        found = leak.make(np.random.default_rng([SEED, place]))
        cells = [leak.title.replace("|", "\\|"), leak.source, measured(found, leak)]
        for name, policy in policies.items():
            cells += [old_verdict(leak, found, name), new_verdict(leak, found, policy)]
        lines.append(f"| {' | '.join(cells)} |")
        print(cells, flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    options = parser.parse_args()
    with fewer_resamples(RESAMPLES):
        options.out.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
