"""Formats of a verdict: as text, or for machines, on standard output or in files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, complete
from audit.errors import RenderError, UsageError
from audit.files import check_file, write_output

if TYPE_CHECKING:
    from audit.policy import Verdict
    from audit.record import AuditRecord

FORMATS = ("text", "json", "markdown", "junit", "sarif")
_NAMES = complete(FORMATS)
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="NAME[=FILE]",
        help=HELP["shared.formats"],
        autocompletion=_NAMES,
        show_default="text",
    ),
]


@dataclass(frozen=True)
class Outputs:
    """Formats by the file that each goes into, and the one for standard output, if any."""

    files: dict[Path, str]
    printed: str | None = None


def choose(formats: Sequence[str] | None, *, quiet: bool) -> Outputs:
    """Read `--format`, before anything runs.

    Where no format is for standard output, text is, unless it is to be quiet.

    Raises:
        UsageError: there is no such format, two are for one place, or a file cannot be written.
    """
    files: dict[Path, str] = {}
    printed: str | None = None
    for given in formats or ():
        name, separator, file = given.partition("=")
        if name not in FORMATS:
            raise UsageError(
                f"--format {given}: no such format", f"one of {', '.join(FORMATS)}, or NAME=FILE"
            )
        if not separator:
            if printed is not None:
                both = f"--format {printed} and --format {name} both go to standard output"
                raise UsageError(both, f"give one a file: {name}=FILE")
            printed = name
            continue
        check_file("--format", path := Path(file))
        if path.absolute() in map(Path.absolute, files):
            raise UsageError(f"--format {given}: two formats for one file", "name a file for each")
        files[path] = name
    return Outputs(files, printed or (None if quiet else "text"))


@contextmanager
def clearing(outputs: Outputs, *inputs: Path) -> Iterator[None]:
    """Remove the files of an earlier verdict where this command reaches none, so that nobody takes them for its own.

    Args:
        outputs: with the files.
        inputs: files that stay even if a format was to go there.
    """
    try:
        yield
    except BaseException:
        stay = {
            os.path.realpath(path) for path in (*inputs, *(path / "record.json" for path in inputs))
        }
        for path in outputs.files:
            with suppress(OSError):
                if path.is_file() and os.path.realpath(path) not in stay:
                    path.unlink()
        raise


def show(
    outputs: Outputs,
    record: AuditRecord,
    verdict: Verdict,
    in_words: Callable[[], None],
    policy: str,
    data: Path | None,
) -> int:
    """Draw all formats, then write the files, each whole or not at all, and print.

    Return the exit code.

    A file of an earlier run is removed where its format cannot hold this verdict.

    Args:
        outputs: the formats.
        record: that was judged.
        verdict: on it.
        in_words: prints the verdict as text on standard output.
        policy: its name or file, as it was given.
        data: the folder of the data set, if known.

    Raises:
        EngineError: a file cannot be written.
    """

    def draw(name: str) -> str:
        if name == "text":
            with redirect_stdout(io.StringIO()) as printed:
                in_words()
            return printed.getvalue()
        from audit.policy import path_of
        from audit.report.verdicts import Judged, find_place, render

        return render(name, Judged(record, verdict, find_place(path_of(policy), data)))

    # Words are printed as they come, in colours where there are some; only a file takes them drawn
    # before.
    machine = [outputs.printed] if outputs.printed not in (None, "text") else []
    drawn: dict[str, str] = {}
    warnings: list[str] = []
    for name in dict.fromkeys([*outputs.files.values(), *filter(None, machine)]):
        try:
            drawn[name] = draw(name)
        except RenderError as error:
            warnings += error.lines
    for path, name in outputs.files.items():
        if name in drawn:
            write_output(path, drawn[name].encode())
        else:
            path.unlink(missing_ok=True)
    if outputs.printed == "text":
        in_words()
    elif outputs.printed in drawn:
        sys.stdout.buffer.write(drawn[outputs.printed].encode())  # as it is, in UTF-8
        sys.stdout.flush()
    console.warn(*warnings)
    return verdict.exit_code
