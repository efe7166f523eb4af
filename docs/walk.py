"""Walk the tutorial: `python docs/walk.py` runs its commands and writes what they print into it.

The blocks of `tutorial.md` run in their order, in an empty folder beside the samples. The `text`
block behind a command takes its screen, and the page's table takes minutes and exit codes.
`pictures/tutorial.json` keeps what tests need to print the screens again. `fixed-report.pdf` and
`fixed-page-one.png` beside it are the report of the mended model. `draw.py` draws the other
pictures of README and the manual from the first scan. `python docs/walk.py --check`
writes nothing: it fails where a command ends with another exit code than the page says.
"""

from __future__ import annotations

import argparse
import datetime
import io
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGE = DOCS / "tutorial.md"
TRANSCRIPT = DOCS / "pictures" / "tutorial.json"
REPORT = DOCS / "pictures" / "fixed-report.pdf"
PICTURE = REPORT.with_name("fixed-page-one.png")
FIXED = Path("docaudit-fix", "dp-1")
"""Where `docaudit fix` puts the countermeasure of the page."""
SCAN = "docaudit-report"
"""Where the first scan of the page lies, and `SCANNED` its copy as it was."""
SCANNED = "first-scan"
SHOWN_EFFECT = ("reconstruction", "values_identified")
"""The effect that the table of `docaudit fix` shows; the comparison has many more."""
COLUMNS = 80
MEANT = "Minutes are processor time: with idle cores you wait less, on a busy computer longer."
"""What the minutes of the page are to somebody who waits."""
_BLOCK = re.compile(r"(?<=```)(?P<kind>sh|text)\n(?P<body>.*?)(?=```\n)", re.DOTALL)
_SCREEN = re.compile(r"(```text\n).*?(```\n)", re.DOTALL)
_TABLE = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->\n)", re.DOTALL)
_DOCAUDIT = 'docaudit() { "$DOCAUDIT_PYTHON" -m audit "$@"; }\n'
"""The command of this interpreter and this checkout, whatever is installed beside it."""


@dataclass(frozen=True)
class Step:
    """One block of commands on the page, and the `text` block behind it."""

    command: str
    screen: str | None


@dataclass(frozen=True)
class Run:
    """A step that was run; seconds of processor time, as `MEANT` says."""

    command: str
    exit_code: int
    seconds: float
    screen: str


def read_steps(page: str) -> list[Step]:
    """Read the blocks that a reader runs, but for the installation."""
    steps: list[Step] = []
    for block in _BLOCK.finditer(page):
        if block["kind"] == "text":
            steps[-1] = replace(steps[-1], screen=block["body"])
        elif not is_installation(block["body"]):
            steps.append(Step(block["body"], None))
    return steps


def is_installation(command: str) -> bool:
    """Test whether a block sets docaudit up, which whoever walks the page has done."""
    return "./setup" in command


def run(command: str, folder: Path) -> Run:
    """Run a block in a folder, on a screen of `COLUMNS`; progress goes to the terminal."""
    environment = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"}
    environment |= {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "DOCAUDIT_PYTHON": sys.executable}
    environment["PYTHONPATH"] = str(ROOT)
    used_before = processor_seconds()
    process = subprocess.run(
        ["bash", "-c", _DOCAUDIT + command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    seconds = processor_seconds() - used_before
    lines = [line.rstrip() for line in process.stdout.strip("\n").splitlines()]
    return Run(command, process.returncode, seconds, "".join(f"{line}\n" for line in lines))


def processor_seconds() -> float:
    """Return the processor time of all commands that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def walk(steps: Sequence[Step], folder: Path) -> list[Run]:
    """Run all steps in a folder that holds the samples."""
    runs = []
    for step in steps:
        print(f"$ {step.command}", end="", file=sys.stderr)
        runs.append(run(step.command, folder))
        if "docaudit scan" in step.command:
            # `docaudit fix` draws the report again, with what it tried.
            shutil.copytree(folder / SCAN, folder / SCANNED)
        print(runs[-1].screen, file=sys.stderr)
        (folder / "runs.json").write_text(json.dumps([vars(each) for each in runs]))
    return runs


def transcript_of(runs: Sequence[Run], folder: Path) -> dict[str, Any]:
    """Return what the page and its tests need of a walk."""
    comparison = json.loads((folder / FIXED / "comparison.json").read_text(encoding="utf-8"))
    shown = [
        effect
        for effect in comparison["effects"]
        if (effect["attack"], effect["metric"]) == SHOWN_EFFECT
    ]
    (model,) = re.findall(
        r"^Its model: (\S+)$", "".join(each.screen for each in runs), re.MULTILINE
    )
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{len(os.sched_getaffinity(0))}-core CPU, {platform.system()}",
        "steps": [vars(each) | {"seconds": round(each.seconds)} for each in runs],
        "model": model,
        "comparison": comparison | {"effects": shown},
    }


def write_page(page: str, transcript: dict[str, Any]) -> str:
    """Return the page with the screens, minutes and exit codes of a walk."""
    table = table_of(transcript)
    page = _TABLE.sub(lambda match: f"{match[1]}{table}{match[2]}", page)
    screens = (step["screen"] for step in transcript["steps"])
    return _SCREEN.sub(lambda match: f"{match[1]}{next(screens)}{match[2]}", page)


def table_of(transcript: dict[str, Any]) -> str:
    """Return the page's table of minutes and exit codes."""
    rows = ["", "| command | minutes | exit code |", "|---|---|---|"]
    for step in transcript["steps"]:
        name = " ".join(step["command"].splitlines()[-1].split()[:2])
        option = re.search(r" --(try|confirm) \S+", step["command"])
        if option is not None:
            name += option[0]
        minutes = f"{step['seconds'] / 60:.1f}"
        rows.append(f"| `{name}` | {minutes} | {step['exit_code']} |")
    total = sum(step["seconds"] for step in transcript["steps"]) / 60
    rows.append(f"| all | {total:.1f} | |")
    rows += [
        "",
        f"Measured on a {transcript['machine']}, {transcript['date']}. {MEANT}",
        "",
    ]
    return "".join(f"{row}\n" for row in rows)


def check(runs: Sequence[Run], transcript: dict[str, Any]) -> list[str]:
    """List the commands that end otherwise than the page says."""
    problems = []
    for now, then in zip(runs, transcript["steps"], strict=True):
        if now.exit_code != then["exit_code"]:
            problems.append(
                f"{now.command.strip()}: exit code {now.exit_code}, the page says {then['exit_code']}"
            )
    return problems


def draw_page_one(report: Path, picture: Path) -> None:
    """Draw page one of a report."""
    # Imported late: checking a walk, and reading it in tests, needs no mkdocs.
    from build import page_one
    from draw import DPI, save_drawn
    from PIL import Image

    save_drawn(Image.open(io.BytesIO(page_one(report, DPI))), report, picture)


def draw_scan(scan: Path) -> None:
    """Draw the pictures of README and the manual from the first scan of the walk."""
    # Imported late, as above.
    from draw import draw

    draw(scan)


def main() -> None:
    """Walk the page, and write it or compare it."""
    parser = argparse.ArgumentParser(description="Walk the tutorial and write its screens.")
    parser.add_argument("--check", action="store_true", help="compare exit codes, write nothing")
    parser.add_argument("--folder", type=Path, help="new folder for the walk, which stays")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="tutorial-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sample_models").symlink_to(ROOT / "sample_models")
    page = PAGE.read_text(encoding="utf-8")
    runs = walk(read_steps(page), folder)
    if arguments.check:
        transcript = json.loads(TRANSCRIPT.read_text(encoding="utf-8"))
        sys.exit("\n".join(check(runs, transcript)) or 0)
    transcript = transcript_of(runs, folder)
    text = json.dumps(transcript, indent=1, ensure_ascii=False)
    TRANSCRIPT.write_text(f"{text}\n", encoding="utf-8")
    PAGE.write_text(write_page(page, transcript), encoding="utf-8")
    shutil.copyfile(folder / FIXED / "confirmed" / "report.pdf", REPORT)
    draw_page_one(REPORT, PICTURE)
    draw_scan(folder / SCANNED)


if __name__ == "__main__":
    main()
