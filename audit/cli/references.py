"""`docaudit references`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import DataDir, Device, References, named_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from audit.workflows.references import ReferenceNeed


def references(
    data_dir: DataDir,
    model_dir: Annotated[
        Path, typer.Argument(metavar="MODEL_DIR", help="The checkpoint to be audited.", show_default=False)
    ],
    reference: References = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the references that attacks on a model take, those that are there, and the command for each of the others.

    References are models that never saw the audited documents.
    """
    from audit.workflows.references import list_references

    with console.Reporter() as progress:
        progress.stage("opening the model and the data set")
        found = list_references(data_dir, model_dir, named_paths(reference), device)
    if as_json:
        typer.echo(json.dumps({"schema": 1, "references": [asdict(need) for need in found]}, indent=2))
    else:
        show_references(found)


def show_references(found: Sequence[ReferenceNeed]) -> None:
    """Print the references, and what to do for those that are not there."""
    if not found:
        console.say("No attack on this model takes a reference.")
        return
    rows = [
        (need.name, ", ".join(need.needed_by) or "-", ", ".join(need.used_by) or "-", _state(need)) for need in found
    ]
    console.show_table("References", ("reference", "needed by", "used by", "state"), rows)
    for need in found:
        if need.how:
            console.say(f"{need.name}: {need.how}")


def _state(need: ReferenceNeed) -> str:
    return ", ".join(part for part in (need.state, need.source, *need.folders) if part)
