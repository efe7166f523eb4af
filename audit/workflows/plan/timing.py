"""Duration of a scan on this device: a few trials of every attack, timed. Nothing is written or kept."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import numpy as np

from audit.attacks.budget import FOLDS, sample
from audit.attacks.interface import Attack
from audit.case import Case
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Progress, Trial, Work
from audit.training.references.public_model import provide
from audit.training.references.resolve import LoadedReferences, complete
from audit.workflows.execution import AttackWork, choose_number_format
from audit.workflows.plan.cost import Cost, Time
from audit.workflows.setup import ScanSetup, usable_references

FIRST_SECONDS = 10.0
"""For the first trial of each attack, which pays for what is loaded and compiled once (ours): with six attacks a model
that is too slow for a single trial is told of within a minute."""
SECONDS = 20.0
"""For the other trials of each attack, shared among its strata (ours)."""
MAX_ROUNDS = 8
"""Rounds of one stratum (ours): enough to see how much they differ."""
AT_ONCE = 4
"""Trials of a round on a CPU (ours), where a batch takes as long as its parts; elsewhere as many as a scan has in
flight."""
LEAST_SPREAD = 0.25
"""A range reaches at least so far, as a share of the estimate (ours): a machine is not always as busy."""
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
    return tuple(_cost(opened, attack, filled, progress) for attack in opened.attacks)


def _given(opened: ScanSetup) -> LoadedReferences:
    """The references, as far as none is trained."""
    needs = usable_references(opened.attacks, opened.target)
    if opened.prepared.auxiliary is None:
        needs.discard("auxiliary")
    return complete(opened.prepared, needs, opened.target, Path(), opened.options.seed, SILENT)


def _cost(opened: ScanSetup, attack: Attack, filled: LoadedReferences, progress: Progress) -> Cost:
    case = Case(opened.defended(opened.target), opened.corpus, opened.references_behind_defense(filled))
    reason = attack.inapplicable(case)
    if reason is not None:
        return Cost(attack.name, 0, True, (0, 0), reason)
    trials = sample(attack.trials(case), opened.share, opened.options.seed)
    in_folds = any(trial.stratum == FOLDS for trial in trials)
    reached = attack.offered(opened.corpus) if in_folds else attack.reached(opened.corpus, trials)
    lacks = _missing(opened, attack, filled) if trials else attack.no_trials(case)[0]
    cost = Cost(attack.name, len(trials), True, reached, lacks=lacks, weakened=attack.weakened_in(case))
    if lacks is not None:
        return cost
    if "auxiliary" in attack.needs and filled.references.auxiliary is None:
        return replace(cost, untimed=TO_TRAIN)
    return replace(cost, time=_timed(opened, attack, case, trials, progress))


def _missing(opened: ScanSetup, attack: Attack, filled: LoadedReferences) -> str | None:
    """The reference that an attack cannot do without, that nobody gave and that a scan does not train."""
    missing = dict(filled.missing)
    if filled.references.auxiliary is None and opened.prepared.pretrained is None:
        missing["auxiliary"] = provide(opened.target)
    return next((f"it needs a reference ({need}): {missing[need]}" for need in attack.needs if need in missing), None)


def _timed(opened: ScanSetup, attack: Attack, case: Case, trials: Sequence[Trial], progress: Progress) -> Time:
    """The time of all trials with the number format that a scan would settle on."""
    checkpoint, _ = choose_number_format(opened, attack, case, trials, SILENT)
    work = AttackWork(attack, Case(opened.defended(checkpoint), case.corpus, case.references), opened.options.seed)
    at_once = AT_ONCE if opened.target.card.device == "cpu" else opened.options.width
    return estimated(work, trials, at_once, progress, attack.name)


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
        rounds = _rounds(work, members, at_once, SECONDS / len(strata), first, progress)
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


class _TimeUpError(Exception):
    """What is timed takes longer than there is time for."""


def _seconds(work: Work, trials: Sequence[Trial], limit: float) -> float | None:
    """How long trials take together; None when that is more than `limit` seconds, at which they are stopped.

    The clock rings inside a trial, for one of a large model may take hours. Where there is no such clock (Windows, a
    thread that is not the main one) trials are finished.
    """
    began = time.perf_counter()
    try:
        with _alarm(limit):
            for _ in drive(work, trials, len(trials)):
                pass
    except _TimeUpError:
        return None
    return time.perf_counter() - began


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `_TimeUpError` in what takes longer, between two operations of Python."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
