"""`docaudit demo` and `docaudit doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP
from audit.files import check_folder

FILES = {
    "report.pdf": "the decision report, to pass on; page one says it all",
    "report.html": "everything that was measured, to search in a browser",
    "record.json": "every measurement; docaudit gate holds it against another policy",
}


def demo(out: Annotated[Path, typer.Option(help=HELP["demo.out"])] = Path("docaudit-demo")) -> None:
    """Scan a small model that leaks, which comes with docaudit, and write its report: about a minute, no network.

    The same command goes on where it was interrupted, and shows what is done already. The exit code is 0 although the
    sample leaks.
    """
    check_folder("--out", out)
    from audit.workflows import start as demonstration
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
    console.say("", "What was done and found", *(f"  {line}" for line in demonstration.describe(record)))
    console.say("", "Files to open")
    console.say(*(f"  {out / name}: {why}" for name, why in FILES.items() if (out / name).exists()))
    if not (out / "report.pdf").exists():
        console.say("  not written: report.pdf; the warning above says what is missing (docaudit doctor)")
    console.say("")
    console.show_commands(
        "Next, for a model of your own",
        ["docaudit import --help", "docaudit scan MODEL_DIR DATA_DIR --documents 20 --budget quick --out first-look"],
    )
    console.say(f"  In a pipeline, docaudit scan would have ended with exit code {verdict.exit_code} here.")


def doctor() -> None:
    """Say what this machine can do, and for all that is missing what one does without and the command that mends it.

    It names versions, sizes and devices, no folders and no names of people: its output can be passed on.
    """
    from audit.workflows.start import examine

    found = examine()
    rows = [(check.name, check.state, check.found) for check in found.checks]
    console.show_table("This machine", ("what", "state", "found"), rows)
    for check in found.checks:
        if check.without:
            mark = "needed" if check.needed and check.state != "ok" else "optional"
            console.say(f"{check.name} ({mark}). Without it: {check.without}", f"  {check.mend}")
    console.say("", "A scan with its report can run." if found.ready else "A scan with its report cannot run yet.")
    raise typer.Exit(0 if found.ready else 1)
