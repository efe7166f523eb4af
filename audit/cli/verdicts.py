"""Formats of a verdict: as text, or for machines, on standard output or in files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, complete
from audit.errors import RenderError, UsageError
from audit.files import check_file, write_output
from audit.report.formats import FORMATS as FOR_MACHINES

if TYPE_CHECKING:
    from audit.policy import Verdict
    from audit.record import AuditRecord

FORMATS = ("text", *FOR_MACHINES)
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
    for text in formats or ():
        name, separator, file = text.partition("=")
        if name not in FORMATS:
            raise UsageError(
                f"--format {text}: no such format", f"one of {', '.join(FORMATS)}, or NAME=FILE"
            )
        if separator:
            files[_check_output(Path(file), text, files)] = name
        elif printed is None:
            printed = name
        else:
            both = f"--format {printed} and --format {name} both go to standard output"
            raise UsageError(both, f"give one a file: {name}=FILE")
    if printed is None and not quiet:
        printed = "text"
    return Outputs(files, printed)


def _check_output(path: Path, text: str, files: Iterable[Path]) -> Path:
    """Return the path of a file for a format.

    Args:
        path: the file.
        text: the option that names it.
        files: files of other formats.

    Raises:
        UsageError: it cannot be written, or another format goes there.
    """
    check_file("--format", path)
    if path.absolute() in map(Path.absolute, files):
        raise UsageError(f"--format {text}: two formats for one file", "name a file for each")
    return path


@contextmanager
def clearing(outputs: Outputs, *inputs: Path) -> Iterator[None]:
    """Remove the files of an earlier verdict where this command reaches none.

    So nobody takes them for its own.

    Args:
        outputs: formats with the files.
        inputs: files, and folders of records, that stay even if a format was to go there.
    """
    try:
        yield
    except BaseException:
        staying = set()
        for path in inputs:
            staying.add(os.path.realpath(path))
            staying.add(os.path.realpath(path / "record.json"))
        for path in outputs.files:
            with suppress(OSError):
                if path.is_file() and os.path.realpath(path) not in staying:
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
        record: record that was judged.
        verdict: verdict on it.
        in_words: function that prints the verdict as text on standard output.
        policy: name or file of the policy, as it was given.
        data: folder of the data set, if known.

    Raises:
        EngineError: a file cannot be written.
    """

    def draw(name: str) -> str:
        """Draw the verdict in one format; "text" is what `in_words` prints."""
        if name == "text":
            with redirect_stdout(io.StringIO()) as printed:
                in_words()
            return printed.getvalue()
        from audit.policy import path_of
        from audit.report.verdicts import Judged, find_place, render

        return render(name, Judged(record, verdict, find_place(path_of(policy), data)))

    # Words are printed as they come, in colours where there are some; only a file takes them drawn
    # before.
    names = list(outputs.files.values())
    if outputs.printed is not None and outputs.printed != "text":
        names.append(outputs.printed)
    drawn: dict[str, str] = {}
    warnings: list[str] = []
    for name in dict.fromkeys(names):
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
