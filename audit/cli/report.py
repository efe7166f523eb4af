"""`docaudit report`, `attest` and `verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, DataOfRecord, ModelOfRecord, PolicyName, Verbose
from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.workflows.report import Report


def report(
    record_paths: Annotated[
        list[Path],
        typer.Argument(metavar="RECORD...", help=HELP["report.record_paths"], show_default=False),
    ],
    policy: PolicyName = "default",
    out: Annotated[
        Path | None, typer.Option(help=HELP["report.out"], show_default="beside the record")
    ] = None,
    reveal: Annotated[bool, typer.Option("--reveal", help=HELP["report.reveal"])] = False,
    evidence: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=HELP["report.evidence"], show_default="evidence/ beside the record"
        ),
    ] = None,
    defenses: Annotated[
        list[Path] | None,
        typer.Option(
            "--defense",
            "--defence",
            metavar="FOLDER",
            help=HELP["report.defenses"],
            show_default=False,
        ),
    ] = None,
    dpia: Annotated[bool, typer.Option("--dpia", help=HELP["report.dpia"])] = False,
    previous: Annotated[
        Path | None,
        typer.Option(
            "--previous", metavar="RECORD", help=HELP["report.previous"], show_default=False
        ),
    ] = None,
    statements: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help=HELP["report.statements"], show_default=False
        ),
    ] = None,
    model_card: Annotated[
        bool, typer.Option("--model-card", help=HELP["report.model_card"])
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Draw the reports of a record again, under any policy.

    Exits 0 when they were written. Give the records of several checkpoints to draw leak and
    usefulness against epoch (trend.html, trend.pdf).
    """
    from audit.workflows.apart import refuse_audited
    from audit.workflows.report import Report, ReportRequest, report_records

    if out is not None:
        refuse_audited("--out", out)
    if model_card:
        if len(record_paths) != 1 or any((reveal, evidence, defenses, dpia, previous, statements)):
            raise UsageError(
                "--model-card is of one record, and draws no report",
                "draw that in a call of its own",
            )
        _show_model_card(record_paths[0], policy, out)
        return
    with console.Reporter():
        written = report_records(
            ReportRequest(
                paths=record_paths,
                policy=policy,
                out=out,
                reveal=reveal,
                defenses=defenses or (),
                evidence=evidence,
                dpia=dpia,
                previous=previous,
                statements=statements or (),
            )
        )
    console.warn(*written.warnings)
    if isinstance(written, Report):
        _show_report(written, verbose=verbose)
        return
    files = [str(path) for path in written.files]
    console.show_sweep(written.axis, written.rows, written.summary, written.answer, files)


def _show_model_card(record_path: Path, policy: str, out: Path | None) -> None:
    """Print the section for a model card, or write it and say where."""
    from audit.workflows.report import model_card_of

    card, path = model_card_of(record_path, policy, out)
    if path is None:
        typer.echo(card, nl=False)
    else:
        console.say(f"Paste from {path}")


def _show_report(report: Report, *, verbose: bool) -> None:
    """Print the verdict of a report, and where its other files are.

    Args:
        report: what was written.
        verbose: print every limit.
    """
    console.show_verdict(
        report.verdict,
        report.folder,
        report.record,
        decides_exit=False,
        called=report.called,
        verbose=verbose,
        comparisons=report.comparisons,
    )
    if report.revealed is not None:
        console.say(f"With the values, for you alone: {report.revealed}")
    if report.dpia is not None:
        console.say(f"Paste from {report.dpia}")


DIFFERS = 10


def attest(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help=HELP["attest.folder"], show_default=False)
    ],
    key: Annotated[
        Path | None,
        typer.Option(help=HELP["attest.key"], show_default="the statement is not signed"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=HELP["attest.out"], show_default="beside the record"),
    ] = None,
) -> None:
    """Write a statement of the verdict, signed if you give a key.

    It names model, data, record, policy and reports by their sha256. The statement is an in-toto
    test result. A signed one is in a DSSE envelope. docaudit verify checks it.
    """
    from audit.workflows import attest as workflow
    from audit.workflows.apart import refuse_audited

    if out is not None:
        refuse_audited("--out", out)
    with console.Reporter():
        written = workflow.attest(folder, key, out)
    signed = "not signed"
    if written.key is not None:
        signed = f"signed by key {written.key[: console.SHOWN_DIGITS]}"
    console.say(
        f"{written.path}: {written.result}, about {written.subjects} files and digests, {signed}"
    )
    if written.key is None:
        console.warn("without --key whoever can change these files can write the statement anew")


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help=HELP["verify.folder"], show_default=False)
    ],
    pub: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help=HELP["verify.pub"], show_default="not checked"),
    ] = None,
    model: ModelOfRecord = None,
    data: DataOfRecord = None,
    attestation: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=HELP["verify.attestation"], show_default="that in DIR"),
    ] = None,
) -> None:
    """Compare a report folder with its attestation.

    docaudit hashes every file again and reaches the verdict again. It also compares what the PDF
    embeds.
    """
    from audit.workflows import attest as workflow

    with console.Reporter():
        record, checks = workflow.verify(folder, pub, model, data, attestation)
    console.show_subject(record)
    console.say(*(f"same: {line}" for line in checks.agreed))
    console.say(*(f"note: {line}" for line in checks.notes))
    console.say(*(f"DIFFERS: {line}" for line in checks.differences))
    if checks.differences:
        raise typer.Exit(DIFFERS)
    console.say("Everything that was compared agrees.")
    raise typer.Exit(0)
