"""`docaudit diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from audit.cli import console
from audit.cli.options import Debug, PolicyName, show_errors
from audit.errors import UsageError

DIFF_HELP = (
    "Exit codes: 0 the scans were compared, whatever came of it (docaudit gate --baseline decides); 2 wrong usage or "
    "input, or scans that differ in more than the model; 1 docaudit failed."
)


def _evidence(name: str) -> Any:
    """An option for the evidence of a scan that kept it elsewhere."""
    return typer.Option(
        name, metavar="DIR", help="Where that scan kept its evidence.", show_default="evidence/ beside the record"
    )


def diff(
    old: Annotated[
        Path, typer.Argument(metavar="OLD", help="record.json, or the folder a scan wrote.", show_default=False)
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The same of the later scan.", show_default=False)],
    policy: PolicyName = "default",
    output_format: Annotated[
        Literal["text", "json", "markdown"], typer.Option("--format", help="Of the comparison.")
    ] = "text",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where it goes.", show_default="standard output")
    ] = None,
    old_evidence: Annotated[Path | None, _evidence("--old-evidence")] = None,
    new_evidence: Annotated[Path | None, _evidence("--new-evidence")] = None,
    debug: Debug = False,
) -> None:
    """Compare two scans of the same data: each number better, worse, or cannot be told. Needs no model and no GPU.

    Numbers are those that the policy limits, that sum attacks up, and usefulness. Scans that still have their evidence/
    are compared unit by unit. Scans of other data, or with another seed, budget or parameters, are refused.
    """
    with show_errors(debug):
        from audit.files import check_file, write_output
        from audit.report.scan_diff.formats import render
        from audit.workflows.diff import diff_scans

        if output is not None:
            check_file("--output", output)
        for option, folder in (("--old-evidence", old_evidence), ("--new-evidence", new_evidence)):
            if folder is not None and not folder.is_dir():
                raise UsageError(f"{option} {folder}: no such folder", "name the one that was given to docaudit scan")
        with console.Reporter() as progress:
            found = diff_scans(old, new, policy, progress, old_evidence=old_evidence, new_evidence=new_evidence)
        text = render(found, output_format, console.width())
        if output is None:
            console.write(text)
        else:
            write_output(output, text.encode())
