"""Commands in sentences, held against docaudit's own parser."""

import re

import typer

from audit.cli import app

COMMAND = re.compile(r"docaudit((?: (?:--)?[A-Za-z_][\w.-]*)+)")


def check_commands(text: str) -> int:
    """Check that each docaudit command of a sentence exists, with its options; return how many there are."""
    found = COMMAND.findall(text)
    for words in found:
        _check_command(words.split())
    return len(found)


def _check_command(words: list[str]) -> None:
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, f"docaudit has no command {name!r}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in parameter.opts}
    for word in words:
        assert not word.startswith("--") or word in known, f"{command.name} has no option {word}"
