"""Scans of few fields with few candidates, by one engine and another."""

import pickle
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit import cards
from audit import record as records
from audit.attacks.interface import Attack
from audit.engine.interface import SILENT, Progress, WorkSource
from audit.references.resolve import LoadedReferences
from audit.targets.opening import Checkpoint
from audit.workflows.execution import PlannedTrials, work_source
from audit.workflows.options import ScanOptions
from audit.workflows.run import run_scan
from audit.workflows.session import Session, open_session

TIMES = cards.Timing("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00", 0.0)


def opened_elsewhere(source: WorkSource, place: Path) -> Any:
    """The work as a worker opens it, from copies of the files below a folder."""

    def fetch(root: Path, names: Sequence[str]) -> Path:
        copies = place.joinpath(*root.parts[1:])
        for name in names:
            (copies / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, copies / name)
        return copies

    keeps, elsewhere = pickle.loads(pickle.dumps((source.keeps, source.elsewhere)))
    return elsewhere(keeps(fetch))


def work_of(
    session: Session,
    loaded: LoadedReferences,
    target: Checkpoint | None = None,
    attack: Attack | None = None,
) -> WorkSource:
    """An attack's work as an engine gets it; else of the first attack, on the session's model."""
    target = target or session.target
    attack = attack or session.attacks[0]
    case = session.case_in_format(session.case_with(loaded), target)
    return work_source(session, PlannedTrials(attack, case, target, (), ()), loaded)


FEW = {
    "reconstruction": {"n_candidates": 5, "n_attempts": 2, "max_tokens": 8},
    "membership": {"n_masks": 3},
}


@dataclass(frozen=True)
class Scans:
    """The same scan with different engines."""

    model: Path
    data: Path
    references: Mapping[str, Sequence[Path]]
    out: Path
    only: tuple[str, ...] = ("reconstruction",)

    def record(
        self, name: str, progress: Progress = SILENT, **engine: Any
    ) -> tuple[str, list[str]]:
        """The record without its times, and what the journals hold."""
        (self.out / name / "evidence").mkdir(parents=True)
        engine |= {"only": self.only, "references": self.references}
        opened = open_session(ScanOptions(self.model, self.data, self.out / name, **engine))
        attacks = tuple(replace(attack, **FEW[attack.name]) for attack in opened.attacks)
        tiny = replace(opened.sampling, budget="tiny")
        record = run_scan(replace(opened, attacks=attacks, sampling=tiny), progress)
        assert {attack.status for attack in record.attacks} == {"completed"}
        journals = sorted((self.out / name / "evidence").glob("journal-*.jsonl"))
        lines = [line for journal in journals for line in journal.read_text().splitlines()]
        return records.dumps(replace(record, timing=TIMES)), sorted(lines)
