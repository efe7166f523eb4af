"""Scans of few fields with few candidates, by one engine and another."""

import pickle
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit import cards
from audit import record as records
from audit.engine.interface import SILENT, Progress, WorkSource
from audit.workflows.options import ScanOptions
from audit.workflows.scan import run_scan
from audit.workflows.setup import open_scan

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
        opened = open_scan(ScanOptions(self.model, self.data, self.out / name, **engine))
        attacks = tuple(replace(attack, **FEW[attack.name]) for attack in opened.attacks)
        record = run_scan(replace(opened, attacks=attacks, budget="tiny"), progress)
        assert {attack.status for attack in record.attacks} == {"completed"}
        journals = sorted((self.out / name / "evidence").glob("journal-*.jsonl"))
        lines = [line for journal in journals for line in journal.read_text().splitlines()]
        return records.dumps(replace(record, timing=TIMES)), sorted(lines)
