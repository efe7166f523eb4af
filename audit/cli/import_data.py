"""`docaudit import`: the formats, and the options that each takes, are read from their registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from audit.cli import console
from audit.cli.options import Assigned, Seed, say_unstated
from audit.errors import UsageError, listed
from audit.importers.divide import ByProvider, Rule
from audit.importers.named import NamedMembers, read_labels
from audit.importers.registry import FORMATS
from audit.importers.source import Options

if TYPE_CHECKING:
    from audit.corpus.documents import Split
    from audit.importers.interface import Importer
    from audit.importers.report import ImportReport

BoxUnit = Literal["pixels", "thousandths", "shares"]
"""The units that boxes come in."""


def _complete_format(incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete)]


_DESCRIBED = "; ".join(f"{name} ({importer.description})" for name, importer in FORMATS.items())
TASKS = [*dict.fromkeys(task for importer in FORMATS.values() for task in importer.tasks)]


def import_data(
    source_format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help=f"The format that you have: {_DESCRIBED}.",
            autocompletion=_complete_format,
            show_default=False,
        ),
    ],
    src: Annotated[
        Path, typer.Argument(metavar="SRC", help="The folder you have, or its one file.", show_default=False)
    ],
    dst: Annotated[Path, typer.Argument(metavar="DST", help="The new data set's folder.", show_default=False)],
    members: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The documents that your model was trained on: these are the members. One id or file name a line, a "
            ".csv with a column of them, or a .json or .jsonl of names. --heldout and --public are then shares of the "
            "others.",
            show_default="drawn",
        ),
    ] = None,
    heldout_from: Annotated[
        Path | None,
        typer.Option(
            metavar="SRC2",
            help="A second folder of the same format, of documents that your model was not trained on (test/ beside "
            "train/): all documents of SRC are then members; --heldout and --public are shares of those of SRC2.",
            show_default=False,
        ),
    ] = None,
    member: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of the documents for this split.", show_default="0.4"),
    ] = None,
    heldout: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|FILE",
            help="Share of the documents for this split; or, with --members, a file that names its documents.",
            show_default="0.2; 0.4 with --by-provider; 0.5 with --members",
        ),
    ] = None,
    public: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share of the documents for this split.",
            show_default="0.4; 0.2 with --by-provider; 0.5 with --members; 1 with --heldout FILE",
        ),
    ] = None,
    assigned: Assigned = None,
    seed: Seed = 0,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help=f"The task that your model was trained for: {listed(TASKS, 'or')}.",
            show_default="as found; token-classification of data sets of papers that have it",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES|FILE|MODEL_DIR",
            help="Names of the model's labels in the order of its outputs: with commas between them, a file with one a "
            "line, or the model's folder, whose config.json has them. For data that has numbers only, or writes labels "
            "in other cases.",
            show_default=False,
        ),
    ] = None,
    provider_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column or key that names who issued a document; folder: the folder that its image is in.",
            show_default=False,
        ),
    ] = None,
    boxes: Annotated[
        BoxUnit | None,
        typer.Option(
            metavar="UNIT",
            help="The unit of boxes: pixels, thousandths (0 to 1000) or shares (0 to 1).",
            show_default="recognised by their range",
        ),
    ] = None,
    official: Annotated[
        bool,
        typer.Option(
            "--official",
            help="Your model was trained on the training part of a source that has one. --member and --public are then "
            "shares of its documents, --heldout of the others.",
        ),
    ] = False,
    by_provider: Annotated[
        bool,
        typer.Option(
            "--by-provider",
            help="Draw providers, to audit whether one was trained on. Of one that is in, half of the documents are "
            "member and half are kept aside as heldout; of one that is out, half are heldout and the others in no "
            "split. --member, --heldout and --public are then shares of the providers: in, out, public. Providers with "
            "a single document are public; where they alone are more than --public, the others are divided as --member "
            "to --heldout.",
        ),
    ] = False,
    kept_aside: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --by-provider: keep at most so many documents of a provider aside; copies of a page are one.",
            show_default="half of them",
        ),
    ] = None,
) -> None:
    """Turn a data set you have into docaudit's format. Documents of equal image or text stay in one split."""
    if source_format not in FORMATS:
        raise UsageError(f"no format is called {source_format!r}", f"one of {', '.join(FORMATS)}")
    if task is not None and task not in TASKS:
        raise UsageError(f"no task is called {task!r}", f"one of {', '.join(TASKS)}")
    importer = FORMATS[source_format]
    given = {
        "--official": official,
        "--by-provider": by_provider,
        "--labels": labels,
        "--provider-column": provider_column,
        "--boxes": boxes,
        "--members": members,
        "--heldout-from": heldout_from,
        "--member": member,
        "--assigned": assigned,
        "--kept-aside": kept_aside,
    }
    _check_options(importer, {option for option, value in given.items() if value not in (None, False)})
    share, heldout_file = _share_or_file(heldout)
    if heldout_file is not None and members is None:
        raise UsageError(
            f"--heldout {heldout_file} names held-out documents, but nothing names the members",
            "add --members FILE, or give --heldout a share between 0 and 1",
        )
    divided = official or members is not None or heldout_from is not None
    usual = (0.4, 0.2) if by_provider else (0.2, 0.4)
    if members is not None or heldout_from is not None:
        usual = (0.0, 1.0) if heldout_file else (0.5, 0.5)
    shares: dict[Split, float] = {
        "member": 0.4 if member is None else member,
        "heldout": usual[0] if share is None else share,
        "public": usual[1] if public is None else public,
    }
    rule: Rule = ByProvider(kept_aside) if by_provider else "official" if official else "drawn"
    if members is not None or heldout_from is not None:
        rule = NamedMembers(()) if members is None else NamedMembers.read(members, heldout_file)
    options = Options(() if labels is None else read_labels(labels), provider_column, boxes, assigned)
    with console.Reporter():
        report = importer.convert(src, dst, shares, seed, rule, task, options, heldout_from)
    _show(report, dst)
    if heldout_from is not None and not report.documents.get("heldout"):
        console.warn(
            f"No document of {heldout_from} is held out: all have the image or text of one in {src}, or --heldout "
            "leaves none. Nothing can be compared with what the model never saw."
        )
    _show_next(report, dst)
    if divided and assigned is None:
        say_unstated(dst / "manifest.toml")


def _check_options(importer: Importer, given: set[str]) -> None:
    """Refuse options that the format does not take, and options that contradict each other.

    Raises:
        UsageError: there are such options.
    """
    taken = {
        "--official": importer.parts,
        "--by-provider": importer.providers,
        **dict.fromkeys(("--labels", "--provider-column", "--boxes"), importer.recognises),
    }
    unknown = [option for option, takes in taken.items() if option in given and not takes]
    if unknown:
        raise UsageError(f"{importer.name} takes no {listed(unknown, 'or')}", f"leave out {listed(unknown, 'and')}")
    rules = given & {"--members", "--heldout-from", "--official", "--by-provider"}
    if not rules.isdisjoint({"--members", "--heldout-from"}):
        rules |= given & {"--member"}
    if len(rules) > 1:
        raise UsageError(
            f"{listed(sorted(rules), 'and')} say in several ways which documents are members", "keep one of them"
        )
    if "--assigned" in given and not given & {"--members", "--heldout-from", "--official"}:
        raise UsageError("--assigned says how the documents of --members were chosen", "add --members FILE")
    if "--kept-aside" in given and "--by-provider" not in given:
        raise UsageError("--kept-aside says how --by-provider divides", "add --by-provider, or leave it out")


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


def _show(report: ImportReport, dst: Path) -> None:
    """Show the documents and fields of an import, and those that it could not find."""
    rows = []
    for label, count in report.fields.items():
        lost = ", ".join(f"{number} {reason}" for reason, number in report.not_located.get(label, {}).items() if number)
        rows.append((label, count, *report.qualities.get(label, {}).values(), lost or "-"))
    if rows:
        titles = ("label", "fields", "located exactly", "normalised", "loosely", "not located")
        console.show_table("Fields", titles, rows)
    if report.task is not None:
        console.say(f"The model's task, for the manifest: {report.task}")
    console.show_table("Documents", ("split", "documents"), list(report.documents.items()))
    for name, count in report.notes.items():
        console.say(f"{name}: {count}")
    console.say(f"{len(report.duplicates)} groups of documents with the same image, never in two splits")
    console.say(f"Written to {dst}; fields without words are listed in {dst / 'import-report.json'}")
    console.warn(*report.warnings)


def _show_next(report: ImportReport, dst: Path) -> None:
    """Show the commands that lead on."""
    wordless = any("docaudit ocr" in warning for warning in report.warnings)
    commands = (
        *([f"docaudit ocr {dst}"] if wordless else []),
        f"docaudit inspect {dst} --model MODEL_DIR",
        f"docaudit scan MODEL_DIR {dst} --documents 20 --budget quick --out first-look",
    )
    console.show_commands("Next:", commands)
