"""Duration of a scan on this device: its questions are counted, a few of them timed. Nothing is written or kept.

A few trials of each stratum are rehearsed with made-up answers (`rehearsal`), which says what a trial asks and how long
its own computing takes; a few passes say how long the model takes for that (`probing`). No trial is run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audit.attacks.budget import FOLDS
from audit.attacks.interface import Attack
from audit.case import Case
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Progress, Trial, Work
from audit.references.public_model import provide
from audit.references.resolve import LoadedReferences, complete
from audit.workflows.execution import AttackWork, wanted_format
from audit.workflows.plan.clock import seconds_of
from audit.workflows.plan.cost import Cost, Time
from audit.workflows.plan.probing import Probe
from audit.workflows.plan.rehearsal import Rehearsal, Tally
from audit.workflows.setup import ScanSetup, usable_references

FIRST_SECONDS = 3.0
"""For the first trial of each attack, which pays for what is made once (ours)."""
SECONDS = 1.0
"""For the other trials of each attack, shared among its strata (ours)."""
MAX_ROUNDS = 8
"""Rounds of one stratum (ours): enough to see how much they differ."""
AT_ONCE = 4
"""Trials of a round (ours)."""
LEAST_SPREAD = 0.25
"""The range of an attempt's own computing reaches at least so far, as a share of it (ours): a machine is not always as
busy."""
USED = 0.7
"""Share of a time that the trials are planned to take (ours): models are loaded, trained and measured beside them."""
FACTOR = 2.0
"""The range of the time of passes, either way (ours; benchmarks/plan_time): trials differ in what they ask."""
TO_TRAIN = "a scan first trains the public model: give one to time this attack (--reference auxiliary=PATH)"


def probe(opened: ScanSetup, progress: Progress) -> tuple[Cost, ...]:
    """The trials of every attack that a scan would run, and how long they take.

    References that somebody gave are used; none is trained. The time is that of the trials, without training of
    references and without the intervals at the end.

    Args:
        opened: the scan; its `out` is not touched.
        progress: of every round.
    """
    filled = _given(opened)
    clock = Probe(opened.options.width)
    return tuple(_cost(opened, attack, filled, clock, progress) for attack in opened.attacks)


def part_in(seconds: float, expected: float) -> float:
    """Give the part of the units of each side whose trials fit into the time, in (0, 1]."""
    return min(1.0, USED * seconds / max(1e-9, expected))


def bounded_by_time(opened: ScanSetup, costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """The costs of a scan whose time is bounded, from those of the whole one."""
    seconds = opened.options.seconds
    if seconds is None:
        return tuple(costs)
    part = part_in(seconds, sum(cost.time.seconds for cost in costs if cost.time is not None))
    smaller = replace(opened, part=part)
    return tuple(_bounded(smaller, attack, cost) for attack, cost in zip(opened.attacks, costs, strict=True))


def _bounded(opened: ScanSetup, attack: Attack, cost: Cost) -> Cost:
    if not cost.trials:
        return cost
    trials = opened.sampled(attack.trials(Case(opened.defended(opened.target), opened.corpus)))
    ratio, time = len(trials) / cost.trials, cost.time
    if time is not None:
        high = None if time.high is None else ratio * time.high
        time = Time(ratio * time.seconds, ratio * time.low, high, time.trials)
    in_folds = any(trial.stratum == FOLDS for trial in trials)
    reached = cost.reached if in_folds else attack.reached(opened.corpus, trials)
    return replace(cost, trials=len(trials), reached=reached, time=time)


def _given(opened: ScanSetup) -> LoadedReferences:
    """The references, as far as none is trained."""
    needs = usable_references(opened.attacks, opened.target)
    if opened.prepared.auxiliary is None:
        needs.discard("auxiliary")
    return complete(opened.prepared, needs, opened.target, Path(), opened.options.seed, SILENT)


def _cost(opened: ScanSetup, attack: Attack, filled: LoadedReferences, clock: Probe, progress: Progress) -> Cost:
    case = Case(opened.defended(opened.target), opened.corpus, opened.references_behind_defense(filled))
    reason = attack.inapplicable(case)
    if reason is not None:
        return Cost(attack.name, 0, True, (0, 0), reason)
    trials = opened.sampled(attack.trials(case))
    in_folds = any(trial.stratum == FOLDS for trial in trials)
    reached = attack.offered(opened.corpus) if in_folds else attack.reached(opened.corpus, trials)
    lacks = _missing(opened, attack, filled) if trials else attack.no_trials(case)[0]
    weakened, by_data = attack.weakened_in(case), attack.excused(opened.corpus, case.labels)
    cost = Cost(attack.name, len(trials), True, reached, lacks=lacks, weakened=weakened, by_data=by_data)
    if lacks is not None:
        return cost
    if "auxiliary" in attack.needs and filled.references.auxiliary is None:
        return replace(cost, untimed=TO_TRAIN)
    return replace(cost, time=_timed(opened, attack, case, trials, clock, progress))


def _missing(opened: ScanSetup, attack: Attack, filled: LoadedReferences) -> str | None:
    """The reference that an attack cannot do without, that nobody gave and that a scan does not train."""
    missing = dict(filled.missing)
    if filled.references.auxiliary is None and opened.prepared.pretrained is None:
        missing["auxiliary"] = provide(opened.target)
    return next((f"it needs a reference ({need}): {missing[need]}" for need in attack.needs if need in missing), None)


def _timed(
    opened: ScanSetup, attack: Attack, case: Case, trials: Sequence[Trial], clock: Probe, progress: Progress
) -> Time:
    """The time of all trials in the number format that was asked for, as if a preflight had let it pass."""
    wanted = wanted_format(opened)
    target = opened.target if wanted == "float32" else opened.target.rounded(wanted)
    work = AttackWork(attack, Case(opened.defended(target), case.corpus, case.references), opened.options.seed)
    rehearsal = Rehearsal(work)
    own = estimated(rehearsal, trials, AT_ONCE, progress, attack.name)
    passes = _passes(attack.name, rehearsal.tallies, trials, clock)
    spread = own.high if own.high is not None and not passes.least else None
    return Time(
        own.seconds + passes.seconds,
        own.low + passes.seconds / (1.0 if passes.least else FACTOR),
        None if spread is None else spread + passes.seconds * FACTOR,
        max(1, own.trials),
    )


@dataclass(frozen=True)
class _Passes:
    """Seconds of all passes; `least`: at least so many."""

    seconds: float
    least: bool


def _passes(name: str, tallies: Mapping[str, Tally], trials: Sequence[Trial], clock: Probe) -> _Passes:
    """The time of the passes of all trials, those of each stratum as the rehearsed ones of it are, or of all."""
    counts: dict[str, int] = defaultdict(int)
    for trial in trials:
        counts[trial.stratum] += 1
    unseen = sum(n for stratum, n in counts.items() if stratum not in tallies)
    seen = sum(counts[stratum] for stratum in tallies)
    seconds, least = 0.0, False
    for stratum, tally in tallies.items():
        for asked in tally.asked.values():
            rate = clock.rate(name, asked)
            seconds += counts[stratum] / tally.trials * asked.work * rate.seconds
            least = least or rate.least
    return _Passes(seconds * (seen + unseen) / max(1, seen), least)


def estimated(work: Work, trials: Sequence[Trial], at_once: int, progress: Progress, name: str) -> Time:
    """The time of all trials, from the first ones of each stratum in a scan's own order.

    Args:
        work: what the trials are of.
        trials: at least one.
        at_once: trials in flight.
        progress: of every round.
        name: of the attack.
    """
    first = _seconds(work, trials[:1], FIRST_SECONDS)
    if first is None:
        return Time(len(trials) * FIRST_SECONDS, len(trials) * FIRST_SECONDS, None, 0)
    strata: Mapping[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        strata[trial.stratum].append(trial)
    progress.stage(f"{name}: a few trials", MAX_ROUNDS * len(strata))
    expected = variance = 0.0
    n_timed, unfinished = 1, False
    for members in strata.values():
        # In another order than theirs, by which folds of one kind follow each other.
        mixed = [members[index] for index in np.random.default_rng(0).permutation(len(members))]
        rounds = _rounds(work, mixed, at_once, SECONDS / len(strata), first, progress)
        n_timed += sum(n for _, n in rounds)
        unfinished = unfinished or not rounds
        each = [seconds / n for seconds, n in rounds] or [max(first, FIRST_SECONDS)]
        expected += len(members) * float(np.mean(each))
        error = float(np.std(each, ddof=1)) / math.sqrt(len(each)) if len(each) > 1 else each[0]
        variance += (len(members) * error) ** 2
    if unfinished:
        return Time(expected, expected, None, n_timed)
    factor = 1 + max(LEAST_SPREAD, 2 * math.sqrt(variance) / expected)
    return Time(expected, expected / factor, expected * factor, n_timed)


def _rounds(
    work: Work, trials: Sequence[Trial], at_once: int, seconds: float, guess: float, progress: Progress
) -> list[tuple[float, int]]:
    """Seconds and trials of each round that was done in time; no more trials at once than are thought to be.

    `guess` is how long a trial takes, as far as it is known. Empty where not even one was done in `FIRST_SECONDS`.
    """
    rounds: list[tuple[float, int]] = []
    spent, start = 0.0, 0
    while start < len(trials) and len(rounds) < MAX_ROUNDS and spent <= seconds:
        in_time = int((seconds - spent) / (spent / start if start else guess))
        tried = trials[start : start + max(1, min(at_once, in_time))]
        taken = _seconds(work, tried, max(seconds - spent, FIRST_SECONDS))
        if taken is None:
            if rounds or at_once == 1:
                break
            at_once = 1
            continue
        rounds.append((taken, len(tried)))
        spent, start = spent + taken, start + len(tried)
        progress.advance()
    progress.advance(MAX_ROUNDS - len(rounds))
    return rounds


def _seconds(work: Work, trials: Sequence[Trial], limit: float) -> float | None:
    """How long trials take together; None when that is more than `limit` seconds, at which they are stopped."""

    def run() -> None:
        for _ in drive(work, trials, len(trials)):
            pass

    return seconds_of(run, limit)
