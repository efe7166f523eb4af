"""`docaudit report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import PolicyName
from audit.errors import UsageError


def report(
    record_paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORD...",
            help="record.json, or the folder a scan wrote; several checkpoints of one run draw their trend.",
            show_default=False,
        ),
    ],
    policy: PolicyName = "default",
    out: Annotated[
        Path | None,
        typer.Option(help="Where the reports go; needed for a trend.", show_default="beside the record"),
    ] = None,
    reveal: Annotated[
        bool,
        typer.Option(
            "--reveal", help="Also write report-revealed.html, with the values, into evidence/. Keep it to yourself."
        ),
    ] = False,
    evidence: Annotated[
        Path | None,
        typer.Option(
            "--evidence",
            metavar="DIR",
            help="Where the scan kept its evidence, for --reveal.",
            show_default="evidence/ beside the record",
        ),
    ] = None,
    defenses: Annotated[
        list[Path] | None,
        typer.Option(
            "--defense",
            "--defence",
            metavar="FOLDER",
            help="What docaudit defend wrote for this model and data set: the measured effects stand beside the "
            "countermeasures. May be given several times.",
            show_default=False,
        ),
    ] = None,
    dpia: Annotated[
        bool,
        typer.Option(
            "--dpia",
            help="Also write dpia.md: risk, measures and residual risk, for a data-protection impact assessment.",
        ),
    ] = False,
    model_card: Annotated[
        bool,
        typer.Option(
            "--model-card",
            help="Print a section for a Hugging Face model card, with its front matter, and draw nothing; with --out "
            "write it there as model-card.md.",
        ),
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="With --model-card: where the record or its report is published.", show_default=False
        ),
    ] = None,
) -> None:
    """Draw the HTML and PDF report of a record again, held against a policy. Exits 0 when they were written.

    Several records, of checkpoints of one training run, draw leak and usefulness against epoch: trend.html, trend.pdf.
    """
    from audit.workflows.report import Report, report_records

    if model_card or source is not None:
        _check_alone(model_card, len(record_paths), bool(reveal or evidence or defenses or dpia))
        _write_card(record_paths[0], policy, out, source)
        return
    with console.Reporter():
        written = report_records(record_paths, policy, out, reveal, defenses or (), evidence, dpia=dpia)
    console.warn(*written.warnings)
    if isinstance(written, Report):
        console.show_verdict(written.verdict, written.folder, written.record, decides_exit=False)
        console.show_revealed(written.revealed)
        if written.dpia is not None:
            console.say(f"Paste from {written.dpia}")
        return
    files = [str(path) for path in written.files]
    console.show_sweep(written.axis, written.rows, written.summary, written.answer, files)


def _check_alone(model_card: bool, n_records: int, others: bool) -> None:
    """Refuse what a model card has no place for.

    Raises:
        UsageError: it was asked for.
    """
    if not model_card:
        raise UsageError("--source is for a model card", "add --model-card")
    if n_records != 1:
        raise UsageError("a model card is of one model", "give one record")
    if others:
        raise UsageError("--model-card draws no report", "draw that one in a call of its own")


def _write_card(path: Path, policy: str, out: Path | None, source: str | None) -> None:
    """Print the card, or write it into a folder."""
    from audit.workflows.report import model_card_of

    card, written = model_card_of(path, policy, out, source)
    if written is None:
        typer.echo(card, nl=False)
    else:
        console.say(f"Paste from {written}")
