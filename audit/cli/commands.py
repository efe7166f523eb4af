"""The commands: each module is imported when its command is called, and all of them for the help."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from audit import __version__, plugins
from audit.cli.options import HELP, show_errors

_PANELS = tomllib.loads((Path(__file__).parent / "commands.toml").read_text(encoding="utf-8"))
COMMANDS = {name: (place, panel) for panel, own in _PANELS.items() for name, place in own.items()}
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
