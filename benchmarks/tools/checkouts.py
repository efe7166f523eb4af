"""Scans with the package of a checkout, and what came of them: what benchmarks that compare two versions share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Scanned:
    """What came of a scan.

    Attributes:
        code: its exit code.
        seconds: that it took.
        record: its record.
        verdict: of the default policy, as `docaudit gate --format json` writes it.
    """

    code: int
    seconds: float
    record: dict[str, Any]
    verdict: dict[str, Any]


def scan_with(checkout: Path, arguments: Sequence[str | Path], out: Path) -> Scanned:
    """Scan with the package of a checkout.

    Args:
        checkout: whose package scans.
        arguments: of the scan, without `--out`.
        out: the folder of its report.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    docaudit = [sys.executable, "-m", "audit"]
    command = [*docaudit, "scan", *map(str, arguments), "--out", str(out), "--quiet"]
    started = time.perf_counter()
    code = subprocess.run(command, env=environment, cwd=checkout, check=False).returncode
    seconds = time.perf_counter() - started
    verdict = out / "verdict.json"
    gate = [*docaudit, "gate", str(out), "--format", f"json={verdict}"]
    subprocess.run(gate, env=environment, cwd=checkout, check=False, stdout=subprocess.DEVNULL)
    record = json.loads((out / "record.json").read_text(encoding="utf-8"))
    return Scanned(code, seconds, record, json.loads(verdict.read_text(encoding="utf-8")))
