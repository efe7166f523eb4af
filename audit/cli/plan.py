"""`docaudit plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import (
    Budget,
    DataDir,
    Device,
    Documents,
    Dtype,
    PolicyName,
    References,
    Time,
    named_paths,
    seconds_of,
)


def plan(
    data_dir: DataDir,
    policy: PolicyName = "default",
    budget: Annotated[Budget, typer.Option(help="See scan.")] = "standard",
    model: Annotated[
        Path | None, typer.Option(help="A checkpoint, to count what its tokens leave and to time a few trials.")
    ] = None,
    reference: References = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    documents: Documents = None,
    time: Time = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the plan there, as JSON.")] = None,
) -> None:
    """Say before any model runs which limits a data set can decide, what it is too small for, and what a scan costs.

    Describes the documents to check that those in training and those kept aside do not differ in themselves (the blind
    check), which opens their page images. Exits 0 whatever the data set can decide. Times are those of the trials,
    without training reference models.
    """
    from audit.cli.plan_tables import show_plan
    from audit.workflows.plan.audit import plan_audit

    with console.Reporter() as progress:
        steps = plan_audit(
            data_dir,
            policy,
            budget,
            model=model,
            references=named_paths(reference),
            device=device,
            dtype=dtype,
            documents=documents,
            seconds=seconds_of(time),
            out=out,
            progress=progress,
        )
        for planned in progress.follow(steps):
            show_plan(planned)
