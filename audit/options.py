"""Arguments and options that several commands have, and how a command ends in an error."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from audit.errors import DocauditError, UsageError

DataDir = Annotated[Path, typer.Argument(metavar="DATA_DIR", help="Folder with manifest.toml.", show_default=False)]
RecordPath = Annotated[
    Path, typer.Argument(metavar="RECORD", help="record.json, or the folder a scan wrote.", show_default=False)
]
PolicyName = Annotated[str, typer.Option("--policy", help="A shipped policy (default, strict) or a TOML file.")]
Reveal = Annotated[
    bool,
    typer.Option("--reveal", help="Also write evidence/report-revealed.html with the values. Keep it to yourself."),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Every random choice follows from it.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
SourceDir = Annotated[Path, typer.Argument(metavar="SRC", help="The folder you have.", show_default=False)]
Destination = Annotated[Path, typer.Argument(metavar="DST", help="The new data set's folder.", show_default=False)]
Share = Annotated[float, typer.Option(min=0, max=1, help="Share of the documents for this split.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
ModelDir = Annotated[
    Path, typer.Argument(metavar="MODEL_DIR", help="A Hugging Face checkpoint (safetensors).", show_default=False)
]


class FilledCommand(TyperCommand):
    """A command that says what is registered: it asks only when it is called, so that the others start without that."""

    def choices(self) -> Mapping[str, Sequence[str]]:
        """The values that a parameter can take, by the parameter's name."""
        return {}

    def words(self) -> Mapping[str, str]:
        """What the help says in place of each "{NAME}", by NAME."""
        return {}

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """See `click.Command.make_context`."""
        choices, words = self.choices(), self.words()
        for param in self.params:
            if param.name in choices:
                param.type = click.Choice(choices[param.name])
            if isinstance(param, TyperArgument | TyperOption):
                param.help = _filled(param.help, words)
        self.help = _filled(self.help, words)
        return super().make_context(*given, **more)


def _filled(text: str | None, words: Mapping[str, str]) -> str | None:
    for name, word in words.items():
        text = text and text.replace(f"{{{name}}}", word)
    return text


def named_paths(pairs: Sequence[str]) -> dict[str, list[Path]]:
    """The folders of `--reference NAME=PATH`, by name.

    Raises:
        UsageError: one is not written so.
    """
    named: dict[str, list[Path]] = {}
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not separator or not name or not path:
            raise UsageError(f"--reference {pair!r}: write NAME=PATH")
        named.setdefault(name, []).append(Path(path))
    return named


@contextmanager
def errors_shown(debug: bool) -> Iterator[None]:
    """Known errors become a line each and their exit code; anything else is a bug and keeps its traceback."""
    try:
        yield
    except DocauditError as error:
        from audit import console

        if debug:
            traceback.print_exc()
        console.show_error(error)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; run the same command again to go on\n")
        raise typer.Exit(130) from None
