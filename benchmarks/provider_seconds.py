"""How much of provider membership's time goes into measuring, on the sample that answers questions.

    python benchmarks/provider_seconds.py    # writes benchmarks/provider_seconds.json

Asks the model as a scan does, then measures. The blind
check of the documents, which a scan makes once for all attacks, counts as measuring. Processor
seconds in one process; what libraries need to be imported is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from audit.engine.interface import SILENT
from audit.workflows.options import ScanOptions
from audit.workflows.scan import claim_folder, read_outcomes
from audit.workflows.setup import open_scan

SAMPLE = Path(__file__).parent.parent / "sample_models" / "questions"
NAME = "provider_membership"
ALLOWED = 0.2


def main() -> None:
    """Measure both budgets, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    shares(SAMPLE / "baseline", "standard")  # whatever is imported is, after this
    found = {budget: shares(SAMPLE / "model", budget) for budget in ("standard", "full")}
    options.out.write_text(json.dumps({"at most": ALLOWED, **found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def shares(model: Path, budget: str) -> dict[str, Any]:
    """Processor seconds of asking and of measuring, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        opened = open_scan(ScanOptions(model, SAMPLE / "data", out, budget=budget, only=(NAME,)))
        with claim_folder(out):
            began = time.process_time()
            case, trials, outcomes = read_outcomes(opened, NAME)
            asked = time.process_time()
            (attack,) = opened.attacks
            attack.measure(case, trials, outcomes, np.random.default_rng(0), SILENT)
            measured = time.process_time()
    parts = {"asking": asked - began, "measuring": measured - asked}
    return {
        "documents": len(trials),
        "seconds": {name: round(seconds, 2) for name, seconds in parts.items()},
        "measuring / asking": round(parts["measuring"] / parts["asking"], 3),
    }


if __name__ == "__main__":
    main()
