"""What the commands that scan and report do once their arguments are read: run, judge, draw, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from audit.errors import RecordError, RenderError, TargetError

if TYPE_CHECKING:
    from audit import runner, sweep
    from audit.policy import Policy, Verdict
    from audit.record import AuditRecord


def audited(opened: runner.ScanSetup, chosen: Policy, reveal: bool, about: str = "") -> tuple[AuditRecord, Verdict]:
    """Run one scan and write all its files into its folder."""
    from audit import console, runner
    from audit import policy as policies
    from audit import record as records

    out = opened.options.out
    for warning in opened.warnings:
        console.warn(warning)
    with runner.claimed(out):
        with console.Reporter(about) as progress:
            record = runner.run(opened, progress)
        verdict = policies.evaluate(record, chosen, policies.today())
        try:
            warnings = _drawn(record, verdict, chosen, out, out if reveal else None)
        finally:
            # Last, so that a record never stands beside an older report; always, for the verdict outranks drawing.
            records.write(record, out / "record.json")
    for warning in warnings:
        console.warn(warning)
    return record, verdict


def swept(pattern: str, options: runner.ScanOptions, chosen: Policy, reveal: bool) -> int:
    """Scan every checkpoint, draw the trend, and give the exit code of them all."""
    from audit import console, sweep
    from audit.report import trend

    found = sweep.find(pattern)
    place = {checkpoint: number for number, checkpoint in enumerate(found.checkpoints, start=1)}

    def examine(checkpoint: sweep.Checkpoint, opened: runner.ScanSetup) -> tuple[AuditRecord, Verdict]:
        return audited(opened, chosen, reveal, f"{checkpoint.name} ({place[checkpoint]} of {len(place)})")

    def refused(checkpoint: sweep.Checkpoint, error: TargetError) -> None:
        problems = [f"{checkpoint.name} is not audited: {problem}" for problem in error.problems]
        console.show_error(TargetError(problems, error.hint))

    results = sweep.run(found, options, examine, refused)
    rows = [(result.checkpoint.x, result.checkpoint.name, result.record, result.verdict) for result in results]
    drawn = [(x, name, record, verdict) for x, name, record, verdict in rows if record and verdict]
    try:
        warnings = trend.write(drawn, found.axis, options.out) if drawn else []
    except (RenderError, RecordError) as error:
        # The records are written and their verdicts stand, whether or not they make one picture.
        warnings = [*error.problems, error.hint]
    others = sweep.attacked_otherwise(results)
    if others:
        warnings.append(
            f"not attacked on the fields of the first checkpoint, as their tokens differ: {', '.join(others)}"
        )
    for warning in warnings:
        console.warn(warning)
    console.show_sweep(found.axis, rows, sweep.summary(results), options.out)
    return sweep.exit_code(results)


def reported(record: AuditRecord, verdict: Verdict, chosen: Policy, folder: Path, reveal_from: Path | None) -> None:
    """Draw the report of one record."""
    from audit import console

    for warning in _drawn(record, verdict, chosen, folder, reveal_from):
        console.warn(warning)
    console.show_verdict(verdict, folder)


def compared(found: list[AuditRecord], verdicts: list[Verdict], folder: Path) -> None:
    """Draw the trend of several records."""
    from audit import console
    from audit.report import trend
    from audit.report.sweep_page import axis_positions

    axis, spots = axis_positions(found)
    rows = [
        (spot, record.target.name, record, verdict)
        for spot, record, verdict in zip(spots, found, verdicts, strict=True)
    ]
    for warning in trend.write(rows, axis, folder):
        console.warn(warning)
    console.show_table(
        "", (axis, "checkpoint", "verdict"), [(f"{spot:g}", name, verdict.overall) for spot, name, _, verdict in rows]
    )
    written = [folder / name for name in (trend.PDF_NAME, trend.HTML_NAME) if (folder / name).exists()]
    console.say(f"Read {', '.join(map(str, written))}")


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
