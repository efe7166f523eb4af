"""The command line: parse, call the library, print, exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from audit import __version__
from audit.errors import DocauditError, RenderError, UsageError

if TYPE_CHECKING:
    from audit.policy import Policy, Verdict
    from audit.record import AuditRecord

EXIT_HELP = (
    "Exit codes: 0 passed; 10 a limit is violated; 11 undecided; 2 wrong usage or input; 1 docaudit failed, no record "
    "was written; 130 interrupted and 143 terminated: run the same command again to go on."
)
app = typer.Typer(
    name="docaudit",
    help="Privacy audit of document-understanding models: attack, measure, gate and report before you deploy.",
    epilog=EXIT_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


class Budget(StrEnum):
    """How much of the work to do."""

    QUICK = "quick"
    STANDARD = "standard"
    FULL = "full"


class Format(StrEnum):
    """What can be imported."""

    SROIE = "sroie"
    FUNSD = "funsd"


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
Source = Annotated[Path, typer.Argument(metavar="SRC", help="The folder you have.", show_default=False)]
Destination = Annotated[Path, typer.Argument(metavar="DST", help="The new data set's folder.", show_default=False)]
Share = Annotated[float, typer.Option(min=0, max=1, help="Share of the documents for this split.")]


@app.command(epilog=EXIT_HELP)
def scan(
    model_dir: Annotated[
        Path, typer.Argument(metavar="MODEL_DIR", help="Hugging Face checkpoint (safetensors).", show_default=False)
    ],
    data_dir: DataDir,
    out: Annotated[Path, typer.Option(help="Where the record, the reports and the evidence go.")] = Path(
        "docaudit-report"
    ),
    policy: PolicyName = "default",
    budget: Annotated[
        Budget,
        typer.Option(help="quick: a quarter of the fields, 64 candidates; standard: all, 128; full: all, 512."),
    ] = Budget.STANDARD,
    only: Annotated[list[str] | None, typer.Option(help="Run this attack only; may be repeated.")] = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    reference: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A reference model: auxiliary or pretrained; may be repeated."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an interrupted scan.")] = False,
    reveal: Reveal = False,
    batch_tokens: Annotated[
        int | None,
        typer.Option(min=16, help="Tokens of one forward pass; lower it when memory is short.", show_default="auto"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Attack a model, hold the result against a policy, and write the report."""
    with _errors_shown(debug):
        from audit import console, runner
        from audit import policy as policies
        from audit import record as records

        chosen = policies.load(policy)
        policies.check_names(chosen, runner.known_metrics())
        options = runner.Options(
            model_dir=model_dir,
            data_dir=data_dir,
            out=out,
            budget=budget.value,
            only=tuple(only or ()),
            seed=seed,
            device=device,
            fresh=fresh,
            references=_named_paths(reference or []),
            batch_tokens=batch_tokens,
        )
        opened = runner.open_scan(options)
        with runner.claimed(out):
            with console.Reporter() as progress:
                record = runner.run(opened, progress)
            verdict = policies.evaluate(record, chosen, policies.today())
            try:
                warnings = _drawn(record, verdict, chosen, out, out if reveal else None)
            finally:
                # Last, so that a record never stands beside an older report; always, for the verdict outranks drawing.
                records.write(record, out / "record.json")
        for warning in warnings:
            console.warn(warning)
        console.show_verdict(verdict, out)
    raise typer.Exit(verdict.exit_code)


@app.command(epilog=EXIT_HELP)
def gate(record_path: RecordPath, policy: PolicyName = "default", debug: Debug = False) -> None:
    """Hold a record against a policy; the exit code is the verdict. Needs no model and no GPU."""
    with _errors_shown(debug):
        from audit import console
        from audit import policy as policies
        from audit import record as records

        verdict = policies.evaluate(records.read(record_path), policies.load(policy), policies.today())
        console.show_verdict(verdict)
    raise typer.Exit(verdict.exit_code)


@app.command()
def report(
    record_path: RecordPath,
    policy: PolicyName = "default",
    out: Annotated[Path | None, typer.Option(help="Where the reports go.", show_default="beside the record")] = None,
    reveal: Reveal = False,
    debug: Debug = False,
) -> None:
    """Draw the HTML and PDF report of a record again, held against a policy. Exits 0 when they were written."""
    with _errors_shown(debug):
        from audit import console
        from audit import policy as policies
        from audit import record as records

        record = records.read(record_path)
        chosen = policies.load(policy)
        verdict = policies.evaluate(record, chosen, policies.today())
        beside = record_path if record_path.is_dir() else record_path.parent
        folder = out or beside
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {folder}: {error.strerror}", "name a folder") from None
        for warning in _drawn(record, verdict, chosen, folder, beside if reveal else None):
            console.warn(warning)
        console.show_verdict(verdict, folder)


@app.command()
def inspect(
    data_dir: DataDir,
    model: Annotated[
        Path | None, typer.Option(help="A checkpoint, to count the fields that its tokens let each attack try.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Check a data set and say what is in it and which attacks it can feed."""
    with _errors_shown(debug):
        from audit import console
        from audit.attacks import BATTERY
        from audit.corpus import manifest
        from audit.corpus.summary import summarise

        corpus = manifest.load(data_dir)
        console.show_summary(summarise(corpus))
        rows = [(kind.name, kind.preset("standard").lacks(corpus) or "can be fed") for kind in BATTERY]
        console.show_table("Attacks", ("attack", "with this data set"), rows)
        if model is not None:
            from audit import runner

            console.show_table(
                "Trials with this model", ("attack", "split", "trials"), runner.trial_counts(model, corpus)
            )


@app.command("import")
def import_data(
    source_format: Annotated[
        Format,
        typer.Argument(
            metavar="FORMAT",
            help="sroie (img/, box/, key/) or funsd (annotations/, images/).",
            show_default=False,
        ),
    ],
    src: Source,
    dst: Destination,
    member: Share = 0.4,
    heldout: Share = 0.2,
    public: Share = 0.4,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Turn a data set you have into docaudit's format. Documents with the same image stay in one split."""
    with _errors_shown(debug):
        from audit import console
        from audit.corpus.importers import funsd, sroie

        convert = {Format.SROIE: sroie.convert, Format.FUNSD: funsd.convert}[source_format]
        console.show_import(convert(src, dst, {"member": member, "heldout": heldout, "public": public}, seed), dst)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"docaudit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Tells the owner of a document-understanding model what it gives away about its training documents."""


def _drawn(record: AuditRecord, verdict: Verdict, policy: Policy, out: Path, reveal_from: Path | None) -> list[str]:
    """Draw the reports, with the evidence in `reveal_from` when there is one; what could not be drawn is a warning."""
    from audit import report

    try:
        warnings = list(report.write(record, verdict, policy, out))
        if reveal_from is not None:
            report.write_revealed(record, verdict, policy, reveal_from)
    except RenderError as error:
        return [*error.problems, error.hint]
    return warnings


def _named_paths(pairs: list[str]) -> dict[str, Path]:
    named = {}
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not separator or not name or not path:
            raise UsageError(f"--reference {pair!r}: write NAME=PATH")
        named[name] = Path(path)
    return named


@contextmanager
def _errors_shown(debug: bool) -> Iterator[None]:
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


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.stderr.write("\nterminated; run the same command again to go on\n")
    raise SystemExit(143)


def main() -> None:
    """The `docaudit` command."""
    # Nothing docaudit does needs the network: libraries must not try.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    signal.signal(signal.SIGTERM, _terminated)
    app()
