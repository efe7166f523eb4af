"""The help of commands: common options with `--help`, every option with `--help-all`."""

from __future__ import annotations

import inspect
import re
from copy import copy
from typing import Any, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from audit.cli.options import HELP, PANELS

COMMON = "Common"
"""The panel of options that have none of their own; `--help` shows it alone."""
_SHOWS_ALL = "docaudit.shows_all"
"""The key in the `meta` of a context that is true where the help shows every option."""
_KINDS = {"path": "PATH", "str": "TEXT", "int": "N", "float": "NUMBER"}
"""What an option takes, by the name of its type."""
_SENTENCE_END = re.compile(r"(?<=[.?])\s+")


class Command(TyperCommand):
    """A command with a short and a whole help."""

    _help_all: TyperOption | None = None

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        """Return arguments and options, `--help` and `--help-all` among them."""
        if self._help_all is None:
            self._help_all = _make_help_all(self.get_help_option(ctx))
        return _with(super().get_params(ctx), self._help_all)

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Write the arguments behind the name of the command as their metavars say."""
        return _usage_pieces(self, ctx)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Print the help."""
        _print_help(self, ctx)


class Group(TyperGroup):
    """A group of commands with a short and a whole help."""

    _help_all: TyperOption | None = None

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        """Return options, `--help` and `--help-all` among them."""
        if self._help_all is None:
            self._help_all = _make_help_all(self.get_help_option(ctx))
        return _with(super().get_params(ctx), self._help_all)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Print the help."""
        _print_help(self, ctx)


def _make_help_all(help_option: Any) -> TyperOption | None:
    """Make `--help-all` of the option `--help`; None where a command has no help."""
    if help_option is None:
        return None
    option = cast("TyperOption", copy(help_option))
    option.name = "help_all"
    option.opts = ["--help-all"]
    option.help = HELP["shared.help_all"]
    option.callback = cast("Any", _show_help_all)
    return option


def _with(params: list[Any], option: TyperOption | None) -> list[Any]:
    """Return the parameters with an option behind them; without it where there is none."""
    if option is None:
        return params
    return [*params, option]


def _show_help_all(ctx: typer.Context, param: Any, value: bool) -> None:
    """Print the whole help and exit, where the option `--help-all` was given."""
    if value and not ctx.resilient_parsing:
        ctx.meta[_SHOWS_ALL] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _usage_pieces(command: TyperCommand, ctx: typer.Context) -> list[str]:
    """Return what a command is called with: its options, and each argument by its metavar."""
    pieces = [command.options_metavar or ""]
    for param in command.get_params(ctx):
        if not isinstance(param, TyperArgument):
            continue
        name = param.display_name_raw
        if not (param.required or name.startswith("[")):
            name = f"[{name}]"
        pieces.append(name)
    return pieces


def _print_help(command: Command | Group, ctx: typer.Context) -> None:
    """Print the help of a command, with every option where `--help-all` asked for them."""
    # What prints the help is loaded for that alone.
    from typer import rich_utils

    printed = copy(command)
    printed.help = _reflow(command.help or "")
    printed.params = _shown_params(command, ctx, shows_all=_SHOWS_ALL in ctx.meta)
    # The two helps are among the parameters already.
    printed.add_help_option = False
    printed._help_all = None
    if _SHOWS_ALL not in ctx.meta:
        printed.epilog = None
    rich_utils.rich_format_help(obj=printed, ctx=ctx, markup_mode="rich")


def _shown_params(command: Command | Group, ctx: typer.Context, *, shows_all: bool) -> list[Any]:
    """Return copies of the parameters that the help shows, common options first."""
    arguments = []
    common = []
    special = []
    for param in command.get_params(ctx):
        printed = copy(param)
        if isinstance(printed, TyperArgument):
            # Its metavar says what it takes.
            vars(printed)["display_type_rich"] = _no_type
            arguments.append(printed)
            continue
        printed.metavar = _metavar_of(printed, ctx)
        printed.rich_help_panel = printed.rich_help_panel or PANELS.get(param.name, "")
        if printed.rich_help_panel:
            special.append(printed)
            continue
        printed.rich_help_panel = COMMON
        if not shows_all:
            printed.help = _first_sentence(printed.help or "")
        common.append(printed)
    if shows_all:
        return [*arguments, *common, *special]
    return [*arguments, *common]


def _no_type(ctx: typer.Context) -> None:
    """Show no type."""


def _metavar_of(option: TyperOption, ctx: typer.Context) -> str:
    """Return what an option takes; a flag takes nothing."""
    if option.is_flag:
        return ""
    if option.metavar is not None:
        return option.metavar
    kind = option.display_type(ctx).strip("<>").removesuffix(" range")
    kind = kind.removeprefix("list[").removesuffix("]")
    return _KINDS.get(kind, kind)


def _first_sentence(text: str) -> str:
    """Return the first sentence of the help of an option."""
    return _SENTENCE_END.split(text)[0]


def _reflow(text: str) -> str:
    """Join the lines of each paragraph, which a terminal breaks anew."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
