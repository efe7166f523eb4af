"""Commands in sentences, held against docaudit's own parser."""

import functools
import re

import click
import typer

from audit.cli import app

COMMAND = re.compile(r"docaudit((?: (?:--)?[A-Za-z_][\w.-]*)+)")


def check_commands(text: str) -> int:
    """Check that each docaudit command of a sentence exists, with its options.

    Return how many there are.
    """
    found = COMMAND.findall(text)
    for words in found:
        _check_command(words.split())
    return len(found)


@functools.cache
def _parser() -> click.Command:
    """Make docaudit's parser, once: Typer makes every command again at each call."""
    return typer.main.get_command(app)


def _check_command(words: list[str]) -> None:
    command = _parser()
    while hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, f"docaudit has no command {name!r}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in parameter.opts}
    for word in words:
        assert not word.startswith("--") or word in known, f"{command.name} has no option {word}"
