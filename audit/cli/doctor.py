"""`docaudit doctor`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from audit.cli import console

EPILOG = "Exit codes: 0 a scan with its report can run; 1 something that it needs is missing; 2 wrong usage."


def doctor(
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="text, or json for programs.")] = "text",
) -> None:
    """Say what this machine can do, and for all that is missing what one does without and the command that mends it.

    It names versions, sizes and devices, no folders and no names of people: its output can be passed on.
    """
    from audit.workflows.doctor import examine

    found = examine()
    if format_ == "json":
        typer.echo(json.dumps(found.json(), indent=1))
    else:
        rows = [(check.name, check.state, check.found) for check in found.checks]
        console.show_table("This machine", ("what", "state", "found"), rows)
        for check in found.checks:
            if check.without:
                mark = "needed" if check.needed and check.state != "ok" else "optional"
                console.say(f"{check.name} ({mark}). Without it: {check.without}", f"  {check.mend}")
        console.say("", "A scan with its report can run." if found.ready else "A scan with its report cannot run yet.")
    raise typer.Exit(0 if found.ready else 1)
