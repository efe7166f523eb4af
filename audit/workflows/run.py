"""Run a scan: `run_scan(session) -> AuditRecord`, which knows no policy."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from audit.attacks.battery import BATTERY
from audit.attacks.interface import Attack, barrier, first_reason
from audit.attacks.membership.scan_checks import ScanChecks, check_scan, untested_scan
from audit.attacks.text import SENTENCES
from audit.cards import DeclaredPolicy
from audit.case import Case
from audit.engine.interface import SILENT, Json, Progress
from audit.errors import TargetError
from audit.failures import Part, guarded
from audit.files import RECOVERED, write_atomically
from audit.measurements import Check, Measurement, Unresolved
from audit.policy.facts import NOT_RUN
from audit.record import AuditRecord, Reason, Result
from audit.report.revealed import write_owner
from audit.targets.opening import environment
from audit.targets.utility import Usefulness, measure_usefulness
from audit.workflows.arguments import arguments_of
from audit.workflows.attacking import Running, plan_trials, run_attack
from audit.workflows.execution import PlannedTrials, run_trials
from audit.workflows.journals import Origin, now
from audit.workflows.session import Session, refuse_changed

ASK = "scan without --only"


def run_scan(
    session: Session, progress: Progress, declared: DeclaredPolicy | None = None
) -> AuditRecord:
    """Run every attack of a session and return the record of what they found.

    `options.out` must be held (`claim_folder`). Each attack ends as exactly one result; a failure
    of one stops none of the others. Outcomes are journaled in `evidence/` as they come, so that a
    killed scan goes on where it was.

    Args:
        session: everything that the scan reads.
        progress: receiver of the progress, told of every trial.
        declared: the policy that the record declares; it changes nothing else.

    Raises:
        DocauditError: the audit itself could not go on.
    """
    with guarded("the scan", session.options.evidence):
        return _run_guarded(session, progress, declared)


@dataclass(frozen=True)
class _Start:
    """When a scan began.

    Attributes:
        time: time in UTC, to the second.
        seconds: the same on a clock that is never set.
    """

    time: str
    seconds: float


def _run_guarded(
    session: Session, progress: Progress, declared: DeclaredPolicy | None
) -> AuditRecord:
    """Run all attacks of an opened scan, check and assemble its record, and return it."""
    start = _Start(now(), time.monotonic())
    origin = Origin(None if declared is None else declared.sha256)
    session = settle_sampling(session, progress)
    if session.notice:
        progress.stage(session.notice)
    # Before the attacks: what can break down on its own does so before hours are spent.
    useful = _measure_usefulness(session, progress)
    running = Running(session, origin, progress)
    results: list[Result] = []
    recovered: list[Json] = []
    with closing(session.engine):
        for attack in session.attacks:
            finished = run_attack(running, attack)
            results.append(finished.result)
            recovered += finished.recovered
    lost_workers = getattr(session.engine, "notice", "")
    if lost_workers:
        progress.stage(lost_workers)
    _write_recovered(recovered, session.options.evidence)
    ran = any(result.status == "completed" for result in results)
    checks = _check_scan(running) if ran else ScanChecks()
    _refuse_swapped(running)
    record = _assemble(running, start, results, checks, useful, declared)
    options = session.options
    write_owner(record, options.evidence, options.paths, arguments_of(options))
    return record


def settle_sampling(session: Session, progress: Progress) -> Session:
    """Return the scan with the trials that fit into its time, where time decides anything.

    See `planning.fit_time`.
    """
    if session.options.seconds is None and not session.awaits_time:
        return session
    # Imported late: a scan whose budget is a share needs no planning.
    from audit.workflows.planning import fit_time

    return fit_time(session, progress)


def _write_recovered(recovered: Sequence[Json], evidence: Path) -> None:
    """Keep what the attacks recovered, for the owner alone."""
    # In ASCII: half a surrogate pair in an answer has no other way into a file.
    lines = [json.dumps(entry) + "\n" for entry in recovered]
    write_atomically(evidence / RECOVERED, "".join(lines).encode(), mode=0o600)


def _refuse_swapped(running: Running) -> None:
    """Refuse a model whose files changed under the scan, and remove the outcomes of it.

    Raises:
        TargetError: they changed.
    """
    try:
        refuse_changed(running.session)
    except TargetError:
        # Another scan would take their outcomes for those of the files that were hashed.
        for journal in running.origin.journals:
            journal.path.unlink(missing_ok=True)
        raise


def _assemble(
    running: Running,
    start: _Start,
    results: Sequence[Result],
    checks: ScanChecks,
    useful: Usefulness,
    declared: DeclaredPolicy | None,
) -> AuditRecord:
    """Put the record together."""
    session = running.session
    options = session.options
    target = session.target
    completed = [result for result in results if result.status == "completed"]
    shares = {result.attack: session.sampling.share_of(result.attack) for result in completed}
    least = min(shares.values(), default=session.sampling.share)
    derived_by = options.derived_by
    if session.defense is not None:
        derived_by = (*derived_by, session.defense.title)
    seconds = round(time.monotonic() - start.seconds, 3)
    return AuditRecord(
        schema_version=2,
        target=target.card,
        corpus=session.data.card(),
        references=running.references.cards if completed else (),
        budget=session.sampling.budget,
        share=least,
        shares={attack: share for attack, share in shares.items() if share > least},
        seed=options.seed,
        battery=tuple(kind.name for kind in BATTERY),
        attacks=tuple(results),
        utility=useful.measures,
        checks=(*checks.checks, *useful.checks),
        conditions=checks.conditions,
        untested=(*checks.untested, *getattr(target, "untested", ())),
        environment=environment(target, session.device),
        timing=running.origin.timing(start.time, now(), seconds),
        derived_by=derived_by,
        left_out=_left_out(session),
        dp=session.dp,
        bounds=session.sampling.bounds,
        policy=declared,
        audit=session.corpus.manifest.audit,
    )


def _left_out(session: Session) -> tuple[Result, ...]:
    """Return the attacks that were not asked for, and whether they could have been run."""
    chosen = {attack.name for attack in session.attacks}
    results = []
    for kind in BATTERY:
        if kind.name in chosen:
            continue
        attack = kind.preset(session.options.budget)
        reason = barrier(attack, session.case) or _why_left_out(attack, session.case)
        results.append(Result(attack.name, "left out", reason))
    return tuple(results)


def _why_left_out(attack: Attack, case: Case) -> Reason:
    """Say what an attack that was not asked for would need beside being asked for."""
    lacking = first_reason(attack.applies(case), "data")
    if lacking is None:
        return Reason("left out", NOT_RUN, ASK)
    fix = f"{lacking.fix}, and {ASK}" if lacking.fix else ASK
    return Reason("data", lacking.why, fix)


def _check_scan(running: Running) -> ScanChecks:
    """Check whether the documents themselves explain what the attacks find."""
    session = running.session
    if not session.target.card.is_model:
        return ScanChecks()
    running.progress.stage("checks of the scan")
    copied = session.data.copies.heldout_confounded
    if copied is not None:
        # Its copies in training explain what the checks would see.
        return untested_scan(copied)
    with Part("checks", session.options.evidence) as part:
        case = session.with_fewer_unseen(running.case)
        return check_scan(case, session.options.width, running.progress, session.attacks)
    return _failed_checks(part.failure)


def _measure_usefulness(session: Session, progress: Progress) -> Usefulness:
    """Measure how well the model does its task; a failure gives a number that is unresolved."""
    progress.stage("usefulness")
    if not session.target.card.is_model:
        return Usefulness([])
    with Part("usefulness", session.options.evidence) as part:
        case = session.with_fewer_unseen(session.case)
        return measure_usefulness(case.target, case.corpus, session.options.seed)
    return Usefulness([(number, None) for number in _unmeasured_usefulness(part.failure)])


def _unmeasured_usefulness(failure: str) -> tuple[Measurement, ...]:
    """Return a usefulness without a number, so that no limit is passed."""
    return (Unresolved("usefulness", SENTENCES["measuring_failed"].format(failure=failure), 0),)


def _failed_checks(failure: str) -> ScanChecks:
    """Return scan checks with one that always fires, as the real ones failed.

    So a scan whose checks failed passes no limit.
    """
    reason = SENTENCES["checks_failed"].format(failure=failure)
    alarm = Check("checks of the scan", 0.0, "alarm", reason, SENTENCES["mend_failure"])
    return replace(untested_scan(failure), checks=(alarm,))


def read_outcomes(
    session: Session, name: str, progress: Progress = SILENT
) -> tuple[PlannedTrials, list[Json]]:
    """Read the outcomes of one attack of a scan that has run, without asking the model.

    They are in its journal.

    Args:
        session: the scan; `options.out` is the folder that it wrote.
        name: name of the attack.
        progress: receiver of the progress, told of trials that are not in the journal, and are
            tried again.
    """
    session = settle_sampling(session, progress)
    running = Running(session, Origin(), progress)
    (attack,) = (attack for attack in session.attacks if attack.name == name)
    planned = plan_trials(running, attack, session.trials_of(attack, running.case))
    return planned, run_trials(session, planned, running.references, progress, running.origin)
