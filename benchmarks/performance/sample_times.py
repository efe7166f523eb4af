r"""Times of the samples' scans with an older checkout and with this one, in turn in one run.

    git worktree add ../older COMMIT
    python -m benchmarks.performance.sample_times --before ../older \
        --runs 5 receipts/model:quick receipts/clean:standard

Each scan is a process of its own with one thread. The median of `--runs` counts. Wall-clock times
hold for a machine that does nothing else. Writes `sample_times.json` and
`sample_times.md`; rows of other samples stay.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OUT = HERE / "sample_times.json"
COLUMNS = (
    "sample",
    "budget",
    "runs",
    "wall, s",
    "ratio",
    "processor, s",
    "ratio",
    "trials",
    "exit code",
)


def scan(checkout: Path, sample: str, budget: str) -> dict[str, float]:
    """Scan a sample with the package of a checkout."""
    name = sample.split("/", maxsplit=1)[0]
    samples = HERE.parents[1] / "sample_models"
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "audit",
            "scan",
            samples / sample,
            samples / name / "data",
            "--out",
            folder,
        ]
        began = time.perf_counter()
        process = subprocess.Popen(
            [*map(str, command), "--budget", budget, "--seed", "0", "--quiet"],
            env=environment,
            cwd=checkout,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        record = json.loads(Path(folder, "record.json").read_text(encoding="utf-8"))
    processor = usage.ru_utime + usage.ru_stime
    trials = record["timing"]["outcomes"]
    return {"wall": wall, "processor": processor, "trials": trials, "code": process.returncode}


def compare(before: Path, sample: str, budget: str, runs: int) -> dict[str, Any]:
    """Scan with both checkouts in turn; return the medians of each."""
    found: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for _ in range(runs):
        for name, checkout in (("before", before.resolve()), ("after", HERE.parents[1])):
            found[name].append(scan(checkout, sample, budget))
            print(sample, budget, name, found[name][-1], flush=True)
    medians = {
        name: {key: statistics.median(one[key] for one in scans) for key in scans[0]}
        for name, scans in found.items()
    }
    return {"runs": runs, "date": dt.datetime.now(dt.UTC).date().isoformat(), **medians}


def text(rows: dict[str, dict[str, Any]]) -> str:
    """Write the page."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for name, row in sorted(rows.items()):
        before = row["before"]
        after = row["after"]
        cells = [*name.split(":"), row["runs"]]
        for kind in ("wall", "processor"):
            cells += [
                f"{before[kind]:.1f} to {after[kind]:.1f}",
                f"{after[kind] / before[kind]:.2f}",
            ]
        cells += [
            f"{before['trials']:,.0f} to {after['trials']:,.0f}",
            f"{before['code']:.0f} to {after['code']:.0f}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    date = max(row["date"] for row in rows.values())
    head = (
        f"Medians of runs in turn, before to after, one thread, {os.cpu_count()} CPU cores, {date}."
    )
    return "\n".join(
        [
            "# Times of the samples' scans",
            "",
            f"Made by `sample_times.py`. {head}",
            "",
            *lines,
            "",
        ]
    )


def main() -> None:
    """Compare the samples that are named, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True, help="an older checkout")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("samples", nargs="+", help="SAMPLE/MODEL:BUDGET")
    options = parser.parse_args()
    for name in options.samples:
        sample, _, budget = name.partition(":")
        row = compare(options.before, sample, budget, options.runs)
        # Read again each time: another run may have added rows of other samples.
        rows = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
        OUT.write_text(json.dumps({**rows, name: row}, indent=1) + "\n", encoding="utf-8")
        OUT.with_suffix(".md").write_text(text({**rows, name: row}), encoding="utf-8")


if __name__ == "__main__":
    main()
