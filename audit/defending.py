"""A countermeasure, measured: the same scan without it and with it, and what differs, question by question."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audit import actions, console, runner
from audit import policy as policies
from audit import record as records
from audit.attacks.memorisation import Memorisation
from audit.attacks.memorisation.contexts import WHOLE
from audit.attacks.memorisation.table import QuestionTable, Results, build_table
from audit.attacks.removal import PROVEN
from audit.corpus import manifest
from audit.defenses.comparison import Change, Extraction, anls_change, extraction_changes, side_channel
from audit.defenses.interface import Defense, QueryDefense, TrainingDefense
from audit.defenses.registry import DEFENSES
from audit.engine.interface import Json, Trial
from audit.engine.journal import exclusive
from audit.errors import EngineError, TargetError, UsageError
from audit.files import write_atomically
from audit.measurements import Estimate
from audit.record import AuditRecord, Completed
from audit.report import defense_comparison
from audit.report.files import remove
from audit.targets.environment import device_named
from audit.training.references.baselines import material, train_baseline
from audit.training.references.load import PROVIDE_BASELINES
from audit.training.references.retrain import start_of

_MIN_DOCUMENTS = 2
"""Without so many no interval covers documents."""


@dataclass(frozen=True, eq=False)
class _Scanned:
    """A scan that has run: its record, its trials with what came of them, and the same as columns."""

    record: AuditRecord
    trials: Sequence[Trial]
    outcomes: Sequence[Json]
    table: QuestionTable
    n_baselines: int


def measure(name: str, options: runner.ScanOptions, policy: str) -> None:
    """Scan the model as it is into `options.out`/before and with the countermeasure into /after, compare, and report.

    Args:
        name: of a countermeasure in use, or of one that trains (`audit.defenses.registry.DEFENSES`).
        options: of the scan of the model as it is; `out` is the folder for everything.
        policy: a shipped policy or a file.

    Raises:
        DocauditError: there is no such countermeasure, a scan cannot start or go on, a model cannot be trained, or the
            attack did not run to its end.
    """
    defense = DEFENSES.get(name)
    if not isinstance(defense, QueryDefense | TrainingDefense):
        raise UsageError(f"no countermeasure on a model is called {name!r}", f"one of {', '.join(DEFENSES)}")
    chosen = policies.load(policy)
    policies.check_names(chosen, runner.known_metrics())
    policies.check_ranges(chosen, runner.known_metrics())
    _check(defense, options)
    with _held(options):
        before = _scanned(replace(options, out=options.out / "before"), chosen, "as it is")
        after = _scanned(_with(defense, options, before.n_baselines), chosen, defense.title.lower())
        _compare(defense, before, after, options)


def _check(defense: Defense, options: runner.ScanOptions) -> None:
    """Find what would stop the countermeasure before hours are spent on the scan without it."""
    corpus = manifest.load(options.data_dir)
    if not options.references.get("baselines", corpus.manifest.references.baselines):
        raise TargetError("a countermeasure is measured against baselines, and there are none", PROVIDE_BASELINES)
    if isinstance(defense, TrainingDefense):
        start_of(corpus, next(iter(options.references.get("pretrained", ())), None))
        material(corpus)


@contextmanager
def _held(options: runner.ScanOptions) -> Iterator[None]:
    """Hold the folder for one comparison, and clear what an older one left."""
    with ExitStack() as held:
        try:
            options.evidence.mkdir(parents=True, exist_ok=True)
            options.evidence.chmod(0o700)
            held.enter_context(exclusive(options.out))
            remove(
                *(
                    options.out / name
                    for name in ("comparison.json", defense_comparison.HTML_NAME, defense_comparison.PDF_NAME)
                )
            )
        except OSError as error:
            raise EngineError(f"{options.out}: {error.strerror or error}", "choose another --out") from None
        yield


def _compare(defense: Defense, before: _Scanned, after: _Scanned, options: runner.ScanOptions) -> None:
    rng = np.random.default_rng([options.seed, *defense.name.encode()])
    changes = _changes(before.table, after.table, rng)
    channel = None
    if isinstance(defense, TrainingDefense) and defense.teaches_refusal:
        channel = _side_channel(after, defense.refuses, rng)
    rows = [
        defense_comparison.DefenseRow("As it was", before.record),
        defense_comparison.DefenseRow(defense.title, after.record, changes, channel),
    ]
    _written(changes, channel, options.out)
    for warning in defense_comparison.write(rows, options.out):
        console.warn(warning)
    _show(changes, channel, options.out)


def _with(defense: Defense, options: runner.ScanOptions, count: int) -> runner.ScanOptions:
    """The scan with the countermeasure in place; where it trains, the model comes first, and `count` baselines."""
    after = replace(options, out=options.out / "after")
    if not isinstance(defense, TrainingDefense):
        return replace(after, defense=defense.name)
    corpus = manifest.load(options.data_dir)
    start = start_of(corpus, next(iter(options.references.get("pretrained", ())), None))
    # They hold the data set's pages, so they lie where only the owner looks.
    device, models = device_named(options.device), options.evidence / "models"
    with console.Reporter() as progress:
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


def _scanned(options: runner.ScanOptions, chosen: policies.Policy, about: str) -> _Scanned:
    opened = runner.open_scan(options)
    record, _ = actions.audited(opened, chosen, False, about)
    (result,) = record.attacks
    if not isinstance(result, Completed):
        raise TargetError(f"{options.model_dir}: the memorisation attack did not run to its end: {_why(result)}")
    (attack,) = opened.attacks
    assert isinstance(attack, Memorisation)
    case, trials, outcomes = runner.attempted(opened, attack.name)
    table = build_table(case, trials, outcomes, attack.anls_threshold)
    return _Scanned(record, trials, outcomes, table, len(case.references.baselines))


def _why(result: records.AttackResult) -> str:
    return str(getattr(result, "reason", None) or getattr(result, "type", "no reason"))


def _changes(before: QuestionTable, after: QuestionTable, rng: np.random.Generator) -> tuple[Change, ...]:
    """Paired differences: of members in every context, and of the usefulness on held-out pages."""
    first, second = (_extractions(table.split("member").proven) for table in (before, after))
    pairs = {name: _shared(first[name], second[name]) for name in first if name in second}
    pairs = {name: pair for name, pair in pairs.items() if len(set(pair[0].documents)) >= _MIN_DOCUMENTS}
    changes = extraction_changes(
        {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}, rng
    )
    if not changes:
        console.warn("no answers of two member documents are proven to be off their pages: extraction is not compared")
    heldout = before.split("heldout")
    one, other = (table.split("heldout").results.get(WHOLE) for table in (before, after))
    if one is None or other is None:
        return changes
    tried = one.tried & other.tried
    documents = [asked.document.id for asked in heldout.asked[tried]]
    if len(set(documents)) < _MIN_DOCUMENTS:
        console.warn("fewer than two held-out documents were asked about: usefulness is not compared")
        return changes
    return (*changes, anls_change(one.target_anls[tried], other.target_anls[tried], documents, rng))


def _shared(one: Extraction, other: Extraction) -> tuple[Extraction, Extraction]:
    """Both on the questions that both have: a removal may be proven in one scan and not in the other."""
    names = set(one.questions) & set(other.questions)
    return _only(one, names), _only(other, names)


def _only(extraction: Extraction, names: set[str]) -> Extraction:
    kept = [place for place, name in enumerate(extraction.questions) if name in names]
    return Extraction(
        [extraction.questions[place] for place in kept],
        [extraction.documents[place] for place in kept],
        np.asarray(extraction.target)[kept],
        np.asarray(extraction.baseline)[kept],
    )


def _extractions(table: QuestionTable) -> dict[str, Extraction]:
    """By context, what the model and its baselines gave."""
    return {
        name: _extraction(table.where(found.tried), found.where(found.tried))
        for name, found in table.results.items()
        if name != WHOLE
    }


def _extraction(table: QuestionTable, found: Results) -> Extraction:
    return Extraction(
        [f"{asked.document.id}/{asked.question.id}" for asked in table.asked],
        [asked.document.id for asked in table.asked],
        found.target,
        found.baseline,
    )


def _side_channel(scanned: _Scanned, refuses: Callable[[str], bool], rng: np.random.Generator) -> Estimate | None:
    """How well a taught refusal tells members from held-out pages, the answers removed."""
    sides: dict[bool, tuple[list[float], list[str]]] = {True: ([], []), False: ([], [])}
    rows = zip(scanned.table.member, scanned.table.status, scanned.trials, scanned.outcomes, strict=True)
    for member, status, trial, outcome in rows:
        replies = outcome.get("replies", {}).get("exact")
        if replies is not None and status == PROVEN:
            sides[bool(member)][0].append(float(refuses(replies[0]["text"])))
            sides[bool(member)][1].append(trial.unit)
    if any(len(set(documents)) < _MIN_DOCUMENTS for _, documents in sides.values()):
        console.warn("fewer than two member or held-out documents were asked about: the side channel is not measured")
        return None
    return side_channel(*sides[True], *sides[False], rng)


def _written(changes: Sequence[Change], channel: Estimate | None, out: Path) -> None:
    """The comparison as `comparison.json`: what the report shows, for machines."""
    content = {
        "changes": [dataclasses.asdict(change) for change in changes],
        "side_channel": dataclasses.asdict(channel) if channel is not None else None,
    }
    write_atomically(out / "comparison.json", (json.dumps(content, indent=1) + "\n").encode())


def _show(changes: Sequence[Change], channel: Estimate | None, out: Path) -> None:
    rows = [
        (
            change.metric,
            change.context or "complete pages",
            _words(change.before),
            _words(change.after),
            _words(change.difference),
            f"{change.p:.4f}",
        )
        for change in changes
    ]
    console.show_table("What the countermeasure changes", ("", "context", "before", "after", "difference", "p"), rows)
    if channel is not None:
        console.say(f"AUC of saying that the answer is not there, as a sign of membership: {_words(channel)}")
    written = [out / name for name in (defense_comparison.PDF_NAME, defense_comparison.HTML_NAME, "comparison.json")]
    console.say(f"Read {', '.join(str(path) for path in written if path.exists())}")


def _words(found: Estimate) -> str:
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
