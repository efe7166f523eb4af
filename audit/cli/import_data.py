"""`docaudit import`: a command for each format of the registry, with the options that this format takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from audit.cli import console
from audit.cli.options import HELP, Assigned, Seed, note_unstated_assignment, show_errors
from audit.corpus.documents import Split, TaskKind
from audit.errors import UsageError, listed
from audit.importers.assemble import ImportReport
from audit.importers.columns import read_columns
from audit.importers.divide import Rule
from audit.importers.interface import REPORT_NAME, Importer
from audit.importers.locate import QUALITIES
from audit.importers.named import NamedMembers, read_labels
from audit.importers.registry import FORMATS
from audit.importers.source import Options

BoxUnit = Literal["pixels", "thousandths", "shares"]
"""The units that boxes come in."""


class _Formats(TyperGroup):
    """The formats; who names another one reads them all."""

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


def import_data(
    importer: Importer,
    src: Annotated[Path, typer.Argument(metavar="SRC", help=HELP["import.src"], show_default=False)],
    dst: Annotated[Path, typer.Argument(metavar="DST", help=HELP["import.dst"], show_default=False)],
    members: Annotated[
        Path | None, typer.Option(metavar="FILE", help=HELP["import.members"], show_default="drawn")
    ] = None,
    heldout_from: Annotated[
        Path | None, typer.Option(metavar="SRC2", help=HELP["import.heldout_from"], show_default=False)
    ] = None,
    member: Annotated[float | None, typer.Option(min=0, max=1, help=HELP["import.member"], show_default="0.4")] = None,
    heldout: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|FILE",
            help=HELP["import.heldout"],
            show_default="0.2; 0.4 with --by-provider; 0.5 with --members",
        ),
    ] = None,
    public: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help=HELP["import.public"],
            show_default="0.4; 0.2 with --by-provider; 0.5 with --members; 1 with --heldout FILE",
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
    labels: Annotated[
        str | None, typer.Option(metavar="NAMES|FILE|MODEL_DIR", help=HELP["import.labels"], show_default=False)
    ] = None,
    provider_column: Annotated[
        str | None, typer.Option(metavar="NAME", help=HELP["import.provider_column"], show_default=False)
    ] = None,
    boxes: Annotated[
        BoxUnit | None,
        typer.Option(metavar="UNIT", help=HELP["import.boxes"], show_default="recognised by their range"),
    ] = None,
    ocr: Annotated[
        str | None,
        typer.Option(metavar="LANGUAGE", help=HELP["import.ocr"], show_default="eng where fields need words"),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="MEANING=NAME,...", help=HELP["import.columns"], show_default="by their names")
    ] = None,
    official: Annotated[bool, typer.Option("--official", help=HELP["import.official"])] = False,
    by_provider: Annotated[bool, typer.Option("--by-provider", help=HELP["import.by_provider"])] = False,
) -> None:
    """Make a data set of a source in this format.

    Raises:
        UsageError: options contradict each other, or the source cannot be imported so.
    """
    named, two_folders = members is not None, heldout_from is not None
    rules = {"--members": named, "--heldout-from": two_folders, "--official": official, "--by-provider": by_provider}
    given = [option for option, value in rules.items() if value]
    given += ["--member"] if member is not None and (named or two_folders) else []
    if len(given) > 1:
        raise UsageError(f"{listed(given, 'and')} say in several ways which documents are members", "keep one of them")
    if assigned is not None and (by_provider or not given):
        raise UsageError("--assigned says how the documents of --members were chosen", "add --members FILE")
    share, heldout_file = _share_or_file(heldout)
    if heldout_file is not None and members is None:
        raise UsageError(
            f"--heldout {heldout_file} names held-out documents, but nothing names the members",
            "add --members FILE, or give --heldout a share between 0 and 1",
        )
    divided = bool(given) and not by_provider
    usual = (0.4, 0.2) if by_provider else (0.2, 0.4)
    if named or two_folders:
        usual = (0.0, 1.0) if heldout_file else (0.5, 0.5)
    shares: dict[Split, float] = {
        "member": 0.4 if member is None else member,
        "heldout": usual[0] if share is None else share,
        "public": usual[1] if public is None else public,
    }
    rule: Rule = "by-provider" if by_provider else "official" if official else "drawn"
    if named or two_folders:
        rule = NamedMembers(()) if members is None else NamedMembers.read(members, heldout_file)
    own = () if labels is None else read_labels(labels)
    options = Options(own, provider_column, boxes, assigned, read_columns(columns or ""), ocr)
    with console.Reporter():
        report = importer.convert(src, dst, shares, seed, rule, task, options, heldout_from)
    _show_report(report, dst)
    if two_folders and not report.documents["heldout"]:
        console.warn(
            f"No document of {heldout_from} is held out: all have the image or text of one in {src}, or --heldout "
            "leaves none. Nothing can be compared with what the model never saw."
        )
    wordless = any("docaudit ocr" in warning for warning in report.warnings)
    commands = (
        *([f"docaudit ocr {dst}"] if wordless else []),
        f"docaudit inspect {dst} --model MODEL_DIR",
        f"docaudit scan MODEL_DIR {dst} --documents 20 --budget quick --out first-look",
    )
    console.show_commands("Next:", commands)
    if divided and assigned is None:
        note_unstated_assignment(dst / "manifest.toml")


def command_of(importer: Importer) -> Callable[..., None]:
    """Make the command of a format: `import_data` without the options that the format does not take."""
    takes = {"official": importer.parts, "by_provider": importer.providers, "task": len(importer.tasks) > 1}
    takes |= {
        "importer": False,
        **dict.fromkeys(("labels", "provider_column", "boxes", "columns", "ocr"), importer.recognises),
    }
    signature = inspect.signature(import_data, eval_str=True)
    parameters = [own for name, own in signature.parameters.items() if takes.get(name, True)]

    @wraps(import_data)
    def command(**options: Any) -> None:
        defaults = {name: own.default for name, own in signature.parameters.items() if name in takes}
        import_data(**{**defaults, "importer": importer, **options})

    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


for _name, _importer in FORMATS.items():
    _help = f"Import a {_name} data set ({_importer.description}). The model's task is {listed(_importer.tasks, 'or')}."
    app.command(_name, help=_help, short_help=_importer.description)(show_errors()(command_of(_importer)))


def _share_or_file(text: str | None) -> tuple[float | None, Path | None]:
    """Read what `--heldout` gives: a share, or a file."""
    if text is None:
        return None, None
    try:
        share = float(text)
    except ValueError:
        return None, Path(text)
    if not 0 <= share <= 1:
        raise UsageError(f"--heldout {text}: a share is between 0 and 1")
    return share, None


def _show_report(report: ImportReport, dst: Path) -> None:
    """Show the documents and fields of an import, and those that it could not find."""
    rows = []
    for label, count in report.fields.items():
        located = [report.located[label][quality] for quality in QUALITIES]
        lost = ", ".join(f"{number} {reason}" for reason, number in report.not_located[label].items())
        rows.append((label, count, *located, lost or "-"))
    if rows:
        titles = ("label", "fields", "located exactly", "normalised", "loosely", "not located")
        console.show_table("Fields", titles, rows)
    console.say(f"The model's task, for the manifest: {report.task}")
    console.show_table("Documents", ("split", "documents"), list(report.documents.items()))
    console.say(
        *(f"{name}: {count}" for name, count in report.notes.items()),
        f"{len(report.duplicates)} groups of documents with the same image, never in two splits",
        f"Written to {dst}; fields without words are listed in {dst / REPORT_NAME}",
    )
    console.warn(*report.warnings)
