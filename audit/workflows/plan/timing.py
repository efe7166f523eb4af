"""Time of a scan on this device: about ten trials of each attack are run, and multiplied; nothing is written."""

from __future__ import annotations

import hashlib
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import numpy as np

from audit.attacks.budget import FOLDS, MEMBERS, OTHERS, side_of
from audit.attacks.interface import Attack, Sides, most_units, nothing_to_try, why
from audit.case import Case
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Progress, Trial, Work
from audit.errors import EngineError
from audit.files import write_atomically
from audit.references.public_model import provide
from audit.references.resolve import LoadedReferences, complete
from audit.workflows.execution import AttackWork
from audit.workflows.number_format import wanted_format
from audit.workflows.plan.limits import Cost
from audit.workflows.setup import ScanSetup, usable_references

TRIALS = 10
"""Trials of each attack that are timed together, behind two that are timed alone."""
SECONDS = 20.0
"""For the trials of all attacks together."""
USED = 0.7
"""Share of a time that the trials are planned to take: models are loaded, trained and measured beside them."""
TO_TRAIN = "a scan first trains the public model: give one to time this attack (--reference auxiliary=PATH)"


def time_attacks(opened: ScanSetup, progress: Progress) -> tuple[Cost, ...]:
    """Count the trials of every attack that a scan would run, and estimate how long they take.

    References that somebody gave are used; none is trained. The time is that of the trials, without training of
    references and without the intervals at the end.

    Args:
        opened: the scan; its `out` is not touched.
        progress: of the attacks.
    """
    needs = usable_references(opened.attacks, opened.target)
    if opened.prepared.auxiliary is None:
        needs.discard("auxiliary")
    filled = complete(opened.prepared, needs, opened.target, Path(), opened.options.seed, SILENT)
    progress.stage("timing a few trials", len(opened.attacks))
    costs = []
    for attack in opened.attacks:
        costs.append(_cost(opened, attack, filled))
        progress.advance()
    return tuple(costs)


def fit_time(opened: ScanSetup, progress: Progress) -> ScanSetup:
    """Choose the part of the units of each side whose trials are expected to fit into the time of a scan.

    The part is chosen once: it is stored in `evidence/`, which must exist, and read again by the same scan.

    Raises:
        EngineError: the stored part cannot be read.
    """
    options = opened.options
    if options.seconds is None:
        return opened
    card, settings = opened.target.card, (options.seed, options.seconds, options.documents, options.defense)
    depends_on = repr((card.sha256, opened.corpus.sha256, opened.budget, settings, opened.attacks))
    path = options.evidence / f"time-{hashlib.sha256(depends_on.encode()).hexdigest()[:16]}.json"
    if options.fresh or not path.exists():
        part = part_in(options.seconds, time_attacks(opened, progress))
        write_atomically(path, json.dumps(part).encode(), mode=0o600)
    try:
        return replace(opened, part=float(json.loads(path.read_bytes())))
    except (OSError, ValueError, TypeError):
        raise EngineError(f"{path}: cannot be read", "scan again with --fresh") from None


def part_in(seconds: float, costs: Sequence[Cost]) -> float:
    """Return the part of the units of each side whose trials fit into the time, in (0, 1]."""
    return min(1.0, USED * seconds / max(1e-9, sum(cost.seconds or 0.0 for cost in costs)))


def bounded_by_time(opened: ScanSetup, costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """Return the costs of a scan whose time is bounded, from those of the whole one."""
    if opened.options.seconds is None:
        return tuple(costs)
    part = part_in(opened.options.seconds, costs)
    return tuple(
        replace(
            cost,
            trials=math.ceil(part * cost.trials),
            reached=(math.ceil(part * cost.reached[0]), math.ceil(part * cost.reached[1])),
            seconds=None if cost.seconds is None else part * cost.seconds,
        )
        for cost in costs
    )


def _cost(opened: ScanSetup, attack: Attack, filled: LoadedReferences) -> Cost:
    case = Case(opened.defended(opened.target), opened.corpus, opened.references_behind_defense(filled))
    reason = why(attack, case, "model")
    if reason is not None:
        return Cost(attack.name, 0, True, (0, 0), reason)
    trials = opened.sampled(attack.trials(case))
    reached = _reached(most_units(attack, opened.corpus), trials)
    lacks = _missing(opened, attack, filled) if trials else nothing_to_try(attack, case).why
    weakened, by_data = why(attack, case, "weak"), why(attack, case, "data") is not None
    cost = Cost(attack.name, len(trials), True, reached, lacks=lacks, weakened=weakened, by_data=by_data)
    if lacks is not None:
        return cost
    if "auxiliary" in attack.needs and filled.references.auxiliary is None:
        return replace(cost, untimed=TO_TRAIN)
    wanted = wanted_format(opened)
    target = opened.target if wanted == "float32" else opened.target.rounded(wanted)
    work = AttackWork(attack, Case(opened.defended(target), case.corpus, case.references), opened.options.seed)
    seconds, least = estimate(work, trials, opened.options.width, SECONDS / len(opened.attacks))
    return replace(cost, seconds=seconds, least=least)


def _reached(most: Sides, trials: Sequence[Trial]) -> Sides:
    """Count the units on either side among trials; where trials do not tell, the same part of both sides.

    Trials in folds take all units; canaries are tried in an order that does not depend on their side.
    """
    tried = {(side_of(trial.stratum), trial.unit) for trial in trials}
    members, others = (sum(side in names for side, _ in tried) for names in (MEMBERS, OTHERS))
    if any(trial.stratum == FOLDS for trial in trials):
        return most
    if members or others or not tried:
        return members, others
    part = len(tried) / max(len(tried), sum(most))
    return math.ceil(part * most[0]), math.ceil(part * most[1])


def _missing(opened: ScanSetup, attack: Attack, filled: LoadedReferences) -> str | None:
    """Name the reference that an attack cannot do without, that nobody gave and that a scan does not train."""
    missing = dict(filled.missing)
    if filled.references.auxiliary is None and opened.prepared.pretrained is None:
        missing["auxiliary"] = provide(opened.target)
    return next((f"it needs a reference ({need}): {missing[need]}" for need in attack.needs if need in missing), None)


def estimate(work: Work, trials: Sequence[Trial], width: int, limit: float) -> tuple[float, bool]:
    """Estimate the seconds of all trials from a few that are run: one, one again, and ten at once.

    What one takes alone is that of its passes, which as many share as are in flight; what each of ten takes more is its
    part of them.

    Args:
        work: what the trials are of.
        trials: at least one.
        width: trials that a scan has in flight.
        limit: seconds that may be spent.

    Returns:
        The seconds, and True where not even one trial was done in time, so that they take longer.
    """

    def run(chosen: Sequence[Trial], seconds: float) -> float | None:
        return seconds_of(lambda: [*drive(work, chosen, len(chosen))], seconds)

    # From all over the list, whose neighbours are alike.
    places = np.linspace(0, len(trials) - 1, min(len(trials), 2 + TRIALS)).astype(int)
    first, *others = (trials[place] for place in places)
    alone = run([first], limit)
    if alone is None:
        return limit * len(trials), True
    left = limit - alone
    # The first one also pays for what is made once.
    if others and (again := run(others[:1], left)) is not None:
        alone, left = again, left - again
    several = others[1 : 1 + int(left / max(alone, 1e-6))]
    together = run(several, left) if len(several) > 1 else None
    each = alone if together is None else max(0.0, together - alone) / (len(several) - 1)
    at_once = min(width, len(trials))
    return len(trials) / at_once * (alone + each * (at_once - 1)), False


class _TimeUpError(Exception):
    """What is timed takes longer than there is time for."""


def seconds_of(run: Callable[[], object], limit: float) -> float | None:
    """Time a run; None when it takes more than `limit` seconds, at which it is stopped.

    The clock rings inside of it, for a single pass of a large model may take minutes, between two operations of Python.
    Where there is no such clock (Windows, a thread that is not the main one) what was begun is finished.
    """
    began = time.perf_counter()
    try:
        with _alarm(limit):
            run()
    except _TimeUpError:
        return None
    return time.perf_counter() - began


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `_TimeUpError` in what takes longer."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
