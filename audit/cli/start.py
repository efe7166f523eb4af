"""`docaudit demo` and `docaudit doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, Verbose
from audit.files import check_folder

DOCTOR_WIDTHS = (14, 9)
"""Columns of the name and of the state of a check."""
FILES = {
    "report.pdf": "the decision report, to pass on",
    "report.html": "every number, to search in a browser",
    "record.json": "the record, for docaudit gate and other policies",
}


def demo(
    out: Annotated[Path, typer.Option(help=HELP["demo.out"])] = Path("docaudit-demo"),
    verbose: Verbose = False,
) -> None:
    """Scan a sample model that leaks, and write its report.

    This takes about a minute and no network. The same command continues an interrupted demo. The
    exit code is 0 although the model leaks.
    """
    check_folder("--out", out)
    from audit.report.commands import Called
    from audit.workflows import start as demonstration
    from audit.workflows.apart import refuse_audited

    refuse_audited("--out", out)
    from audit.workflows.gate import gate_record, load_policy

    record = demonstration.find_demo(out)
    if record is not None:
        console.say(f"The demo is already done; to run it again, delete {out}.")
        record, verdict = gate_record(out, "default")
    else:
        console.say(
            "Scanning a sample that comes with docaudit: a small model and made-up receipts, about "
            "a minute."
        )
        from audit.workflows.scan import audit_checkpoint

        opened = demonstration.open_demo(out)
        with console.Reporter() as progress:
            result = audit_checkpoint(opened, load_policy("default"), progress)
        console.warn(*opened.warnings, *result.warnings)
        record = result.record
        verdict = result.verdict
    console.say("", *demonstration.describe(verdict.settled, verbose=verbose), "")
    console.say(*(f"{out / name}: {why}" for name, why in FILES.items() if (out / name).exists()))
    if not (out / "report.pdf").exists():
        console.say(
            "not written: report.pdf; the warning above says what is missing (docaudit doctor)"
        )
    console.say(
        f"In a pipeline, this scan would have ended with exit code {verdict.exit_code} here."
    )
    sample = out / demonstration.SAMPLE
    called = Called().at(MODEL_DIR=str(sample / demonstration.MODEL), DATA_DIR=str(sample / "data"))
    ending = (
        "Your own model: docaudit init MODEL_DIR SOURCE --out DATA_DIR, then docaudit scan "
        "MODEL_DIR DATA_DIR"
    )
    console.show_verdict(
        verdict, out, record, decides_exit=False, called=called, verbose=verbose, ending=[ending]
    )


def doctor() -> None:
    """Check this machine and print the fix for anything missing.

    The output names versions, sizes and devices, but no folders and no people. You can pass it on.
    """
    from audit.workflows.start import Examination, examine

    checks = []
    for check in examine():
        # Row by row: a check takes seconds, and on a busy machine a minute.
        console.show_row((check.name, check.state), check.found, DOCTOR_WIDTHS)
        checks.append(check)
    console.say("")
    machine = Examination(tuple(checks))
    for check in machine.checks:
        if check.without:
            mark = "needed" if check.needed and check.state != "ok" else "optional"
            console.say(f"{check.name} ({mark}). Without it: {check.without}", f"  {check.mend}")
    if machine.ready:
        console.say("", "A scan with its report can run.")
        raise typer.Exit(0)
    console.say("", "A scan with its report cannot run yet.")
    raise typer.Exit(1)
