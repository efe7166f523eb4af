"""`docaudit references`, and `canary`: made-up secrets among training documents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import console
from audit.cli.help import Group
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
from audit.cli.places import FORMS
from audit.errors import UsageError, command_line, typed
from audit.files import check_folder

if TYPE_CHECKING:
    from audit.corpus.canaries.insertion import InsertReport
    from audit.workflows.references import ReferenceNeed


def references(
    model_dir: ModelDir,
    data_dir: DataDir,
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
    engine: Engine = "auto",
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
    from audit.workflows.places import check_places

    folders = named_paths(reference)
    check_places(model_dir, data_dir, folders, FORMS["references"])
    if train:
        with console.Reporter() as progress:
            progress.stage(console.OPENING_MODEL)
            from audit.workflows import references as workflow

            request = workflow.TrainingRequest(
                data_dir=data_dir,
                model_dir=model_dir,
                given=folders,
                names=names or (),
                out=out,
                count=count,
                seed=seed,
                device=device,
                engine=engine,
            )
            trained = workflow.train_references(request, progress)
        _show_trained(trained, folders, model_dir, data_dir)
        return
    with console.Reporter() as progress:
        progress.stage(console.OPENING_MODEL)
        from audit.workflows import references as workflow

        needs = workflow.list_references(data_dir, model_dir, folders, device)
    if as_json:
        content = {"schema": 1, "references": [asdict(need) for need in needs]}
        typer.echo(json.dumps(content, indent=2))
    else:
        show_references(needs)


def _show_trained(
    trained: Mapping[str, Sequence[Path]],
    folders: Mapping[str, Sequence[Path]],
    model_dir: Path,
    data_dir: Path,
) -> None:
    """Print which references were trained, and the scan that takes them.

    Args:
        trained: folders of the new references, by name.
        folders: folders that the owner named, by name; new ones take their place.
        model_dir: the checkpoint.
        data_dir: the data set.
    """
    names = " and ".join(trained) or "nothing"
    words: list[object] = ["scan", model_dir, data_dir]
    for name, paths in {**folders, **trained}.items():
        for path in paths:
            words += ["--reference", f"{name}={typed(path)}"]
    console.say(f"{names} made: {command_line(*words)}")


def show_references(needs: Sequence[ReferenceNeed]) -> None:
    """Print the references, and what to do for those that are not there."""
    if not needs:
        console.say("No attack on this model takes a reference.")
        return
    rows = [_reference_row(need) for need in needs]
    console.show_table("References", ("reference", "needed by", "used by", "state"), rows)
    for need in needs:
        if need.how or need.seconds:
            console.say(f"{need.name}: {need.how or need.source}{_describe_time(need.seconds)}")
        if need.recommended:
            console.say(HELP["references.recommended"])


def _reference_row(need: ReferenceNeed) -> tuple[str, ...]:
    """Return a reference's name, the attacks that need and use it, and where it is."""
    state = [str(text) for text in (need.state, need.source, *need.folders) if text]
    needed_by = ", ".join(need.needed_by) or "-"
    used_by = ", ".join(need.used_by) or "-"
    return (need.name, needed_by, used_by, ", ".join(state))


def _describe_time(seconds: tuple[float, float] | None) -> str:
    """Write the least and most seconds of a training, in brackets; empty without an estimate."""
    if seconds is None:
        return ""
    least, most = map(console.duration, seconds)
    return f" ({least} to {most} here)"


canary = typer.Typer(
    cls=Group,
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
        patterns: Sequence[str] = ("pin",)
        repeats: Sequence[int] = (10,)
        if corpus.manifest.task.kind == "question-answering":
            patterns = ("pin", "names", "mixed")
            repeats = (1, 4, 16)
        report = insertion.insert(
            corpus,
            out,
            pattern=pattern or patterns,
            count=count,
            repeat=repeat or repeats,
            length=length,
            seed=seed,
        )
    console.say(*_describe_insertion(report, data_dir, out))
    if report.counts.included in (0, count):
        console.warn(
            "all coins fell the same way: with no canary on the other side nothing can be "
            "compared; give a larger --count"
        )


def _describe_insertion(report: InsertReport, data_dir: Path, out: Path) -> list[str]:
    """Describe the inserted canaries, what they can show, and what to do next, a line each."""
    from audit.report.templates import render_lines
    from audit.stats.epsilon import needed_canaries

    patterns = list(dict.fromkeys(canary.pattern for canary in report.canaries.canaries))
    needed = needed_canaries()
    return render_lines(
        "canaries.txt",
        report=report,
        data_dir=data_dir,
        out=out,
        scan=command_line("scan", "MODEL_DIR", out),
        patterns=patterns,
        needed=needed,
    )
