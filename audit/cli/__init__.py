"""The command line: a module a command parses its arguments, calls the library, prints, and gives the exit code."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from audit import __version__
from audit.cli import canary, defend, gate, import_data, init, inspect, ocr, plan, references, report, scan, train, tune
from audit.cli.options import EXIT_HELP, DefenseCommand

__all__ = ["EXIT_HELP", "app", "main"]

app = typer.Typer(
    name="docaudit",
    help="Privacy audit of document-understanding models: attack, measure, gate and report before you deploy.",
    epilog=EXIT_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
# In the order of the help.
app.command(cls=DefenseCommand, epilog=f"{EXIT_HELP} {scan.SWEEP_HELP}")(scan.scan)
app.command()(tune.tune_attack)
app.command(epilog=EXIT_HELP)(gate.gate)
app.command()(report.report)
app.command()(inspect.inspect)
app.command()(plan.plan)
app.command(cls=init.InitCommand)(init.init)
app.command()(references.references)
app.command("import", cls=import_data.ImportCommand)(import_data.import_data)
app.command()(ocr.ocr)
app.command()(train.train_baseline)
app.command()(train.train_splits)
app.command(cls=defend.DefendCommand)(defend.defend)
app.add_typer(canary.app, name="canary")


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


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.stderr.write("\nterminated; run the same command again to go on\n")
    raise SystemExit(143)


def main() -> None:
    """The `docaudit` command."""
    # Nothing docaudit does needs the network: libraries must not try.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    signal.signal(signal.SIGTERM, _terminated)
    app()
