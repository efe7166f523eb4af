"""The options of `docaudit init` and of `docaudit import`, and how a dataclass becomes options."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from audit.cli.dividing import StatedMembers, choose_shares, read_share_or_file
from audit.cli.options import HELP, Assigned, Seed
from audit.corpus.documents import TaskKind
from audit.errors import UsageError
from audit.importers.columns import read_columns
from audit.importers.interface import Importer
from audit.importers.leave_out import OPTION
from audit.importers.named import read_names
from audit.importers.request import ImportRequest
from audit.importers.source import Options
from audit.workflows import init as door

BoxUnit = Literal["pixels", "thousandths", "shares"]
"""The units that boxes come in."""
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
OF_RECOGNISED = frozenset({"labels", "provider_column", "boxes", "columns", "ocr"})
"""Options of formats whose contents are recognised."""


@dataclass(frozen=True)
class ImportOptions:
    """Arguments and options of `docaudit import FORMAT`, in the order of its help.

    The help texts say what each means.
    """

    src: Annotated[Path, typer.Argument(metavar="SRC", help=HELP["import.src"], show_default=False)]
    dst: Annotated[Path, typer.Argument(metavar="DST", help=HELP["import.dst"], show_default=False)]
    members: Members = None
    heldout_from: HeldoutFrom = None
    member: Annotated[
        float | None,
        typer.Option(min=0, max=1, help=HELP["import.member"], show_default="0.4 of a large draw"),
    ] = None
    heldout: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|FILE",
            help=HELP["import.heldout"],
            show_default="0.2 of a large draw; 0.4 with --by-provider; else all not trained on",
        ),
    ] = None
    public: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help=HELP["import.public"],
            show_default="0.4 of a large draw; 0.2 with --by-provider; 1 with a FILE; else 0",
        ),
    ] = None
    assigned: Assigned = None
    seed: Seed = 0
    task: Annotated[
        TaskKind | None,
        typer.Option(
            metavar="KIND",
            help=HELP["import.task"],
            show_default="as found; token-classification of data sets of papers that have it",
        ),
    ] = None
    labels: Labels = None
    provider_column: ProviderColumn = None
    boxes: Boxes = None
    ocr: Ocr = None
    columns: Columns = None
    official: Official = False
    by_provider: Annotated[bool, typer.Option("--by-provider", help=HELP["import.by_provider"])] = (
        False
    )
    without: Annotated[
        Path | None, typer.Option(metavar="LIST", help=HELP["import.without"], show_default=False)
    ] = None
    overwrite: Overwrite = False

    def request(self) -> ImportRequest:
        """Return the import that the options ask for.

        Raises:
            UsageError: options contradict each other, or a file that they name cannot be read.
        """
        share, file = read_share_or_file(self.heldout)
        stated = StatedMembers(
            self.members,
            file,
            self.heldout_from,
            self.official,
            self.by_provider,
            has_share=self.member is not None,
        )
        rule = stated.read_rule() or "drawn"
        if self.assigned is not None and rule in ("drawn", "by-provider"):
            raise UsageError(
                "--assigned says how the documents of --members were chosen", "add --members FILE"
            )
        return ImportRequest(
            src=self.src,
            dst=self.dst,
            shares=choose_shares(
                rule, self.member, share, self.public, has_heldout_file=file is not None
            ),
            seed=self.seed,
            division=rule,
            task=self.task,
            options=self._options_of_source(),
            heldout_from=self.heldout_from,
            without=_read_list(self.without),
        )

    def _options_of_source(self) -> Options:
        """Return what the options say about a source that is recognised."""
        return Options(
            labels=read_labels(self.labels),
            provider=self.provider_column,
            boxes=self.boxes,
            assigned=self.assigned,
            columns=read_columns(self.columns or ""),
            ocr=self.ocr,
        )


def read_labels(option: str | None, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the labels that `--labels` gives; the default without it."""
    return default if option is None else door.read_labels(option)


def _read_list(path: Path | None) -> tuple[str, ...]:
    """Read the names of a list of documents to leave out; none without a list."""
    if path is None:
        return ()
    return read_names(path, OPTION)


def options_of(importer: Importer) -> inspect.Signature:
    """Return the parameters of a format's command: those of `ImportOptions` that it takes."""
    left_out = set()
    if not importer.parts:
        left_out.add("official")
    if not importer.providers:
        left_out.add("by_provider")
    if len(importer.tasks) < 2:
        left_out.add("task")
    if not importer.recognises:
        left_out |= OF_RECOGNISED
    return signature_of(ImportOptions, left_out)


def signature_of(options: type[Any], left_out: Collection[str] = ()) -> inspect.Signature:
    """Return a signature with a parameter for each field of a dataclass, for Typer to read.

    Args:
        options: a dataclass whose annotations are those of Typer.
        left_out: fields that are no parameter and stay at their defaults.
    """
    hints = get_type_hints(options, include_extras=True)
    parameters = []
    for field in dataclasses.fields(options):
        if field.name in left_out:
            continue
        default = inspect.Parameter.empty
        if field.default is not dataclasses.MISSING:
            default = field.default
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=default,
                annotation=hints[field.name],
            )
        )
    return inspect.Signature(parameters)
