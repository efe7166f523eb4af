"""The command line: a module a command parses its arguments, calls the library, prints, and gives the exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

from audit import __version__
from audit.cli import (
    attest,
    canary,
    console,
    defend,
    demo,
    diff,
    doctor,
    gate,
    import_data,
    init,
    inspect,
    ocr,
    plan,
    references,
    report,
    scan,
    stopping,
    train,
    tune,
    verify,
)
from audit.cli.options import EXIT_HELP, DefenseCommand, ProseCommand
from audit.errors import DocauditError

__all__ = ["EXIT_HELP", "app", "main"]

_COMPLETING = "_DOCAUDIT_COMPLETE"

app = typer.Typer(
    name="docaudit",
    help="Privacy audit of document-understanding models: attack, measure, gate and report before you deploy.",
    epilog=EXIT_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Click suggests already.
    suggest_commands=False,
)
# In the order of the help: as they are used, from a folder of pages to countermeasures.
_START, _DATA, _AUDIT = "Start", "Data", "Audit"
_MODELS, _MEASURES = "References and attack parameters", "Countermeasures and canaries"
app.command(cls=ProseCommand, epilog=demo.DEMO_HELP, rich_help_panel=_START)(demo.demo)
app.command(cls=ProseCommand, epilog=doctor.DOCTOR_HELP, rich_help_panel=_START)(doctor.doctor)
app.command(cls=init.InitCommand, rich_help_panel=_DATA)(init.init)
app.command("import", cls=import_data.ImportCommand, rich_help_panel=_DATA)(import_data.import_data)
app.command(cls=ProseCommand, rich_help_panel=_DATA)(ocr.ocr)
app.command(cls=ProseCommand, rich_help_panel=_DATA)(inspect.inspect)
app.command(cls=ProseCommand, rich_help_panel=_AUDIT)(plan.plan)
app.command(cls=DefenseCommand, epilog=f"{EXIT_HELP} {scan.SWEEP_HELP}", rich_help_panel=_AUDIT)(scan.scan)
app.command(cls=ProseCommand, epilog=EXIT_HELP, rich_help_panel=_AUDIT)(gate.gate)
app.command(cls=ProseCommand, epilog=diff.DIFF_HELP, rich_help_panel=_AUDIT)(diff.diff)
app.command(cls=ProseCommand, rich_help_panel=_AUDIT)(report.report)
app.command(cls=ProseCommand, rich_help_panel=_AUDIT)(attest.attest)
app.command(cls=ProseCommand, epilog=verify.VERIFY_HELP, rich_help_panel=_AUDIT)(verify.verify)
app.command(cls=ProseCommand, rich_help_panel=_MODELS)(references.references)
app.command(cls=ProseCommand, rich_help_panel=_MODELS)(train.train_baseline)
app.command(cls=ProseCommand, rich_help_panel=_MODELS)(train.train_splits)
app.command(cls=ProseCommand, rich_help_panel=_MODELS)(tune.tune_attack)
app.command(cls=defend.DefendCommand, rich_help_panel=_MEASURES)(defend.defend)
app.add_typer(canary.app, name="canary", rich_help_panel=_MEASURES)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"docaudit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Tells the owner of a document-understanding model what it gives away about its training documents."""


def main() -> None:
    """The `docaudit` command."""
    # Nothing docaudit does needs the network: libraries must not try.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    stopping.listen()
    # Imports make objects that stay: a search for garbage among them every 700 takes a tenth of the time of `gate`.
    gc.set_threshold(50_000)
    _leave_out_what_is_not_asked_for(sys.argv[1:])
    console.guard_streams()
    try:
        app()
    except DocauditError as error:  # of what Typer prints itself, as the help
        console.show_error(error)
        sys.exit(error.exit_code)


def _name(command: CommandInfo) -> str:
    return command.name or get_command_name(command.callback.__name__ if command.callback else "")


def _leave_out_what_is_not_asked_for(arguments: Sequence[str]) -> None:
    """Keep the command that is called alone: Typer reads the signatures of all, which takes as long as gating."""
    called = arguments[0] if arguments and _COMPLETING not in os.environ else None
    found = [info for info in app.registered_commands if called == _name(info)]
    if found:
        app.registered_commands, app.registered_groups = found, []
