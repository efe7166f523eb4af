"""A countermeasure, measured: the same scan without it and with it, and the differences question by question."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audit import record as records
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.contexts import WHOLE
from audit.attacks.memorisation.table import QuestionTable, Results, build_table
from audit.attacks.removal import PROVEN
from audit.corpus import manifest
from audit.defenses.comparison import Change, Extraction, anls_change, extraction_changes, side_channel
from audit.defenses.interface import Defense, QueryDefense, TrainingDefense
from audit.defenses.registry import DEFENSES
from audit.engine.interface import Json, Progress, Trial
from audit.engine.journal import exclusive
from audit.errors import EngineError, TargetError, UsageError
from audit.files import write_atomically
from audit.measurements import Estimate
from audit.policy import Policy
from audit.record import AuditRecord, Completed
from audit.report import defense_comparison
from audit.report.files import remove
from audit.targets.environment import device_named
from audit.training.references.baselines import material, train_baseline
from audit.training.references.load import PROVIDE_BASELINES
from audit.training.references.retrain import start_of
from audit.workflows.gate import load_policy
from audit.workflows.scan import Labelled, audit_checkpoint, read_outcomes
from audit.workflows.setup import ScanOptions, open_scan

COMPARISON = "comparison.json"
FILES = (defense_comparison.PDF_NAME, defense_comparison.HTML_NAME, COMPARISON)
_MIN_DOCUMENTS = 2
"""Without so many no interval covers documents."""


@dataclass(frozen=True, eq=False)
class _Scan:
    """A scan that has run: its record, its trials with their outcomes, and the same as columns."""

    record: AuditRecord
    trials: Sequence[Trial]
    outcomes: Sequence[Json]
    table: QuestionTable
    n_baselines: int


@dataclass(frozen=True)
class DefenseComparison:
    """What a countermeasure changes, and the files that show it; `channel` as in `DefenseRow.side_channel`."""

    changes: tuple[Change, ...]
    channel: Estimate | None
    files: tuple[Path, ...]


def measure_defense(
    name: str, options: ScanOptions, policy: str, progress: Progress
) -> Iterator[str | DefenseComparison]:
    """Scan the model as it is into `options.out`/before and with the countermeasure into /after, compare, and report.

    Args:
        name: of a countermeasure in use, or of one that trains (`audit.defenses.registry.DEFENSES`).
        options: of the scan of the model as it is; `out` is the folder for everything.
        policy: a shipped policy or a file.
        progress: of scans and training.

    Yields:
        Warnings as they arise, and at the end the comparison.

    Raises:
        DocauditError: there is no such countermeasure, a scan cannot start or go on, a model cannot be trained, or the
            attack did not run to its end.
    """
    defense = DEFENSES.get(name)
    if not isinstance(defense, QueryDefense | TrainingDefense):
        raise UsageError(f"no countermeasure on a model is called {name!r}", f"one of {', '.join(DEFENSES)}")
    chosen = load_policy(policy)
    _check(defense, options)
    with _hold_folder(options):
        before = yield from _scan(replace(options, out=options.out / "before"), chosen, Labelled(progress, "as it is"))
        defended = _apply(defense, options, before.n_baselines, progress)
        after = yield from _scan(defended, chosen, Labelled(progress, defense.title.lower()))
        yield from _compare(defense, before, after, options)


def _check(defense: Defense, options: ScanOptions) -> None:
    """Find what would stop the countermeasure before hours are spent on the scan without it."""
    corpus = manifest.load(options.data_dir)
    if not options.references.get("baselines", corpus.manifest.references.baselines):
        raise TargetError("a countermeasure is measured against baselines, and there are none", PROVIDE_BASELINES)
    if isinstance(defense, TrainingDefense):
        start_of(corpus, next(iter(options.references.get("pretrained", ())), None))
        material(corpus)


@contextmanager
def _hold_folder(options: ScanOptions) -> Iterator[None]:
    """Hold the folder for one comparison, and clear what an older one left."""
    with ExitStack() as held:
        try:
            options.evidence.mkdir(parents=True, exist_ok=True)
            options.evidence.chmod(0o700)
            held.enter_context(exclusive(options.out))
            remove(*(options.out / name for name in FILES))
        except OSError as error:
            raise EngineError(f"{options.out}: {error.strerror or error}", "choose another --out") from None
        yield


def _compare(defense: Defense, before: _Scan, after: _Scan, options: ScanOptions) -> Iterator[str | DefenseComparison]:
    rng = np.random.default_rng([options.seed, *defense.name.encode()])
    changes = yield from _changes(before.table, after.table, rng)
    channel = None
    if isinstance(defense, TrainingDefense) and defense.teaches_refusal:
        channel = yield from _side_channel(after, defense.refuses, rng)
    rows = [
        defense_comparison.DefenseRow("As it was", before.record),
        defense_comparison.DefenseRow(defense.title, after.record, changes, channel),
    ]
    _write_comparison(changes, channel, options.out)
    yield from defense_comparison.write(rows, options.out)
    files = (options.out / name for name in FILES)
    yield DefenseComparison(changes, channel, tuple(path for path in files if path.exists()))


def _apply(defense: Defense, options: ScanOptions, count: int, progress: Progress) -> ScanOptions:
    """The scan with the countermeasure in place; where it trains, the model comes first, and `count` baselines."""
    after = replace(options, out=options.out / "after")
    if not isinstance(defense, TrainingDefense):
        return replace(after, defense=defense.name)
    corpus = manifest.load(options.data_dir)
    start = start_of(corpus, next(iter(options.references.get("pretrained", ())), None))
    # They hold the data set's pages, so they are kept where only the owner looks.
    device, models = device_named(options.device), options.evidence / "models"
    trained = defense.train(corpus, start, models, device=device, progress=progress)
    # A model trained otherwise is held against baselines trained in that way too.
    baselines = train_baseline(
        start, manifest.load(trained.data), models / "baselines", count=count, device=device, progress=progress
    )
    # Split models of the plain recipe say nothing about this one.
    references = {**options.references, "baselines": baselines, "splits": ()}
    return replace(
        after, model_dir=trained.model, references=references, derived_by=(f"docaudit defend {defense.name}",)
    )


def _scan(options: ScanOptions, policy: Policy, progress: Progress) -> Generator[str, None, _Scan]:
    """Run one scan, and read from its journal what came of every trial."""
    opened = open_scan(options)
    yield from opened.warnings
    result = audit_checkpoint(opened, policy, False, progress)
    yield from result.warnings
    (found,) = result.record.attacks
    if not isinstance(found, Completed):
        raise TargetError(f"{options.model_dir}: the memorisation attack did not run to its end: {_why(found)}")
    (attack,) = opened.attacks
    assert isinstance(attack, Memorisation)
    case, trials, outcomes = read_outcomes(opened, attack.name)
    table = build_table(case, trials, outcomes, attack.anls_threshold)
    return _Scan(result.record, trials, outcomes, table, len(case.references.baselines))


def _why(result: records.AttackResult) -> str:
    return str(getattr(result, "reason", None) or getattr(result, "type", "no reason"))


def _changes(
    before: QuestionTable, after: QuestionTable, rng: np.random.Generator
) -> Generator[str, None, tuple[Change, ...]]:
    """Paired differences: of members in every context, and of the usefulness on held-out pages."""
    first, second = (_extractions(table.split("member").proven) for table in (before, after))
    pairs = {name: _shared(first[name], second[name]) for name in first if name in second}
    pairs = {name: pair for name, pair in pairs.items() if len(set(pair[0].documents)) >= _MIN_DOCUMENTS}
    changes = extraction_changes(
        {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}, rng
    )
    if not changes:
        yield "no answers of two member documents are proven to be off their pages: extraction is not compared"
    heldout = before.split("heldout")
    one, other = (table.split("heldout").results.get(WHOLE) for table in (before, after))
    if one is None or other is None:
        return changes
    tried = one.tried & other.tried
    documents = [asked.document.id for asked in heldout.asked[tried]]
    if len(set(documents)) < _MIN_DOCUMENTS:
        yield "fewer than two held-out documents were asked about: usefulness is not compared"
        return changes
    return (*changes, anls_change(one.target_anls[tried], other.target_anls[tried], documents, rng))


def _shared(one: Extraction, other: Extraction) -> tuple[Extraction, Extraction]:
    """Both on the questions that both have: a removal may be proven in one scan and not in the other."""
    names = set(one.questions) & set(other.questions)
    return _only(one, names), _only(other, names)


def _only(extraction: Extraction, names: set[str]) -> Extraction:
    kept = [index for index, name in enumerate(extraction.questions) if name in names]
    return Extraction(
        [extraction.questions[index] for index in kept],
        [extraction.documents[index] for index in kept],
        np.asarray(extraction.target)[kept],
        np.asarray(extraction.baseline)[kept],
    )


def _extractions(table: QuestionTable) -> dict[str, Extraction]:
    """The replies of the model and its baselines, by context."""
    return {
        name: _extraction(table.where(results.tried), results.where(results.tried))
        for name, results in table.results.items()
        if name != WHOLE
    }


def _extraction(table: QuestionTable, results: Results) -> Extraction:
    return Extraction(
        [f"{asked.document.id}/{asked.question.id}" for asked in table.asked],
        [asked.document.id for asked in table.asked],
        results.target,
        results.baseline,
    )


def _side_channel(
    scan: _Scan, refuses: Callable[[str], bool], rng: np.random.Generator
) -> Generator[str, None, Estimate | None]:
    """The AUC at which a taught refusal separates members from held-out pages, the answers removed."""
    sides: dict[bool, tuple[list[float], list[str]]] = {True: ([], []), False: ([], [])}
    rows = zip(scan.table.member, scan.table.status, scan.trials, scan.outcomes, strict=True)
    for member, status, trial, outcome in rows:
        replies = outcome.get("replies", {}).get("exact")
        if replies is not None and status == PROVEN:
            sides[bool(member)][0].append(float(refuses(replies[0]["text"])))
            sides[bool(member)][1].append(trial.unit)
    if any(len(set(documents)) < _MIN_DOCUMENTS for _, documents in sides.values()):
        yield "fewer than two member or held-out documents were asked about: the side channel is not measured"
        return None
    return side_channel(*sides[True], *sides[False], rng)


def _write_comparison(changes: Sequence[Change], channel: Estimate | None, out: Path) -> None:
    """Write the numbers of the report as JSON."""
    content = {
        "changes": [dataclasses.asdict(change) for change in changes],
        "side_channel": dataclasses.asdict(channel) if channel is not None else None,
    }
    write_atomically(out / COMPARISON, (json.dumps(content, indent=1) + "\n").encode())
