"""`docaudit init`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from audit.cli import console
from audit.cli.options import Assigned, Seed, say_unstated
from audit.corpus.documents import Task, TaskKind
from audit.errors import TargetError, UsageError, listed

if TYPE_CHECKING:
    from audit.workflows.init import Answers, Initialised, PageFolder

MAX_TODO = 8
"""Lines of what is still to be filled in."""


def init(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DATA_DIR", help="The folder of your page images or texts.", show_default=False),
    ],
    model: Annotated[
        Path | None, typer.Option(metavar="MODEL_DIR", help="Your model: its task and labels are read from it.")
    ] = None,
    task: Annotated[
        TaskKind | None,
        typer.Option(
            metavar="KIND",
            help=f"What your model was trained to do: {listed(get_args(TaskKind), 'or')}.",
            show_default="as the model says",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The data set's name.", show_default="the folder's")] = None,
    members: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The pages that your model was trained on: one id or file name a line, a .csv with a column of them, "
            "or a .json or .jsonl of names.",
            show_default="folders called train, else drawn",
        ),
    ] = None,
    heldout: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Pages that it was never trained on; all others are then public.",
            show_default="all that are no members",
        ),
    ] = None,
    assigned: Assigned = None,
    folders: Annotated[
        Literal["provider", "label", "none"] | None,
        typer.Option(
            help="What the folders that pages lie in are called after: who issued them, or their class.",
            show_default="provider; label for document-classification",
        ),
    ] = None,
    mask: Annotated[
        Literal["length", "fixed", "all"] | None,
        typer.Option(help="How values are hidden in what you share, where you redact it.", show_default="not redacted"),
    ] = None,
    seed: Seed = 0,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take the task from what lies beside the pages, and draw the members.")
    ] = False,
    ignore_format: Annotated[
        bool, typer.Option("--ignore-format", help="Take it as plain pages although it looks like a known format.")
    ] = False,
) -> None:
    """Write manifest.toml and documents.jsonl for a folder of page images or texts.

    Folders called train and test say the splits. JSON beside a page (the same name, or in ocr/, words/, json/) gives
    its words, fields, questions or class. Pages are left as they are.
    """
    from audit.workflows.init import Answers, initialise, open_folder

    with console.Reporter():
        found = open_folder(folder, ignore_format=ignore_format)
    answers = Answers(None, name, members, heldout, folders, mask, seed, assigned)
    if task is not None:
        answers = replace(answers, task=Task(task))
    if model is not None:
        answers = replace(answers, task=_task_of(model, found, answers.task))
    _refuse_invention(found, answers, model)
    if not yes:
        _refuse_silence(found, answers)
    with console.Reporter():
        made = initialise(found, answers)
    _show(made, folder, model)
    if answers.assigned is None and not made.drawn:
        say_unstated(folder / "manifest.toml")


def _task_of(model: Path, found: PageFolder, stated: Task | None) -> Task:
    """The stated task, else the model's; with the labels that the model names for it."""
    from audit.workflows.init import task_of

    try:
        task, source = task_of(model, found)
    except TargetError:
        if stated is None:
            raise
        return stated
    if stated is not None and stated.kind != task.kind:
        return stated
    console.say(f"The model's task: {task.kind} (from {source})")
    return task


def _refuse_silence(folder: PageFolder, answers: Answers) -> None:
    """Refuse to guess a task or a division without `--yes`."""
    open_ = {
        "--model MODEL_DIR or --task KIND": answers.task is None,
        "--members FILE": answers.members is None and not folder.says_splits,
    }
    missing = [flag for flag, needed in open_.items() if needed]
    if missing:
        raise UsageError(
            f"init needs {' and '.join(missing)}",
            "give them, or --yes, which takes the task from what lies beside the pages and draws the members",
        )


def _refuse_invention(folder: PageFolder, answers: Answers, model: Path | None) -> None:
    """Refuse to draw the members of a model that is trained: an audit of it would pass whatever it leaks."""
    if model is not None and answers.members is None and not folder.says_splits:
        raise UsageError(
            f"nothing says which pages {model} was trained on, and drawn ones would be an invention",
            "name them: --members FILE; for a model that is still to be trained give --task KIND in place of --model",
        )


def _show(made: Initialised, folder: Path, model: Path | None) -> None:
    """What was written, what is missing, and the next commands."""
    from audit.workflows.init import INVENTED

    task = made.manifest.task
    labels = f", labels {', '.join(task.labels)}" if task.labels else ""
    console.say(f"{made.manifest.name}: {task.kind}{labels}")
    console.show_table("Documents", ("split", "documents"), [*made.splits.items()])
    providers = {document.provider for document in made.documents if document.provider}
    if providers:
        console.say(f"{len(providers)} providers, from the names of folders")
    if made.drawn:
        console.warn(INVENTED)
    for line in made.todo[:MAX_TODO]:
        console.say(f"to fill in: {line}")
    if len(made.todo) > MAX_TODO:
        console.say(f"... and {len(made.todo) - MAX_TODO} more")
    console.say(f"Written: {folder / 'manifest.toml'}, {folder / made.manifest.documents}")
    console.show_commands("Next:", _next(made, folder, model)[:3])


def _next(made: Initialised, folder: Path, model: Path | None) -> list[str]:
    """The commands that lead on, the next first."""
    named = str(model or "MODEL_DIR")
    scan = f"docaudit scan {named} {folder} --budget quick"
    if model is None and made.manifest.redaction is not None:
        scan = f"docaudit scan --no-model {folder}"
    return [
        *([f"docaudit ocr {folder}"] if made.without_words else []),
        f"docaudit inspect {folder}" + (f" --model {model}" if model else ""),
        *([] if made.without_words else [f"docaudit plan {folder}" + (f" --model {model}" if model else "")]),
        scan,
    ]
