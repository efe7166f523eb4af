"""Measure countermeasures.

One scan of the model as it is, one with each in place, and what differs.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit import __version__
from audit import record as records
from audit.compare import defended as measured
from audit.compare.defended import Effect, LimitChange, LimitUse, MeasuredDefense
from audit.compare.paired import (
    NOT_RESOLVED,
    NumberChange,
    change_of,
    describe_difference,
    measurement,
    read_scores,
)
from audit.compare.scans import compare
from audit.defenses.interface import DEFENSES, Defense, refuse_unknown
from audit.engine.interface import Progress
from audit.errors import ManifestError, RecordError, TargetError, TrainingError, UsageError
from audit.extensions.countermeasures import page
from audit.extensions.countermeasures.interface import TrainingDefense
from audit.extensions.countermeasures.scans import (
    ScanOfSide,
    apply,
    check,
    count_baselines,
    hold_folder,
    refusals_as_sign,
    run_side,
)
from audit.measurements import Estimate
from audit.policy import Decision, Policy, contradiction
from audit.record import AFTER, BEFORE, AuditRecord
from audit.references.recipes import key_of
from audit.stats.paired import Ratios, joined_difference, ratio_difference
from audit.workflows.gate import load_policy
from audit.workflows.options import ScanOptions
from audit.workflows.report import Additions, write_report
from audit.workflows.scan import Labelled

FILES = (page.PDF_NAME, page.HTML_NAME)
_NOT_FOR_THIS = (ManifestError, TargetError, UsageError)
"""Errors by which a countermeasure says that it is none for this model or data set."""


@dataclass(frozen=True)
class Measured:
    """Countermeasures beside each other, and the files written.

    Those that do not apply are there with the reason.
    """

    comparisons: tuple[MeasuredDefense, ...]
    left_out: dict[str, str]
    files: tuple[Path, ...]


@dataclass(frozen=True)
class Plan:
    """What all countermeasures of a command share.

    Attributes:
        options: options of the scan of the model as it is; `out` is the folder for everything.
        policy: policy that all scans are judged by.
        progress: receiver of the progress.
        alone: whether a countermeasure that does not apply is an error.
        left_out: reasons of countermeasures that do not apply, by name.
        hints: what would let those apply, in the same order.
    """

    options: ScanOptions
    policy: Policy
    progress: Progress
    alone: bool = False
    left_out: dict[str, str] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)


def measure_defenses(
    names: Sequence[str],
    options: ScanOptions,
    policy: str,
    progress: Progress,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[str | Measured]:
    """Scan the model as it is and with each countermeasure, compare, and report.

    The scan of the model as it is goes into `options.out`/before, the others into NAME/after.

    A killed run goes on: outcomes of scans are journaled, models are trained once, and finished
    comparisons are read.

    Args:
        names: names of countermeasures, each once; empty: all.
        options: options of the scan of the model as it is; `out` is the folder for everything.
        policy: a shipped policy or a file.
        progress: progress of scans and training.
        settings: settings of the countermeasures that take some, by name.

    Yields:
        Warnings as they arise, and at the end what was measured.

    Raises:
        DocauditError: there is no such countermeasure, none applies, or a scan cannot start or go
            on.
    """
    requested = _find_defenses(names, settings)
    plan = Plan(options, load_policy(policy), progress, len(names) == 1)
    chosen: list[Defense] = []
    for defense in requested:
        with noting_refusal(defense.name, plan):
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
            with noting_refusal(defense.name, plan):
                after.append((yield from measure_once(defense, before, plan)))
        _refuse_none(after, plan.left_out)
        yield from page.write(before.record, after, options.out, plan.left_out)
        comparisons = tuple(comparison for comparison, _ in after)
        # What was measured joins the plan in the report of the scan without countermeasures.
        additions = Additions(comparisons=comparisons)
        yield from write_report(
            before.record, before.verdict, plan.policy, options.out / BEFORE, additions
        )
        paths = [options.out / name for name in FILES]
        files = tuple(path for path in paths if path.exists())
        yield Measured(comparisons, plan.left_out, files)


def _find_defenses(names: Sequence[str], settings: Mapping[str, Any] | None) -> Sequence[Defense]:
    """Return the countermeasures of these names; all where no name is given.

    Raises:
        UsageError: there is no such countermeasure, or none of them takes the settings.
    """
    refuse_unknown(names)
    defenses = [DEFENSES[name] for name in names or DEFENSES]
    if settings and not any(map(_takes_settings, defenses)):
        raise UsageError(
            f"{', '.join(settings)}: not of {', '.join(names)}",
            "only the countermeasure dp takes settings",
        )
    return defenses


def _takes_settings(defense: Defense) -> bool:
    """Test whether a countermeasure trains a model, and takes settings."""
    return isinstance(defense, TrainingDefense) and defense.takes_settings


@contextmanager
def noting_refusal(name: str, plan: Plan) -> Iterator[None]:
    """Note under `name` why the block's countermeasure does not apply, instead of raising.

    One alone is refused.
    """
    try:
        yield
    except _NOT_FOR_THIS as error:
        if plan.alone:
            raise
        plan.left_out[name] = str(error)
        plan.hints.append(error.hint)


def _refuse_none(left: Sequence[object], left_out: Mapping[str, str]) -> None:
    """Refuse to go on where no countermeasure is left; the error gives each one's reason."""
    if not left:
        raise UsageError(
            [f"{name}: {reason}" for name, reason in left_out.items()], "see docaudit defend --help"
        )


def measure_once(
    defense: Defense, before: ScanOfSide, plan: Plan, label: str = ""
) -> Generator[str, None, page.Measured]:
    """Yield progress, and return the measured countermeasure, in a folder of its own.

    Its finished comparison is read where it is still the same.

    Args:
        defense: the countermeasure.
        before: scan of the model as it is.
        plan: what all countermeasures share.
        label: name of the folder; empty: that of the countermeasure.

    Raises:
        DocauditError: the countermeasure does not apply, or a scan cannot go on.
    """
    folder = plan.options.out / (label or defense.name)
    key = _comparison_key(defense, before, plan)
    try:
        earlier = measured.read(folder)
        record = records.read(folder / AFTER)
        if earlier.key == key and record.target.sha256 == earlier.result:
            yield f"{folder.name}: measured before, read from {folder}"
            return earlier, record
    except RecordError:
        pass
    n_baselines = count_baselines(before.record)
    defended = apply(defense, plan.options, folder / AFTER, n_baselines, plan.progress)
    progress = Labelled(plan.progress, defense.title.lower())
    # The same trials of both sides, however fast each of them is.
    sampling = before.session.sampling
    after = yield from run_side(defended, plan.policy, progress, lambda *_: sampling)
    problem = contradiction(after.verdict.settled)
    if problem is not None:
        raise TrainingError(problem, "the guarantee does not hold: do not use this model")
    comparison = yield from _compare_scans(defense, before, after, plan, key)
    measured.write(comparison, folder)
    return comparison, after.record


def _compare_scans(
    defense: Defense, before: ScanOfSide, after: ScanOfSide, plan: Plan, key: str
) -> Generator[str, None, MeasuredDefense]:
    """Yield progress, and return the comparison of scans before and after a countermeasure."""
    both: tuple[AuditRecord, AuditRecord] = before.record, after.record
    evidence = before.session.options.evidence, after.session.options.evidence
    effects, missing = effects_on_attacks(both, evidence, plan.policy, plan.progress)
    decisions = zip(before.verdict.decisions, after.verdict.decisions, strict=True)
    rng = np.random.default_rng([plan.options.seed, *defense.name.encode()])
    return MeasuredDefense(
        schema_version=3,
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
            LimitChange(old.limit.attack, old.limit.metric, use_of_limit(old), use_of_limit(new))
            for old, new in decisions
        ),
        effects=effects,
        usefulness=effects_on_usefulness(both, (before.useful, after.useful), defense.name),
        missing=missing,
        side_channel=(yield from refusals_as_sign(after, defense, rng, plan.progress)),
    )


def _comparison_key(defense: Defense, before: ScanOfSide, plan: Plan) -> str:
    """Return a hash of all that a comparison depends on, except for the clock."""
    record = before.record
    settings = []
    for attack in before.session.attacks:
        values = sorted((key, repr(value)) for key, value in asdict(attack).items())
        settings.append([attack.name, values])
    references = plan.options.references
    return key_of(
        [
            __version__,
            defense.name,
            repr(getattr(defense, "options", None)),
            repr(plan.policy),
            [record.target.sha256, record.corpus.sha256, record.budget, record.share, record.seed],
            [[reference.role, reference.card.sha256] for reference in record.references],
            sorted([name, list(map(str, paths))] for name, paths in references.items()),
            str(plan.options.start),
            settings,
        ]
    )


def use_of_limit(decision: Decision) -> LimitUse:
    """Return the share of a limit that a decision's number uses up: 0 no leak, 1 the limit.

    An area counts from chance, 0.5, on either side. What the documents say of themselves counts for
    nothing here, and a limit from below has no such share.
    """
    limit = decision.limit
    measured = decision.measured
    if measured is None:
        return LimitUse(decision.outcome)
    unlimited = LimitUse(decision.outcome, number=measured.value)
    if limit.max is None or decision.about_text:
        return unlimited
    area = measured.is_area
    most = limit.max - 0.5 if area else limit.max
    if most <= 0:
        return unlimited
    bound = measured.pass_bound
    if area:
        value = abs(measured.value - 0.5)
        reach = max(bound.upper - 0.5, 0.5 - bound.lower)
    else:
        value = measured.value
        reach = value if limit.holds == "estimate" else bound.upper
    return replace(unlimited, value=max(0.0, value) / most, reach=max(0.0, reach) / most)


def effects_on_attacks(
    records: tuple[AuditRecord, AuditRecord],
    kept: tuple[Path, Path],
    policy: Policy,
    progress: Progress,
) -> tuple[tuple[Effect, ...], tuple[str, ...]]:
    """Return each attack's numbers before and after; and what could not be compared.

    Args:
        records: records of the scans before and after.
        kept: the folders of their evidence, with the values of units.
        policy: policy whose limits are among the numbers, by their name.
        progress: advanced by every attack.

    Returns:
        The effects, and the attacks that are not compared, with the reasons.

    Raises:
        RecordError: the scans differ in more than the model.
    """
    differences = compare(records, kept, policy, progress)
    effects: dict[tuple[str, str], Effect] = {}
    for change in differences.changes:
        if change.attack:
            effects[change.attack, change.metric] = Effect(
                change.attack,
                change.metric,
                change.before,
                change.after,
                change.difference,
                change.p,
                change.paired,
                change.reason,
            )
    for limit in policy.limits:
        if (limit.attack, limit.metric) in effects:
            continue
        effect = _effect_on_limit(records, kept, limit.attack, limit.metric)
        if effect is not None:
            effects[limit.attack, limit.metric] = effect
    missing = tuple(attack.words for attack in differences.missing)
    return tuple(effects.values()), missing


def _effect_on_limit(
    records: tuple[AuditRecord, AuditRecord], evidence: tuple[Path, Path], attack: str, metric: str
) -> Effect | None:
    """Compare one number of an attack; None where an attack or the number is missing.

    Args:
        records: records of the scans before and after.
        evidence: the folders of their evidence.
        attack: name of the attack.
        metric: name of the number.
    """
    if not all(attack in record.completed for record in records):
        return None
    old_result, new_result = (record.completed[attack] for record in records)
    old = measurement(old_result, metric)
    new = measurement(new_result, metric)
    if old is None and new is None:
        return None
    scores = (
        (read_scores(evidence[0], old_result) or {}).get(metric),
        (read_scores(evidence[1], new_result) or {}).get(metric),
    )
    rng = np.random.default_rng([records[0].seed, *f"diff/{attack}/{metric}".encode()])
    change = change_of(metric, (old, new), scores, rng)
    return Effect(attack, metric, old, new, *change)


def effects_on_usefulness(
    records: tuple[AuditRecord, AuditRecord],
    useful: tuple[Mapping[str, Ratios], Mapping[str, Ratios]],
    name: str,
) -> tuple[Effect, ...]:
    """Compare every measure of the model's own task, by document.

    Args:
        records: records of the scans before and after.
        useful: sums by measure behind it, of either scan.
        name: name of the countermeasure; random numbers follow from it.
    """
    before, after = records
    measured_after = {item.name: item for item in after.utility}
    effects = []
    for old in before.utility:
        new = measured_after.get(old.name)
        change = NumberChange(note=NOT_RESOLVED)
        if isinstance(old, Estimate) and isinstance(new, Estimate):
            old_sums = useful[0].get(old.name)
            new_sums = useful[1].get(old.name)
            paired = None
            if old_sums is not None and new_sums is not None:
                rng = np.random.default_rng([before.seed, *f"{name}/{old.name}".encode()])
                paired = ratio_difference(old_sums, new_sums, (old, new), rng)
            difference = paired or joined_difference(old, new)
            change = describe_difference(old.name, difference, old)
        effects.append(Effect("", old.name, old, new, *change))
    return tuple(effects)
