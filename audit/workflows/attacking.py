"""Run one attack of a scan: plan its trials, run them, measure, and finish the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from audit.attacks import text_of
from audit.attacks.interface import (
    Attack,
    barrier,
    confounded_by_copies,
    needed_references,
    nothing_to_try,
)
from audit.cards import Forgotten
from audit.case import Case
from audit.compare.paired import write_scores
from audit.engine.interface import Json, Progress, Trial
from audit.failures import Part
from audit.record import Reason, Result, Status
from audit.references.resolve import LoadedReferences, complete
from audit.stats.paired import UnitScores
from audit.workflows.checking import usable_references
from audit.workflows.execution import PlannedTrials, run_trials
from audit.workflows.journals import Origin
from audit.workflows.number_format import choose_number_format
from audit.workflows.options import REFERENCES_FOLDER
from audit.workflows.session import Session


@dataclass(frozen=True)
class Running:
    """A scan that runs: its session, and what its attacks share.

    Attributes:
        session: everything that the scan reads.
        origin: counts the outcomes, and those among them that earlier runs computed.
        progress: receiver of the progress, told of every trial.
    """

    session: Session
    origin: Origin
    progress: Progress

    @cached_property
    def references(self) -> LoadedReferences:
        """Return the references, loaded or trained when the first attack needs them."""
        self.progress.stage("references")
        return fill_references(self.session, self.progress)

    @cached_property
    def case(self) -> Case:
        """Return what the attacks are put to, with the references."""
        return self.session.case_with(self.references)


@dataclass(frozen=True)
class FinishedAttack:
    """What came of an attack.

    Attributes:
        result: the result for the record.
        recovered: what the attack recovered, for the owner alone.
    """

    result: Result
    recovered: tuple[Json, ...] = ()


def run_attack(running: Running, attack: Attack) -> FinishedAttack:
    """Run one attack, and return a result whatever happens."""
    session = running.session
    barred = barrier(attack, session.case)
    if barred is not None:
        status: Status = "inapplicable" if barred.kind == "model" else "skipped"
        return FinishedAttack(Result(attack.name, status, barred))
    with Part(attack.name, session.options.evidence) as part:
        missing = _missing_reference(running, attack)
        if missing is not None:
            return FinishedAttack(Result(attack.name, "skipped", missing))
        trials = session.trials_of(attack, running.case)
        if not trials:
            nothing = nothing_to_try(attack, running.case)
            return FinishedAttack(Result(attack.name, "skipped", nothing))
        planned = plan_trials(running, attack, trials)
        outcomes = run_trials(
            session, planned, running.references, running.progress, running.origin
        )
        measured = measure(running, planned, outcomes)
        return finish(running, planned, outcomes, measured)
    return FinishedAttack(Result(attack.name, "failed", Reason("error", part.failure)))


def _missing_reference(running: Running, attack: Attack) -> Reason | None:
    """Say which reference an attack needs that nobody gave; None where it has all."""
    missing = running.references.missing
    for need in needed_references(attack, running.case):
        if need in missing:
            return Reason("missing", f"it needs a reference ({need})", missing[need])
    return None


def plan_trials(running: Running, attack: Attack, trials: Sequence[Trial]) -> PlannedTrials:
    """Choose the trials that the budget takes of an attack, and the number format of the model.

    Args:
        running: the scan.
        attack: the attack.
        trials: all that it could try, at least one.
    """
    session = running.session
    sampled = session.sampling.sample(attack.name, trials)
    checkpoint, agreement = choose_number_format(
        session, attack, running.case, sampled, running.progress
    )
    case = session.case_in_format(running.case, checkpoint)
    return PlannedTrials(attack, case, checkpoint, agreement, sampled)


def measure(running: Running, planned: PlannedTrials, outcomes: Sequence[Json]) -> Result:
    """Turn the outcomes of an attack's trials into numbers."""
    session = running.session
    attack = planned.attack
    running.progress.stage(f"{session.stage_of(attack)}: measuring")
    rng = np.random.default_rng([session.options.seed, *attack.name.encode()])
    measured = attack.measure(planned.case, planned.trials, outcomes, rng, running.progress)
    copied = confounded_by_copies(session.data.copies, attack, session.corpus)
    if copied:
        measured = replace(measured, confounded=copied, unvouched=False, controls=())
    return cover_listed(measured, session.data.forgotten)


def finish(
    running: Running, planned: PlannedTrials, outcomes: Sequence[Json], measured: Result
) -> FinishedAttack:
    """Add to a result what the scan knows of its attack, and keep the evidence behind it."""
    session = running.session
    attack = planned.attack
    recovered: list[Json] = []
    scores: dict[str, UnitScores] = {}
    for item in attack.evidence(planned.case, planned.trials, outcomes):
        if isinstance(item, tuple):
            metric, unit_scores = item
            scores[metric] = unit_scores
        else:
            recovered.append(item)
    result = replace(
        measured,
        parameters=attack.parameters_on(planned.case),
        diagnostics=(*measured.diagnostics, *planned.agreement),
        power=text_of(attack.name).power,
        dtype=planned.case.target.card.dtype,
        ablations=(*attack.ablations, *measured.ablations),
        parameters_file=session.parameters_file,
    )
    write_scores(session.options.evidence, result, scores)
    return FinishedAttack(result, tuple(recovered))


def cover_listed(result: Result, forgotten: Forgotten | None) -> Result:
    """Hold coverage against every document that was to be forgotten, left out or not."""
    if forgotten is None:
        return result
    coverage = tuple(replace(row, total=forgotten.listed) for row in result.coverage)
    return replace(result, coverage=coverage)


def fill_references(session: Session, progress: Progress) -> LoadedReferences:
    """Load the references that the attacks take, and train those that can be and are missing."""
    options = session.options
    needs = usable_references(session.attacks, session.target)
    is_needed = any("auxiliary" in attack.needs for attack in session.attacks)
    if session.prepared.auxiliary is None and not is_needed:
        needs.discard("auxiliary")
    place = options.cache or options.evidence / REFERENCES_FOLDER
    return complete(
        session.prepared,
        needs,
        session.target,
        place,
        options.seed,
        progress,
        session.batch_tokens,
    )
