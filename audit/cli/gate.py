"""`docaudit gate` and `docaudit diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from audit import record as records
from audit.cli import console
from audit.cli.options import HELP, DataOfRecord, Detail, ModelOfRecord, PolicyName
from audit.cli.verdicts import Formats, choose, clearing, show
from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.policy import Verdict


def gate(
    record_path: Annotated[
        Path, typer.Argument(metavar="RECORD", help=HELP["gate.record_path"], show_default=False)
    ],
    policy: PolicyName = "default",
    model: ModelOfRecord = None,
    data: DataOfRecord = None,
    no_model: Annotated[bool, typer.Option("--no-model", help=HELP["gate.no_model"])] = False,
    pub: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY",
            help=HELP["gate.pub"],
            show_default="not checked, a pass is marked unsigned",
        ),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(metavar="OLD", help=HELP["gate.baseline"], show_default=False)
    ] = None,
    formats: Formats = None,
    verbose: Detail = None,
) -> None:
    """Compare a record with a policy and exit with the verdict.

    No model and no GPU are needed. With --model and --data docaudit hashes these files and refuses
    a record of other ones.
    """
    from audit.workflows.arguments import called_by
    from audit.workflows.gate import (
        UNSIGNED,
        check_signature,
        gate_record,
        mark_pass,
        warn_uncompared,
    )

    quiet = verbose is False
    outputs = choose(formats, quiet=quiet)
    inputs = [record_path, Path(policy)]
    if baseline is not None:
        inputs.append(baseline)
    with clearing(outputs, *inputs):
        with console.Reporter(quiet=quiet) as progress:
            signed = UNSIGNED if pub is None else check_signature(record_path, pub)
            if baseline is None:
                record, verdict = gate_record(record_path, policy, model, data, no_model=no_model)
            else:
                from audit.workflows.diff import gate_against_baseline

                record, verdict, _ = gate_against_baseline(
                    record_path, policy, baseline, model, data, no_model=no_model, progress=progress
                )
        verdict = mark_pass(verdict, signed)
        if model is not None:
            console.warn(*warn_uncompared(record, model))

        def in_words() -> None:
            """Print the record's subject and the verdict on it in sentences."""
            console.show_subject(record)
            places = {"MODEL_DIR": model, "DATA_DIR": data, "POLICY.toml": policy}
            chosen = {name: str(path) for name, path in places.items() if path}
            called = called_by(record_path, record).at(**chosen)
            folder = None
            if baseline is None and _is_declared(verdict):
                folder = records.file_of(record_path).parent
            console.show_verdict(verdict, folder, record, called=called, verbose=bool(verbose))

        code = show(outputs, record, verdict, in_words, policy, data)
    raise typer.Exit(code)


def _is_declared(verdict: Verdict) -> bool:
    """Test whether a verdict is by the policy that its record declares, whose report it then is."""
    return verdict.identity is not None and verdict.identity.state == "declared"


DIFF_FORMATS = ("text", "json", "markdown")


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help=HELP["diff.old"], show_default=False)],
    new: Annotated[Path, typer.Argument(metavar="NEW", help=HELP["diff.new"], show_default=False)],
    policy: PolicyName = "default",
    output: Annotated[
        str, typer.Option("--format", metavar="NAME[=FILE]", help=HELP["diff.output"])
    ] = "text",
) -> None:
    """Compare two scans of the same data.

    Shows which numbers are better or worse. No model and no GPU are needed. Scans that still have
    their evidence/ are compared document by document. docaudit refuses scans of other data, and
    scans with another seed, budget or parameters.
    """
    from audit.files import check_file, write_output
    from audit.report.scan_diff import render
    from audit.workflows.diff import diff_scans

    name, separator, file = output.partition("=")
    if name not in DIFF_FORMATS:
        raise UsageError(
            f"--format {output}: no such format", f"one of {', '.join(DIFF_FORMATS)}, or NAME=FILE"
        )
    if separator:
        check_file("--format", Path(file))
    with console.Reporter() as progress:
        difference = diff_scans(old, new, policy, progress)
    text = render(difference, cast("Any", name), console.width())
    if separator:
        write_output(Path(file), text.encode())
    else:
        console.write(text)
