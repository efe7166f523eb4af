"""Options of the commands that reach a verdict, and how it is shown: as text, or in formats for machines."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from audit.cli import console
from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.policy import Verdict
    from audit.record import AuditRecord
    from audit.workflows.outputs import Outputs

FORMATS = ("text", "json", "markdown", "junit", "sarif")
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        click_type=click.Choice(FORMATS),
        help="The verdict as text or for machines; may be repeated. One goes to standard output, others need --output.",
        show_default="text",
    ),
]
OutputPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Where a --format goes: the first --output is of the first --format, and so on; - is standard output.",
        show_default=False,
    ),
]
SarifAnchor = Annotated[
    Path | None,
    typer.Option(
        "--sarif-anchor",
        metavar="PATH",
        help="A file of the repository that SARIF shows findings at, where neither policy nor manifest lies in it.",
        show_default=False,
    ),
]
NoExitCode = Annotated[bool, typer.Option("--no-exit-code", help="Exit 0 whatever the verdict; errors exit as ever.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, and no verdict in words unless --format asks for it.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print why each limit is as it is, on stderr.")]


@dataclass(frozen=True)
class Shown:
    """How a verdict is to be shown; made before anything runs, so that a wrong option costs nothing.

    Attributes:
        outputs: the formats, and where each goes.
        policy: its name or file, as it was given.
        data: the folder of the data set, if known.
        anchor: see `SarifAnchor`.
        verbose: also why each limit is as it is.
        exit_code: False for 0 whatever the verdict.
    """

    outputs: Outputs
    policy: str
    data: Path | None = None
    anchor: Path | None = None
    verbose: bool = False
    exit_code: bool = True

    @property
    def as_text(self) -> bool:
        """Whether standard output takes the verdict in words, so that other lines may stand there too."""
        return self.outputs.printed == "text"


def choose(
    formats: list[str] | None,
    paths: list[Path] | None,
    policy: str,
    data: Path | None,
    anchor: Path | None,
    *,
    quiet: bool,
    verbose: bool,
    no_exit_code: bool,
) -> Shown:
    """Read the options; where no format is for standard output, the text is, unless it is to be quiet.

    Raises:
        UsageError: they contradict each other, or the anchor is no file.
    """
    from audit.workflows.outputs import STANDARD_OUTPUT, pair

    if quiet and verbose:
        raise UsageError("--quiet and --verbose ask for opposite things", "give one of them")
    if anchor is not None and not anchor.is_file():
        raise UsageError(f"--sarif-anchor {anchor}: no file", "name a file of the repository, as README.md")
    asked, places = [*(formats or [])], [*(paths or [])]
    if not quiet and len(asked) == len(places) and STANDARD_OUTPUT not in places:
        asked.append("text")
    return Shown(pair(asked, places), policy, data, anchor, verbose, not no_exit_code)


@contextmanager
def clearing(shown: Shown, *inputs: Path) -> Iterator[None]:
    """Remove the files of an earlier verdict where this command reaches none, so that nobody takes them for its own.

    Args:
        shown: with the files.
        inputs: that are kept even if a format was to go there.
    """
    try:
        yield
    except BaseException:
        kept = {os.path.realpath(path) for path in (*inputs, *(path / "record.json" for path in inputs))}
        for path in shown.outputs.files:
            with suppress(OSError):
                if path.is_file() and os.path.realpath(path) not in kept:
                    path.unlink()
        raise


def show(shown: Shown, record: AuditRecord, verdict: Verdict, in_words: Callable[[], None]) -> int:
    """Print and write a verdict, and give the exit code.

    Args:
        shown: how.
        record: that was judged.
        verdict: on it.
        in_words: prints the verdict as text on standard output.
    """
    from audit.workflows.outputs import write_outputs

    # Words are printed as they come, in colours where there are some; only a file takes them drawn before.
    outputs = replace(shown.outputs, printed=None) if shown.as_text else shown.outputs
    text, warnings = write_outputs(outputs, lambda name: _draw(name, shown, record, verdict, in_words))
    if shown.as_text:
        in_words()
    elif text is not None:
        console.emit(text)
    console.warn(*warnings)
    if shown.verbose:
        _explain(record, verdict)
        console.note(*(f"Wrote {path} ({name})" for path, name in shown.outputs.files.items() if path.exists()))
    return verdict.exit_code if shown.exit_code else 0


def _draw(name: str, shown: Shown, record: AuditRecord, verdict: Verdict, in_words: Callable[[], None]) -> str:
    if name == "text":
        with redirect_stdout(io.StringIO()) as printed:
            in_words()
        return printed.getvalue()
    from audit.policy import path_of
    from audit.report.verdicts import Judged, render
    from audit.report.verdicts.places import find_places

    places = find_places(path_of(shown.policy), shown.data, shown.anchor)
    return render(name, Judged(record, verdict, places, shown.exit_code))


def _explain(record: AuditRecord, verdict: Verdict) -> None:
    """Print every limit with its reason and its rationale, on standard error."""
    from audit.report.verdicts import Judged
    from audit.report.verdicts.judged import compared

    for check in Judged(record, verdict).checks:
        decision = check.decision
        console.note(f"{check.attack} {check.metric}: {decision.outcome}: {check.sentence}")
        console.note(f"  {compared(decision)}")
        console.note(f"  Why this limit: {' '.join(decision.limit.rationale.split())}")
