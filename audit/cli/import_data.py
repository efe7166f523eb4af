"""`docaudit init`, and `docaudit import` with a command for each format.

Each of these has the options that its format takes.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from audit.cli import asking, console
from audit.cli.asking import FolderMeaning, Statements
from audit.cli.dividing import StatedMembers, choose_shares
from audit.cli.help import Group
from audit.cli.import_options import (
    Boxes,
    Columns,
    HeldoutFrom,
    ImportOptions,
    Labels,
    Members,
    Ocr,
    Official,
    Overwrite,
    ProviderColumn,
    options_of,
    read_labels,
)
from audit.cli.options import HELP, Assigned, Seed, note_unstated_assignment, show_errors
from audit.corpus.documents import SPLITS, Mask, TaskKind
from audit.corpus.summary import size_warning
from audit.errors import UsageError, command_line, listed
from audit.importers.assemble import ImportReport
from audit.importers.columns import read_columns
from audit.importers.faults import shown_path
from audit.importers.interface import REPORT_NAME, Importer
from audit.importers.leave_out import NAMES_FILE
from audit.importers.locate import QUALITIES
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.importers.sheets import holds_sheets
from audit.importers.source import Options
from audit.workflows import init as door

MAX_TODO = 8
"""Lines of what is still to be filled in."""


class _Formats(Group):
    """List every format where a name is unknown."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of a format; fail with the list of formats for an unknown one."""
        if args[0] not in self.commands:
            ctx.fail(f"no format {args[0]!r}; give one of {', '.join(sorted(self.commands))}")
        return super().resolve_command(ctx, args)


app = typer.Typer(no_args_is_help=True, cls=_Formats)


@app.callback()
def _import() -> None:
    """Convert a data set to docaudit's format.

    Each format has its own options: docaudit import FORMAT --help.
    """


def init(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help=HELP["init.model"], show_default=False)
    ],
    source: Annotated[
        Path | None, typer.Argument(metavar="SOURCE", help=HELP["init.source"], show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=HELP["init.out"],
            show_default="SOURCE-audit; a folder of pages itself",
        ),
    ] = None,
    task: Annotated[
        TaskKind | None,
        typer.Option(
            metavar="KIND",
            help=f"What your model was trained to do: {listed(get_args(TaskKind), 'or')}.",
            show_default="as the model says",
        ),
    ] = None,
    members: Members = None,
    heldout: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=HELP["init.heldout"], show_default="all that are no members"
        ),
    ] = None,
    heldout_from: HeldoutFrom = None,
    official: Official = False,
    public: Annotated[
        float | None, typer.Option(min=0, max=1, help=HELP["init.public"], show_default="0")
    ] = None,
    assigned: Assigned = None,
    mask: Annotated[
        Mask | None,
        typer.Option(metavar="MASK", help=HELP["init.mask"], show_default="not redacted"),
    ] = None,
    provider_column: ProviderColumn = None,
    meaning: Annotated[
        FolderMeaning | None,
        typer.Option(
            "--folders", help=HELP["init.folders"], show_default="provider; label for page classes"
        ),
    ] = None,
    labels: Labels = None,
    boxes: Boxes = None,
    ocr: Ocr = None,
    columns: Columns = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help=HELP["init.format"], show_default="recognised"
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help=HELP["init.name"], show_default="the source's")
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=HELP["init.yes"])] = False,
) -> None:
    """Make a data set of the documents that a model was trained on.

    docaudit recognises the model's task and the format of SOURCE. In a terminal it asks for what it
    cannot see. A folder of page images or texts gets manifest.toml and documents.jsonl beside its
    pages. Every other format becomes a new folder. Without MODEL, for a model that is still to be
    trained, docaudit draws the training documents.
    """
    owner_model, place = door.places_of(model, source)
    importer = door.format_of(place, kind)
    unused = door.check_unused(place, importer, kind, (members, heldout))
    model_task = _recognise_task(owner_model, task, is_optional=yes)
    _say_recognised(place, importer, model_task)
    _say_unused(unused)
    statements = Statements(
        StatedMembers(members, heldout, heldout_from, official),
        assigned=assigned,
        mask=mask,
        provider_column=provider_column,
        folders=meaning,
        is_untrained=owner_model is None and yes,
    )
    if not yes and asking.in_terminal():
        statements = asking.ask_missing(statements, importer)
    rule = statements.members.read_rule()
    options = Options(
        labels=read_labels(labels, model_task.labels),
        provider=statements.provider,
        boxes=boxes,
        assigned=statements.assigned,
        columns=read_columns(columns or ""),
        ocr=ocr,
        redaction=statements.redaction,
        name=name or place.resolve().stem,
        command="docaudit init",
        draws=statements.may_draw,
        sheet=statements.sheet,
        tasks=model_task.possible,
    )
    request = ImportRequest(
        src=place,
        dst=_choose_destination(out, place, importer),
        shares=choose_shares(
            rule or "official", public=public, has_heldout_file=heldout is not None
        ),
        seed=seed,
        division=rule,
        task=_settle_task(model_task, importer),
        options=options,
        heldout_from=statements.members.heldout_from,
    )
    door.check_written("--out", request)
    in_place = importer.whole and request.is_in_place
    with console.Reporter(), door.replaced(request.dst, overwrite=overwrite, in_place=in_place):
        report = importer.convert(request)
    _show_data_set(request, report, owner_model, in_place=in_place)


def _recognise_task(
    model: Path | None, stated: TaskKind | None, *, is_optional: bool
) -> door.ModelTask:
    """Return the task that the owner or the model says.

    Raises:
        UsageError: neither says it, and it is not optional.
    """
    model_task = door.task_of(model, stated)
    if not (model_task.kind or model_task.possible or is_optional):
        raise UsageError(
            "init needs MODEL or --task KIND",
            "give one, or --yes to take the task from the documents",
        )
    return model_task


def _settle_task(model_task: door.ModelTask, importer: Importer) -> TaskKind | None:
    """Return the task of the data set; None where the source tells which of several it is."""
    if model_task.kind is not None or importer.recognises or not model_task.possible:
        return model_task.kind
    return model_task.possible[0]


def _say_recognised(place: Path, importer: Importer, model_task: door.ModelTask) -> None:
    """Print the format of the source, and the task if the model says it."""
    console.say(f"{place}: format {importer.name} ({importer.description})")
    if model_task.architecture:
        console.say(f"The model's task: {model_task.phrase} (from {model_task.architecture})")


def _say_unused(paths: Sequence[str]) -> None:
    """Print the files beside plain pages that are not read."""
    if paths:
        names = ", ".join(map(shown_path, paths))
        console.warn(f"Not used, as no page's words or keys: {names}")


def _choose_destination(out: Path | None, place: Path, importer: Importer) -> Path:
    """Return the folder of the new data set; plain pages become one where they are.

    A TIFF of several pages takes a file for each, and so a folder beside.
    """
    if out is not None:
        return out
    if importer.whole and not (place.is_dir() and holds_sheets(place)):
        return place
    return door.place_beside(place)


def _show_data_set(
    request: ImportRequest, report: ImportReport, model: Path | None, *, in_place: bool
) -> None:
    """Print the data set that `init` made, what is still to be filled in, and the next commands.

    Args:
        request: what was imported.
        report: what was done.
        model: the owner's model; None while it is still to be trained.
        in_place: whether the source itself became the data set.
    """
    made = door.read_made(request.dst, model)
    titles = ("document", "split", "words", "fields", "questions")
    rows = list(door.preview(made.documents, with_text=asking.in_terminal()))
    console.show_table("As docaudit reads them", titles, rows)
    without_model = model is None and request.options.redaction is not None
    _show_report(report, request.dst, in_place=in_place, without_model=without_model)
    _show_todo(made.todo)
    _show_next(report, request.dst, model, made, without_model=without_model)
    if not made.drawn and request.options.assigned is None and report.documents["heldout"]:
        note_unstated_assignment(request.dst / "manifest.toml")


def _show_todo(lines: Sequence[str]) -> None:
    """Print the first lines of what is still to be filled in."""
    for line in lines[:MAX_TODO]:
        console.say(f"to fill in: {line}")
    if len(lines) > MAX_TODO:
        console.say(f"... and {len(lines) - MAX_TODO} more")


def import_data(importer: Importer, options: ImportOptions) -> None:
    """Make a data set of a source in this format.

    Raises:
        UsageError: options contradict each other, or the source cannot be imported so.
    """
    request = options.request()
    dst = request.dst
    door.check_written("DST", request)
    try:
        with console.Reporter(), door.replaced(dst, overwrite=options.overwrite):
            report = importer.convert(request)
    except UsageError as error:
        guess = door.guess_format(request.src)
        if guess in (None, importer.name):
            raise
        raise _hint_at_format(error, guess, request.src, dst) from None
    _show_report(report, dst)
    _show_next(report, dst)
    draws = request.division in ("drawn", "by-provider")
    if options.assigned is None and not draws and report.documents["heldout"]:
        note_unstated_assignment(dst / "manifest.toml")


def _hint_at_format(error: UsageError, guess: str | None, src: Path, dst: Path) -> UsageError:
    """Return an error whose hint also names the format that the source looks like."""
    hint = f"{src} looks like {guess}: {command_line('import', guess, src, dst)}"
    if error.hint:
        hint = f"{error.hint}; or {hint}"
    return UsageError(error.problems, hint)


def command_of(importer: Importer) -> Callable[..., None]:
    """Make the command of a format, with the options that it takes."""

    def command(**options: Any) -> None:
        """Import a source in this format, with the defaults of options that it does not take."""
        import_data(importer, ImportOptions(**options))

    command.__signature__ = options_of(importer)  # type: ignore[attr-defined]
    return command


for _name, _importer in FORMATS.items():
    _help = (
        f"Import a {_name} data set ({_importer.description}). "
        f"The model's task is {listed(_importer.tasks, 'or')}."
    )
    app.command(_name, help=_help, short_help=_importer.description)(
        show_errors()(command_of(_importer))
    )


FOR_QUICK = 288
"""Documents of each side from which on a quick scan tries the 72 that decide.

It tries a quarter of them.
"""


def _show_next(
    report: ImportReport,
    dst: Path,
    model: Path | None = None,
    made: door.Made | None = None,
    *,
    without_model: bool = False,
) -> None:
    """Print the next commands."""
    made = made or door.Made((), False)
    if without_model:
        steps = door.next_steps_of_text(dst, made)
    else:
        fewest = min(report.documents.get("member", 0), report.documents.get("heldout", 0))
        bound = f" --documents {2 * fewest}" if 0 < fewest < FOR_QUICK else ""
        look = f"--budget quick{bound} --out first-look"
        steps = door.next_steps(dst, model, made, look)
    first = []
    if any("docaudit ocr" in warning for warning in report.warnings):
        first.append(command_line("ocr", dst))
    console.show_commands(steps.title, [*first, *steps.commands])


def _show_report(
    report: ImportReport, dst: Path, *, in_place: bool = False, without_model: bool = False
) -> None:
    """Show the documents and fields of an import, and those that it could not find.

    Args:
        report: what was done.
        dst: the new data set.
        in_place: whether the source itself became the data set.
        without_model: whether the text alone is to be audited: what a model asks for is left out.
    """
    rows = list(_field_rows(report))
    if rows:
        titles = ("label", "fields", "exactly", "in another form", "roughly", "not found")
        console.show_table("Fields and answers found among the words", titles, rows)
    console.say(f"The model's task, for the manifest: {report.task}")
    console.show_table("Documents", ("split", "documents"), list(report.documents.items()))
    console.say(*(f"{name}: {count}" for name, count in report.notes.items()))
    if report.duplicates:
        n_groups = len(report.duplicates)
        console.say(f"groups of documents with the same image, never in two splits: {n_groups}")
    written = f"Written to {dst}"
    if not in_place:
        written += f"; fields without words are listed in {dst / REPORT_NAME}"
    console.say(written)
    if report.without:
        console.say(f"The training documents are listed in {dst / NAMES_FILE}")
    _warn_of_report(report, without_model=without_model)


def _warn_of_report(report: ImportReport, *, without_model: bool) -> None:
    """Show what an import could not do, and of what a scan has too little."""
    if without_model:
        console.warn(*(text for text in report.warnings if text not in report.demands))
    else:
        _warn_of_audit(report)


def _warn_of_audit(report: ImportReport) -> None:
    """Warn of what keeps the audit of a model from a verdict."""
    sizes = {split: report.documents[split] for split in SPLITS}
    console.warn(*report.warnings)
    few = size_warning(sizes, is_drawn=report.is_drawn)
    if few:
        console.warn(few)
    if sizes["heldout"] and not sizes["public"]:
        console.say(HELP["import.no_public"])


def _field_rows(report: ImportReport) -> Iterator[tuple[object, ...]]:
    """Yield a row for each label: how many fields were located in each way, and why others not."""
    for label, count in report.fields.items():
        located = [report.located[label][quality] for quality in QUALITIES]
        not_located = report.not_located[label]
        reasons = ", ".join(f"{number} {reason}" for reason, number in not_located.items())
        yield (label, count, *located, reasons or "-")
