"""Processor time of starts, gates and reports, in this checkout and in an earlier one.

    docaudit scan sample_models/receipts/model sample_models/receipts/data --budget quick --out OUT
    python -m benchmarks.performance.start_time OUT ... --before ../before

writes start_time.json and start_time.md.

Every command is started anew, in both checkouts in turn, so that what else the machine does meets
all of them. The least of all turns counts. Processor time (user and system, as the kernel counts
them for the child and what it starts) hardly depends on who else waits for the processor,
wall-clock time does. Caches that are shared make it longer all the same, so compare the ratios.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "sample_models" / "receipts"
TURNS = 20
UNTIL = """
import os, sys
from audit.cli import main
from audit.cli.console import terminal

def watched(self, name, total=0, stage=terminal.Reporter.stage, last=sys.argv.pop(1)):
    os._exit(0) if name == last else stage(self, name, total)

terminal.Reporter.stage = watched
main()
"""
"""Runs a command until a stage begins."""
PREPARED = """
import sys
from pathlib import Path
import audit.policy, audit.record, audit.workflows.report
audit.record.read(Path(sys.argv[1]))
audit.policy.load("default")
"""
"""Does all of `docaudit report` but the drawing."""
TARGETS = {
    "scan, until documents are read": 0.5,
    "scan, until its model is open": 0.5,
    "report": 0.35,
}
"""Ratio to the earlier checkout."""
NOTES = """
No target is met. What is left, in seconds of processor:

- `docaudit report`: WeasyPrint takes 1.1 (0.25 to import it, 0.9 to lay five pages out and write them). Templates are
  compiled each time for 0.25. The start takes 0.4. Of the former time, matplotlib took 0.7 and is gone. Cells that may
  break anywhere took 0.5, and a search for libraries that ran a compiler took 0.15. The checks of the PDF cost nothing
  that can be measured: one pass over its fonts.
- The start of a scan: torch takes 1.2 to 1.7 and transformers 2.1. For every model transformers imports torch's
  compiler (0.5), distributed tensors (0.45) and SciPy's optimisers (0.2). docaudit could leave these out only by
  replacing parts of both packages while they load. Searches for garbage took 0.5 and are put off.
- A gate: Python, Typer, pydantic and rich take 0.14, pydantic's schemas of records and policies 0.09, texts of attacks,
  entry points and the words of the verdict the rest.

A log names what is opened at once, as a terminal does: after 0.35 s of processor.
"""


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "scans", nargs="+", type=Path, metavar="OUT", help="folder of a finished scan"
    )
    parser.add_argument("--before", type=Path, help="an earlier checkout")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--to", type=Path, default=HERE)
    options = parser.parse_args()
    trees = {
        "now": HERE.parents[1],
        **({"before": options.before.resolve()} if options.before else {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(commands(options.scans, Path(folder)), options.turns, trees)
    for one in seconds.values():
        one["drawing"] = one["docaudit report"] - one["all of report but drawing"]
    found = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} CPU cores, load {os.getloadavg()[0]:.0f}, Python {sys.version.split()[0]}",
        "turns": options.turns,
        "seconds": {
            tree: {name: round(value, 3) for name, value in own.items()}
            for tree, own in seconds.items()
        },
    }
    (options.to / "start_time.json").write_text(
        json.dumps(found, indent=1) + "\n", encoding="utf-8"
    )
    (options.to / "start_time.md").write_text(page(found, seconds), encoding="utf-8")
    print(page(found, seconds))


def commands(scans: Sequence[Path], folder: Path) -> dict[str, list[str]]:
    """The commands by name; gates are named after their scan's verdict."""
    docaudit = [sys.executable, "-m", "audit"]
    first = str(scans[0].resolve())
    scan = ["scan", str(SAMPLE / "model"), str(SAMPLE / "data"), "--out"]
    found = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import numpy, pydantic": [
            sys.executable,
            "-c",
            "import numpy, pydantic, pydantic.dataclasses",
        ],
        "import torch": [sys.executable, "-c", "import torch"],
        "docaudit --version": [*docaudit, "--version"],
        "docaudit --help": [*docaudit, "--help"],
        "scan, until it names a stage": [
            sys.executable,
            "-c",
            UNTIL,
            "opening the model and the data set",
            *scan,
        ],
        "scan, until documents are read": [
            sys.executable,
            "-c",
            UNTIL,
            "checking documents",
            *scan,
        ],
        "scan, until its model is open": [sys.executable, "-c", UNTIL, "usefulness", *scan],
        "all of report but drawing": [sys.executable, "-c", PREPARED, first],
        "docaudit report": [*docaudit, "report", first, "--out", str(folder / "report")],
    }
    for name in found:
        if name.startswith("scan"):
            found[name].append(str(folder / "scan"))
    for one in scans:
        gate = [*docaudit, "gate", str(one.resolve())]
        done = subprocess.run(
            [*gate, "--format", "json"], capture_output=True, text=True, check=False
        )
        found[f"docaudit gate, {json.loads(done.stdout)['verdict']}"] = gate
    return found


def measure(
    named: Mapping[str, Sequence[str]], turns: int, trees: Mapping[str, Path]
) -> dict[str, dict[str, float]]:
    """The least processor time of each command in each checkout, in seconds."""
    best = {tree: dict.fromkeys(named, float("inf")) for tree in trees}
    for turn in range(turns):
        for name, command in named.items():
            for tree, place in [*trees.items()][:: 1 if turn % 2 else -1]:
                environment = {**os.environ, "PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"}
                started = subprocess.Popen(
                    command,
                    cwd=place,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                _, _, used = os.wait4(started.pid, 0)
                started.returncode = 0
                best[tree][name] = min(best[tree][name], used.ru_utime + used.ru_stime)
    return best


def page(found: Mapping[str, object], seconds: Mapping[str, Mapping[str, float]]) -> str:
    """The numbers as a table."""
    earlier = "before" in seconds
    rows = []
    for name, value in seconds["now"].items():
        target = TARGETS.get(name.removeprefix("docaudit "), "0.2 s" if "gate" in name else "")
        old = seconds["before"][name] if earlier else 0.0
        rows.append(
            f"| {name} | {old:.3f} | {value:.3f} | {value / old:.2f} | {target} |"
            if earlier
            else f"| {name} | {value:.3f} |"
        )
    return "\n".join(
        [
            "# Processor time of starts, gates and reports",
            "",
            f"`python -m benchmarks.performance.start_time OUT ...{' --before EARLIER' if earlier else ''}`, "
            f"{found['date']}, {found['machine']}, the least of {found['turns']} turns, all in one run.",
            "",
            "| command | before, s | now, s | ratio | target |"
            if earlier
            else "| command | seconds |",
            "|---|---|---|---|---|" if earlier else "|---|---|",
            *rows,
            *([NOTES.rstrip()] if earlier else []),
            "",
        ]
    )


if __name__ == "__main__":
    main()
