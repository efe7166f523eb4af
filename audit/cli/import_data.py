"""`docaudit import`: the formats, and what each takes, are read from their registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from audit.cli import console
from audit.cli.import_tables import show_import, show_next
from audit.cli.options import (
    Assigned,
    Assignment,
    Seed,
    ask_assigned,
    on_terminal,
    say_unstated,
    show_errors,
)
from audit.errors import UsageError, listed
from audit.importers import registry

if TYPE_CHECKING:
    from audit.corpus.documents import Split
    from audit.importers.interface import Rule, Source, SourceOptions

BoxUnit = Literal["pixels", "thousandths", "shares"]
"""The units that boxes come in."""


def _formats(recognised: bool) -> str:
    """List the formats with their descriptions."""
    return "; ".join(
        f"{name} ({source.description})" for name, source in registry.FORMATS.items() if source.recognises == recognised
    )


def _named(fits: Callable[[Source], object]) -> str:
    return ", ".join(registry.names_of(fits))


def _complete_format(incomplete: str) -> list[str]:
    return [name for name in registry.FORMATS if name.startswith(incomplete)]


def _source(name: str) -> Source:
    """Return the format of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in registry.FORMATS:
        raise UsageError(f"no format is called {name!r}", f"one of {', '.join(registry.FORMATS)}")
    return registry.FORMATS[name]


TASKS = [*dict.fromkeys(task for source in registry.FORMATS.values() for task in registry.choices(source))]


def import_data(
    source_format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help=f"Data sets of research: {_formats(False)}. Recognised formats, whose task, columns and boxes are "
            f"read off what is there: {_formats(True)}.",
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
            help=f"{_named(registry.choices)}: what your model was trained to do: {listed(TASKS, 'or')}.",
            show_default=f"token-classification; {_named(registry.recognises)}: as found",
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
    questions: Annotated[
        bool,
        typer.Option(
            "--questions", help=f"{_named(registry.may_ask)}: ask for each field, for a model that answers questions."
        ),
    ] = False,
    official: Annotated[
        bool,
        typer.Option(
            "--official",
            help=f"{_named(registry.has_parts)}: your model was trained on the training part. --member and --public "
            "are then shares of its documents, --heldout of the others.",
        ),
    ] = False,
    by_provider: Annotated[
        bool,
        typer.Option(
            "--by-provider",
            help=f"{_named(registry.names_providers)}: draw providers, to audit whether one was trained on. Of one "
            "that is in, half of the documents are member and half are kept aside as heldout; of one that is out, half "
            "are heldout and the others in no split. --member, --heldout and --public are then "
            "shares of the "
            "providers: in, out, public. "
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
) -> None:
    """Turn a data set you have into docaudit's format. Documents of equal image or text stay in one split."""
    with show_errors():
        source = _source(source_format)
        if task is not None and task not in TASKS:
            raise UsageError(f"no task is called {task!r}", f"one of {', '.join(TASKS)}")
        said = {"--labels": labels, "--provider-column": provider_column, "--boxes": boxes}
        registry.check_options(
            source,
            task=task,
            questions=questions,
            official=official,
            by_provider=by_provider,
            kept_aside=kept_aside,
            said=said,
        )
        given = Given(members, heldout_from, *_share_or_file(heldout), assigned, official)
        given.check(member, official or by_provider)
        if given.divided and assigned is None and on_terminal():
            given = replace(given, assigned=ask_assigned())
        shares = given.shares(member, public, by_provider=by_provider)
        rule = given.rule(by_provider=by_provider, kept_aside=kept_aside)
        learns = cast("Any", "question-answering" if questions else task)
        options = _options(labels, provider_column, boxes, given.assigned)
        with console.Reporter():
            report = source.convert(src, dst, shares, seed, rule, learns, options, heldout_from)
        show_import(report, dst)
        console.warn(*report.warnings)
        if heldout_from is not None and not report.documents.get("heldout"):
            console.warn(
                f"No document of {heldout_from} is held out: all have the image or text of one in {src}, or --heldout "
                "leaves none. Nothing can be compared with what the model never saw."
            )
        show_next(report, dst)
        if given.divided and given.assigned is None:
            say_unstated(dst / "manifest.toml")


@dataclass(frozen=True)
class Given:
    """What the owner says about membership.

    Attributes:
        members: a file that names them.
        heldout_from: a folder of documents that are none.
        heldout: a share.
        heldout_file: a file that names them, in place of a share.
        assigned: how members came to be chosen.
        official: the model was trained on the source's own training part.
    """

    members: Path | None
    heldout_from: Path | None
    heldout: float | None
    heldout_file: Path | None
    assigned: Assignment | None
    official: bool = False

    @property
    def divided(self) -> bool:
        """Test whether the documents of training are given, and not drawn by the import."""
        return self.official or self.members is not None or self.heldout_from is not None

    def check(self, share: float | None, divided: bool) -> None:
        """Refuse options that say in two ways which documents are members; `divided`: by the source or by provider.

        Raises:
            UsageError: there are such options.
        """
        if self.heldout_file is not None and self.members is None:
            raise UsageError(
                f"--heldout {self.heldout_file} names held-out documents, but nothing names the members",
                "add --members FILE, or give --heldout a share between 0 and 1",
            )
        if self.members is not None and self.heldout_from is not None:
            raise UsageError("--members and --heldout-from both say which documents are members: leave one out")
        if self.members is None and self.heldout_from is None:
            if self.assigned is not None and not self.official:
                raise UsageError("--assigned says how the documents of --members were chosen", "add --members FILE")
            return
        if divided or share is not None:
            named = "--members" if self.members else "--heldout-from"
            raise UsageError(f"{named} names the members: leave out --member, --official and --by-provider")

    def shares(self, member: float | None, public: float | None, *, by_provider: bool) -> dict[Split, float]:
        """The shares of the splits, with the usual ones for those that the owner leaves out."""
        drawn = (0.4, 0.2) if by_provider else (0.2, 0.4)
        usual = (0.0, 1.0) if self.heldout_file else (0.5, 0.5) if self.members or self.heldout_from else drawn
        return {
            "member": 0.4 if member is None else member,
            "heldout": usual[0] if self.heldout is None else self.heldout,
            "public": usual[1] if public is None else public,
        }

    def rule(self, *, by_provider: bool, kept_aside: int | None) -> Rule:
        """The rule by which documents become members."""
        from audit.importers.providers import ByProvider
        from audit.importers.splits import NamedMembers

        if self.members is not None:
            return NamedMembers.read(self.members, self.heldout_file)
        if self.heldout_from is not None:
            return NamedMembers(())
        return ByProvider(kept_aside) if by_provider else "official" if self.official else "drawn"


def _share_or_file(text: str | None) -> tuple[float | None, Path | None]:
    """What `--heldout` gives: a share, or a file."""
    if text is None:
        return None, None
    try:
        share = float(text)
    except ValueError:
        return None, Path(text)
    if not 0 <= share <= 1:
        raise UsageError(f"--heldout {text}: a share is between 0 and 1")
    return share, None


def _options(
    labels: str | None, provider: str | None, boxes: BoxUnit | None, assigned: Assignment | None
) -> SourceOptions:
    """What the owner says of columns, boxes and the choice of documents."""
    from audit.importers.contents import SourceOptions
    from audit.importers.named import read_labels

    return SourceOptions(() if labels is None else read_labels(labels), provider, boxes, assigned)
