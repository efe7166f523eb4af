"""`docaudit references`, `train-baseline`, `train-splits`, and `canary`: made-up secrets among training documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.options import HELP, DataDir, Device, Engine, Pretrained, References, Seed, named_paths, show_errors
from audit.errors import UsageError
from audit.files import check_folder

if TYPE_CHECKING:
    from audit.corpus.canaries.insertion import InsertReport
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
    """List reference models and the commands that make them.

    A reference model never saw the audited documents.
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
        (need.name, ", ".join(need.needed_by) or "-", ", ".join(need.used_by) or "-", _describe_state(need))
        for need in found
    ]
    console.show_table("References", ("reference", "needed by", "used by", "state"), rows)
    for need in found:
        if need.how:
            console.say(f"{need.name}: {need.how}")


def _describe_state(need: ReferenceNeed) -> str:
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
    """Train a baseline model on public documents.

    The recipe in manifest.toml gives epochs, learning rate, batch size and seed. The baseline trains on as many
    samples as your model.
    """
    check_folder("--out", out)
    from audit.workflows.references import train_baselines

    with console.Reporter() as progress:
        n_trained = train_baselines(
            data_dir, out, start=_pretrained_path(reference), count=count, seed=seed, device=device, progress=progress
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
    """Train models on halves of the training documents.

    Memorisation scores, LiRA and RMIA need them.
    """
    check_folder("--out", out)
    from audit.workflows import references as workflow

    with console.Reporter() as progress:
        n_trained = workflow.train_splits(
            data_dir,
            out,
            start=_pretrained_path(reference),
            count=count,
            seed=seed,
            device=device,
            engine=engine,
            progress=progress,
        )
    console.say(f"{n_trained} models in {out}: docaudit scan MODEL_DIR {data_dir} --reference splits={out}")


def _pretrained_path(reference: Sequence[str] | None) -> Path | None:
    """Return the checkpoint that the model was fine-tuned from, where the command line names it."""
    named = named_paths(reference)
    superfluous = sorted(set(named) - {"pretrained"})
    if superfluous or len(named.get("pretrained", [])) > 1:
        raise UsageError(f"--reference {(superfluous or ['pretrained'])[0]}: give one, pretrained=PATH")
    return next(iter(named.get("pretrained", [])), None)


canary = typer.Typer(
    help="Plant made-up secrets to test whether a model leaks them.",
    no_args_is_help=True,
)


@canary.callback()
def _canary() -> None:
    """Plant made-up secrets to test whether a model leaks them."""


@canary.command()
@show_errors()
def insert(
    data_dir: DataDir,
    out: Annotated[Path, typer.Argument(metavar="OUT", help=HELP["canary.out"], show_default=False)],
    pattern: Annotated[
        list[str] | None, typer.Option(help=HELP["canary.pattern"], show_default="pin; for questions pin, names, mixed")
    ] = None,
    count: Annotated[int, typer.Option(min=2, max=10000, help=HELP["canary.count"])] = 64,
    repeat: Annotated[
        list[int] | None,
        typer.Option(min=1, max=10000, help=HELP["canary.repeat"], show_default="10; for questions 1, 4, 16"),
    ] = None,
    length: Annotated[int, typer.Option(min=1, max=10, help=HELP["canary.length"])] = 4,
    seed: Seed = 0,
) -> None:
    """Copy a data set and plant canaries in its training documents.

    Train the model on the copy. A fair coin decides whether a canary is added. The others serve as the control, in
    OUT/canaries.json alone. A page with word boxes gets one more line in a copy of the page. Utterances and texts
    become documents of their own. A data set of questions asks for the secret, which no page prints. DATA_DIR does
    not change.
    """
    from audit.corpus import manifest
    from audit.corpus.canaries import insertion

    with console.Reporter():
        corpus = manifest.load(data_dir)
        asks = corpus.manifest.task.kind == "question-answering"
        report = insertion.insert(
            corpus,
            out,
            pattern=pattern or (("pin", "names", "mixed") if asks else ("pin",)),
            count=count,
            repeat=repeat or ((1, 4, 16) if asks else (10,)),
            length=length,
            seed=seed,
        )
    console.say(*_describe_insertion(report, data_dir, out))
    if report.counts.included in (0, count):
        console.warn(
            "all coins fell the same way: with no canary on the other side nothing can be compared; "
            "give a larger --count"
        )


def _describe_insertion(report: InsertReport, data_dir: Path, out: Path) -> list[str]:
    """Describe the inserted canaries, what they can show, and what to do next, a line each."""
    from audit.report.templates import render_lines
    from audit.stats.epsilon import needed_canaries

    patterns = list(dict.fromkeys(canary.pattern for canary in report.canaries.canaries))
    needed = needed_canaries()
    return render_lines("canaries.txt", report=report, data_dir=data_dir, out=out, patterns=patterns, needed=needed)
