"""Plan an audit: what a data set can decide under a policy, and how long a scan takes.

Nothing is written.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from audit.attacks.battery import BATTERY
from audit.attacks.blind_baseline import Blind, of_trials
from audit.attacks.budget import FOLDS, MEMBERS, OTHERS, choose_shares, read_shares, side_of
from audit.attacks.interface import (
    BARRIERS,
    Attack,
    Sides,
    compared_units,
    first_of,
    may_try,
    most_units,
    needed_references,
    nothing_to_try,
)
from audit.attacks.membership.documents import without_lot
from audit.case import Case
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import find_copies, without_copies
from audit.corpus.summary import public_warnings
from audit.engine.driver import drive
from audit.engine.interface import SILENT, Progress, Trial, Work
from audit.errors import EngineError, UsageError
from audit.failures import Lenient
from audit.files import write_atomically
from audit.policy import Policy
from audit.policy.guarantees import MEMBERSHIP
from audit.record import Reason
from audit.workflows.gate import load_policy
from audit.workflows.options import ScanOptions
from audit.workflows.outlook import Cost, Plan
from audit.workflows.plan import at_most, plan_limits

if TYPE_CHECKING:  # These load torch, which a plan without a model does without.
    from audit.references.resolve import LoadedReferences
    from audit.workflows.session import Session

TRIALS = 10
"""Trials of each attack that are timed together at most, behind two that are timed alone; short
ones: a full width."""
SHORT = 0.1
"""Seconds of a trial alone under which as many are timed together as a scan has in flight."""
SECONDS = 20.0
"""For the trials of all attacks together, divided among those that can run; a trial that was begun
is finished."""
USED = 0.7
"""Share of a time that the trials are planned to take: models are loaded, trained and measured
beside them."""
TO_TRAIN = (
    "a scan first trains the public model: "
    "give one to time this attack (--reference auxiliary=PATH)"
)


def plan_audit(
    options: ScanOptions, policy: str, progress: Progress = SILENT
) -> Iterator[str | Plan]:
    """Plan an audit.

    Args:
        options: options of the scan; with `Path()` as its `model_dir`, trials are not counted
            exactly, and not timed.
        policy: name or path.
        progress: receiver of the progress of trials that are timed, and of documents described.

    Yields:
        Warnings as they arise, and at the end the plan.

    Raises:
        DocauditError: nothing can be planned.
    """
    has_model = options.model_dir != Path()
    if not has_model and (options.references or options.seconds is not None):
        given = "--reference" if options.references else "--time"
        raise UsageError(f"{given} is for a model whose trials are timed", "add --model MODEL_DIR")
    chosen = load_policy(policy)
    budget = options.budget
    corpus = manifest.load(options.data_dir)
    manifest.check_references(corpus)
    if has_model:
        from audit.workflows.references import time_scan_references
        from audit.workflows.session import open_session

        session = open_session(options)
        yield from session.warnings
        corpus = session.corpus
        copies = session.data.copies
        place = session.target.card.device
        costs = bounded_by_time(session, time_attacks(session, progress))
        training = time_scan_references(session)
    else:
        copies = find_copies(corpus)
        yield from copies.warnings
        corpus = without_copies(corpus, copies)
        place = ""
        costs = at_most(corpus, budget, options.documents)
        training = {}
    if any(limit.attack == MEMBERSHIP for limit in chosen.limits):
        yield from public_warnings(len(corpus.of("public")))
    if chosen.forgets:
        corpus = without_lot(corpus)
    blind = blind_checks(corpus, chosen, budget, costs, progress)
    plan = plan_limits(corpus, chosen, budget, costs, blind, copies)
    yield replace(
        plan, device=place, documents=options.documents, seconds=options.seconds, training=training
    )


def blind_checks(
    corpus: Corpus, policy: Policy, budget: str, costs: Sequence[Cost], progress: Progress = SILENT
) -> dict[str, Blind]:
    """Run the blind checks of attacks, by the names of these.

    They are the attacks that the policy limits and that compare members with others. A check
    describes what a scan with this budget compares, but for documents that a model turns out not to
    read, or none of whose fields its tokens spell, and before those of providers are cut to as many
    on both sides, which takes the model's questions. Most of its time goes into opening page images
    (`blind_baseline.MAX_UNITS`).

    Args:
        corpus: the data set.
        policy: policy that limits attacks.
        budget: budget of the scan.
        costs: costs of every attack: one that cannot be fed, or is not applicable, needs no check.
        progress: receiver of the progress of every document described.

    Raises:
        ManifestError: an image is missing, damaged or too large.
    """
    limited = {limit.attack for limit in policy.limits if limit.max is not None}
    shares = {cost.attack: cost.share for cost in costs if _is_fed(cost) and cost.attack in limited}
    checks: dict[str, Blind] = {}
    for kind in BATTERY:
        attack = kind.preset(budget)
        unit = compared_units(attack, corpus)
        if attack.name in shares and unit is not None:
            trials = may_try(attack, corpus)
            checks[attack.name] = of_trials(corpus, trials, shares[attack.name], unit, progress)
    return checks


def _is_fed(cost: Cost) -> bool:
    """Tell whether an attack applies and lacks nothing."""
    return cost.lacks is None and cost.inapplicable is None


def time_attacks(session: Session, progress: Progress, lenient: bool = False) -> tuple[Cost, ...]:
    """Count the trials of every attack that a scan would run, and estimate how long they take.

    References that somebody gave are used; none is trained. The time is that of the trials, without
    training of references and without the intervals at the end. Where time decides, it chooses the
    shares of the attacks' trials.

    Args:
        session: the scan; its `out` is not touched.
        progress: receiver of the progress of the attacks.
        lenient: whether an attack that fails is passed over, without a cost; all are where
            references fail.
    """
    filled: LoadedReferences | None = None
    with Lenient(lenient):
        filled = _references_at_hand(session)
    if filled is None:
        return ()
    progress.stage("timing a few trials", len(session.attacks))
    timed = session
    if session.awaits_time:
        # Of a choice that is still to be made, all trials are timed.
        timed = replace(session, sampling=replace(session.sampling, share=1.0))
    counted = []
    for attack in session.attacks:
        with Lenient(lenient):
            offer = _list_trials(session, attack, filled)
            counted.append((offer, _count_cost(timed, offer, filled)))
    pairs = _timed_pairs(timed, counted, filled, progress, lenient)
    if not session.awaits_time:
        return tuple(cost for _, cost in pairs)
    seconds = {cost.attack: cost.seconds for _, cost in pairs if cost.seconds is not None}
    shares = choose_shares(seconds, session.sampling.share)
    chosen = replace(session, sampling=replace(session.sampling, shares=shares))
    return tuple(_at_share(chosen, offer, cost) for offer, cost in pairs)


def _references_at_hand(session: Session) -> LoadedReferences:
    """Load the references that somebody gave."""
    from audit.references.resolve import complete
    from audit.workflows.checking import usable_references

    needs = usable_references(session.attacks, session.target)
    if session.prepared.auxiliary is None:
        needs.discard("auxiliary")
    return complete(session.prepared, needs, session.target, Path(), session.options.seed, SILENT)


class _Offer(NamedTuple):
    """An attack with all that it could try.

    Attributes:
        attack: attack with its parameters.
        case: what it is put to.
        reasons: why it does not apply, or is weakened.
        trials: all that could be tried; empty where it does not apply.
    """

    attack: Attack
    case: Case
    reasons: Sequence[Reason]
    trials: Sequence[Trial]


def _list_trials(session: Session, attack: Attack, filled: LoadedReferences) -> _Offer:
    """List what an attack could try."""
    case = session.case_with(filled)
    reasons = attack.applies(case)
    trials: Sequence[Trial] = []
    if first_of(reasons, case, *BARRIERS) is None:
        trials = session.trials_of(attack, case)
    return _Offer(attack, case, reasons, trials)


def _at_share(session: Session, offer: _Offer, whole: Cost) -> Cost:
    """Return the cost of the chosen share of an attack's trials, from that of all of them."""
    if whole.inapplicable is not None:
        return whole
    trials = session.sampling.sample(offer.attack.name, offer.trials)
    seconds = whole.seconds
    if seconds is not None:
        seconds *= len(trials) / max(1, whole.trials)
    reached = _reached(most_units(offer.attack, session.corpus), trials)
    share = session.sampling.share_of(offer.attack.name)
    return replace(whole, trials=len(trials), reached=reached, seconds=seconds, share=share)


def fit_time(session: Session, progress: Progress) -> Session:
    """Choose what is expected to fit into the time of a scan.

    That is a part of the units of each side where the time was given, else the share of each
    attack's trials. It is chosen once: it is stored in `evidence/`, which must exist, and read
    again by the same scan. No failure of model or page ends a scan here: an attack that cannot be
    timed takes its least share, and fails where it runs.

    Raises:
        EngineError: what was stored cannot be read.
    """
    options = session.options
    settings = (options.seed, options.seconds, options.documents, options.defense)
    depends_on = repr(
        (
            session.target.card.sha256,
            session.corpus.sha256,
            session.sampling.budget,
            settings,
            session.attacks,
        )
    )
    path = options.evidence / f"time-{hashlib.sha256(depends_on.encode()).hexdigest()[:16]}.json"
    if options.fresh or not path.exists():
        costs = time_attacks(session, progress, lenient=True)
        shares = {cost.attack: cost.share for cost in costs}
        chosen = shares if options.seconds is None else part_in(options.seconds, costs)
        write_atomically(path, json.dumps(chosen).encode(), mode=0o600)
    return _with_stored(session, path)


def _with_stored(session: Session, path: Path) -> Session:
    """Return the scan with the part of units, or the shares of trials, that it stored.

    Raises:
        EngineError: what was stored cannot be read.
    """
    try:
        stored = json.loads(path.read_bytes())
        if session.options.seconds is not None:
            sampling = replace(session.sampling, part=float(stored))
        else:
            sampling = replace(session.sampling, shares=read_shares(stored))
    except (OSError, ValueError, TypeError, AttributeError):
        raise EngineError(f"{path}: cannot be read", "scan again with --fresh") from None
    return replace(session, sampling=sampling)


def part_in(seconds: float, costs: Sequence[Cost]) -> float:
    """Return the part of the units of each side whose trials fit into the time, in (0, 1]."""
    return min(1.0, USED * seconds / max(1e-9, sum(cost.seconds or 0.0 for cost in costs)))


def bounded_by_time(session: Session, costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """Return the costs of a scan whose time is bounded, from those of the whole one."""
    if session.options.seconds is None:
        return tuple(costs)
    share = part_in(session.options.seconds, costs)
    bounded: list[Cost] = []
    for cost in costs:
        n_members, n_others = cost.reached
        reached = (math.ceil(share * n_members), math.ceil(share * n_others))
        seconds = None
        if cost.seconds is not None:
            seconds = share * cost.seconds
        trials = math.ceil(share * cost.trials)
        bounded.append(replace(cost, trials=trials, reached=reached, seconds=seconds))
    return tuple(bounded)


def _count_cost(session: Session, offer: _Offer, filled: LoadedReferences) -> Cost:
    """Count the trials that the budget takes of an attack, and the units that they are of."""
    attack, case, reasons, everything = offer
    reason = first_of(reasons, case, *BARRIERS)
    if reason is not None:
        return Cost(attack.name, 0, True, (0, 0), reason)
    trials = session.sampling.sample(attack.name, everything)
    reached = _reached(most_units(attack, session.corpus), trials)
    lacks = (
        _missing_reference(session, offer, filled) if trials else nothing_to_try(attack, case).why
    )
    weakened = first_of(reasons, case, "weak")
    by_data = first_of(reasons, case, "data") is not None
    share = session.sampling.share_of(attack.name)
    return Cost(
        attack.name,
        len(trials),
        True,
        reached,
        None,
        lacks,
        weakened,
        by_data,
        share=share,
        unlimited=attack.unlimited(case),
    )


def _timed_pairs(
    session: Session,
    counted: Sequence[tuple[_Offer, Cost]],
    filled: LoadedReferences,
    progress: Progress,
    lenient: bool,
) -> list[tuple[_Offer, Cost]]:
    """Add the time of its trials to the cost of every attack that can run; see `time_attacks`."""
    limit = SECONDS / max(1, sum(_is_fed(cost) for _, cost in counted))
    pairs = []
    for offer, cost in counted:
        with Lenient(lenient):
            with_time = cost
            if _is_fed(cost):
                with_time = _timed_cost(session, offer, filled, cost, limit)
            pairs.append((offer, with_time))
        progress.advance()
    return pairs


def _timed_cost(
    session: Session, offer: _Offer, filled: LoadedReferences, cost: Cost, limit: float
) -> Cost:
    """Add to a cost the time that the trials are expected to take, and their peak of memory.

    `limit`: see `estimate`.
    """
    from audit.targets.machine import peak_memory
    from audit.workflows.number_format import wanted_format
    from audit.workflows.workers import AttackWork

    attack = offer.attack
    needed = needed_references(attack, offer.case)
    if "auxiliary" in needed and filled.references.auxiliary is None:
        return replace(cost, untimed=TO_TRAIN)
    trials = session.sampling.sample(attack.name, offer.trials)
    number_format = wanted_format(session)
    target = session.target
    if number_format != "float32":
        target = target.rounded(number_format)
    case = session.case_in_format(offer.case, target)
    work = AttackWork(attack, case, session.options.seed)
    device = case.target.card.device
    peak_memory(device, restart=True)
    seconds = estimate(work, trials, session.options.width, limit)
    return replace(cost, seconds=seconds, memory=peak_memory(device))


def _reached(most: Sides, trials: Sequence[Trial]) -> Sides:
    """Count the units on either side among trials.

    Where trials do not tell, the same part of both sides.

    Trials in folds take all units; canaries are tried in an order that does not depend on their
    side.
    """
    if any(trial.stratum == FOLDS for trial in trials):
        return most
    tried = {(side_of(trial.stratum), trial.cluster) for trial in trials}
    sides = [side for side, _ in tried]
    n_members = sum(side in MEMBERS for side in sides)
    n_others = sum(side in OTHERS for side in sides)
    if n_members or n_others or not tried:
        return n_members, n_others
    share = len(tried) / max(len(tried), sum(most))
    return math.ceil(share * most[0]), math.ceil(share * most[1])


def _missing_reference(session: Session, offer: _Offer, filled: LoadedReferences) -> str | None:
    """Name the reference that an attack lacks: nobody gave it, and a scan does not train it."""
    from audit.references.load import advise_public_model

    missing = dict(filled.missing)
    if filled.references.auxiliary is None and session.prepared.train is None:
        missing["auxiliary"] = advise_public_model(session.target)
    for need in needed_references(offer.attack, offer.case):
        if need in missing:
            return f"it needs a reference ({need}): {missing[need]}"
    return None


def estimate(work: Work, trials: Sequence[Trial], width: int, limit: float) -> float:
    """Estimate the seconds of all trials from a few that are run.

    These are one, one again, and ten or more at once. What one takes alone is that of its passes,
    which as many share as are in flight; what each of ten takes more is its part of them. Of short
    trials as many run at once as in a scan: ten would hide what they share.

    Args:
        work: what the trials are of.
        trials: trials, at least one.
        width: number of trials that a scan has in flight.
        limit: seconds after which no more trials are begun.
    """
    # From all over the list, whose neighbours are alike.
    most_at_once = max(width, TRIALS)
    n_places = min(len(trials), 2 + most_at_once)
    places = np.linspace(0, len(trials) - 1, n_places).astype(int)
    first, *following = (trials[place] for place in places)
    alone = _seconds_of(work, [first])
    left = limit - alone
    if following and alone < left:
        # The first one also pays for what is made once.
        alone = _seconds_of(work, following[:1])
        left -= alone
    n_several = most_at_once if alone < SHORT else TRIALS
    n_in_time = max(0, int(left / max(alone, 1e-6)))
    several = following[1 : 1 + min(n_several, n_in_time)]
    each = alone
    if len(several) > 1:
        each = max(0.0, _seconds_of(work, several) - alone) / (len(several) - 1)
    at_once = min(width, len(trials))
    return len(trials) / at_once * (alone + each * (at_once - 1))


def _seconds_of(work: Work, trials: Sequence[Trial]) -> float:
    """Measure the seconds that trials take which run at once."""
    began = time.perf_counter()
    for _ in drive(work, trials, len(trials)):
        pass
    return time.perf_counter() - began
