"""`docaudit references`, `train-baseline` and `train-splits`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, DataDir, Device, Engine, Pretrained, References, Seed, named_paths
from audit.errors import UsageError
from audit.files import check_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from audit.workflows.references import ReferenceNeed


def references(
    data_dir: DataDir,
    model_dir: Annotated[
        Path, typer.Argument(metavar="MODEL_DIR", help=HELP["references.model_dir"], show_default=False)
    ],
    reference: References = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help=HELP["references.as_json"])] = False,
) -> None:
    """List the references that attacks on a model take, those that are there, and the command for each of the others.

    References are models that never saw the audited documents.
    """
    from audit.workflows.references import list_references

    with console.Reporter() as progress:
        progress.stage("opening the model and the data set")
        found = list_references(data_dir, model_dir, named_paths(reference), device)
    if as_json:
        typer.echo(json.dumps({"schema": 1, "references": [asdict(need) for need in found]}, indent=2))
    else:
        show_references(found)


def show_references(found: Sequence[ReferenceNeed]) -> None:
    """Print the references, and what to do for those that are not there."""
    if not found:
        console.say("No attack on this model takes a reference.")
        return
    rows = [
        (need.name, ", ".join(need.needed_by) or "-", ", ".join(need.used_by) or "-", _state(need)) for need in found
    ]
    console.show_table("References", ("reference", "needed by", "used by", "state"), rows)
    for need in found:
        if need.how:
            console.say(f"{need.name}: {need.how}")


def _state(need: ReferenceNeed) -> str:
    return ", ".join(part for part in (need.state, need.source, *need.folders) if part)


Out = Annotated[Path, typer.Option(help=HELP["train-baseline.out"])]


def train_baseline(
    data_dir: DataDir,
    out: Out = Path("baselines"),
    count: Annotated[int, typer.Option(min=1, help=HELP["train-baseline.count"])] = 1,
    reference: Pretrained = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help=HELP["train-baseline.seed"], show_default="the recipe's")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train the generalisation baseline: as the model was trained, on public documents instead of the audited ones.

    Epochs, learning rate, batch size and seed are those of the recipe in manifest.toml; the number of samples is that
    of the member documents.
    """
    check_folder("--out", out)
    from audit.workflows.references import train_baselines

    with console.Reporter() as progress:
        n_trained = train_baselines(
            data_dir, out, start=_start(reference), count=count, seed=seed, device=device, progress=progress
        )
    console.say(f"{n_trained} in {out}: docaudit scan MODEL_DIR {data_dir} --reference baselines={out}")


def train_splits(
    data_dir: DataDir,
    out: Out = Path("splits"),
    count: Annotated[int, typer.Option(min=2, help=HELP["train-splits.count"])] = 16,
    reference: Pretrained = None,
    seed: Seed = 0,
    device: Device = "auto",
    engine: Engine = "local",
) -> None:
    """Train K models, each on half of the member documents: for memorisation scores, LiRA and RMIA."""
    check_folder("--out", out)
    from audit.workflows import references as workflow

    with console.Reporter() as progress:
        n_trained = workflow.train_splits(
            data_dir,
            out,
            start=_start(reference),
            count=count,
            seed=seed,
            device=device,
            engine=engine,
            progress=progress,
        )
    console.say(f"{n_trained} models in {out}: docaudit scan MODEL_DIR {data_dir} --reference splits={out}")


def _start(reference: Sequence[str] | None) -> Path | None:
    """The checkpoint that the model was fine-tuned from, when the command line names it."""
    named = named_paths(reference)
    superfluous = sorted(set(named) - {"pretrained"})
    if superfluous or len(named.get("pretrained", [])) > 1:
        raise UsageError(f"--reference {(superfluous or ['pretrained'])[0]}: give one, pretrained=PATH")
    return next(iter(named.get("pretrained", [])), None)
