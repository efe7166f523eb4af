"""Formats of a verdict that a command was asked for, and where each goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.errors import RenderError, UsageError
from audit.files import check_file, write_output

STANDARD_OUTPUT = Path("-")


@dataclass(frozen=True)
class Outputs:
    """Formats by the file that each goes into, and the one for standard output, if any."""

    files: dict[Path, str]
    printed: str | None = None


def pair(formats: Sequence[str], outputs: Sequence[Path]) -> Outputs:
    """Pair the k-th format with the k-th output; a format without one goes to standard output, as one does to "-".

    Raises:
        UsageError: two formats for one place, an output without a format, or one that cannot be written.
    """
    if len(outputs) > len(formats):
        raise UsageError(
            f"--output {outputs[len(formats)]}: no --format belongs to it",
            "the first --output is of the first --format, and so on: --format junit --output verdict.xml",
        )
    files: dict[Path, str] = {}
    printed: str | None = None
    for index, name in enumerate(formats):
        path = outputs[index] if index < len(outputs) else STANDARD_OUTPUT
        if path == STANDARD_OUTPUT and printed is not None:
            raise UsageError(
                f"--format {printed} and --format {name} both go to standard output", "give one of them an --output"
            )
        if path == STANDARD_OUTPUT:
            printed = name
            continue
        check_file("--output", path)
        if path.absolute() in map(Path.absolute, files):
            raise UsageError(f"--output {path}: two formats for one file", "name a file for each")
        files[path] = name
    return Outputs(files, printed)


def write_outputs(outputs: Outputs, draw: Callable[[str], str]) -> tuple[str | None, list[str]]:
    """Draw all formats, then write the files, each whole or not at all.

    A file that an earlier run left is removed where its format cannot hold this verdict, so that nobody takes it for
    this one's.

    Args:
        outputs: what is wanted.
        draw: a format by its name.

    Returns:
        The text for standard output, if one is wanted and could be drawn, and warnings.

    Raises:
        EngineError: a file cannot be written.
    """
    drawn: dict[str, str] = {}
    warnings: list[str] = []
    for name in dict.fromkeys([*outputs.files.values(), *([outputs.printed] if outputs.printed else [])]):
        try:
            drawn[name] = draw(name)
        except RenderError as error:
            warnings += error.lines
    for path, name in outputs.files.items():
        if name in drawn:
            write_output(path, drawn[name].encode())
        else:
            path.unlink(missing_ok=True)
    return drawn.get(outputs.printed or ""), warnings
