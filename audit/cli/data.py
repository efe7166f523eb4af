"""`docaudit init`, `inspect` and `ocr`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from audit.attacks import text_of
from audit.cli import console
from audit.cli.options import HELP, Assigned, DataDir, References, Seed, Verbose, named_paths, note_unstated_assignment
from audit.corpus.documents import Task, TaskKind
from audit.errors import TargetError, UsageError, listed

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus
    from audit.corpus.summary import Summary
    from audit.workflows.init import Answers, Initialised, PageFolder
    from audit.workflows.references import InspectedModel


READY = "can be fed"
"""An attack that nothing keeps from running."""
MAX_TODO = 8
"""Lines of what is still to be filled in."""


def init(
    folder: Annotated[Path, typer.Argument(metavar="DATA_DIR", help=HELP["init.folder"], show_default=False)],
    model: Annotated[Path | None, typer.Option(metavar="MODEL_DIR", help=HELP["init.model"])] = None,
    task: Annotated[
        TaskKind | None,
        typer.Option(
            metavar="KIND",
            help=f"What your model was trained to do: {listed(get_args(TaskKind), 'or')}.",
            show_default="as the model says",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help=HELP["init.name"], show_default="the folder's")] = None,
    members: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=HELP["init.members"], show_default="folders called train, else drawn"),
    ] = None,
    heldout: Annotated[
        Path | None, typer.Option(metavar="FILE", help=HELP["init.heldout"], show_default="all that are no members")
    ] = None,
    assigned: Assigned = None,
    folders: Annotated[
        Literal["provider", "label", "none"] | None,
        typer.Option(help=HELP["init.folders"], show_default="provider; label for document-classification"),
    ] = None,
    mask: Annotated[
        Literal["length", "fixed", "all"] | None, typer.Option(help=HELP["init.mask"], show_default="not redacted")
    ] = None,
    seed: Seed = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=HELP["init.yes"])] = False,
    ignore_format: Annotated[bool, typer.Option("--ignore-format", help=HELP["init.ignore_format"])] = False,
) -> None:
    """Describe a folder of page images or texts as a data set.

    This writes manifest.toml and documents.jsonl. Folders called train and test name the splits. JSON beside a page
    (the same name, or in ocr/, words/, json/) gives its words, fields, questions or class. docaudit does not change
    your pages.
    """
    from audit.workflows.init import Answers, initialise, open_folder

    with console.Reporter():
        found = open_folder(folder, ignore_format=ignore_format)
    answers = Answers(None, name, members, heldout, folders, mask, seed, assigned)
    if task is not None:
        answers = replace(answers, task=Task(task))
    if model is not None:
        answers = replace(answers, task=_choose_task(model, found, answers.task))
    _refuse_drawn_members(found, answers, model)
    if not yes:
        _require_task_and_members(found, answers)
    with console.Reporter():
        made = initialise(found, answers)
    _show_initialised(made, folder, model)
    if answers.assigned is None and not made.drawn:
        note_unstated_assignment(folder / "manifest.toml")


def _choose_task(model: Path, found: PageFolder, stated: Task | None) -> Task:
    """Return the stated task, else the model's, with the labels that the model names for it."""
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


def _require_task_and_members(folder: PageFolder, answers: Answers) -> None:
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


def _refuse_drawn_members(folder: PageFolder, answers: Answers, model: Path | None) -> None:
    """Refuse to draw the members of a model that is trained: an audit of it would pass whatever it leaks."""
    if model is not None and answers.members is None and not folder.says_splits:
        raise UsageError(
            f"nothing says which pages {model} was trained on, and drawn ones would be an invention",
            "name them: --members FILE; for a model that is still to be trained give --task KIND in place of --model",
        )


def _show_initialised(made: Initialised, folder: Path, model: Path | None) -> None:
    """Print what was written, what is missing, and the next commands."""
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
    console.show_commands("Next:", _next_commands(made, folder, model)[:3])


def _next_commands(made: Initialised, folder: Path, model: Path | None) -> list[str]:
    """List the commands to run next, the first one first."""
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


def inspect(
    data_dir: DataDir,
    model: Annotated[Path | None, typer.Option(help=HELP["inspect.model"])] = None,
    reference: References = None,
    preview: Annotated[int | None, typer.Option(min=1, metavar="N", help=HELP["inspect.preview"])] = None,
    as_json: Annotated[bool, typer.Option("--json", help=HELP["inspect.as_json"])] = False,
    verbose: Verbose = False,
) -> None:
    """Check a data set and show which attacks can run on it.

    With --model it also checks the model as a scan does.
    """
    from audit.corpus import manifest
    from audit.corpus.summary import summarise

    if reference and model is None:
        raise UsageError("--reference is for checking a model", "add --model MODEL_DIR")
    with console.Reporter():
        corpus = manifest.load(data_dir)
        manifest.check_references(corpus)
        summary = summarise(corpus)
    if not as_json:
        _show_summary(summary, verbose=verbose)
    if preview is not None:
        from audit.report.revealed import draw_preview

        console.note(draw_preview(corpus, preview))
    with console.Reporter() as progress:
        progress.stage("looking at the attacks" if model is None else "opening the model")
        inspected = None
        if model is not None:
            # Loads torch, which an inspection without a model does without.
            from audit.workflows.references import inspect_model

            inspected = inspect_model(model, corpus, data_dir, named_paths(reference))
        attacks = [*_attack_applicability(corpus, inspected)]
    if as_json:
        content = {"schema": 1, "data": asdict(summary), "attacks": dict(attacks)}
        typer.echo(json.dumps(content | {"model": None if inspected is None else asdict(inspected)}, indent=2))
        return
    if inspected is not None:
        console.warn(*(line for line in inspected.warnings if line not in summary.warnings))
    titles = {name: text_of(name).title or name for name, _ in attacks}
    ready = [titles[name] for name, why in attacks if why == READY]
    more = "" if verbose else " (-v shows more)"
    console.say(f"{len(ready)} of {len(attacks)} attacks can run{more}{': ' if ready else '.'}{'; '.join(ready)}")
    barred = [f"  {titles[name]}: {why}" for name, why in attacks if why != READY]
    console.say(*["Cannot run on this data set:"][: len(barred)], *barred)
    if inspected is not None:
        if verbose:
            console.show_table("Trials with this model", ("attack", "split", "trials"), inspected.trials)
        console.say(*inspected.lacking)


def _attack_applicability(corpus: Corpus, model: InspectedModel | None) -> Iterator[tuple[str, str]]:
    """Name every attack with what keeps it from this data set and model, or that it can be fed."""
    from audit.attacks.battery import BATTERY
    from audit.attacks.interface import why
    from audit.case import Case
    from audit.targets.interface import NoModel

    for kind in BATTERY:
        attack = kind.preset("standard")
        # References of a model may be given beside the manifest: what they lack is listed with it.
        kinds = ("model", "data", "missing") if model is None else ("data",)
        barred = None if model is None else model.inapplicable.get(attack.name)
        yield attack.name, barred or why(attack, Case(NoModel(corpus), corpus), *kinds) or READY


def _show_summary(summary: Summary, *, verbose: bool) -> None:
    """Print the counts of a data set, without those that are zero unless `verbose`; warnings last."""
    from audit.corpus.documents import SPLITS

    drawn = f", drawn by {summary.drawn}" if summary.drawn else ""
    digest = f", sha256 {summary.sha256[:16]}" if verbose else ""
    console.say(f"{summary.name}: {summary.task}, membership assigned {summary.assigned}{drawn}{digest}", "")
    rows = [
        (name, *(own[split] for split in SPLITS))
        for name, own in summary.counts.items()
        if verbose or name == "documents" or (any(own.values()) and own != summary.counts["documents"])
    ]
    if not verbose:
        fields = [sum(own.attacked[split] for own in summary.categories.values()) for split in SPLITS]
        rows.append((f"fields to attack, of {len(summary.categories)} kinds", *fields))
    console.show_table("", ("", "training (member)", "unseen (heldout)", "public"), rows, spaced=verbose)
    if summary.categories and verbose:
        marked = [
            (name, *(f"{own.attacked[split]} of {own.fields[split]}" for split in SPLITS), own.values, own.unique)
            for name, own in summary.categories.items()
        ]
        console.show_table("Fields marked for attack, of all", ("category", *SPLITS, "values", "unique"), marked)
    canaries = summary.canaries
    if canaries is not None:
        console.say(
            f"canaries: {canaries.canaries} of pattern {', '.join(canaries.patterns)}, {canaries.included} of them in "
            f"{canaries.documents} documents, {canaries.canaries - canaries.included} in none"
        )
    console.say("")
    console.warn(*summary.warnings)


def ocr(data_dir: DataDir, language: Annotated[str, typer.Option(help=HELP["ocr.language"])] = "eng") -> None:
    """Read pages without words with Tesseract.

    docaudit adds the words and their boxes and locates the answers of questions among the words. The old file stays
    as documents.before-ocr.jsonl. The same command continues an interrupted run.
    """
    from audit.importers.words import PageReader
    from audit.report.templates import render_lines
    from audit.workflows.ocr import add_words

    with console.Reporter() as progress:
        added = add_words(data_dir, progress, reader=PageReader(language))
    rows = {
        "documents that got words": added.read,
        "words": added.words,
        "documents that had words, left as they were": added.had_words,
        "documents with neither image nor words": added.without_image,
    }
    answers = {f"answers located: {quality}": count for quality, count in added.answers.items()}
    answers["answers not located"] = added.not_located
    console.show_table("Words", ("", "number"), [*rows.items(), *(answers.items() if any(answers.values()) else ())])
    console.warn(*render_lines("ocr.txt", added=added))
    if not (added.read or added.empty or added.failed):
        console.say("Every document with an image has words already.")
    if added.read:
        console.say(f"Written to {data_dir}")
