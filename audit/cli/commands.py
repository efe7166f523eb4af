"""The commands: each module is imported when its command is called, and all of them for the help."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated

import typer

from audit import __version__, plugins
from audit.cli.options import HELP, show_errors

_START, _DATA, _AUDIT = "Start", "Data", "Audit"
_MODELS, _MEASURES = "References", "Countermeasures and canaries"
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("start:demo", _START),
    "doctor": ("start:doctor", _START),
    "init": ("data:init", _DATA),
    "import": ("import_data:app", _DATA),
    "ocr": ("data:ocr", _DATA),
    "inspect": ("data:inspect", _DATA),
    "plan": ("plan:plan", _AUDIT),
    "scan": ("scan:scan", _AUDIT),
    "gate": ("gate:gate", _AUDIT),
    "diff": ("gate:diff", _AUDIT),
    "report": ("report:report", _AUDIT),
    "attest": ("report:attest", _AUDIT),
    "verify": ("report:verify", _AUDIT),
    "references": ("references:references", _MODELS),
    "train-baseline": ("references:train_baseline", _MODELS),
    "train-splits": ("references:train_splits", _MODELS),
    "canary": ("references:canary", _MEASURES),
}
"""Module and function of each command, and its panel, in the order of the help."""


def make_app(called: str | None = None) -> typer.Typer:
    """Make the command line.

    Args:
        called: the command that is called, the only one to be imported; all of them where there is none of this name.
    """
    app = typer.Typer(
        name="docaudit",
        help="Privacy audit of document-understanding models: attack, measure, gate and report before you deploy.",
        epilog=HELP["docaudit.exit"],
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name, (place, panel) in COMMANDS.items():
        if called in COMMANDS and called != name:
            continue
        module, _, attribute = place.partition(":")
        command = getattr(import_module(f"audit.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, epilog=HELP.get(f"{name}.exit"), rich_help_panel=panel)(show_errors()(command))
    if called not in COMMANDS:
        for add in plugins.load("docaudit.commands").values():
            add(app)
    return app


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"docaudit {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Tell the owner of a document-understanding model what it gives away about its training documents."""
