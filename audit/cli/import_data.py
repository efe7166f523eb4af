"""`docaudit init`, and `docaudit import` with a command for each format and the options that this format takes."""

import inspect
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from typer.core import TyperGroup

from audit.cli import console
from audit.cli.options import (
    HELP,
    Assigned,
    Assignment,
    Seed,
    note_unstated_assignment,
    show_errors,
)
from audit.corpus.documents import SPLITS, Mask, Redaction, Split, TaskKind
from audit.corpus.summary import size_warnings
from audit.errors import UsageError, listed
from audit.importers.assemble import ImportReport
from audit.importers.columns import read_columns
from audit.importers.divide import Rule
from audit.importers.interface import REPORT_NAME, Importer
from audit.importers.locate import QUALITIES
from audit.importers.named import NamedMembers
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.importers.source import Options
from audit.workflows import init as door

BoxUnit = Literal["pixels", "thousandths", "shares"]
"""The units that boxes come in."""
MAX_TODO = 8
"""Lines of what is still to be filled in."""
Members = Annotated[
    Path | None, typer.Option(metavar="FILE", help=HELP["import.members"], show_default=False)
]
HeldoutFrom = Annotated[
    Path | None, typer.Option(metavar="SRC2", help=HELP["import.heldout_from"], show_default=False)
]
Official = Annotated[bool, typer.Option("--official", help=HELP["import.official"])]
Labels = Annotated[
    str | None,
    typer.Option(metavar="NAMES|FILE|MODEL_DIR", help=HELP["import.labels"], show_default=False),
]
ProviderColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=HELP["import.provider_column"], show_default=False),
]
Boxes = Annotated[
    BoxUnit | None,
    typer.Option(
        metavar="UNIT", help=HELP["import.boxes"], show_default="recognised by their range"
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="MEANING=NAME,...", help=HELP["import.columns"], show_default="by their names"
    ),
]
Ocr = Annotated[
    str | None,
    typer.Option(
        metavar="LANGUAGE", help=HELP["import.ocr"], show_default="eng where fields need words"
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help=HELP["import.overwrite"])]


class _Formats(TyperGroup):
    """List every format where a name is unknown."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See click."""
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
        Mask | None, typer.Option(help=HELP["init.mask"], show_default="not redacted")
    ] = None,
    provider_column: ProviderColumn = None,
    meaning: Annotated[
        Literal["provider", "label", "none"] | None,
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
    """Make a data set for a model of the documents that it was trained on.

    docaudit recognises the model's task and the format of SOURCE. In a terminal it asks for what it
    cannot see. A folder of page images or texts gets manifest.toml and documents.jsonl beside its
    pages. Every other format becomes a new folder. Without MODEL, for a model that is still to be
    trained, docaudit draws the training documents.
    """
    asks = not yes and _in_terminal()
    given_model, place = door.places_of(model, source)
    importer = door.format_of(place, kind)
    model_task = door.task_of(given_model, task)
    if not (yes or model_task.kind):
        raise UsageError(
            "init needs MODEL or --task KIND",
            "give one, or --yes to take the task from the documents",
        )
    console.say(f"{place}: format {importer.name} ({importer.description})")
    if model_task.architecture:
        console.say(f"The model's task: {model_task.kind} (from {model_task.architecture})")
    drawn = given_model is None and yes
    if asks:
        if not (members or heldout_from or official):
            trained = _ask("trained")
            drawn = trained == "none"
            second = Path(trained) if trained and not drawn else None
            members, heldout_from = (
                (None, second) if second is not None and second.is_dir() else (second, heldout_from)
            )
        assigned = assigned or (None if drawn else _ask("assigned", *get_args(Assignment)))
        mask = mask or _ask("mask", *get_args(Mask))
        if provider_column is None and meaning is None and importer.providers:
            provider_column = _ask("provider")
    rule = _stated_rule(members, heldout, heldout_from, official=official)
    named = model_task.labels if labels is None else door.read_labels(labels)
    generative = model_task.generative and importer.recognises
    own: dict[str, Any] = {
        "redaction": None if mask is None else Redaction(mask),
        "name": name or place.resolve().stem,
    }
    own |= {
        "command": "docaudit init",
        "draws": drawn and assigned is None,
        "generative": generative,
    }
    options = Options(
        named, provider_column or meaning, boxes, assigned, read_columns(columns or ""), ocr, **own
    )
    dst = out or (place if importer.whole else Path(f"{place.resolve().stem}-audit"))
    in_place = importer.whole and dst.resolve() == place.resolve()
    shares = _shares(rule or "official", public=public, file=heldout is not None)
    asked = None if generative else model_task.kind
    with console.Reporter(), door.replaced(dst, overwrite=overwrite, in_place=in_place):
        report = importer.convert(
            ImportRequest(place, dst, shares, seed, rule, asked, options, heldout_from)
        )
    made = door.read_made(dst)
    titles = ("document", "split", "words", "fields", "questions")
    console.show_table(
        "As docaudit reads them", titles, [*door.preview(made.documents, with_text=_in_terminal())]
    )
    _show_report(report, dst, in_place=in_place)
    for line in made.todo[:MAX_TODO]:
        console.say(f"to fill in: {line}")
    if len(made.todo) > MAX_TODO:
        console.say(f"... and {len(made.todo) - MAX_TODO} more")
    _show_next(report, dst, given_model, without_model=given_model is None and mask is not None)
    if not made.drawn and assigned is None and report.documents["heldout"]:
        note_unstated_assignment(dst / "manifest.toml")


def _in_terminal() -> bool:
    """Test whether a person is there to read and answer: a log may be read by anyone."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")


def _ask(question: str, *choices: str) -> Any:
    """Ask the owner in a terminal; nothing is None."""
    while True:
        answer = typer.prompt(HELP[f"ask.{question}"], default="", show_default=False).strip()
        if not answer or not choices or answer in choices:
            return answer or None
        console.say(f"{answer} is none of {', '.join(choices)}")


def import_data(
    importer: Importer,
    src: Annotated[
        Path, typer.Argument(metavar="SRC", help=HELP["import.src"], show_default=False)
    ],
    dst: Annotated[
        Path, typer.Argument(metavar="DST", help=HELP["import.dst"], show_default=False)
    ],
    members: Members = None,
    heldout_from: HeldoutFrom = None,
    member: Annotated[
        float | None,
        typer.Option(min=0, max=1, help=HELP["import.member"], show_default="0.4 of a draw"),
    ] = None,
    heldout: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|FILE",
            help=HELP["import.heldout"],
            show_default="0.2 of a draw; 0.4 with --by-provider; else all that were not trained on",
        ),
    ] = None,
    public: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help=HELP["import.public"],
            show_default="0.4 of a draw; 0.2 with --by-provider; 1 with --heldout FILE; else 0",
        ),
    ] = None,
    assigned: Assigned = None,
    seed: Seed = 0,
    task: Annotated[
        TaskKind | None,
        typer.Option(
            metavar="KIND",
            help=HELP["import.task"],
            show_default="as found; token-classification of data sets of papers that have it",
        ),
    ] = None,
    labels: Labels = None,
    provider_column: ProviderColumn = None,
    boxes: Boxes = None,
    ocr: Ocr = None,
    columns: Columns = None,
    official: Official = False,
    by_provider: Annotated[
        bool, typer.Option("--by-provider", help=HELP["import.by_provider"])
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Make a data set of a source in this format.

    Raises:
        UsageError: options contradict each other, or the source cannot be imported so.
    """
    share, file = _share_or_file(heldout)
    both = member is not None and (members is not None or heldout_from is not None)
    rule = _stated_rule(
        members, file, heldout_from, official=official, by_provider=by_provider, member=both
    )
    if assigned is not None and rule in (None, "by-provider"):
        raise UsageError(
            "--assigned says how the documents of --members were chosen", "add --members FILE"
        )
    shares = _shares(rule or "drawn", member, share, public, file=file is not None)
    own = () if labels is None else door.read_labels(labels)
    options = Options(own, provider_column, boxes, assigned, read_columns(columns or ""), ocr)
    try:
        with console.Reporter(), door.replaced(dst, overwrite=overwrite):
            report = importer.convert(
                ImportRequest(src, dst, shares, seed, rule or "drawn", task, options, heldout_from)
            )
    except UsageError as error:
        guess = door.guess_format(src)
        if guess in (None, importer.name):
            raise
        hint = f"{src} looks like {guess}: docaudit import {guess} {src} {dst}"
        raise UsageError(error.problems, "; or ".join(filter(None, [error.hint, hint]))) from None
    _show_report(report, dst)
    _show_next(report, dst)
    if assigned is None and rule not in (None, "by-provider") and report.documents["heldout"]:
        note_unstated_assignment(dst / "manifest.toml")


def _stated_rule(
    members: Path | None, heldout: Path | None, heldout_from: Path | None, **others: bool
) -> Rule | None:
    """Return the division that options state; None where they state none.

    Raises:
        UsageError: they state several, or name held-out documents alone.
    """
    rules = {"members": members is not None, "heldout-from": heldout_from is not None, **others}
    given = [f"--{name.replace('_', '-')}" for name, stated in rules.items() if stated]
    if len(given) > 1:
        raise UsageError(
            f"{listed(given, 'and')} say in several ways which documents are members",
            "keep one of them",
        )
    if heldout is not None and members is None:
        reason = f"--heldout {heldout} names held-out documents, but nothing names the members"
        raise UsageError(reason, "name those that were trained on: --members FILE")
    if members is not None:
        return NamedMembers.read(members, heldout)
    if heldout_from is not None:
        return NamedMembers(())
    return (
        "official"
        if others.get("official")
        else "by-provider"
        if others.get("by_provider")
        else None
    )


def _shares(
    rule: Rule,
    member: float | None = None,
    heldout: float | None = None,
    public: float | None = None,
    *,
    file: bool,
) -> dict[Split, float]:
    """Return the shares of the splits.

    With a `file` of held-out documents the others are public.
    """
    kept = public if public is not None else float(file)
    drawn = {"drawn": (0.4, 0.2, 0.4), "by-provider": (0.4, 0.4, 0.2)}
    usual = drawn.get(str(rule), (1.0, (1 - file) * (1 - kept), kept))
    given = zip(SPLITS, (member, heldout, public), usual, strict=True)
    return {split: default if share is None else share for split, share, default in given}


def command_of(importer: Importer) -> Callable[..., None]:
    """Make the command of a format: `import_data` without the options that the format does not take."""
    takes = {
        "official": importer.parts,
        "by_provider": importer.providers,
        "task": len(importer.tasks) > 1,
    }
    takes |= dict.fromkeys(
        ("labels", "provider_column", "boxes", "columns", "ocr"), importer.recognises
    )
    takes["importer"] = False
    signature = inspect.signature(import_data, eval_str=True)
    parameters = [own for name, own in signature.parameters.items() if takes.get(name, True)]

    @wraps(import_data)
    def command(**options: Any) -> None:
        defaults = {
            name: own.default for name, own in signature.parameters.items() if name in takes
        }
        import_data(**{**defaults, "importer": importer, **options})

    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


for _name, _importer in FORMATS.items():
    _help = f"Import a {_name} data set ({_importer.description}). The model's task is {listed(_importer.tasks, 'or')}."
    app.command(_name, help=_help, short_help=_importer.description)(
        show_errors()(command_of(_importer))
    )


def _share_or_file(text: str | None) -> tuple[float | None, Path | None]:
    """Read what `--heldout` gives: a share, or a file."""
    try:
        share = None if text is None else float(text)
    except ValueError:
        return None, Path(str(text))
    if share is not None and not 0 <= share <= 1:
        raise UsageError(f"--heldout {text}: a share is between 0 and 1")
    return share, None


FOR_QUICK = 288
"""Documents of each side from which on a quick scan, which tries a quarter of them, tries the 72
that decide."""


def _show_next(
    report: ImportReport, dst: Path, model: Path | None = None, *, without_model: bool = False
) -> None:
    """Print the next commands."""
    fewest = min(report.documents.get("member", 0), report.documents.get("heldout", 0))
    bound = f" --documents {2 * fewest}" if 0 < fewest < FOR_QUICK else ""
    look = f"{model or 'MODEL_DIR'} {dst} --budget quick{bound} --out first-look"
    commands = (
        *(
            [f"docaudit ocr {dst}"]
            if any("docaudit ocr" in warning for warning in report.warnings)
            else []
        ),
        f"docaudit inspect {dst}" + ("" if without_model else f" --model {model or 'MODEL_DIR'}"),
        f"docaudit scan {f'--no-model {dst}' if without_model else look}",
    )
    console.show_commands("Next:", commands)


def _show_report(report: ImportReport, dst: Path, *, in_place: bool = False) -> None:
    """Show the documents and fields of an import, and those that it could not find."""
    rows = []
    for label, count in report.fields.items():
        located = [report.located[label][quality] for quality in QUALITIES]
        lost = ", ".join(
            f"{number} {reason}" for reason, number in report.not_located[label].items()
        )
        rows.append((label, count, *located, lost or "-"))
    if rows:
        titles = ("label", "fields", "located exactly", "normalised", "loosely", "not located")
        console.show_table("Fields", titles, rows)
    console.say(f"The model's task, for the manifest: {report.task}")
    console.show_table("Documents", ("split", "documents"), list(report.documents.items()))
    console.say(
        *(f"{name}: {count}" for name, count in report.notes.items()),
        f"{len(report.duplicates)} groups of documents with the same image, never in two splits",
        f"Written to {dst}"
        + ("" if in_place else f"; fields without words are listed in {dst / REPORT_NAME}"),
    )
    sides = (report.documents["member"], report.documents["heldout"])
    console.warn(*report.warnings, *size_warnings(*sides))
    if sides[1] and not report.documents["public"]:
        console.say(HELP["import.no_public"])
