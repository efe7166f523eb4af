"""`docaudit export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, PolicyName


def _complete(incomplete: str) -> list[str]:
    """List the exporters whose names begin so."""
    from audit.workflows.export import names

    return [name for name in names() if name.startswith(incomplete)]


def export(
    record_path: Annotated[
        Path, typer.Argument(metavar="RECORD", help=HELP["gate.record_path"], show_default=False)
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="NAME[:KEY=VALUE,...]",
            help=HELP["export.to"],
            autocompletion=_complete,
            show_default=False,
        ),
    ],
    policy: PolicyName = "default",
    allow_network: Annotated[
        bool, typer.Option("--allow-network", help=HELP["export.allow_network"])
    ] = False,
) -> None:
    """Hand a record and its verdict over to the tool where your team looks.

    The tool gets limited numbers with interval and outcome, digests, and files that may be shared.
    No text of a document and no evidence is among them.
    """
    from audit.workflows.export import export as hand_over

    with console.Reporter():
        place = hand_over(record_path, policy, to, network=allow_network)
    console.say(place)
