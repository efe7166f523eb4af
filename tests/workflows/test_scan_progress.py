"""What a scan tells its progress: the attacks that run, counted, and the trials that are left."""

from __future__ import annotations

from pathlib import Path

import tiny
from progress_log import ProgressLog

from audit.policy import load
from audit.workflows.options import ScanOptions
from audit.workflows.scan import run


class AheadLog(ProgressLog):
    def __init__(self) -> None:
        super().__init__()
        self.ahead: list[int] = []

    def expect(self, steps: int) -> None:
        self.ahead.append(steps)


def test_attacks_that_are_left_out_are_not_counted(tmp_path: Path) -> None:
    tiny.corpus(tmp_path / "data", members=8, heldout=8, public=0)
    tiny.checkpoint(tmp_path / "model", "layoutlm", "token-classification")
    progress = AheadLog()
    options = ScanOptions(tmp_path / "model", tmp_path / "data", tmp_path / "out")
    result = run(options, load("default"), progress)
    ran = [attack for attack in result.record.attacks if attack.status == "completed"]
    places = []
    for name, total in progress.stages:
        if name.startswith("attack ") and total and ": " not in name:
            places.append(name.split(" (")[0])
    assert len(ran) < len(result.record.attacks)
    assert places == [f"attack {place} of {len(ran)}" for place in range(1, len(ran) + 1)]
    assert progress.ahead[-1] == 0
    assert progress.ahead == sorted(progress.ahead, reverse=True)
