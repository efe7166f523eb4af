"""`docaudit diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from audit.cli import console
from audit.cli.options import PolicyName
from audit.errors import UsageError

EPILOGS = {
    "diff": "Exit codes: 0 the scans were compared, whatever came of it (docaudit gate --baseline decides); 2 wrong "
    "usage or input, or scans that differ in more than the model; 1 docaudit failed."
}

FORMATS = ("text", "json", "markdown")


def diff(
    old: Annotated[
        Path, typer.Argument(metavar="OLD", help="record.json, or the folder a scan wrote.", show_default=False)
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The same of the later scan.", show_default=False)],
    policy: PolicyName = "default",
    output: Annotated[
        str,
        typer.Option(
            "--format", metavar="NAME[=FILE]", help="text, json or markdown, on standard output or in a file."
        ),
    ] = "text",
) -> None:
    """Compare two scans of the same data: each number better, worse, or cannot be told. Needs no model and no GPU.

    Numbers are those that the policy limits, that sum attacks up, and usefulness. Scans that still have their evidence/
    are compared unit by unit. Scans of other data, or with another seed, budget or parameters, are refused.
    """
    from audit.files import check_file, write_output
    from audit.report.scan_diff import render
    from audit.workflows.diff import diff_scans

    name, separator, file = output.partition("=")
    if name not in FORMATS:
        raise UsageError(f"--format {output}: no such format", f"one of {', '.join(FORMATS)}, or NAME=FILE")
    if separator:
        check_file("--format", Path(file))
    with console.Reporter() as progress:
        found = diff_scans(old, new, policy, progress)
    text = render(found, cast("Any", name), console.width())
    if separator:
        write_output(Path(file), text.encode())
    else:
        console.write(text)
