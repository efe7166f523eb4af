"""`docaudit demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import Debug, show_errors
from audit.files import check_folder

DEMO_HELP = (
    "Exit codes: 0 the sample was scanned; 2 wrong usage, or --out holds something else; 1 docaudit failed; 130 "
    "interrupted and 143 terminated: run the same command again to go on. With --exit-code that of the verdict: 10, a "
    "limit is violated."
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
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with the exit code of the verdict, as scan does, instead of 0.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Scan a small model that leaks, which comes with docaudit, and write its report: about a minute, no network.

    The same command goes on where it was interrupted, and shows what is done already. The exit code is 0 although the
    sample leaks.
    """
    with show_errors(debug):
        check_folder("--out", out)
        from audit.workflows import demo as demonstration
        from audit.workflows.gate import gate_record, load_policy

        record = demonstration.find_demo(out)
        if record is not None:
            console.say(f"The demo is already done; to run it again, delete {out}.")
            record, verdict = gate_record(out, "default")
        else:
            console.say(
                "Scanning a sample that comes with docaudit: a small model and made-up receipts, about a minute."
            )
            from audit.workflows.scan import audit_checkpoint

            opened = demonstration.open_demo(out)
            with console.Reporter() as progress:
                result = audit_checkpoint(opened, load_policy("default"), False, progress)
            console.warn(*opened.warnings, *result.warnings)
            record, verdict = result.record, result.verdict
        console.show_verdict(verdict, None, record, decides_exit=exit_code)
        _section("What was done", [*demonstration.describe(record, demonstration.DOCUMENTS)])
        _section("What was found", [*demonstration.summarise(record)])
        _section("Files to open", _files(out))
        _section("Next, for a model of your own", _next_steps(verdict.exit_code, exit_code))
    raise typer.Exit(verdict.exit_code if exit_code else 0)


def _section(title: str, lines: list[str]) -> None:
    console.say("", title, *(f"  {line}" for line in lines))


def _files(out: Path) -> list[str]:
    present = {name: why for name, why in _FILES.items() if (out / name).exists()}
    missing = [name for name in _FILES if name.endswith(".pdf") and name not in present]
    lines = [f"{out / name}: {why}" for name, why in present.items()]
    if missing:
        lines.append(f"not written: {', '.join(missing)}; the warning above says what is missing (docaudit doctor)")
    return lines


def _next_steps(code: int, ends_with_it: bool) -> list[str]:
    look = [
        "docaudit",
        "scan",
        "MODEL_DIR",
        "DATA_DIR",
        "--documents",
        "20",
        "--budget",
        "quick",
        "--out",
        "first-look",
    ]
    lines = [
        "docaudit doctor: what this machine can do",
        "docaudit import --help: from the files of a data set to a DATA_DIR; docaudit init, from a folder of pages",
        shlex.join(look),
    ]
    if not ends_with_it:
        lines.append(f"In a pipeline, docaudit scan would have ended with exit code {code} here.")
    return lines
