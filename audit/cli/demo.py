"""`docaudit demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.files import check_folder

EPILOG = (
    "Exit codes: 0 the sample was scanned; 2 wrong usage, or --out holds something else; 1 docaudit failed; 130 "
    "interrupted and 143 terminated: run the same command again to go on."
)
_FILES = {
    "report.pdf": "the decision report, to pass on; page one says it all",
    "report.html": "the technical annex, to search in a browser",
    "record.json": "every measurement; docaudit gate holds it against another policy",
}


def demo(
    out: Annotated[Path, typer.Option(help="Where the sample, the record, the reports and the evidence go.")] = Path(
        "docaudit-demo"
    ),
) -> None:
    """Scan a small model that leaks, which comes with docaudit, and write its report: about a minute, no network.

    The same command goes on where it was interrupted, and shows what is done already. The exit code is 0 although the
    sample leaks.
    """
    check_folder("--out", out)
    from audit.workflows import demo as demonstration
    from audit.workflows.gate import gate_record, load_policy

    record = demonstration.find_demo(out)
    if record is not None:
        console.say(f"The demo is already done; to run it again, delete {out}.")
        record, verdict = gate_record(out, "default")
    else:
        console.say("Scanning a sample that comes with docaudit: a small model and made-up receipts, about a minute.")
        from audit.workflows.scan import audit_checkpoint

        opened = demonstration.open_demo(out)
        with console.Reporter() as progress:
            result = audit_checkpoint(opened, load_policy("default"), progress)
        console.warn(*opened.warnings, *result.warnings)
        record, verdict = result.record, result.verdict
    console.show_verdict(verdict, None, record, decides_exit=False)
    _section("What was done", [*demonstration.describe(record, demonstration.DOCUMENTS)])
    _section("What was found", [*demonstration.summarise(record)])
    _section("Files to open", _files(out))
    _section("Next, for a model of your own", _next_steps(verdict.exit_code))


def _section(title: str, lines: list[str]) -> None:
    console.say("", title, *(f"  {line}" for line in lines))


def _files(out: Path) -> list[str]:
    present = {name: why for name, why in _FILES.items() if (out / name).exists()}
    missing = [name for name in _FILES if name.endswith(".pdf") and name not in present]
    lines = [f"{out / name}: {why}" for name, why in present.items()]
    if missing:
        lines.append(f"not written: {', '.join(missing)}; the warning above says what is missing (docaudit doctor)")
    return lines


def _next_steps(code: int) -> list[str]:
    return [
        "docaudit doctor: what this machine can do",
        "docaudit import --help: from the files of a data set to a DATA_DIR; docaudit init, from a folder of pages",
        "docaudit scan MODEL_DIR DATA_DIR --documents 20 --budget quick --out first-look",
        f"In a pipeline, docaudit scan would have ended with exit code {code} here.",
    ]
