"""One scan: case, trials, outcomes, measurements, record, reports."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from audit import policy as policies
from audit import record as records
from audit.attacks import text_of
from audit.attacks.battery import BATTERY
from audit.attacks.interface import (
    Attack,
    confounded_by_copies,
    first_reason,
    nothing_to_try,
    why_inapplicable,
)
from audit.attacks.membership.scan_checks import ScanChecks, check_scan, untested_scan
from audit.attacks.text import SENTENCES
from audit.cards import Bounds, DeclaredPolicy, Forgotten
from audit.case import Case
from audit.corpus.canaries.schema import read_proof
from audit.corpus.near_copies import counts_left_out
from audit.corpus.summary import card
from audit.engine.interface import SILENT, Json, Progress, Trial
from audit.errors import EngineError, TargetError
from audit.failures import Part, guarded
from audit.files import write_atomically
from audit.measurements import Check, Measurement, Unresolved
from audit.policy import Policy, Verdict
from audit.policy.checks import settle
from audit.policy.reasons import NOT_RUN
from audit.record import AuditRecord, Reason, Result
from audit.references.resolve import LoadedReferences, complete
from audit.report.files import NAMES
from audit.report.revealed import write_owner
from audit.targets.opening import count_questions, environment
from audit.targets.utility import usefulness
from audit.workflows.execution import Origin, collect_outcomes, now
from audit.workflows.number_format import choose_number_format
from audit.workflows.options import (
    REFERENCES_FOLDER,
    ScanOptions,
    check_apart,
    claim_folder,
    warn_of_other_record,
)
from audit.workflows.report import write_report
from audit.workflows.setup import (
    ScanSetup,
    open_scan,
    refuse_changed,
    usable_references,
)
from audit.workflows.unit_scores import write_scores

ASK = "scan without --only"


@dataclass(frozen=True)
class ScanResult:
    """A scan that has run, judged and drawn.

    Attributes:
        record: everything that was measured; the same as `record.json`.
        verdict: of the policy.
        warnings: of the data set, the model and the reports.
        out: the folder of record and reports.
    """

    record: AuditRecord
    verdict: Verdict
    warnings: tuple[str, ...]
    out: Path

    @property
    def exit_code(self) -> int:
        """Return the exit code that `docaudit scan` ends with: 0 passed, 10 violated, 11 undecided."""
        return self.verdict.exit_code

    @property
    def reports(self) -> dict[str, Path]:
        """Return the files that were written, by their names."""
        return {
            name: path for name in ("record.json", *NAMES) if (path := self.out / name).exists()
        }


@dataclass(frozen=True)
class Labelled(Progress):
    """A `Progress` that puts the name of one of several scans before every stage."""

    progress: Progress
    label: str

    def stage(self, name: str, total: int = 0) -> None:
        """See `Progress.stage`."""
        self.progress.stage(f"{self.label}: {name}", total)

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        self.progress.advance(steps)


def run(
    options: ScanOptions,
    policy: Policy,
    progress: Progress,
    warn: Callable[..., None] = lambda *_: None,
) -> ScanResult:
    """Open a scan, run it, judge it and write its reports: all that `docaudit scan` and the Python API do.

    Args:
        options: of the scan.
        policy: what it is judged by.
        progress: of every trial.
        warn: gets warnings as soon as they are known; the result has them all.

    Raises:
        DocauditError: the scan could not start, or could not go on.
    """
    with guarded("the scan"):
        return _open_and_run(options, policy, progress, warn)


def _open_and_run(
    options: ScanOptions, policy: Policy, progress: Progress, warn: Callable[..., None]
) -> ScanResult:
    # Loads what lists references, which sweeps and defences do without.
    from audit.workflows.references import missing_references

    policies.check_subject(policy, forgotten=options.forgotten is not None)
    check_apart(options)
    opened = open_scan(options)
    lacking = () if options.no_model else missing_references(opened)
    replaced = warn_of_other_record(options.out, opened.target.card.sha256, opened.corpus.sha256)
    known = (*replaced, *opened.warnings, *lacking, *policies.warn_of_few(opened.forgotten, policy))
    warn(*known)
    result = audit_checkpoint(opened, policy, progress)
    warn(*result.warnings)
    return replace(result, warnings=(*known, *result.warnings))


def audit_checkpoint(opened: ScanSetup, policy: Policy, progress: Progress) -> ScanResult:
    """Run one scan, judge it and write all its files into its folder.

    Args:
        opened: the scan.
        policy: what it is judged by.
        progress: of every trial.

    Raises:
        DocauditError: the audit could not go on.
    """
    out, options = opened.options.out, opened.options
    with claim_folder(out, options.evidence):
        record = run_under(policy, opened, progress)
        verdict = policies.evaluate(record, policy, policies.today())
        try:
            warnings = write_report(record, verdict, policy, out, paths=options.paths)
        except EngineError as error:
            warnings = error.lines
        finally:
            # Last, so that no record is ever seen with an older report; always, for the verdict
            # outranks drawing.
            records.write(record, out / "record.json")
    return ScanResult(record, verdict, tuple(warnings), out)


def declare(policy: Policy) -> DeclaredPolicy | None:
    """Return the policy as a record holds it; None for one that no file holds."""
    origin = policy.origin
    return (
        None
        if origin is None
        else DeclaredPolicy(policy.name, origin.sha256, origin.shipped, origin.toml)
    )


def run_under(policy: Policy, opened: ScanSetup, progress: Progress) -> AuditRecord:
    """Run a scan that declares a policy, and settle its checks by the limits of the policy.

    Args:
        policy: what the record is judged by.
        opened: the scan, see `run_scan`.
        progress: of every trial.

    Raises:
        DocauditError: the audit itself could not go on.
    """
    return settle(run_scan(opened, progress, declare(policy)), policy.limits)


def run_scan(
    opened: ScanSetup, progress: Progress, declared: DeclaredPolicy | None = None
) -> AuditRecord:
    """Run every attack that was asked for and write down what came of it.

    `options.out` must be held (`claim_folder`). Each attack ends as exactly one result; a failure
    of one stops none of the others. Outcomes are journaled in `evidence/` as they come, so that a
    killed scan goes on where it was.

    Raises:
        DocauditError: the audit itself could not go on.
    """
    with guarded("the scan", opened.options.evidence):
        return _run_guarded(opened, progress, declared)


def _run_guarded(
    opened: ScanSetup, progress: Progress, declared: DeclaredPolicy | None
) -> AuditRecord:
    started, clock = now(), time.monotonic()
    origin = Origin(None if declared is None else declared.sha256)
    opened = _fitted(opened, progress)
    options, target, corpus, every = (
        opened.options,
        opened.target,
        opened.corpus,
        opened.whole or opened.corpus,
    )
    for name in filter(None, (opened.notice, "usefulness")):
        progress.stage(name)
    # Before the attacks: what can break down on its own does so before hours are spent.
    useful = _measure_usefulness(opened)
    run = _Run(opened, origin, progress)
    with closing(opened.engine):
        for attack in opened.attacks:
            run.results.append(run.attack(attack))
    # In ASCII: half a surrogate pair in an answer has no other way into a file.
    recovered = "".join(json.dumps(entry) + "\n" for entry in run.recovered)
    write_atomically(options.evidence / "recovered.jsonl", recovered.encode(), mode=0o600)
    ran = any(one.status == "completed" for one in run.results)
    whole = run.checks if ran else ScanChecks()
    try:
        refuse_changed(opened)
    except TargetError:
        # Another scan would take their outcomes for those of the files that were hashed.
        for journal in origin.journals:
            journal.path.unlink(missing_ok=True)
        raise
    shares = {
        one.attack: opened.share_of(one.attack) for one in run.results if one.status == "completed"
    }
    least = min(shares.values(), default=opened.share)
    bounds = Bounds(options.documents, options.seconds, opened.part)
    record = AuditRecord(
        schema_version=2,
        target=target.card,
        corpus=replace(
            card(corpus),
            near_copies=counts_left_out(every, opened.copies.left_out),
            unread=counts_left_out(every, opened.unread.documents),
            unread_questions=count_questions(every, opened.unread),
            forgotten=opened.forgotten,
        ),
        references=run.references.cards if ran else (),
        budget=opened.budget,
        share=least,
        shares={attack: share for attack, share in shares.items() if share > least},
        seed=options.seed,
        battery=tuple(kind.name for kind in BATTERY),
        attacks=tuple(run.results),
        utility=useful,
        checks=whole.checks,
        conditions=whole.conditions,
        untested=(*whole.untested, *getattr(target, "untested", ())),
        environment=environment(target, opened.device),
        timing=origin.timing(started, now(), round(time.monotonic() - clock, 3)),
        derived_by=options.derived_by
        if opened.defense is None
        else (*options.derived_by, opened.defense.name),
        left_out=_left_out(opened),
        dp=opened.dp,
        bounds=None if bounds == Bounds(None, None, 1.0) else bounds,
        policy=declared,
        audit=opened.corpus.manifest.audit,
    )
    write_owner(record, options.evidence, options.paths)
    return record


def _fitted(opened: ScanSetup, progress: Progress) -> ScanSetup:
    """Return the scan with what fits into its time, where time decides anything.

    See `planning.fit_time`.
    """
    if opened.options.seconds is None and not opened.by_time:
        return opened
    from audit.workflows.planning import fit_time

    return fit_time(opened, progress)


def _left_out(opened: ScanSetup) -> tuple[Result, ...]:
    """Return the attacks that were not asked for, and whether they could have been run."""
    case = Case(opened.defended(opened.target), opened.corpus)
    asked = {attack.name for attack in opened.attacks}
    results = []
    for attack in (
        kind.preset(opened.options.budget) for kind in BATTERY if kind.name not in asked
    ):
        barred = why_inapplicable(attack, case)
        reason = _why_left_out(attack, case) if barred is None else Reason("model", barred)
        results.append(Result(attack.name, "left out", reason))
    return tuple(results)


def _why_left_out(attack: Attack, case: Case) -> Reason:
    """Say what an attack that was not asked for would need beside being asked for."""
    lacking = first_reason(attack.applies(case), "data")
    if lacking is None:
        return Reason("left out", NOT_RUN, ASK)
    return Reason("data", lacking.why, f"{lacking.fix}, and {ASK}" if lacking.fix else ASK)


def fill_references(opened: ScanSetup, progress: Progress) -> LoadedReferences:
    """Load the references that the attacks take.

    Train those that are missing and can be trained.
    """
    options, needs = opened.options, usable_references(opened.attacks, opened.target)
    if opened.prepared.auxiliary is None and not any(
        "auxiliary" in attack.needs for attack in opened.attacks
    ):
        needs.discard("auxiliary")
    place = options.cache or options.evidence / REFERENCES_FOLDER
    return complete(
        opened.prepared, needs, opened.target, place, options.seed, progress, opened.batch_tokens
    )


@dataclass(frozen=True)
class _Run:
    """The attacks of one scan, their results so far, and what they recovered."""

    opened: ScanSetup
    origin: Origin
    progress: Progress
    results: list[Result] = field(default_factory=list)
    recovered: list[Json] = field(default_factory=list)

    @cached_property
    def references(self) -> LoadedReferences:
        """The references, loaded or trained once."""
        self.progress.stage("references")
        return fill_references(self.opened, self.progress)

    @cached_property
    def checks(self) -> ScanChecks:
        """The checks of the scan, which need the references."""
        opened = self.opened
        if not opened.target.card.is_model:
            return ScanChecks()
        self.progress.stage("checks of the scan")
        if opened.copies.heldout_confounded is not None:
            # Its copies in training explain what the checks would see.
            return untested_scan(opened.copies.heldout_confounded)
        with Part("checks", opened.options.evidence) as part:
            references = opened.references_behind_defense(self.references)
            case = Case(opened.defended(opened.target), opened.asked(opened.corpus), references)
            return check_scan(case, opened.options.width, self.progress, opened.attacks)
        return _failed_checks(part.failure)

    def attack(self, attack: Attack) -> Result:
        """Return one attack's result, whatever happens."""
        opened = self.opened
        barred = why_inapplicable(attack, Case(opened.defended(opened.target), opened.corpus))
        if barred is not None:
            return Result(attack.name, "inapplicable", Reason("model", barred))
        with Part(attack.name, opened.options.evidence) as part:
            filled = self.references
            for need in attack.needs:
                if need in filled.missing:
                    reason = Reason(
                        "missing", f"it needs a reference ({need})", filled.missing[need]
                    )
                    return Result(attack.name, "skipped", reason)
            return self._measure(attack, filled)
        return Result(attack.name, "failed", Reason("error", part.failure))

    def _measure(self, attack: Attack, filled: LoadedReferences) -> Result:
        opened, options, progress = self.opened, self.opened.options, self.progress
        case = Case(
            opened.defended(opened.target), opened.corpus, opened.references_behind_defense(filled)
        )
        everything = attack.trials(case)
        if not everything:
            return Result(attack.name, "skipped", nothing_to_try(attack, case))
        trials = opened.sampled(attack, everything)
        checkpoint, agreement = choose_number_format(opened, attack, case, trials, progress)
        proof = read_proof(options.model_dir, opened.corpus)
        case = replace(case, target=opened.defended(checkpoint), canary_loss=proof)
        copied = confounded_by_copies(opened.copies, attack, opened.corpus)
        outcomes = collect_outcomes(
            opened, attack, checkpoint, filled, trials, progress, self.origin
        )
        progress.stage(f"{opened.stage_of(attack)}: measuring")
        rng = np.random.default_rng([options.seed, *attack.name.encode()])
        measured = attack.measure(case, trials, outcomes, rng, progress)
        if copied:
            measured = replace(measured, confounded=copied, unvouched=False)
        measured = cover_listed(measured, opened.forgotten)
        evidence = [*attack.evidence(case, trials, outcomes)]
        self.recovered.extend(item for item in evidence if not isinstance(item, tuple))
        result = replace(
            measured,
            parameters=asdict(attack),
            diagnostics=(*measured.diagnostics, *agreement),
            power=text_of(attack.name).power,
            dtype=case.target.card.dtype,
            ablations=(*attack.ablations, *measured.ablations),
            parameters_file=opened.parameters_file,
            controls=() if copied else measured.controls,
        )
        write_scores(
            options.evidence, result, dict(item for item in evidence if isinstance(item, tuple))
        )
        return result


def cover_listed(result: Result, forgotten: Forgotten | None) -> Result:
    """Hold coverage against every document that was to be forgotten, those that are left out as well."""
    if forgotten is None:
        return result
    return replace(
        result, coverage=tuple(replace(one, total=forgotten.listed) for one in result.coverage)
    )


def read_outcomes(
    opened: ScanSetup, name: str, progress: Progress = SILENT
) -> tuple[Case, list[Trial], list[Json]]:
    """Read the outcome of every trial of one attack of a scan that has run from its journal, without asking the model.

    Args:
        opened: the scan; `options.out` is the folder it wrote.
        name: of the attack.
        progress: of trials that are not in the journal, and are tried again.
    """
    opened = _fitted(opened, progress)
    (attack,) = (attack for attack in opened.attacks if attack.name == name)
    filled = fill_references(opened, progress)
    case = Case(
        opened.defended(opened.target), opened.corpus, opened.references_behind_defense(filled)
    )
    trials = opened.sampled(attack, attack.trials(case))
    checkpoint, _ = choose_number_format(opened, attack, case, trials, progress)
    return case, trials, collect_outcomes(opened, attack, checkpoint, filled, trials, progress)


def _measure_usefulness(opened: ScanSetup) -> tuple[Measurement, ...]:
    """Measure what the model is good for."""
    target = opened.target
    if not target.card.is_model:
        return ()
    with Part("usefulness", opened.options.evidence) as part:
        return usefulness(opened.defended(target), opened.asked(opened.corpus), opened.options.seed)
    return _unmeasured_usefulness(part.failure)


def _unmeasured_usefulness(failure: str) -> tuple[Measurement, ...]:
    """Return a usefulness without a number, so that no limit is passed."""
    return (Unresolved("usefulness", SENTENCES["measuring_failed"].format(failure=failure), 0),)


def _failed_checks(failure: str) -> ScanChecks:
    """Return a check that fires whatever the others say, so that a scan whose checks failed passes no limit."""
    reason = SENTENCES["checks_failed"].format(failure=failure)
    alarm = Check("checks of the scan", 0.0, "alarm", reason, SENTENCES["mend_failure"])
    return replace(untested_scan(failure), checks=(alarm,))
