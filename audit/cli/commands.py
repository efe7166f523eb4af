"""The commands: each module is imported when its command is called, and all for the help."""

import inspect
import tomllib
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from audit import __version__, plugins
from audit.cli import console
from audit.cli.help import Command, Group
from audit.cli.options import HELP, PANELS, seconds_of, show_errors
from audit.cli.places import in_order, recognising
from audit.errors import typed


class CommandPlace(NamedTuple):
    """Where a command is defined, and where it stands in the help.

    Attributes:
        module: module in `audit.cli`.
        attribute: its function there, or its group of commands.
        panel: panel of the help.
    """

    module: str
    attribute: str
    panel: str


def _read_commands() -> dict[str, CommandPlace]:
    """Read the places of all commands, in the order of the help."""
    panels = tomllib.loads((Path(__file__).parent / "commands.toml").read_text(encoding="utf-8"))
    commands = {}
    for panel, places in panels.items():
        for name, place in places.items():
            module, _, attribute = place.partition(":")
            commands[name] = CommandPlace(module, attribute, panel)
    return commands


START = (
    (HELP["docaudit.try"], "docaudit demo"),
    (HELP["docaudit.describe"], "docaudit init MODEL_DIR SOURCE --out DATA_DIR"),
    (HELP["docaudit.audit"], "docaudit scan MODEL_DIR DATA_DIR"),
)
"""What a newcomer wants, each with the command that does it."""
COMMANDS = _read_commands()
"""The place of each command by its name, in the order of the help."""


def make_app(called: str | None = None) -> typer.Typer:
    """Make the command line.

    Args:
        called: the command that is called, the only one to be imported; none is for "--version"
            and for a call of nothing (""), all for another name.
    """
    needs_others = called not in ("", "--version") and called not in COMMANDS
    app = typer.Typer(
        name="docaudit",
        cls=Group,
        help=HELP["docaudit.purpose"],
        epilog=HELP["docaudit.exit"],
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_options)
    for name, place in COMMANDS.items():
        if needs_others or called == name:
            _add_command(app, name, place)
    if needs_others:
        for add in plugins.load("docaudit.commands").values():
            add(app)
    _group_options(app)
    return app


def _add_command(app: typer.Typer, name: str, place: CommandPlace) -> None:
    """Import a command, or a group of them, and add it to the command line."""
    command = getattr(import_module(f"audit.cli.{place.module}"), place.attribute)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=place.panel)
        return
    register = app.command(name, epilog=HELP.get(f"{name}.exit"), rich_help_panel=place.panel)
    register(show_errors()(command))


class _Command(Command):
    """A command that checks times before it is parsed."""

    def parse_args(  # type: ignore[override]
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        """Parse; a time needs its unit, or it would be taken for a number of documents."""
        if not ctx.resilient_parsing:
            with show_errors():
                _check_times(args)
        return super().parse_args(ctx, args)


def _check_times(args: Sequence[str]) -> None:
    """Read every time among the arguments of a command.

    Raises:
        UsageError: one has no unit.
    """
    for place, name in enumerate(args):
        if name.startswith("--time"):
            text = name.partition("=")[2]
            if not text:
                text = "".join(args[place + 1 : place + 2])
            seconds_of(text)


def _group_options(app: typer.Typer) -> None:
    """Put every option into its panel of the help; those of no panel are common."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _group_options(group.typer_instance)
    for command in app.registered_commands:
        command.cls = _Command
        callback = recognising(command.callback or _options)
        function: Callable[..., Any] = in_order(_from_hub(callback))
        command.callback = function
        signature = inspect.signature(function, eval_str=True)
        for parameter in signature.parameters.values():
            for option in getattr(parameter.annotation, "__metadata__", ()):
                if not option.rich_help_panel:
                    option.rich_help_panel = PANELS.get(parameter.name)
        # Else every reader would evaluate the annotations again, to options without a panel.
        vars(function)["__signature__"] = signature


PLACES = {
    "model": True,
    "model_dir": True,
    "folders": True,
    "reference": True,
    "source": False,
    "src": False,
    "heldout_from": False,
}
"""Parameters that may be an address of the Hub, by whether a plain ORG/MODEL is one."""


def _from_hub(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that opens models or sources the option `--allow-network`.

    It then gets the folders of what was downloaded. The option is every such command's, like
    `--help`.
    """
    signature = inspect.signature(function, eval_str=True)
    places = PLACES.keys() & signature.parameters.keys()
    if not places or "allow_network" in signature.parameters:
        return function

    @wraps(function)
    def command(allow_network: bool, **options: Any) -> Any:
        """Fetch what addresses of the Hub name, then run the command on the local paths."""
        with show_errors():
            for name in places:
                options[name] = _fetch_all(options[name], allow_network, is_model=PLACES[name])
        return function(**options)

    flag = Annotated[bool, typer.Option("--allow-network", help=HELP["shared.allow_network"])]
    added = inspect.Parameter(
        "allow_network", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=flag
    )
    vars(command)["__signature__"] = signature.replace(
        parameters=[*signature.parameters.values(), added]
    )
    return command


def _fetch_all(value: Any, allow_network: bool, *, is_model: bool) -> Any:
    """Return an option's value with local paths in place of addresses of the Hub.

    Args:
        value: a path, "NAME=PATH", None, or a list of such.
        allow_network: whether models and data sets may be downloaded.
        is_model: whether a plain ORG/MODEL is an address; of several folders the first is the
            model's.
    """
    if not isinstance(value, list):
        return _fetch(value, allow_network, is_model=is_model)
    paths = []
    for place in value:
        comes_first = len(value) > 1 and place is value[0]
        paths.append(_fetch(place, allow_network, is_model=is_model and comes_first))
    return paths


def _fetch(value: Any, allow_network: bool, *, is_model: bool) -> Any:
    """Return the local path for an address of the Hub; return any other value unchanged."""
    name = ""
    equals = ""
    place = value
    if isinstance(value, str):
        name, equals, place = value.partition("=")
    if not place or Path(place).exists():
        return value
    may_be_plain = is_model or bool(equals)
    hub = plugins.find("docaudit.sources", "hf")
    path = hub(place, allow_network=allow_network, plain=may_be_plain)
    if path != Path(place):
        console.note(f"{typed(place)} is downloaded: {path}")
    if equals:
        return f"{name}={typed(path)}"
    return path


def _print_version(value: bool) -> None:
    """Print the version and exit, where the option `--version` was given."""
    if value:
        typer.echo(f"docaudit {__version__}")
        raise typer.Exit


def _options(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Show the owner of a document model what it leaks about its training documents."""
    if ctx.invoked_subcommand is None:
        _show_start()


def _show_start() -> None:
    """Print what a newcomer runs next, instead of all commands."""
    console.say(HELP["docaudit.purpose"], "")
    for title, *commands in START:
        console.show_commands(title, commands)
    console.say("", HELP["docaudit.more"])
