"""Find a countermeasure with which a scanned model meets its policy."""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audit import __version__
from audit import record as records
from audit.attacks.budget import budget_that_can_pass
from audit.compare.defended import MeasuredDefense, read_all
from audit.defenses.interface import DEFENSES, Defense, refuse_unknown
from audit.defenses.remedy import EFFORTS
from audit.engine.interface import Progress
from audit.errors import RecordError, UsageError, listed
from audit.extensions.countermeasures import page, served
from audit.extensions.countermeasures.interface import TrainingDefense
from audit.extensions.countermeasures.measuring import (
    FILES,
    Plan,
    measure_once,
    noting_refusal,
)
from audit.extensions.countermeasures.scans import (
    ScanOfSide,
    apply,
    check,
    chosen_by_time,
    count_baselines,
    hold_folder,
    run_side,
)
from audit.files import write_atomically
from audit.policy import EXIT_CODES, Policy, Verdict, evaluate, today
from audit.policy.reading import shipped_policies
from audit.record import AFTER, BEFORE, CONFIRMED, AuditRecord
from audit.report.commands import Called, put_in
from audit.report.facts.build import facts_of
from audit.report.facts.definitions import Facts
from audit.report.facts.recommend import MOST_LOSS
from audit.workflows.arguments import places_beside, read_arguments
from audit.workflows.gate import load_policy
from audit.workflows.options import REFERENCES_FOLDER, ScanOptions
from audit.workflows.report import Additions, write_report
from audit.workflows.scan import Labelled

EPSILONS = (8.0, 2.0)
"""Guarantees of private training that are tried, the one that costs less usefulness first."""
ROOM = 0.6
"""Share of a limit that numbers may use up, so that a larger scan probably passes."""
_JOURNALS = ("journal-*.jsonl", "journal-*.begun", "time-*.json")
"""What another scan of the same model goes on from."""


@dataclass(frozen=True)
class Candidate:
    """A countermeasure that may lift a violation of the scan.

    Attributes:
        label: name of its folder, and of it on the command line.
        defense: the countermeasure, with its settings.
    """

    label: str
    defense: Defense


@dataclass(frozen=True)
class Scanned:
    """A finished scan, and how it was called.

    Attributes:
        folder: folder of its record.
        record: its record.
        verdict: verdict of the policy on it.
        options: its options.
        policy: the policy.
        policy_name: name of a shipped policy, or path of a file, as a command takes it.
        words: further options of `docaudit fix`, which its next command repeats.
    """

    folder: Path
    record: AuditRecord
    verdict: Verdict
    options: ScanOptions
    policy: Policy
    policy_name: str
    words: tuple[str, ...] = ()

    @property
    def called(self) -> Called:
        """Return how it was called."""
        return self.options.called(self.policy_name).at(SCAN_DIR=str(self.folder))

    @property
    def facts(self) -> Facts:
        """Return the facts of the scan and of the verdict on it."""
        return facts_of(self.record, self.verdict, called=self.called)


@dataclass(frozen=True)
class Tried:
    """A countermeasure that was measured.

    Attributes:
        label: its name.
        comparison: effects on the scan's numbers.
        record: record of the scan with it.
        minutes: time that training and scan took; None: it was measured before.
        model: folder of the model with it; None where the model is not trained again.
    """

    label: str
    comparison: MeasuredDefense
    record: AuditRecord
    minutes: float | None
    model: Path | None

    @property
    def n_exceeded(self) -> int:
        """Count the limits that are exceeded with it, where the verdict rests on them.

        Limits on the documents' text, which no training changes, may be exceeded beside it.
        """
        if self.comparison.verdict_after != "violated":
            return 0
        return sum(limit.after.outcome == "violated" for limit in self.comparison.limits)

    @property
    def stops_leaks(self) -> bool:
        """Test whether no limit is exceeded with it."""
        return self.n_exceeded == 0

    @property
    def is_enough(self) -> bool:
        """Test whether it surely stops the leaks and costs little usefulness."""
        return self.leaves_room and self.comparison.largest_loss <= MOST_LOSS

    @property
    def leaves_room(self) -> bool:
        """Test whether no limit is exceeded, and none that was is nearly used up by its number.

        Numbers of other limits may lie anywhere: so small a scan could not decide them.
        """
        used = [
            limit.after.value
            for limit in self.comparison.limits
            if limit.before.outcome == "violated" and limit.after.value is not None
        ]
        return self.stops_leaks and max(used, default=0.0) <= ROOM

    @property
    def is_passed(self) -> bool:
        """Test whether the model passes the policy with it."""
        return self.comparison.verdict_after == "passed"


@dataclass(frozen=True)
class Fixed:
    """What came of all that was tried.

    Attributes:
        scanned: the scan that was to be mended.
        tried: the countermeasures that were measured, in the order of trying.
        left_out: reasons of countermeasures that do not apply, by name.
        untried: names of countermeasures that were not needed any more.
        budget: budget at which a model can pass the policy.
        files: files that were written.
    """

    scanned: Scanned
    tried: tuple[Tried, ...]
    left_out: dict[str, str]
    untried: tuple[str, ...]
    budget: str
    files: tuple[Path, ...] = ()

    @property
    def best(self) -> Tried | None:
        """Return the measure that costs least usefulness, of those that reach furthest."""
        ranked = sorted(
            self.tried,
            key=lambda item: (
                not item.is_passed,
                item.n_exceeded,
                not item.leaves_room,
                item.comparison.largest_loss,
            ),
        )
        return ranked[0] if ranked else None

    @property
    def can_pass(self) -> bool:
        """Test whether the scan's budget can pass the policy."""
        return self.budget == self.scanned.options.budget

    @property
    def exit_code(self) -> int:
        """Return 0 where a measure passes, 10 where a limit stays exceeded with each, else 11."""
        best = self.best
        if best is None:
            return EXIT_CODES["violated"]
        if best.is_passed:
            return EXIT_CODES["passed"]
        return EXIT_CODES["undecided" if best.stops_leaks else "violated"]


def read_scan(folder: Path, evidence: Path | None = None, policy: str | None = None) -> Scanned:
    """Read a finished scan with its arguments and its verdict.

    Args:
        folder: folder of the scan.
        evidence: folder of its evidence; None: in `folder`.
        policy: policy to judge by; None: the one that the scan declared.

    Raises:
        DocauditError: the record, its evidence or the policy cannot be read, or no countermeasure
            can be measured on such a scan.
    """
    try:
        record = records.read(folder)
    except records.OtherVersionError as error:
        again = put_in("docaudit scan MODEL_DIR DATA_DIR", places_beside(folder, evidence))
        raise RecordError(
            f"{folder}: docaudit {error.version} made this scan, and {__version__} cannot read it",
            f"scan again: {again}",
        ) from None
    options = read_arguments(folder, record, evidence)
    if options.no_model or not record.target.is_model:
        raise UsageError(
            f"{folder}: no model was audited, so that none can be trained again",
            "name the scan of a model",
        )
    if options.forgotten is not None:
        raise UsageError(
            f"{folder}: a forget-check, which no countermeasure answers",
            "unlearn the documents again, and repeat docaudit forget-check",
        )
    name = policy or _declared_policy(folder, record)
    chosen = load_policy(name)
    verdict = evaluate(record, chosen, today())
    return Scanned(records.file_of(folder).parent, record, verdict, options, chosen, name)


def _declared_policy(folder: Path, record: AuditRecord) -> str:
    """Return the shipped policy that a scan declared.

    Raises:
        UsageError: it declared none, or a file.
    """
    declared = record.policy
    if declared is not None and declared.name in shipped_policies():
        return declared.name
    raise UsageError(
        f"{folder}: the scan was judged by a policy of its owner", "name its file: --policy FILE"
    )


def find_candidates(scanned: Scanned) -> list[Candidate]:
    """List the countermeasures that may lift the violations of a scan, the least effort first.

    Private training comes once for each of `EPSILONS`.
    """
    is_weightless = served.lacks_weights(scanned.options)
    lifting = []
    for action in scanned.facts.actions:
        if all(finding.state != "violated" for finding in action.findings):
            continue
        if served.may_lift(action.remedy, scanned.options, is_weightless=is_weightless):
            lifting.append(action)
    lifting.sort(key=lambda action: EFFORTS.index(action.remedy.effort))
    names: dict[str, None] = {}
    for action in lifting:
        for name in action.remedy.measured_by:
            if name in DEFENSES:
                names[name] = None
    candidates = []
    for name in names:
        candidates += candidates_of(name, scanned)
    return candidates


def candidates_of(name: str, scanned: Scanned) -> list[Candidate]:
    """Return the candidates of one countermeasure, one for each strength that is tried.

    Raises:
        UsageError: there is no such countermeasure.
    """
    name, _, strength = name.partition(":")
    refuse_unknown([name])
    defense = DEFENSES[name]
    if not isinstance(defense, TrainingDefense) or not defense.takes_settings:
        return [Candidate(name, defense)]
    epsilons: Sequence[float] = EPSILONS
    if strength:
        epsilons = (_epsilon_of(name, strength),)
    unit = _protected_unit(scanned)
    candidates = []
    for epsilon in epsilons:
        settings = {"unit": unit, "epsilon": epsilon}
        chosen = defense.with_settings(settings, scanned.options)
        candidates.append(Candidate(f"{name}:{epsilon:g}", chosen))
    return candidates


def _epsilon_of(name: str, strength: str) -> float:
    """Read the epsilon of "dp:2".

    Raises:
        UsageError: it is no positive number.
    """
    try:
        epsilon = float(strength)
    except ValueError:
        epsilon = 0.0
    if epsilon <= 0:
        raise UsageError(f"{name}:{strength}: epsilon is a positive number", f"write {name}:2")
    return epsilon


def _protected_unit(scanned: Scanned) -> str:
    """Return whoever a private training has to protect: whole providers where these are at risk."""
    for decision in scanned.verdict.decisions:
        if decision.outcome == "violated" and decision.limit.attack == "provider_membership":
            return "provider"
    return "document"


def fix(
    scanned: Scanned,
    out: Path,
    progress: Progress,
    names: Sequence[str] = (),
) -> Iterator[str | Tried | Fixed]:
    """Try countermeasures on a scanned model until one stops the leak at a small price.

    The scan as it was is not run again: its journals and references are used. A killed run goes
    on, and what was measured is read.

    Args:
        scanned: the scan.
        out: folder of models, records and the comparison.
        progress: receiver of the progress over all that is tried.
        names: countermeasures to try, all of them, as `dp:2` for a strength; empty: those that may
            lift a violation, until one does.

    Yields:
        Warnings as they arise, each measured countermeasure, and the whole at the end.

    Raises:
        DocauditError: none applies, or a scan cannot go on.
    """
    candidates = _requested(names, scanned)
    options = _options_below(scanned, out)
    plan = Plan(options, scanned.policy, progress, alone=len(candidates) == 1)
    chosen = list(_applicable(candidates, scanned, plan))
    if not chosen:
        raise _none_applies(scanned, plan)
    with hold_folder(options, FILES):
        adopt_journals(scanned.options.evidence, options.below(BEFORE).evidence)
        before = yield from run_side(
            options.below(BEFORE), plan.policy, Labelled(progress, "as it is"), chosen_by_time
        )
        tried: list[Tried] = []
        for item in _try_in_turn(chosen, before, plan):
            yield item
            if isinstance(item, Tried):
                tried.append(item)
                if not names and item.is_enough:
                    break
        if not tried:
            raise _none_applies(scanned, plan)
        yield from _write_pages(scanned, before, tried, plan)
    yield _summarise(scanned, chosen, tried, plan)


def _try_in_turn(
    chosen: Sequence[Candidate], before: ScanOfSide, plan: Plan
) -> Iterator[str | Tried]:
    """Yield each candidate as it is measured; note the reasons of those that cannot be.

    Where a countermeasure stops the leaks and leaves room below the limits, more of it would only
    cost more, and is not tried.
    """
    enough: set[str] = set()
    for number, candidate in enumerate(chosen, start=1):
        if candidate.defense.name in enough:
            continue
        label = f"{candidate.label}, {number} of at most {len(chosen)}"
        labelled = replace(plan, progress=Labelled(plan.progress, label))
        with noting_refusal(candidate.label, labelled):
            item = yield from _try(candidate, before, labelled)
            if item.leaves_room:
                enough.add(candidate.defense.name)
            yield item


def _summarise(
    scanned: Scanned, chosen: Sequence[Candidate], tried: Sequence[Tried], plan: Plan
) -> Fixed:
    """Sum up what was tried, and name the best in the folder of all of them."""
    out = plan.options.out
    done = {item.label for item in tried} | {*plan.left_out}
    written = [out / name for name in FILES]
    fixed = Fixed(
        scanned,
        tuple(tried),
        dict(plan.left_out),
        tuple(candidate.label for candidate in chosen if candidate.label not in done),
        budget_that_can_pass(scanned.policy.limits, scanned.options.budget),
        tuple(path for path in written if path.exists()),
    )
    assert fixed.best is not None
    name = folder_of(out, fixed.best.label).name
    write_atomically(out / records.BEST, f"{name}\n".encode())
    return fixed


def _requested(names: Sequence[str], scanned: Scanned) -> list[Candidate]:
    """Return the candidates that somebody named; where nobody did, those that may help."""
    if not names:
        return find_candidates(scanned)
    candidates = []
    for name in names:
        candidates += candidates_of(name, scanned)
    return candidates


def _options_below(scanned: Scanned, out: Path) -> ScanOptions:
    """Return the options of a scan for a folder of its own, with the references it trained."""
    options = scanned.options
    cache = options.cache or options.evidence / REFERENCES_FOLDER
    return replace(options, out=out, evidence_dir=None, cache=cache, fresh=False)


def _applicable(
    candidates: Sequence[Candidate], scanned: Scanned, plan: Plan
) -> Iterator[Candidate]:
    """Yield the candidates that can be measured on this model; note the reasons of the others."""
    for candidate in candidates:
        with noting_refusal(candidate.label, plan):
            served.refuse_training(candidate.defense, plan.options, scanned.facts.commands)
            check(candidate.defense, plan.options)
            yield candidate


def _none_applies(scanned: Scanned, plan: Plan) -> UsageError:
    """Return the error that no countermeasure can be tried, with the reason of each."""
    reasons = [f"{name}: {reason}" for name, reason in plan.left_out.items()]
    if served.lacks_weights(plan.options):
        if not reasons:
            reasons.append(f"{scanned.folder}: none without training answers what was found")
        return UsageError(reasons, served.way_out(scanned.facts.commands))
    if reasons:
        return UsageError(reasons, next(filter(None, plan.hints), ""))
    outcome = scanned.verdict.word
    return UsageError(
        f"{scanned.folder}: no countermeasure answers what the scan found ({outcome})",
        f"read {scanned.folder / 'report.html'} for what to do",
    )


def adopt_journals(source: Path, target: Path) -> None:
    """Copy the journals of a scan, so that a scan of the same model goes on from them.

    Args:
        source: evidence of the finished scan.
        target: evidence of the other scan; made when missing. What is there already stays.
    """
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for pattern in _JOURNALS:
        for path in sorted(source.glob(pattern)):
            copy = target / path.name
            if not copy.exists():
                shutil.copy2(path, copy)


def _try(candidate: Candidate, before: ScanOfSide, plan: Plan) -> Generator[str, None, Tried]:
    """Yield progress, and return what a candidate changes."""
    started = time.monotonic()
    folder = folder_of(plan.options.out, candidate.label)
    is_measured = (folder / AFTER / "record.json").exists()
    comparison, record = yield from measure_once(candidate.defense, before, plan, folder.name)
    minutes = None if is_measured else (time.monotonic() - started) / 60
    model = None
    if isinstance(candidate.defense, TrainingDefense):
        model = read_arguments(folder / AFTER, record).model_dir
    return Tried(candidate.label, comparison, record, minutes, model)


def folder_of(out: Path, label: str) -> Path:
    """Return the folder of a countermeasure: "dp:2" is in dp-2."""
    return out / label.replace(":", "-")


def _write_pages(
    scanned: Scanned, before: ScanOfSide, tried: Sequence[Tried], plan: Plan
) -> Iterator[str]:
    """Write the comparison, and the scan's own report with what was measured."""
    out = plan.options.out
    measured = {item.comparison.key: (item.comparison, item.record) for item in tried}
    for folder in sorted(out.glob(f"*/{AFTER}")):
        try:
            for comparison in read_all(folder.parent):
                measured.setdefault(comparison.key, (comparison, records.read(folder)))
        except RecordError:
            continue
    pages = [*measured.values()]
    yield from page.write(before.record, pages, out, plan.left_out)
    additions = Additions(
        comparisons=tuple(comparison for comparison, _ in pages), called=scanned.called
    )
    yield from write_report(
        scanned.record, scanned.verdict, scanned.policy, scanned.folder, additions
    )


@dataclass(frozen=True)
class Confirmed:
    """A scan with a countermeasure, at the budget that can pass.

    Attributes:
        record: its record.
        verdict: the verdict on it.
        folder: folder of its record and reports.
        called: how it was called.
    """

    record: AuditRecord
    verdict: Verdict
    folder: Path
    called: Called


def check_measured(scanned: Scanned, out: Path, label: str) -> None:
    """Refuse to confirm what was not measured, before anything is opened.

    Args:
        scanned: the scan that was to be mended.
        out: folder that `fix` wrote.
        label: name of a countermeasure.

    Raises:
        UsageError: nothing was measured under this name.
    """
    folder = folder_of(out, label)
    if (folder / AFTER / "record.json").exists():
        return
    names = sorted(path.parent.name for path in out.glob(f"*/{AFTER}"))
    hint = scanned.facts.commands.fix()
    if names:
        hint = f"one of {listed(names, 'or')}"
    raise UsageError(f"{folder}: no countermeasure was measured there", hint)


def confirm(
    scanned: Scanned, out: Path, label: str, progress: Progress
) -> Iterator[str | Confirmed]:
    """Scan a model with a countermeasure at the budget that can pass the policy.

    Args:
        scanned: the scan that was to be mended.
        out: folder that `fix` wrote.
        label: name of a countermeasure that was measured there.
        progress: receiver of the progress.

    Yields:
        Warnings as they arise, and the finished scan at the end.

    Raises:
        DocauditError: nothing was measured under this name, or the scan cannot go on.
    """
    check_measured(scanned, out, label)
    folder = folder_of(out, label)
    budget = budget_that_can_pass(scanned.policy.limits, scanned.options.budget)
    options = replace(_options_below(scanned, out), budget=budget)
    (candidate,) = candidates_of(label, scanned)
    n_baselines = count_baselines(scanned.record)
    with hold_folder(options, ()):
        defended = apply(candidate.defense, options, folder / CONFIRMED, n_baselines, progress)
        side = yield from run_side(defended, scanned.policy, Labelled(progress, label))
    called = side.session.options.called(scanned.policy_name)
    yield Confirmed(side.record, side.verdict, folder / CONFIRMED, called)


def headline_limit(scanned: Scanned) -> tuple[str, str]:
    """Choose the limit that a table shows: first a violated count of values."""
    decisions = scanned.verdict.decisions
    violated = [item for item in decisions if item.outcome == "violated"]
    counts = [item for item in violated if item.limit.metric == "values_identified"]
    measured = [item for item in decisions if item.measured is not None]
    limit = (counts or violated or measured or decisions)[0].limit
    return limit.attack, limit.metric
