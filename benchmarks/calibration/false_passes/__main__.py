r"""Builds constructions that hide a leak, and clean models.

Attacks each directly; asks docaudit of a checkout.

    python -m benchmarks.calibration.false_passes --work /tmp/work  # fills the column "now"
    python -m benchmarks.calibration.false_passes --work /tmp/work --docaudit ../before \
        --column before
    # some constructions alone
    python -m benchmarks.calibration.false_passes --work /tmp/work refit-forget variants
    python -m benchmarks.calibration.false_passes --list
    # writes the tables from false_passes.json, runs nothing
    python -m benchmarks.calibration.false_passes --table
    # runs each test that the older tables of false_passes.md name
    python -m benchmarks.calibration.false_passes --tests

Models, data sets and scans are kept in `--work` by their content. A checkout whose sources changed
is asked anew. The utterances are real ones of Snips: `--data`, else DOCAUDIT_REAL_DATA, names the
folder that holds `snips`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.calibration.false_passes import named_tests, page, table
from benchmarks.calibration.false_passes.cases import CONSTRUCTIONS
from benchmarks.calibration.false_passes.lab import Construction, Lab
from benchmarks.calibration.false_passes.scans import Docaudit
from benchmarks.calibration.false_passes.store import Store

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "calibration" / "false_passes.json"
PAGE = ROOT / "benchmarks" / "calibration" / "false_passes.md"
REAL_DATA = Path(os.environ.get("DOCAUDIT_REAL_DATA", ROOT.parent / "shared" / "data"))


def main() -> None:
    """See the module's docstring."""
    options = _options()
    if options.tests:
        sys.exit(named_tests.run(ROOT))
    if options.list:
        for entry in CONSTRUCTIONS.values():
            print(f"{entry.name:28} {entry.kind:8} {entry.describe}")
        return
    if not options.table:
        _fill(options, _chosen(options.constructions))
    written = page.sections(_results())
    page.write(PAGE, written)
    if not options.quiet:
        print("\n\n".join(written.values()))


def _chosen(names: Sequence[str]) -> list[Construction]:
    """Return the constructions of these names; without a name all of them."""
    chosen = []
    for name in names or CONSTRUCTIONS:
        if name not in CONSTRUCTIONS:
            raise SystemExit(f"no construction is called {name}; see --list")
        chosen.append(CONSTRUCTIONS[name])
    return chosen


def _fill(options: argparse.Namespace, constructions: list[Construction]) -> None:
    """Run the constructions and write each at once into its column of the results."""
    torch.set_num_threads(1)
    store = Store(options.work.resolve())
    docaudit = Docaudit(options.docaudit, store)
    lab = Lab(options.data / "snips", store, docaudit)
    for entry in constructions:
        audit = entry.make(lab)
        outcome = docaudit.run(audit, entry.name)
        outcome["commit"] = docaudit.commit
        outcome["date"] = dt.datetime.now(dt.UTC).date().isoformat()
        results = _results()
        results["machine"] = f"{os.cpu_count()}-core CPU, one thread"
        results["direct"][entry.name] = {
            name: round(value, 3) for name, value in audit.direct.items()
        }
        results["columns"].setdefault(options.column, {})[entry.name] = outcome
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        direct = table.direct_cell(audit.direct)
        print(f"{entry.name}: {direct}: {table.cell(outcome)} ({outcome['seconds']} s)", flush=True)


def _results() -> dict[str, Any]:
    """Return the results saved earlier, or empty tables where there are none."""
    if RESULTS.exists():
        return dict(json.loads(RESULTS.read_text(encoding="utf-8")))
    return {"machine": "", "direct": {}, "columns": {}}


def _options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration.false_passes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "constructions", nargs="*", metavar="CONSTRUCTION", help="names of --list; default: all"
    )
    parser.add_argument("--docaudit", type=Path, default=ROOT, help="a checkout; default: this one")
    parser.add_argument(
        "--column", default="now", help="of the results that is filled; default: now"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks" / ".work" / "false_passes")
    parser.add_argument("--data", type=Path, default=REAL_DATA, help="the folder that holds snips")
    parser.add_argument("--list", action="store_true", help="print the constructions and end")
    parser.add_argument("--table", action="store_true", help="write and print the tables and end")
    parser.add_argument("--quiet", action="store_true", help="print no tables after a run")
    parser.add_argument(
        "--tests", action="store_true", help="run the tests that false_passes.md names and end"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
