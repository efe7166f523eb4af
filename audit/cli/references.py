"""`docaudit references`, and `canary`: made-up secrets among training documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli import console
from audit.cli.options import (
    HELP,
    DataDir,
    Device,
    Engine,
    ModelDir,
    References,
    Seed,
    named_paths,
    show_errors,
)
from audit.errors import UsageError
from audit.files import check_folder

if TYPE_CHECKING:
    from audit.corpus.canaries.insertion import InsertReport
    from audit.workflows.references import ReferenceNeed


def references(
    data_dir: DataDir,
    model_dir: ModelDir,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help=HELP["references.names"], show_default=False),
    ] = None,
    reference: References = None,
    train: Annotated[bool, typer.Option("--train", help=HELP["references.train"])] = False,
    out: Annotated[Path, typer.Option(help=HELP["references.out"])] = Path("references"),
    count: Annotated[
        int | None,
        typer.Option(min=1, help=HELP["references.count"], show_default="1 baseline, 16 splits"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help=HELP["references.seed"], show_default="the recipe's; 0 for splits"
        ),
    ] = None,
    device: Device = "auto",
    engine: Engine = "local",
    as_json: Annotated[bool, typer.Option("--json", help=HELP["references.as_json"])] = False,
) -> None:
    """List reference models, or train those that are missing.

    A reference model never saw the audited documents, or half of them only. The recipe in
    manifest.toml gives epochs, learning rate, batch size and seed. A baseline trains on as many
    samples as your model.
    """
    if names and (not train or {*names} - {"baselines", "splits"}):
        raise UsageError(
            f"{' '.join(names)}: baselines and splits can be trained", "name them with --train"
        )
    if train:
        check_folder("--out", out)
    from audit.workflows import references as workflow

    given = named_paths(reference)
    with console.Reporter() as progress:
        if train:
            how: dict[str, Any] = {"count": count, "seed": seed, "device": device, "engine": engine}
            made = workflow.train_references(
                data_dir, model_dir, given, names or (), out, **how, progress=progress
            )
        else:
            progress.stage("opening the model and the data set")
            found = workflow.list_references(data_dir, model_dir, given, device)
    if train:
        paths = {**given, **made}
        named = [f" --reference {name}={path}" for name, own in paths.items() for path in own]
        console.say(
            f"{' and '.join(made) or 'nothing'} made: docaudit scan {model_dir} {data_dir}{''.join(named)}"
        )
    elif as_json:
        typer.echo(
            json.dumps({"schema": 1, "references": [asdict(need) for need in found]}, indent=2)
        )
    else:
        show_references(found)


def show_references(found: Sequence[ReferenceNeed]) -> None:
    """Print the references, and what to do for those that are not there."""
    if not found:
        console.say("No attack on this model takes a reference.")
        return
    rows = []
    for need in found:
        state = ", ".join(filter(None, (need.state, need.source, *need.folders)))
        rows.append(
            (need.name, ", ".join(need.needed_by) or "-", ", ".join(need.used_by) or "-", state)
        )
    console.show_table("References", ("reference", "needed by", "used by", "state"), rows)
    for need in found:
        if need.how or need.seconds:
            console.say(f"{need.name}: {need.how or need.source}{_describe_time(need.seconds)}")
        if need.recommended:
            console.say(HELP["references.recommended"])


def _describe_time(seconds: tuple[float, float] | None) -> str:
    return (
        ""
        if seconds is None
        else f" ({console.duration(seconds[0])} to {console.duration(seconds[1])} here)"
    )


canary = typer.Typer(
    help="Plant made-up secrets to test whether a model leaks them.", no_args_is_help=True
)


@canary.callback()
def _canary() -> None:
    """Plant made-up secrets to test whether a model leaks them."""


@canary.command()
@show_errors()
def insert(
    data_dir: DataDir,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help=HELP["canary.out"], show_default=False)
    ],
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            help=HELP["canary.pattern"], show_default="pin; for questions pin, names, mixed"
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=2, max=10000, help=HELP["canary.count"])] = 64,
    repeat: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=10000, help=HELP["canary.repeat"], show_default="10; for questions 1, 4, 16"
        ),
    ] = None,
    length: Annotated[int, typer.Option(min=1, max=10, help=HELP["canary.length"])] = 4,
    seed: Seed = 0,
) -> None:
    """Copy a data set and plant canaries in its training documents.

    Train the model on the copy. A fair coin decides whether a canary is added. The others serve as
    the control, in OUT/canaries.json alone. A page with word boxes gets one more line in a copy of
    the page. Utterances and texts become documents of their own. A data set of questions asks for
    the secret, which no page prints. DATA_DIR does not change.
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
    return render_lines(
        "canaries.txt", report=report, data_dir=data_dir, out=out, patterns=patterns, needed=needed
    )
