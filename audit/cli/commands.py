"""The commands: each module is imported when its command is called, and all of them for the help."""

import inspect
import tomllib
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from audit import __version__, plugins
from audit.cli import console
from audit.cli.options import HELP, PANELS, seconds_of, show_errors

_PANELS = tomllib.loads((Path(__file__).parent / "commands.toml").read_text(encoding="utf-8"))
COMMANDS = {name: (place, panel) for panel, own in _PANELS.items() for name, place in own.items()}
"""Module and function of each command, and its panel, in the order of the help."""


def make_app(called: str | None = None) -> typer.Typer:
    """Make the command line.

    Args:
        called: the command that is called, the only one to be imported; none is for "--version",
            all for another name.
    """
    known = called == "--version" or called in COMMANDS
    app = typer.Typer(
        name="docaudit",
        help="Test what a document model leaks about its training documents, before you deploy it.",
        epilog=HELP["docaudit.exit"],
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name, (place, panel) in COMMANDS.items():
        if known and called != name:
            continue
        module, _, attribute = place.partition(":")
        command = getattr(import_module(f"audit.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, epilog=HELP.get(f"{name}.exit"), rich_help_panel=panel)(
                show_errors()(command)
            )
    if not known:
        for add in plugins.load("docaudit.commands").values():
            add(app)
    _group_options(app)
    return app


class _Command(TyperCommand):
    """A command whose options of no panel are common ones."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse; a time needs its unit, or it would be taken for a number of documents."""
        with show_errors():
            for place, name in enumerate(args):
                if name.startswith("--time") and not ctx.resilient_parsing:
                    seconds_of(name.partition("=")[2] or " ".join(args[place + 1 : place + 2]))
        return super().parse_args(ctx, args)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Print the help; what prints it is loaded for that alone."""
        from typer import rich_utils

        rich_utils.OPTIONS_PANEL_TITLE = "Common"
        super().format_help(ctx, formatter)


def _group_options(app: typer.Typer) -> None:
    """Put every option into its panel of the help; those of no panel are common."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _group_options(group.typer_instance)
    for command in app.registered_commands:
        command.cls = _Command
        function: Callable[..., Any] = _from_hub(command.callback or _options)
        command.callback = function
        signature = inspect.signature(function, eval_str=True)
        for parameter in signature.parameters.values():
            for own in getattr(parameter.annotation, "__metadata__", ()):
                own.rich_help_panel = own.rich_help_panel or PANELS.get(parameter.name)
        function.__signature__ = signature  # type: ignore[attr-defined]  # else every reader evaluates its own options


PLACES = {"model": True, "model_dir": True, "folders": True, "reference": True}
PLACES.update(dict.fromkeys(("source", "src", "heldout_from"), False))
"""Parameters that may be an address of the Hub, by whether a plain ORG/MODEL is one."""


def _from_hub(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that opens models or sources the option `--allow-network`, and what it downloads for their place.

    The option is every such command's, like `--help`.
    """
    signature = inspect.signature(function, eval_str=True)
    places = PLACES.keys() & signature.parameters.keys()
    if not places or "allow_network" in signature.parameters:
        return function

    @wraps(function)
    def command(allow_network: bool, **options: Any) -> Any:
        with show_errors():
            options |= {
                name: _fetched(options[name], allow_network, PLACES[name]) for name in places
            }
        return function(**options)

    flag = Annotated[bool, typer.Option("--allow-network", help=HELP["shared.allow_network"])]
    added = inspect.Parameter(
        "allow_network", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=flag
    )
    vars(command)["__signature__"] = signature.replace(
        parameters=[*signature.parameters.values(), added]
    )
    return command


def _fetched(value: Any, allow_network: bool, plain: bool) -> Any:
    """Return paths of this machine for those of an option.

    Of several folders the first is the model's.
    """
    if isinstance(value, list):
        return [_fetched(one, allow_network, plain and one is value[0]) for one in value]
    name, equals, place = value.partition("=") if isinstance(value, str) else ("", "", value)
    if not place or Path(place).exists():
        return value
    found = plugins.find("docaudit.sources", "hf")(
        place, allow_network=allow_network, plain=plain or bool(equals)
    )
    if found != Path(place):
        console.note(f"{place} is downloaded: {found}")
    return f"{name}={found}" if equals else found


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"docaudit {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Show the owner of a document model what it leaks about its training documents."""
