"""`docaudit import`: the formats, and what each takes, are read from their registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from audit.cli import console
from audit.cli.options import Debug, FilledCommand, Seed, show_errors
from audit.errors import UsageError, listed

if TYPE_CHECKING:
    from audit.corpus.documents import Split, TaskKind
    from audit.corpus.importers.interface import Rule
    from audit.corpus.importers.report import ImportReport

Assignment = Literal["random", "by-provider", "by-date", "official"]
"""The ways in which documents came to be members."""


class ImportCommand(FilledCommand):
    """The import command, with the registered formats in its choices and its help."""

    def choices(self) -> Mapping[str, Sequence[str]]:
        """See `FilledCommand.choices`."""
        from audit.corpus.importers import registry

        tasks = dict.fromkeys(task for source in registry.FORMATS.values() for task in registry.choices(source))
        return {"source_format": tuple(registry.FORMATS), "task": tuple(tasks)}

    def fillings(self) -> Mapping[str, str]:
        """See `FilledCommand.fillings`."""
        from audit.corpus.importers import registry

        formats = [f"{name} ({source.description})" for name, source in registry.FORMATS.items()]
        takes = {
            "with_tasks": registry.choices,
            "with_questions": registry.may_ask,
            "with_parts": registry.has_parts,
            "with_providers": registry.names_providers,
        }
        named = {word: ", ".join(registry.names_of(fits)) for word, fits in takes.items()}
        return {"formats": listed(formats, "or"), **named}


def import_data(
    source_format: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help="{formats}.", show_default=False),
    ],
    src: Annotated[Path, typer.Argument(metavar="SRC", help="The folder you have.", show_default=False)],
    dst: Annotated[Path, typer.Argument(metavar="DST", help="The new data set's folder.", show_default=False)],
    member: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of the documents for this split.", show_default="0.4"),
    ] = None,
    members: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The documents that your model was trained on, one id or file name a line: these are the members. "
            "--heldout and --public are then shares of the others.",
            show_default="drawn",
        ),
    ] = None,
    assigned: Annotated[
        Assignment | None,
        typer.Option(
            help="With --members: how these came to be chosen for training; random only where it was by lot.",
            show_default="official",
        ),
    ] = None,
    heldout: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share of the documents for this split.",
            show_default="0.2; 0.4 with --by-provider; 0.5 with --members",
        ),
    ] = None,
    public: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Share of the documents for this split.",
            show_default="0.4; 0.2 with --by-provider; 0.5 with --members",
        ),
    ] = None,
    seed: Seed = 0,
    task: Annotated[
        str | None,
        typer.Option(help="{with_tasks}: what your model was trained to do.", show_default="token-classification"),
    ] = None,
    questions: Annotated[
        bool,
        typer.Option("--questions", help="{with_questions}: ask for each field, for a model that answers questions."),
    ] = False,
    official: Annotated[
        bool,
        typer.Option(
            "--official",
            help="{with_parts}: your model was trained on the training part. --member and --public are "
            "then shares of its documents, --heldout of the others.",
        ),
    ] = False,
    by_provider: Annotated[
        bool,
        typer.Option(
            "--by-provider",
            help="{with_providers}: draw providers, to audit whether one was trained on. Of one that is in, half of "
            "the documents are member and half are kept aside as heldout; of one that is out, half are heldout and the "
            "others in no split. --member, --heldout and --public are then shares of the providers: in, out, public. "
            "Providers with a single document are public; where they alone are more than --public, the others are "
            "divided as --member to --heldout.",
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
    debug: Debug = False,
) -> None:
    """Turn a data set you have into docaudit's format. Documents of equal image or text stay in one split."""
    with show_errors(debug):
        from audit.corpus.importers.providers import ByProvider
        from audit.corpus.importers.registry import FORMATS, check_options, has_parts
        from audit.corpus.importers.splits import NamedMembers, demands

        source = FORMATS[source_format]
        check_options(
            source, task=task, questions=questions, official=official, by_provider=by_provider, kept_aside=kept_aside
        )
        _check_members(members, assigned, member, official or by_provider)
        usual = (0.5, 0.5) if members else (0.4, 0.2) if by_provider else (0.2, 0.4)
        shares: dict[Split, float] = {
            "member": 0.4 if member is None else member,
            "heldout": usual[0] if heldout is None else heldout,
            "public": usual[1] if public is None else public,
        }
        rule: Rule = ByProvider(kept_aside) if by_provider else "official" if official else "drawn"
        if members is not None:
            rule = NamedMembers.read(members, assigned or "official")
        learns = "question-answering" if questions else cast("TaskKind | None", task)
        report = source.convert(src, dst, shares, seed, rule, learns)
        _show_import(report, dst)
        console.warn(*demands(rule, report.documents, has_official=has_parts(source)))


def _check_members(members: Path | None, assigned: str | None, share: float | None, divided: bool) -> None:
    """Refuse options that say in two ways which documents are members."""
    if members is None:
        if assigned is not None:
            raise UsageError("--assigned says how the documents of --members were chosen", "add --members FILE")
        return
    if divided or share is not None:
        raise UsageError("--members names the members: leave out --member, --official and --by-provider")


def _show_import(report: ImportReport, destination: Path) -> None:
    """The documents and fields of an import, and those that it could not find."""
    rows = []
    for label, count in report.fields.items():
        lost = ", ".join(f"{number} {reason}" for reason, number in report.not_located.get(label, {}).items() if number)
        rows.append((label, count, *report.qualities.get(label, {}).values(), lost or "-"))
    if rows:
        titles = ("label", "fields", "located exactly", "normalised", "loosely", "not located")
        console.show_table("Fields", titles, rows)
    console.show_table("Documents", ("split", "documents"), list(report.documents.items()))
    for name, count in report.notes.items():
        console.say(f"{name}: {count}")
    console.say(f"{len(report.duplicates)} groups of documents with the same image, never in two splits")
    console.say(f"Written to {destination}; fields without words are listed in {destination / 'import-report.json'}")
