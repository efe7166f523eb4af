"""Processor time of a sample's scan with an older checkout and with this one, and that both journals say the same.

    git worktree add ../older COMMIT
    python -m benchmarks.performance.scan_speed --before ../older receipts/clean questions/model

Both run in turn, each in a process of its own with one thread, `--runs` times, and the least of
each counts: processor time (user and system, with that of child processes) says the same beside
other work as alone, wall-clock time does not. "Trials" is the share that asks models; the rest
opens, measures and draws (`--without-report`: but for the drawing). Writes
`scan_speed.json`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCAN = """
import os, resource, time
from audit.engine.driver import LocalEngine

run, spent = LocalEngine.run, [0.0]

def measured(engine, source, trials):
    outcomes = run(engine, source, trials)
    while True:
        began = time.process_time()
        try:
            found = next(outcomes)
        except StopIteration:
            return
        finally:
            spent[0] += time.process_time() - began
        yield found

LocalEngine.run = measured
if os.environ.get("WITHOUT_REPORT"):
    import audit.workflows.scan
    audit.workflows.scan.write_report = lambda *_: []
from audit.cli import main
try:
    main()
finally:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print("SPENT", spent[0], sum(one.ru_utime + one.ru_stime for one in both))
"""


def scan_with(
    checkout: Path, sample: str, options: list[str]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Scan a sample with the package of a checkout.

    Returns:
        Processor seconds of its trials and of all, and its outcomes by journal and trial.
    """
    name, model = sample.split("/")
    samples = HERE.parents[1] / "sample_models" / name
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                SCAN,
                "scan",
                samples / model,
                samples / "data",
                "--out",
                folder,
                *options,
            ],
            env=environment,
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
        spent = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("SPENT")]
        if not spent or not Path(folder, "record.json").exists():
            raise SystemExit(f"the scan of {sample} with {checkout} failed:\n{done.stderr}")
        outcomes = {}
        for journal in Path(folder, "evidence").glob("journal-*.jsonl"):
            for line in journal.read_text().splitlines():
                entry = json.loads(line)
                outcomes[f"{journal.name.split('-')[1]} {entry['id']}"] = entry["outcome"]
    trials, whole = map(float, spent[0])
    return {"trials": trials, "all": whole}, outcomes


def compare(before: Path, sample: str, options: list[str], runs: int) -> dict[str, Any]:
    """Least processor seconds of some runs of both in turn, the ratios, and how many outcomes are equal."""
    found: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    outcomes: dict[str, dict[str, Any]] = {}
    for _ in range(runs):
        for name, checkout in (("before", before), ("after", HERE.parents[1])):
            seconds, outcomes[name] = scan_with(checkout.resolve(), sample, options)
            found[name].append(seconds)
    least = {
        name: {part: min(one[part] for one in own) for part in own[0]}
        for name, own in found.items()
    }
    same = sum(
        outcomes["after"].get(trial) == outcome for trial, outcome in outcomes["before"].items()
    )
    return {
        "sample": sample,
        "options": options,
        "runs": runs,
        **{
            name: {part: round(value, 2) for part, value in own.items()}
            for name, own in least.items()
        },
        "ratio": {
            part: round(least["after"][part] / least["before"][part], 3) for part in least["after"]
        },
        "outcomes": len(outcomes["before"]),
        "outcomes that are equal": same,
    }


def commit_of(checkout: Path) -> str:
    """Its commit, where the folder is a checkout of git."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        or "no checkout"
    )


def main() -> None:
    """Compare the samples that are named and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", nargs="+", help="such as receipts/clean")
    parser.add_argument("--before", type=Path, required=True, help="the older checkout")
    parser.add_argument("--before-commit", help="its commit, where git does not know it")
    parser.add_argument("--budget", default="quick")
    parser.add_argument("--documents", type=int, help="scan that many documents only")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--without-report", action="store_true", help="neither HTML nor PDF")
    given = parser.parse_args()
    os.environ["WITHOUT_REPORT"] = "1" if given.without_report else ""
    options = [
        "--budget",
        given.budget,
        *(["--documents", str(given.documents)] if given.documents else []),
    ]
    found = {
        "before": given.before_commit or commit_of(given.before),
        "after": commit_of(HERE.parents[1]),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "report": not given.without_report,
        "machine": f"{os.cpu_count()}-core CPU, one thread",
        "samples": [compare(given.before, sample, options, given.runs) for sample in given.samples],
    }
    (HERE / "scan_speed.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
