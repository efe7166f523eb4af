"""How long a scan takes on this device: a few trials of every attack, timed. Nothing is written or kept."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from audit.attacks.budget import FOLDS, sample
from audit.attacks.canaries.attack import STRATUM as CANARY
from audit.attacks.interface import Attack
from audit.attacks.membership.documents import kind_of
from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.provider_membership.asking import unreferenced
from audit.attacks.provider_membership.matching import IN, OUT
from audit.attacks.provider_membership.providers import untold
from audit.case import Case
from audit.corpus.canaries import load_canaries
from audit.corpus.documents import Corpus
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Progress, Trial
from audit.planning.cost import Cost, Sides, Time, offered, weakened
from audit.runner import Opened
from audit.runner.execution import AttackWork, in_number_format
from audit.runner.opening import needs_of
from audit.training.references import PROVIDE_AUXILIARY, Filled, complete

SECONDS = 20.0
"""For each attack, shared among its strata (ours); what is under way is finished."""
MIN_ROUNDS = 3
MAX_ROUNDS = 8
"""Rounds of one stratum (ours): enough to see how much they differ."""
AT_ONCE = 4
"""Trials of a round on a CPU (ours), where a batch takes as long as its parts; elsewhere as many as a scan has in
flight."""
LEAST_SPREAD = 0.25
"""A range reaches at least so far, as a share of the estimate (ours): a machine is not always as busy."""
TO_TRAIN = "a scan first trains the public model: give one to time this attack (--reference auxiliary=PATH)"
_SIDES = {"member": 0, IN: 0, "heldout": 1, OUT: 1}
"""Strata of units that training saw, and of others."""


def probe(opened: Opened, progress: Progress) -> tuple[Cost, ...]:
    """The trials of every attack that a scan would run, and how long they take.

    References that somebody gave are used; none is trained. The time is that of the trials, without training of
    references and without the intervals at the end.

    Args:
        opened: the scan; its `out` is not touched.
        progress: told of every round.
    """
    filled = _given(opened)
    return tuple(_cost(opened, attack, filled, progress) for attack in opened.attacks)


def _given(opened: Opened) -> Filled:
    """The references, as far as none is trained."""
    needs = needs_of(opened.attacks)
    if opened.prepared.auxiliary is None:
        needs.discard("auxiliary")
    return complete(opened.prepared, needs, opened.target, Path(), opened.options.seed, SILENT)


def _cost(opened: Opened, attack: Attack, filled: Filled, progress: Progress) -> Cost:
    case = Case(opened.guarded(opened.target), opened.corpus, opened.beside(filled))
    reason = attack.inapplicable(case)
    if reason is not None:
        return Cost(attack.name, 0, True, (0, 0), reason)
    weak = _weakened(case, attack)
    trials = sample(attack.trials(case), opened.share, opened.options.seed)
    in_folds = any(trial.stratum == FOLDS for trial in trials)
    reached = offered(attack, opened.corpus) if in_folds else _reached(opened.corpus, trials)
    lacks = _missing(opened, attack, filled) if trials else attack.no_trials(case)[0]
    cost = Cost(attack.name, len(trials), True, reached, lacks=lacks, weakened=weak)
    if lacks is not None:
        return cost
    if "auxiliary" in attack.needs and filled.references.auxiliary is None:
        return replace(cost, untimed=TO_TRAIN)
    return replace(cost, time=_timed(opened, attack, case, trials, progress))


def _weakened(case: Case, attack: Attack) -> str | None:
    """See `cost.weakened`; with the models at hand an attack says so itself, as far as it does before its trials."""
    if isinstance(attack, ProviderMembership):
        return untold(case.corpus) or unreferenced(case)
    return weakened(attack, case.corpus, _usable(case))


def _usable(case: Case) -> dict[str, int]:
    """The references that can be asked what the target is, by name."""
    own, references = kind_of(case.target), case.references
    pretrained = references.pretrained
    return {
        "baselines": sum(kind_of(model) == own for model in references.baselines),
        "pretrained": int(pretrained is not None and kind_of(pretrained) == own),
        "auxiliary": int(references.auxiliary is not None and kind_of(references.auxiliary) == own),
    }


def _missing(opened: Opened, attack: Attack, filled: Filled) -> str | None:
    """The reference that an attack cannot do without, that nobody gave and that a scan does not train."""
    missing = dict(filled.missing)
    if filled.references.auxiliary is None and opened.prepared.pretrained is None:
        missing["auxiliary"] = PROVIDE_AUXILIARY
    return next((f"it needs a reference ({need}): {missing[need]}" for need in attack.needs if need in missing), None)


def _reached(corpus: Corpus, trials: Sequence[Trial]) -> Sides:
    """Units on either side among the trials; a canary's trial does not say on which side its coin put it."""
    planted = load_canaries(corpus)
    included = {canary.id for canary in planted.canaries if canary.included} if planted is not None else set()
    units: tuple[set[str], set[str]] = set(), set()
    for trial in trials:
        if trial.stratum in _SIDES:
            units[_SIDES[trial.stratum]].add(trial.unit)
        elif trial.stratum == CANARY:
            units[trial.unit not in included].add(trial.unit)
    return len(units[0]), len(units[1])


def _timed(opened: Opened, attack: Attack, case: Case, trials: Sequence[Trial], progress: Progress) -> Time:
    """The time of all trials, from the first ones of each stratum in a scan's own order."""
    checkpoint, _ = in_number_format(opened, attack, case, trials, SILENT)
    work = AttackWork(attack, Case(opened.guarded(checkpoint), case.corpus, case.references), opened.options.seed)
    strata: Mapping[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        strata[trial.stratum].append(trial)
    at_once = AT_ONCE if opened.target.card.device == "cpu" else opened.options.width
    progress.stage(f"{attack.name}: a few trials", MAX_ROUNDS * len(strata))
    # The first trial pays for what is loaded and compiled once.
    _seconds(work, trials[:1])
    expected = variance = 0.0
    for members in strata.values():
        rounds = _rounds(work, members, at_once, SECONDS / len(strata), progress)
        expected += len(members) * float(np.mean(rounds))
        error = float(np.std(rounds, ddof=1)) / math.sqrt(len(rounds)) if len(rounds) > 1 else rounds[0]
        variance += (len(members) * error) ** 2
    factor = 1 + max(LEAST_SPREAD, 2 * math.sqrt(variance) / expected)
    return Time(expected, expected / factor, expected * factor)


def _rounds(work: AttackWork, trials: Sequence[Trial], at_once: int, seconds: float, progress: Progress) -> list[float]:
    """Seconds a trial in each round."""
    found: list[float] = []
    spent = 0.0
    for start in range(0, len(trials), at_once):
        tried = trials[start : start + at_once]
        taken = _seconds(work, tried)
        found.append(taken / len(tried))
        spent += taken
        progress.advance()
        if len(found) >= MAX_ROUNDS or (len(found) >= MIN_ROUNDS and spent >= seconds):
            break
    progress.advance(MAX_ROUNDS - len(found))
    return found


def _seconds(work: AttackWork, trials: Sequence[Trial]) -> float:
    began = time.perf_counter()
    for _ in drive(work, trials, len(trials)):
        pass
    return time.perf_counter() - began
