"""One countermeasure or several: the scan without, the scan with each, comparisons, reports."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from audit import __version__
from audit import record as records
from audit.corpus import manifest
from audit.defenses import measured
from audit.defenses.comparison import Change
from audit.defenses.interface import DataDefense, Defense, QueryDefense, TakesPrivacyOptions, TrainingDefense
from audit.defenses.measured import Comparison
from audit.defenses.registry import DEFENSES
from audit.engine.interface import Progress
from audit.errors import ManifestError, RecordError, TargetError, UsageError
from audit.extensions.private.options import DpOptions
from audit.measurements import Estimate
from audit.policy import Policy
from audit.record import AuditRecord
from audit.references.cache import key_of
from audit.report import defense_comparison
from audit.workflows.defend.effects import (
    changes_of_limits,
    effects_on_limits,
    effects_on_usefulness,
    missing_attacks,
)
from audit.workflows.defend.memory import changes_of, refusals_as_sign
from audit.workflows.defend.placing import apply, check, hold_folder, refuse_contradicted_guarantee
from audit.workflows.defend.proof import proof_of
from audit.workflows.defend.scans import ScanOfSide, run_side
from audit.workflows.gate import load_policy
from audit.workflows.options import ScanOptions
from audit.workflows.report import write_report
from audit.workflows.scan import Labelled

COMPARISON = measured.FILE_NAME
FILES = (defense_comparison.PDF_NAME, defense_comparison.HTML_NAME, COMPARISON)
BEFORE, AFTER = "before", "after"
_NOT_FOR_THIS = (ManifestError, TargetError, UsageError)
"""Errors by which a countermeasure says that it is none for this model or data set."""


@dataclass(frozen=True)
class DefenseComparison:
    """What a countermeasure changes, and the files that show it; `channel` as in `DefenseRow.side_channel`."""

    changes: tuple[Change, ...]
    channel: Estimate | None
    files: tuple[Path, ...]
    comparison: Comparison


@dataclass(frozen=True)
class DefenseChoice:
    """Several countermeasures beside each other, those that do not apply with the reason, and the files written."""

    comparisons: tuple[Comparison, ...]
    left_out: dict[str, str]
    files: tuple[Path, ...]


@dataclass(frozen=True)
class _Plan:
    """What all countermeasures of a command share."""

    options: ScanOptions
    policy: Policy
    progress: Progress


def measure_defense(
    name: str, options: ScanOptions, policy: str, progress: Progress, dp: DpOptions | None = None
) -> Iterator[str | DefenseComparison]:
    """Scan the model as it is into `options.out`/before and with the countermeasure into /after, compare, and report.

    Args:
        name: of a countermeasure in use, or of one that trains (`audit.defenses.registry.DEFENSES`).
        options: of the scan of the model as it is; `out` is the folder for everything.
        policy: a shipped policy or a file.
        progress: of scans and training.
        dp: the options of private training; None: its own.

    Yields:
        Warnings as they arise, and at the end the comparison.

    Raises:
        DocauditError: there is no such countermeasure, a scan cannot start or go on, or a model cannot be trained.
    """
    defense = _with_options(_on_models(name), dp, options)
    plan = _Plan(options, load_policy(policy), progress)
    check(defense, options)
    with hold_folder(options, FILES):
        before = yield from _scan_before(plan)
        after, comparison = yield from _measure(defense, before, plan, options.out)
        rows = [defense_comparison.DefenseRow("As it was", before.record), _row(defense, after.record, comparison)]
        files = yield from _report(rows, before, plan)
        yield DefenseComparison(comparison.changes, comparison.side_channel, files, comparison)


def measure_defenses(
    names: Sequence[str], options: ScanOptions, policy: str, progress: Progress, dp: DpOptions | None = None
) -> Iterator[str | DefenseChoice]:
    """The same for several: one scan of the model as it is, and a folder for each countermeasure.

    A killed run goes on: outcomes of scans are journaled, models are trained once, and finished comparisons are read.

    Args:
        names: of countermeasures, each once; empty: all.
        options: as in `measure_defense`.
        policy: a shipped policy or a file.
        progress: of scans and training.
        dp: the options of private training; None: its own.

    Yields:
        Warnings as they arise, and at the end the choice.

    Raises:
        DocauditError: there is no such countermeasure, none applies, or a scan cannot start or go on.
    """
    chosen = [DEFENSES[name] if name in DEFENSES else _on_models(name) for name in names or DEFENSES]
    plan = _Plan(options, load_policy(policy), progress)
    left_out: dict[str, str] = {}
    rows: list[defense_comparison.DefenseRow] = []
    with hold_folder(options, FILES):
        before = yield from _scan_before(plan)
        for defense in chosen:
            try:
                rows.append((yield from _measured_once(defense, before, plan, dp)))
            except _NOT_FOR_THIS as error:
                left_out[defense.name] = str(error)
        if not rows:
            raise UsageError([f"{name}: {reason}" for name, reason in left_out.items()], "see docaudit defend --help")
        first = defense_comparison.DefenseRow("As it was", before.record)
        files = yield from _report([first, *rows], before, plan, left_out)
        comparisons = tuple(row.comparison for row in rows if row.comparison is not None)
        yield DefenseChoice(comparisons, left_out, files)


def _on_models(name: str) -> QueryDefense | TrainingDefense:
    defense = DEFENSES.get(name)
    if not isinstance(defense, QueryDefense | TrainingDefense):
        raise UsageError(f"no countermeasure on a model is called {name!r}", f"one of {', '.join(DEFENSES)}")
    return defense


def _with_options(defense: Defense, dp: DpOptions | None, options: ScanOptions) -> Defense:
    """The countermeasure as its owner wants it, where it is private training."""
    if not isinstance(defense, TakesPrivacyOptions):
        return defense
    chosen = DpOptions(seed=options.seed) if dp is None else dp
    proves = None
    if chosen.to_policy is not None:
        proves = proof_of(load_policy(chosen.to_policy), manifest.load(options.data_dir))
    return defense.with_options(chosen, options.model_dir, proves)


def _scan_before(plan: _Plan) -> Generator[str, None, ScanOfSide]:
    return (yield from run_side(plan.options.below(BEFORE), plan.policy, Labelled(plan.progress, "as it is")))


def _measured_once(
    defense: Defense, before: ScanOfSide, plan: _Plan, dp: DpOptions | None
) -> Generator[str, None, defense_comparison.DefenseRow]:
    """A countermeasure in a folder of its own; its finished comparison is read where it is still the same one."""
    if isinstance(defense, DataDefense):
        raise UsageError(f"it rewrites a data set: docaudit defend {defense.name} DATA_DIR")
    defense = _with_options(defense, dp, plan.options)
    check(defense, plan.options)
    folder = plan.options.out / defense.name
    try:
        known, record = measured.read(folder), records.read(folder / AFTER)
    except RecordError:
        pass
    else:
        if known.key == _key(defense, before, plan) and record.target.sha256 == known.result:
            yield f"{defense.name}: measured before, read from {folder}"
            return _row(defense, record, known)
    after, comparison = yield from _measure(defense, before, plan, folder)
    return _row(defense, after.record, comparison)


def _measure(
    defense: Defense, before: ScanOfSide, plan: _Plan, folder: Path
) -> Generator[str, None, tuple[ScanOfSide, Comparison]]:
    """Put the countermeasure in place, scan, compare, and write the comparison into `folder`."""
    defended = apply(defense, plan.options, folder / AFTER, before.n_baselines, plan.progress)
    after = yield from run_side(defended, plan.policy, Labelled(plan.progress, defense.title.lower()))
    refuse_contradicted_guarantee(after.record)
    comparison = yield from _compare(defense, before, after, plan)
    measured.write(comparison, folder)
    return after, comparison


def _compare(defense: Defense, before: ScanOfSide, after: ScanOfSide, plan: _Plan) -> Generator[str, None, Comparison]:
    rng = np.random.default_rng([plan.options.seed, *defense.name.encode()])
    changes: tuple[Change, ...] = ()
    if before.memory is not None and after.memory is not None:
        changes = yield from changes_of(before.memory.table, after.memory.table, rng)
    channel = None
    if isinstance(defense, TrainingDefense) and defense.teaches_refusal and after.memory is not None:
        channel = yield from refusals_as_sign(after.memory, defense.refuses, rng)
    return Comparison(
        schema_version=1,
        docaudit=__version__,
        name=defense.name,
        title=defense.title,
        kind="training" if isinstance(defense, TrainingDefense) else "query",
        key=_key(defense, before, plan),
        policy=plan.policy.name,
        target=before.record.target.sha256,
        data=before.record.corpus.sha256,
        result=after.record.target.sha256,
        budget=before.record.budget,
        seed=before.record.seed,
        verdict_before=before.verdict.overall,
        verdict_after=after.verdict.overall,
        limits=changes_of_limits(before, after),
        effects=effects_on_limits(before, after, plan.policy, changes, defense.name),
        usefulness=effects_on_usefulness(before, after, defense.name),
        missing=missing_attacks(before, after),
        changes=changes,
        side_channel=channel,
    )


def _key(defense: Defense, before: ScanOfSide, plan: _Plan) -> str:
    """Everything that a comparison depends on, beside the clock."""
    record = before.record
    return key_of(
        [
            __version__,
            defense.name,
            repr(getattr(defense, "options", None)),
            repr(plan.policy),
            [record.target.sha256, record.corpus.sha256, record.budget, record.share, record.seed],
            [[reference.role, reference.card.sha256] for reference in record.references],
            sorted([name, list(map(str, paths))] for name, paths in plan.options.references.items()),
            [attack.name for attack in before.attacks.values()],
            [sorted((name, repr(value)) for name, value in asdict(one).items()) for one in before.attacks.values()],
        ]
    )


def _row(defense: Defense, record: AuditRecord, comparison: Comparison) -> defense_comparison.DefenseRow:
    return defense_comparison.DefenseRow(defense.title, record, comparison.changes, comparison.side_channel, comparison)


def _report(
    rows: Sequence[defense_comparison.DefenseRow],
    before: ScanOfSide,
    plan: _Plan,
    left_out: dict[str, str] | None = None,
) -> Generator[str, None, tuple[Path, ...]]:
    """Draw the comparison, and put what was measured into the report of the scan without countermeasures."""
    out = plan.options.out
    yield from defense_comparison.write(rows, out, plan.policy, left_out or {})
    comparisons = tuple(row.comparison for row in rows if row.comparison is not None)
    yield from write_report(before.record, before.verdict, plan.policy, out / BEFORE, None, comparisons)
    return tuple(path for path in (out / name for name in FILES) if path.exists())
