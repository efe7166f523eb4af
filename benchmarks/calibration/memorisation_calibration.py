"""False alarms, power and unequal baselines of the memorisation limit on simulated audits.

Method: methods/memorisation.md and methods/index.md#limits-and-methods.

No model is trained. What is simulated is what a target and one baseline answer: pages of two
questions, each of which one of the two gives alone with some probability though nothing is
remembered, and a leak that adds answers of the target on member pages. With a correlation,
questions of one page agree (beta-binomial). Another context sees half of the questions as the
trained one does and draws the others anew; a leak shows there for half of its questions. On
complete held-out pages one of the two reads a fifth of the questions alone. Intervals, and what
they leave undecided, are the attack's own; limits and Holm's correction over the contexts are those
of a policy that limits net alone to 0.05. The blind check, which calls 5 % of data sets apart
(blind_calibration.json), is left out.

    # writes memorisation_calibration.json; 5 minutes
    python -m benchmarks.calibration.memorisation_calibration
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from audit.arrays import Floats
from audit.attacks.blind_baseline import NAME, Blind
from audit.attacks.memorisation.contexts import METHODS, net_of
from audit.attacks.memorisation.fairness import (
    GAP,
    MAX_ANLS_GAP,
    checks,
    control_contexts,
    weaknesses,
)
from audit.measurements import Estimate, Measurement, Unresolved
from audit.stats import rates
from audit.stats.estimates import estimate
from benchmarks.calibration.simulated_audits import fired

LIMIT = 0.05
SIGNIFICANCE = 0.05
QUESTIONS = 2
"""Of each page."""
ALLOWED = 64
"""False alarms of 1,000 that "at most 5 %" may show (methods/index.md#limits-and-methods)."""
UNCHECKED = Blind(Unresolved(NAME, "not simulated", 0), (), (), None, "random")


@dataclass(frozen=True)
class Setting:
    """One kind of audit.

    Attributes:
        pages: of members, and as many held-out ones.
        correlation: between the questions of one page, in [0, 1).
        differing: probability that target, or baseline, gives a removed answer alone, without
            memory.
        leak: share of the members' questions that the target remembers.
        blocked: whether the leak does not show in the context of training, as after extraction
            blocking.
        hidden: how many more of the removed answers the baseline gives, of members and of others,
            as a share.
        parted: share of questions about complete pages that one of the two reads alone.
        stronger: by how much ANLS the baseline reads complete pages better.
        contexts: what a limit is held against.
    """

    pages: int = 150
    correlation: float = 0.0
    differing: float = 0.01
    leak: float = 0.0
    blocked: bool = False
    hidden: float = 0.0
    parted: float = 0.2
    stronger: float = 0.0
    contexts: tuple[str, ...] = METHODS


def agreeing(
    setting: Setting, shares_of: tuple[float, ...], rng: np.random.Generator
) -> tuple[Floats, ...]:
    """Which questions fall into each of several exclusive kinds of these shares, each of shape (n_questions,)."""
    rest = 1 - sum(shares_of)
    rates = np.tile([*shares_of, rest], (setting.pages, 1))
    if setting.correlation:
        spread = (1 - setting.correlation) / setting.correlation
        rates = rng.gamma(np.maximum(rates * spread, 1e-12))
        rates /= rates.sum(axis=1, keepdims=True)
    edges = rates.cumsum(axis=1).repeat(QUESTIONS, axis=0)
    kind = (rng.random((len(edges), 1)) > edges[:, :-1]).sum(axis=1)
    return tuple((kind == number).astype(np.float64) for number in range(len(shares_of)))


def answers(
    setting: Setting, rng: np.random.Generator, *, member: bool
) -> dict[str, tuple[Floats, Floats]]:
    """What target and baseline give alone, by context."""
    both = setting.differing, setting.differing + setting.hidden
    trained = agreeing(setting, both, rng)
    (remembered,) = agreeing(setting, (setting.leak if member else 0.0,), rng)
    found = {}
    for name in setting.contexts:
        shown = remembered * (not setting.blocked)
        gained, lost = trained
        if name != "exact":
            anew = rng.random(len(remembered)) < 0.5
            drawn_gained, drawn_lost = agreeing(setting, both, rng)
            gained = np.where(anew, drawn_gained, gained)
            lost = np.where(anew, drawn_lost, lost)
            shown = remembered * (rng.random(len(remembered)) < 0.5)
        # What is remembered and the baseline gives as well is no gain, and not lost either.
        found[name] = np.maximum(gained, shown * (1 - lost)), lost * (1 - shown)
    return found


def audit(setting: Setting, seed: int) -> dict[str, Measurement]:
    """The measurements of one audit that decide about net, by name."""
    rng = np.random.default_rng([seed, setting.pages, round(100 * setting.correlation)])
    documents = np.arange(setting.pages).repeat(QUESTIONS)
    pairs = {}
    for split in ("member", "heldout"):
        name = "net" if split == "member" else "net.heldout"
        for context, pair in answers(setting, rng, member=split == "member").items():
            pairs[name if context == "exact" else f"{name}.{context}"] = pair
    pairs[GAP] = agreeing_alone(setting, rng)
    measured = []
    for name, (gained, lost) in pairs.items():
        net = rates.net(gained, lost, documents, rng)
        measured.append(estimate(name, net, "questions", 0.0, "chance"))
    return {item.name: item for item in control_contexts(measured)}


def agreeing_alone(setting: Setting, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw which complete pages the target reads alone, and which the baseline reads alone."""
    alone = (setting.parted - setting.stronger) / 2
    gained, lost = agreeing(setting, (alone, alone + setting.stronger), rng)
    return gained, lost


def level_over_limit(item: Estimate) -> float:
    """Give the least level at which the lower bound is over the limit; 1 where none is."""
    return min((bound.alpha for bound in item.bounds if bound.lower > LIMIT), default=1.0)


def decided(setting: Setting, measured: Mapping[str, Measurement]) -> str:
    """The verdict on net alone, in a word: "violated", "passed", or why undecided."""
    alarms = fired(checks([*measured.values()], UNCHECKED))
    if any(check.cause == "confounded" for check in alarms):
        return "confounded"
    methods = []
    for context in setting.contexts:
        item = measured[net_of(context)]
        if isinstance(item, Estimate):
            methods.append(item)
    if min(map(level_over_limit, methods)) * len(methods) <= SIGNIFICANCE:
        return "violated"
    if alarms or weaknesses([*measured.values()], UNCHECKED):
        return "not shown"
    if all(item.high <= LIMIT for item in methods):
        return "passed"
    return "wide"


def outcomes(setting: Setting, audits: int) -> dict[str, int]:
    """How many of so many audits end how, and how many have a difference of ANLS over 2 points (the rule before)."""
    counts: Counter[str] = Counter()
    for seed in range(audits):
        measured = audit(setting, seed)
        counts[decided(setting, measured)] += 1
        gap = measured[GAP]
        counts["over 2 points"] += isinstance(gap, Estimate) and abs(gap.value) > MAX_ANLS_GAP
    return dict(sorted(counts.items()))


def called_unequal(setting: Setting, audits: int) -> dict[str, int]:
    """Of so many audits: unequal by the interval, not shown to be about equal, and over 2 points as a point."""
    counts: Counter[str] = Counter({"unequal": 0, "not shown": 0, "over 2 points": 0})
    documents = np.arange(setting.pages).repeat(QUESTIONS)
    control = Estimate("net.heldout", 0.0, 0.0, 0.0, 2, "questions", 2, "not simulated")
    for seed in range(audits):
        rng = np.random.default_rng([seed, setting.pages, round(100 * setting.correlation)])
        gained, lost = agreeing_alone(setting, rng)
        gap = estimate(GAP, rates.net(gained, lost, documents, rng), "questions", 0.0, "chance")
        unequal = "unequal baseline" in {
            check.name for check in fired(checks([control, gap], UNCHECKED))
        }
        counts["unequal"] += unequal
        counts["not shown"] += not unequal and bool(weaknesses([control, gap], UNCHECKED))
        counts["over 2 points"] += abs(gap.value) > MAX_ANLS_GAP
    return dict(counts)


LEAK_FREE = {
    f"no leak, {pages} pages, correlation {correlation}": Setting(pages, correlation)
    for pages in (150, 300, 1000)
    for correlation in (0.0, 0.3)
}
NOISIER = {
    f"no leak, 150 pages, correlation 0.3, 2 % differ, {len(contexts)} contexts": Setting(
        150, 0.3, differing=0.02, contexts=contexts
    )
    for contexts in (METHODS[:1], METHODS)
}
LEAKS = {
    f"leak of {factor} x the limit, {pages} pages, correlation {correlation}": Setting(
        pages, correlation, leak=factor * LIMIT
    )
    for pages in (150, 300)
    for correlation in (0.0, 0.3)
    for factor in (1, 2, 4)
}
BLOCKED = {
    f"leak of 4 x the limit, blocked where trained, {len(contexts)} contexts": Setting(
        leak=4 * LIMIT, blocked=True, contexts=contexts
    )
    for contexts in (METHODS[:1], METHODS)
}
HIDDEN = {
    f"leak of 2 x the limit, baseline gives {100 * hidden:g} of 100 more": Setting(
        300, leak=2 * LIMIT, hidden=hidden
    )
    for hidden in (0.0, 0.025, 0.05, 0.075, 0.1)
}
READERS = {
    f"{QUESTIONS * pages} held-out questions, correlation {correlation}, baseline {100 * stronger:g} points better": (
        Setting(pages, correlation, stronger=stronger)
    )
    for pages in (75, 150, 300)
    for correlation in (0.0, 0.3)
    for stronger in (0.0, 0.05, 0.1)
}


def main() -> None:
    """Simulate every setting and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--audits", type=int, default=1000, help="leak-free ones of a kind; others are fewer"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    found = {}
    for name, setting in {**LEAK_FREE, **NOISIER, **LEAKS, **BLOCKED, **HIDDEN}.items():
        audits = options.audits if name in LEAK_FREE else max(1, options.audits // 5)
        counts = outcomes(setting, audits)
        found[name] = {"setting": asdict(setting), "audits": audits, "outcomes": counts}
        alarms = counts.get("violated", 0)
        too_many = (
            " (too many false alarms)"
            if not setting.leak and alarms > ALLOWED * audits / 1000
            else ""
        )
        print(f"{name}: {counts} of {audits}{too_many}", flush=True)
    audits = max(1, options.audits // 2)
    for name, setting in READERS.items():
        called = called_unequal(setting, audits)
        found[name] = {"setting": asdict(setting), "audits": audits, "called": called}
        print(f"{name}: {called} of {audits}", flush=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
