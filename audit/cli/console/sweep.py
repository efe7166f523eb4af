"""A sweep over checkpoints on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from audit.cli.console.layout import Group, print_groups
from audit.cli.console.terminal import make_console, print_line
from audit.cli.console.verdict import STYLES, measured_cells

if TYPE_CHECKING:
    from audit.measurements import Estimate
    from audit.policy import Verdict
    from audit.record import AuditRecord

_NOT_AUDITED = "not audited"


def show_sweep(
    axis: str,
    rows: Sequence[tuple[float, str, AuditRecord | None, Verdict | None]],
    columns: Mapping[str, tuple[str, str]],
    answer: str,
    files: Sequence[str],
) -> None:
    """Print a row a checkpoint: its position on the axis, name, verdict and leak; "not audited" without a record.

    Args:
        axis: the unit of the positions.
        rows: position, name, record and verdict of each checkpoint.
        columns: attack and metric by heading, each shown with its 95 % interval; left out where nothing was measured.
        answer: the checkpoint to take, in sentences.
        files: what there is to read.
    """
    measured = {key for _, _, record, _ in rows for key in _estimates(record)}
    columns = {heading: wanted for heading, wanted in columns.items() if wanted in measured}
    make_console().print()
    print_line(answer, "bold")
    make_console().print()
    told = []
    for x, name, record, verdict in rows:
        outcome = verdict.overall if verdict is not None else _NOT_AUDITED
        estimates = _estimates(record)
        leak = [measured_cells(estimates.get(wanted))[0] for wanted in columns.values()]
        told.append((f"{x:g}", name, outcome, *leak))
    titles = (axis.partition(",")[0], "checkpoint", "verdict", *columns)
    styles = {**STYLES, _NOT_AUDITED: "red"}
    print_groups("", titles, [Group("", told)], styles=styles, lead=2, heading=1)
    if files:
        print_line(f"Read {', '.join(files)}")


def _estimates(record: AuditRecord | None) -> dict[tuple[str, str], Estimate]:
    """All estimates, by attack and name."""
    from audit.measurements import Estimate
    from audit.record import Completed

    return {
        (result.attack, item.name): item
        for result in (record.attacks if record is not None else ())
        if isinstance(result, Completed)
        for item in result.measurements
        if isinstance(item, Estimate)
    }
