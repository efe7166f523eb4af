"""Processor time of commands that work without a model, beside that of Python alone and of importing two libraries.

    docaudit scan sample_models/receipts/model sample_models/receipts/data --out OUT
    python benchmarks/start_time.py OUT             # or several scans; writes start_time.json and start_time.md

Every command is started anew, in turns, so that what else the machine does meets all of them; the least of all turns
counts. Processor time (user and system, as the kernel counts them for the child) hardly depends on who else waits for
the processor, wall-clock time does; caches that are shared make it longer all the same, so compare the ratios.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
PYTHON, LIBRARIES = "python -c pass", "import numpy, pydantic"
TURNS = 20


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scans", nargs="+", type=Path, metavar="OUT", help="folder of a finished scan")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--to", type=Path, default=HERE)
    options = parser.parse_args()
    seconds = measure(commands(options.scans), options.turns)
    found = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} CPU cores, load {os.getloadavg()[0]:.0f}, Python {sys.version.split()[0]}",
        "turns": options.turns,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }
    (options.to / "start_time.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (options.to / "start_time.md").write_text(page(found, seconds), encoding="utf-8")
    print(page(found, seconds))


def commands(scans: Sequence[Path]) -> dict[str, list[str]]:
    """The commands by name; gates are named after their scan's verdict."""
    docaudit = [sys.executable, "-m", "audit"]
    found = {
        PYTHON: [sys.executable, "-c", "pass"],
        LIBRARIES: [sys.executable, "-c", "import numpy, pydantic, pydantic.dataclasses"],
        "docaudit --version": [*docaudit, "--version"],
        "docaudit --help": [*docaudit, "--help"],
    }
    for scan in scans:
        gate = [*docaudit, "gate", str(scan)]
        done = subprocess.run([*gate, "--format", "json"], capture_output=True, text=True, check=False)
        found[f"docaudit gate, {json.loads(done.stdout)['verdict']}"] = gate
    return found


def measure(named: Mapping[str, Sequence[str]], turns: int) -> dict[str, float]:
    """The least processor time of each command, in seconds."""
    best = dict.fromkeys(named, float("inf"))
    for _ in range(turns):
        for name, command in named.items():
            started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, _, used = os.wait4(started.pid, 0)
            started.returncode = 0
            best[name] = min(best[name], used.ru_utime + used.ru_stime)
    return best


def page(found: Mapping[str, object], seconds: Mapping[str, float]) -> str:
    """The numbers as a table."""
    rows = (
        f"| `{name}` | {value:.3f} | {value / seconds[PYTHON]:.1f} | {value / seconds[LIBRARIES]:.2f} |"
        for name, value in seconds.items()
    )
    return "\n".join(
        [
            "# Processor time of commands that need no model",
            "",
            f"`python benchmarks/start_time.py OUT ...`, {found['date']}, {found['machine']}, the least of "
            f"{found['turns']} turns, all in one run.",
            "",
            f"| command | seconds of processor | over `{PYTHON}` | over `{LIBRARIES}` |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
