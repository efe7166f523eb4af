"""A share of a scan's trials asked again, and compared with its journal, which is only read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from audit.attacks.interface import Attack
from audit.case import Case
from audit.engine.interface import Progress, Trial
from audit.engine.journal import Journal
from audit.errors import UsageError
from audit.private import PrivateFolder
from audit.record import AuditRecord, Completed
from audit.references.resolve import LoadedReferences
from audit.report.remedies import query_defenses
from audit.workflows.execution import choose_number_format, collect_outcomes
from audit.workflows.options import ScanOptions
from audit.workflows.scan import fill_references
from audit.workflows.setup import ScanSetup, open_scan
from audit.workflows.verify import Findings


@dataclass(frozen=True)
class SampleOptions:
    """What is asked again.

    Attributes:
        share: of the trials of each attack; one of each at least.
        seed: of the lot that draws them.
        references: folders that the scan was given on the command line, by name.
        attack_parameters: the file that the scan was given.
    """

    share: float
    seed: int = 0
    references: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    attack_parameters: Path | None = None


def ask_again(
    folder: Path,
    record: AuditRecord,
    model: Path,
    data: Path,
    wanted: SampleOptions,
    found: Findings,
    progress: Progress,
) -> None:
    """Ask a share of the trials of a scan again, and note which outcomes are equal to those in its journal.

    Seed, budget and bounds are those of the record; nothing is written into `folder`. On a CPU an outcome is equal to
    the last bit; a scan with other versions of packages or on another kind of machine has another journal.

    Args:
        folder: what the scan wrote, `evidence/` included.
        record: its record.
        model: the model, which is the one of the record.
        data: the data set, which is the one of the record.
        wanted: what is asked again.
        found: where it is noted.
        progress: of the trials.

    Raises:
        DocauditError: the scan cannot be opened again, or its journal cannot be read.
    """
    completed = {result.attack: result for result in record.attacks if isinstance(result, Completed)}
    if not completed:
        found.notes.append("no attack was completed, so that nothing could be asked again")
        return
    with PrivateFolder() as out:
        (out / "evidence").mkdir()
        opened = _open(record, tuple(completed), model, data, out, wanted)
        trained = folder / "evidence" / "references"
        if trained.is_dir():
            # A copy: what is loaded may be trained anew, and nothing of the scan is touched.
            shutil.copytree(trained, out / "evidence" / "references")
        filled = fill_references(opened, progress)
        for attack in opened.attacks:
            _refuse_other_parameters(attack, completed[attack.name])
            timed = record.bounds is not None and record.bounds.seconds is not None
            _compare(folder, opened, attack, filled, wanted, found, progress, timed=timed)


def _open(
    record: AuditRecord, attacks: tuple[str, ...], model: Path, data: Path, out: Path, wanted: SampleOptions
) -> ScanSetup:
    """The scan of the record again, with another folder to write into."""
    bounds = record.bounds
    last = record.derived_by[-1] if record.derived_by else None
    options = ScanOptions(
        model_dir=model,
        data_dir=data,
        out=out,
        budget=record.budget,
        only=attacks,
        seed=record.seed,
        device=record.target.device,
        references=wanted.references,
        batch_size=record.environment.batch_rows,
        attack_parameters=wanted.attack_parameters,
        defense=last if last in query_defenses() else None,
        no_model=not record.target.is_model,
        documents=None if bounds is None else bounds.documents,
    )
    opened = open_scan(options)
    return opened if bounds is None else replace(opened, part=bounds.part)


def _refuse_other_parameters(attack: Attack, result: Completed) -> None:
    """Refuse to ask with other parameters than the scan did.

    Raises:
        UsageError: the scan's are others.
    """
    own = json.loads(json.dumps(asdict(attack)))
    if own != json.loads(json.dumps(result.parameters)):
        raise UsageError(
            f"{attack.name} was scanned with other parameters", "give the file of the scan with --attack-parameters"
        )


def _compare(
    folder: Path,
    opened: ScanSetup,
    attack: Attack,
    filled: LoadedReferences,
    wanted: SampleOptions,
    found: Findings,
    progress: Progress,
    *,
    timed: bool,
) -> None:
    case = Case(opened.defended(opened.target), opened.corpus, opened.references_behind_defense(filled))
    trials = opened.sampled(attack.trials(case))
    drawn = draw_trials(attack.name, trials, wanted.share, wanted.seed)
    checkpoint, _ = choose_number_format(opened, attack, case, trials, progress)
    outcomes = collect_outcomes(opened, attack, checkpoint, filled, drawn, progress)
    (path,) = opened.options.evidence.glob(f"journal-{attack.name}-*.jsonl")
    journal = folder / "evidence" / path.name
    if not journal.exists():
        found.differences.append(
            f"{attack.name}: {folder / 'evidence'} has no journal of a scan with this model, data set, parameters, "
            "references, versions of packages and kind of machine"
        )
        return
    copy = opened.options.out / path.name
    shutil.copyfile(journal, copy)
    scanned = Journal(copy).outcomes
    pairs = [(scanned.get(trial.id), outcome) for trial, outcome in zip(drawn, outcomes, strict=True)]
    # Only a bound on time leaves trials without an outcome; a damaged line of the journal is none either.
    missing = 0 if timed else sum(kept is None for kept, _ in pairs)
    others = sum(kept is not None and _text(kept) != _text(outcome) for kept, outcome in pairs)
    problems = []
    if others:
        problems.append(
            f"{attack.name}: {others} of {len(drawn)} trials asked again have another outcome than the scan's"
        )
    if missing:
        problems.append(f"{attack.name}: {missing} of {len(drawn)} trials asked again have no outcome in the journal")
    found.add(
        f"{attack.name}: {len(drawn)} of {len(trials)} trials asked again, each with the outcome it had", problems
    )


def draw_trials(attack: str, trials: Sequence[Trial], share: float, seed: int) -> list[Trial]:
    """A share of the trials by lot, in their order; one at least."""
    rng = np.random.default_rng([seed, *attack.encode()])
    chosen = rng.permutation(len(trials))[: max(1, round(share * len(trials)))]
    return [trials[index] for index in sorted(chosen)]


def _text(outcome: object) -> str:
    return json.dumps(outcome, sort_keys=True)
