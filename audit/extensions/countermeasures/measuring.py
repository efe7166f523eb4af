"""Measure countermeasures: one scan of the model as it is, one with each in place, and what differs."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from audit import __version__
from audit import record as records
from audit.engine.interface import Progress
from audit.errors import ManifestError, RecordError, TargetError, TrainingError, UsageError
from audit.extensions.countermeasures import page
from audit.extensions.countermeasures.interface import TrainingDefense
from audit.extensions.countermeasures.scans import (
    ScanOfSide,
    apply,
    check,
    hold_folder,
    refusals_as_sign,
    run_side,
)
from audit.measurements import Estimate
from audit.policy import Decision, Policy, contradiction
from audit.record import AuditRecord
from audit.references.recipes import key_of
from audit.report import comparison as measured
from audit.report.comparison import Comparison, Effect, LimitChange, LimitUse
from audit.report.remedies import DEFENSES, Defense
from audit.stats.paired import Ratios, joined_difference, ratio_difference
from audit.workflows.diff import compare
from audit.workflows.gate import load_policy
from audit.workflows.options import ScanOptions
from audit.workflows.report import write_report
from audit.workflows.scan import Labelled
from audit.workflows.unit_scores import NOT_RESOLVED, effect_of, filled, measurement, read_scores

FILES = (page.PDF_NAME, page.HTML_NAME)
BEFORE, AFTER = "before", "after"
_NOT_FOR_THIS = (ManifestError, TargetError, UsageError)
"""Errors by which a countermeasure says that it is none for this model or data set."""


@dataclass(frozen=True)
class Measured:
    """Countermeasures beside each other, those that do not apply with the reason, and the files written."""

    comparisons: tuple[Comparison, ...]
    left_out: dict[str, str]
    files: tuple[Path, ...]


@dataclass(frozen=True)
class _Plan:
    """What all countermeasures of a command share."""

    options: ScanOptions
    policy: Policy
    progress: Progress
    alone: bool
    left_out: dict[str, str] = field(default_factory=dict)


def measure_defenses(
    names: Sequence[str],
    options: ScanOptions,
    policy: str,
    progress: Progress,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[str | Measured]:
    """Scan the model as it is into `options.out`/before, with each countermeasure into NAME/after, compare, and report.

    A killed run goes on: outcomes of scans are journaled, models are trained once, and finished
    comparisons are read.

    Args:
        names: of countermeasures, each once; empty: all.
        options: of the scan of the model as it is; `out` is the folder for everything.
        policy: a shipped policy or a file.
        progress: of scans and training.
        settings: of the countermeasures that take some, by name.

    Yields:
        Warnings as they arise, and at the end what was measured.

    Raises:
        DocauditError: there is no such countermeasure, none applies, or a scan cannot start or go
            on.
    """
    unknown = [f"no countermeasure is called {name!r}" for name in names if name not in DEFENSES]
    if unknown:
        raise UsageError(unknown, f"one of {', '.join(DEFENSES)}")
    asked = [DEFENSES[name] for name in names or DEFENSES]
    if settings and not any(
        isinstance(one, TrainingDefense) and one.takes_settings for one in asked
    ):
        raise UsageError(
            f"{', '.join(settings)}: not of {', '.join(names)}", "docaudit defend dp takes settings"
        )
    plan = _Plan(options, load_policy(policy), progress, len(names) == 1)
    chosen: list[Defense] = []
    for defense in asked:
        with _noting(defense.name, plan):
            if isinstance(defense, TrainingDefense) and defense.takes_settings:
                defense = defense.with_settings(dict(settings or {}), options)
            check(defense, options)
            chosen.append(defense)
    _refuse_none(chosen, plan.left_out)
    after: list[page.Measured] = []
    with hold_folder(options, FILES):
        before = yield from run_side(
            options.below(BEFORE), plan.policy, Labelled(progress, "as it is")
        )
        for defense in chosen:
            with _noting(defense.name, plan):
                after.append((yield from _measured_once(defense, before, plan)))
        _refuse_none(after, plan.left_out)
        yield from page.write(before.record, after, options.out, plan.left_out)
        comparisons = tuple(comparison for comparison, _ in after)
        # What was measured joins the plan in the report of the scan without countermeasures.
        yield from write_report(
            before.record, before.verdict, plan.policy, options.out / BEFORE, None, comparisons
        )
        files = tuple(path for path in (options.out / name for name in FILES) if path.exists())
        yield Measured(comparisons, plan.left_out, files)


@contextmanager
def _noting(name: str, plan: _Plan) -> Iterator[None]:
    """Note why a countermeasure does not apply, so that the next can be measured.

    One alone is refused.
    """
    try:
        yield
    except _NOT_FOR_THIS as error:
        if plan.alone:
            raise
        plan.left_out[name] = str(error)


def _refuse_none(left: Sequence[object], left_out: Mapping[str, str]) -> None:
    """Refuse where no countermeasure is left, with the reason of each."""
    if not left:
        raise UsageError(
            [f"{name}: {reason}" for name, reason in left_out.items()], "see docaudit defend --help"
        )


def _measured_once(
    defense: Defense, before: ScanOfSide, plan: _Plan
) -> Generator[str, None, page.Measured]:
    """Measure a countermeasure in a folder of its own.

    Its finished comparison is read where it is still the same.
    """
    folder = plan.options.out / defense.name
    key = _key(defense, before, plan)
    try:
        known, record = measured.read(folder), records.read(folder / AFTER)
        if known.key == key and record.target.sha256 == known.result:
            yield f"{defense.name}: measured before, read from {folder}"
            return known, record
    except RecordError:
        pass
    n_baselines = sum(card.role == "baseline" for card in before.record.references)
    defended = apply(defense, plan.options, folder / AFTER, n_baselines, plan.progress)
    after = yield from run_side(
        defended, plan.policy, Labelled(plan.progress, defense.title.lower())
    )
    if (found := contradiction(after.record)) is not None:
        raise TrainingError(found, "the guarantee does not hold: do not use this model")
    comparison = yield from _compare(defense, before, after, plan, key)
    measured.write(comparison, folder)
    return comparison, after.record


def _compare(
    defense: Defense, before: ScanOfSide, after: ScanOfSide, plan: _Plan, key: str
) -> Generator[str, None, Comparison]:
    both: tuple[AuditRecord, AuditRecord] = before.record, after.record
    kept = before.opened.options.evidence, after.opened.options.evidence
    effects, missing = effects_on_attacks(both, kept, plan.policy, plan.progress)
    decisions = zip(before.verdict.decisions, after.verdict.decisions, strict=True)
    rng = np.random.default_rng([plan.options.seed, *defense.name.encode()])
    return Comparison(
        schema_version=2,
        docaudit=__version__,
        name=defense.name,
        title=defense.title,
        kind="training" if isinstance(defense, TrainingDefense) else "query",
        key=key,
        policy=plan.policy.name,
        target=before.record.target.sha256,
        data=before.record.corpus.sha256,
        result=after.record.target.sha256,
        budget=before.record.budget,
        seed=before.record.seed,
        verdict_before=before.verdict.overall,
        verdict_after=after.verdict.overall,
        limits=tuple(
            LimitChange(one.limit.attack, one.limit.metric, use_of_limit(one), use_of_limit(other))
            for one, other in decisions
        ),
        effects=effects,
        usefulness=effects_on_usefulness(both, (before.useful, after.useful), defense.name),
        missing=missing,
        side_channel=(yield from refusals_as_sign(after, defense, rng, plan.progress)),
    )


def _key(defense: Defense, before: ScanOfSide, plan: _Plan) -> str:
    """Hash everything that a comparison depends on, beside the clock."""
    record, attacks = before.record, before.opened.attacks
    return key_of(
        [
            __version__,
            defense.name,
            repr(getattr(defense, "options", None)),
            repr(plan.policy),
            [record.target.sha256, record.corpus.sha256, record.budget, record.share, record.seed],
            [[reference.role, reference.card.sha256] for reference in record.references],
            sorted(
                [name, list(map(str, paths))] for name, paths in plan.options.references.items()
            ),
            [
                [attack.name, sorted((key, repr(own)) for key, own in asdict(attack).items())]
                for attack in attacks
            ],
        ]
    )


def use_of_limit(decision: Decision) -> LimitUse:
    """Return the share of a limit that a number uses up: 0 no leak, 1 the limit.

    An area counts from chance, 0.5, on either side. What the documents say of themselves counts for
    nothing here, and a limit from below has no such share.
    """
    limit, measured = decision.limit, decision.measured
    if measured is None or limit.max is None or decision.about_text:
        return LimitUse(decision.outcome)
    area = measured.is_area
    most = limit.max - 0.5 if area else limit.max
    if most <= 0:
        return LimitUse(decision.outcome)
    bound = measured.pass_bound
    if area:
        value = abs(measured.value - 0.5)
        reach = max(bound.upper - 0.5, 0.5 - bound.lower)
    else:
        value = measured.value
        reach = value if limit.holds == "estimate" else bound.upper
    return LimitUse(decision.outcome, max(0.0, value) / most, max(0.0, reach) / most)


def effects_on_attacks(
    records: tuple[AuditRecord, AuditRecord],
    kept: tuple[Path, Path],
    policy: Policy,
    progress: Progress,
) -> tuple[tuple[Effect, ...], tuple[str, ...]]:
    """Compare the numbers of every attack as `docaudit diff` does, and those that the policy limits by their name.

    Args:
        records: of the scans before and after.
        kept: the folders of their evidence, with the values of units.
        policy: whose limits are among the numbers.
        progress: advanced by every attack.

    Returns:
        The effects, and the attacks that are not compared, with the reasons.

    Raises:
        RecordError: the scans differ in more than the model.
    """
    found = compare(records, kept, policy, progress)
    effects = {
        (one.attack, one.metric): Effect(
            one.attack,
            one.metric,
            one.before,
            one.after,
            one.difference,
            one.p,
            one.paired,
            one.reason,
        )
        for one in found.changes
        if one.attack
    }
    for attack, metric in ((limit.attack, limit.metric) for limit in policy.limits):
        results = [record.completed[attack] for record in records if attack in record.completed]
        if (attack, metric) in effects or len(results) < len(records):
            continue
        one, other = (measurement(result, metric) for result in results)
        if one is not None or other is not None:
            before, after = (
                (read_scores(*own) or {}).get(metric) for own in zip(kept, results, strict=True)
            )
            rng = np.random.default_rng([records[0].seed, *f"diff/{attack}/{metric}".encode()])
            effects[attack, metric] = effect_of(
                Effect(attack, metric, one, other), (before, after), rng
            )
    return tuple(effects.values()), found.missing


def effects_on_usefulness(
    records: tuple[AuditRecord, AuditRecord],
    useful: tuple[Mapping[str, Ratios], Mapping[str, Ratios]],
    name: str,
) -> tuple[Effect, ...]:
    """Compare every measure of the model's own task, by document.

    Args:
        records: of the scans before and after.
        useful: by measure, the sums behind it, of either scan.
        name: of the countermeasure; random numbers follow from it.
    """
    before, after = records
    others = {item.name: item for item in after.utility}
    found = []
    for one in before.utility:
        other = others.get(one.name)
        effect = Effect("", one.name, one, other, note=NOT_RESOLVED)
        if isinstance(one, Estimate) and isinstance(other, Estimate):
            sums = useful[0].get(one.name), useful[1].get(one.name)
            paired = None
            if sums[0] is not None and sums[1] is not None:
                rng = np.random.default_rng([before.seed, *f"{name}/{one.name}".encode()])
                paired = ratio_difference(sums[0], sums[1], (one, other), rng)
            effect = filled(effect, paired or joined_difference(one, other), one)
        found.append(effect)
    return tuple(found)
