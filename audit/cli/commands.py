"""The commands: each is imported when it is called, and all of them for the help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from audit import __version__, plugins
from audit.cli.options import EXIT_HELP, DefenseCommand, ProseCommand

# In the order of the help: as they are used, from a folder of pages to countermeasures.
_START, _DATA, _AUDIT = "Start", "Data", "Audit"
_MODELS, _MEASURES = "References", "Countermeasures and canaries"


def make_app(called: str | None = None) -> typer.Typer:
    """Make the command line.

    Args:
        called: the command that is called: Typer reads the signatures of all that it is given, and importing them takes
            as long as gating. All of them where there is none of this name.
    """
    app = typer.Typer(
        name="docaudit",
        help="Privacy audit of document-understanding models: attack, measure, gate and report before you deploy.",
        epilog=EXIT_HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        # Click suggests already.
        suggest_commands=False,
    )
    app.callback()(_options)
    if called not in _COMMANDS:
        commands = plugins.extend(_COMMANDS, "docaudit.commands")
        called = called if called in commands else None
    else:
        commands = dict(_COMMANDS)
    for name, add in commands.items():
        if called in (None, name):
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
    """Tells the owner of a document-understanding model what it gives away about its training documents."""


def _add_demo(app: typer.Typer) -> None:
    from audit.cli.demo import DEMO_HELP, demo

    app.command(cls=ProseCommand, epilog=DEMO_HELP, rich_help_panel=_START)(demo)


def _add_doctor(app: typer.Typer) -> None:
    from audit.cli.doctor import DOCTOR_HELP, doctor

    app.command(cls=ProseCommand, epilog=DOCTOR_HELP, rich_help_panel=_START)(doctor)


def _add_init(app: typer.Typer) -> None:
    from audit.cli.init import InitCommand, init

    app.command(cls=InitCommand, rich_help_panel=_DATA)(init)


def _add_import(app: typer.Typer) -> None:
    from audit.cli.import_data import ImportCommand, import_data

    app.command("import", cls=ImportCommand, rich_help_panel=_DATA)(import_data)


def _add_ocr(app: typer.Typer) -> None:
    from audit.cli.ocr import ocr

    app.command(cls=ProseCommand, rich_help_panel=_DATA)(ocr)


def _add_inspect(app: typer.Typer) -> None:
    from audit.cli.inspect import inspect

    app.command(cls=ProseCommand, rich_help_panel=_DATA)(inspect)


def _add_plan(app: typer.Typer) -> None:
    from audit.cli.plan import plan

    app.command(cls=ProseCommand, rich_help_panel=_AUDIT)(plan)


def _add_scan(app: typer.Typer) -> None:
    from audit.cli.scan import SWEEP_HELP, scan

    app.command(cls=DefenseCommand, epilog=f"{EXIT_HELP} {SWEEP_HELP}", rich_help_panel=_AUDIT)(scan)


def _add_gate(app: typer.Typer) -> None:
    from audit.cli.gate import gate

    app.command(cls=ProseCommand, epilog=EXIT_HELP, rich_help_panel=_AUDIT)(gate)


def _add_diff(app: typer.Typer) -> None:
    from audit.cli.diff import DIFF_HELP, diff

    app.command(cls=ProseCommand, epilog=DIFF_HELP, rich_help_panel=_AUDIT)(diff)


def _add_report(app: typer.Typer) -> None:
    from audit.cli.report import report

    app.command(cls=ProseCommand, rich_help_panel=_AUDIT)(report)


def _add_attest(app: typer.Typer) -> None:
    from audit.cli.attest import attest

    app.command(cls=ProseCommand, rich_help_panel=_AUDIT)(attest)


def _add_verify(app: typer.Typer) -> None:
    from audit.cli.verify import VERIFY_HELP, verify

    app.command(cls=ProseCommand, epilog=VERIFY_HELP, rich_help_panel=_AUDIT)(verify)


def _add_references(app: typer.Typer) -> None:
    from audit.cli.references import references

    app.command(cls=ProseCommand, rich_help_panel=_MODELS)(references)


def _add_train_baseline(app: typer.Typer) -> None:
    from audit.cli.train import train_baseline

    app.command(cls=ProseCommand, rich_help_panel=_MODELS)(train_baseline)


def _add_train_splits(app: typer.Typer) -> None:
    from audit.cli.train import train_splits

    app.command(cls=ProseCommand, rich_help_panel=_MODELS)(train_splits)


def _add_defend(app: typer.Typer) -> None:
    from audit.cli.defend import DefendCommand, defend

    app.command(cls=DefendCommand, rich_help_panel=_MEASURES)(defend)


def _add_canary(app: typer.Typer) -> None:
    from audit.cli import canary

    app.add_typer(canary.app, name="canary", rich_help_panel=_MEASURES)


_COMMANDS: Mapping[str, Callable[[typer.Typer], None]] = {
    "demo": _add_demo,
    "doctor": _add_doctor,
    "init": _add_init,
    "import": _add_import,
    "ocr": _add_ocr,
    "inspect": _add_inspect,
    "plan": _add_plan,
    "scan": _add_scan,
    "gate": _add_gate,
    "diff": _add_diff,
    "report": _add_report,
    "attest": _add_attest,
    "verify": _add_verify,
    "references": _add_references,
    "train-baseline": _add_train_baseline,
    "train-splits": _add_train_splits,
    "defend": _add_defend,
    "canary": _add_canary,
}
