"""Arguments and options that several commands have, and how a command ends in an error."""

import os
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from audit.cli import console
from audit.errors import DocauditError, EngineError, UsageError
from audit.failures import DEBUG, lacks_memory


def _read_texts() -> tuple[dict[str, str], dict[str, str]]:
    """Read help.toml: panels by parameter, and texts by command and option."""
    texts = tomllib.loads((Path(__file__).parent / "help.toml").read_text(encoding="utf-8"))
    panels: dict[str, str] = {}
    for panel, parameters in texts.pop("panels").items():
        panels |= dict.fromkeys(parameters, panel)
    texts_by_option = {}
    for command, texts_of_command in texts.items():
        for option, text in texts_of_command.items():
            texts_by_option[f"{command}.{option}"] = text
    return panels, texts_by_option


PANELS, HELP = _read_texts()
"""Panels of the help by parameter; what each option means by command and option, as other texts."""
Budget = Literal["quick", "standard", "full"]
"""How much of the work to do."""
BudgetOption = Annotated[Budget, typer.Option("--budget", help=HELP["shared.budget"])]
Assignment = Literal["random", "by-provider", "by-date", "official"]
"""The rules by which documents are chosen for training."""


def complete(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a shell completer for these names; without a match, the shell names files."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


DataDir = Annotated[
    Path, typer.Argument(metavar="DATA_DIR", help=HELP["shared.data_dir"], show_default=False)
]
Assigned = Annotated[
    Assignment | None,
    typer.Option(
        "--assigned", metavar="RULE", help=HELP["shared.assigned"], show_default="official"
    ),
]
Folders = Annotated[
    list[Path],
    typer.Argument(metavar="[MODEL_DIR] DATA_DIR", help=HELP["shared.folders"], show_default=False),
]
"""A model, which may be left out, and a data set."""
OldModel = Annotated[Path | None, typer.Option("--model", hidden=True)]
"""The model of commands that took it as an option in earlier versions."""
ModelDir = Annotated[
    Path, typer.Argument(metavar="MODEL_DIR", help=HELP["references.model_dir"], show_default=False)
]
SHIPPED = complete(("default", "forget", "strict"))
"""Completes the name of a shipped policy."""
PolicyName = Annotated[
    str, typer.Option("--policy", help=HELP["shared.policy"], autocompletion=SHIPPED)
]
ModelOfRecord = Annotated[
    Path | None,
    typer.Option("--model", metavar="MODEL_DIR", help=HELP["shared.model"], show_default=False),
]
DataOfRecord = Annotated[
    Path | None,
    typer.Option("--data", metavar="DATA_DIR", help=HELP["shared.data"], show_default=False),
]
Evidence = Annotated[
    Path | None,
    typer.Option(
        "--evidence", metavar="DIR", help=HELP["shared.evidence"], show_default="evidence/ in --out"
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help=HELP["shared.seed"])]
Bounds = Annotated[
    list[str] | None,
    typer.Option("--documents", "--time", metavar="N|TIME", help=HELP["shared.bound"]),
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, help=HELP["scan.batch_size"], show_default="auto")
]
Dtype = Annotated[Literal["auto", "float32", "bfloat16"], typer.Option(help=HELP["shared.dtype"])]
Engine = Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE,...]", help=HELP["shared.engine"])]
Device = Annotated[str, typer.Option(help=HELP["shared.device"])]
References = Annotated[
    list[str] | None,
    typer.Option("--reference", metavar="NAME=PATH", help=HELP["shared.reference"]),
]
Detail = Annotated[
    bool | None,
    typer.Option(
        "--verbose/--quiet", "-v/-q", help=HELP["shared.detail"], show_default="a summary"
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help=HELP["shared.verbose"])]
Pretrained = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=PATH", help=HELP["shared.pretrained_or_baselines"]),
]


def note_unstated_assignment(manifest: Path) -> None:
    """Print that nobody stated how the documents of training were chosen, and where to state it."""
    console.say(
        f'{manifest} says assigned = "official", as nobody stated how the documents of training '
        'were chosen. Write "random" there if they were drawn by lot, as train_test_split does '
        "(or give --assigned random)."
    )


def are_given(context: typer.Context, *names: str) -> list[str]:
    """List the parameters that the command line gives, of these; others are at their defaults."""
    return [
        name
        for name in names
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]


def bounds_of(texts: Sequence[str] | None) -> dict[str, Any]:
    """Read what bounds a scan: a number of documents, a time, or both.

    Raises:
        UsageError: a text is neither.
    """
    bounds: dict[str, Any] = {}
    for text in texts or ():
        if text.isdecimal() and text > "1":
            bounds["documents"] = int(text[:9])
        else:
            bounds["seconds"] = seconds_of(text)
    return bounds


def seconds_of(text: str) -> float:
    """Read the time of `--time`.

    Raises:
        UsageError: it is none.
    """
    with suppress(ValueError, KeyError):
        seconds = float(text[:-1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[text[-1:]]
        if 0 < seconds < float("inf"):
            return seconds
    raise UsageError(
        f"--documents or --time {text}: no number, and no time",
        "60, or a time with s, m or h, as 30m",
    )


def named_paths(pairs: Sequence[str] | None) -> dict[str, list[Path]]:
    """Read the folders of `--reference NAME=PATH`, by name.

    Raises:
        UsageError: one is not written so.
    """
    paths: dict[str, list[Path]] = {}
    for pair in pairs or ():
        name, _, path = pair.partition("=")
        if not name or not path:
            raise UsageError(f"--reference {pair!r}: write NAME=PATH")
        paths.setdefault(name, []).append(Path(path))
    return paths


def _describe_failed_import(error: ModuleNotFoundError) -> DocauditError | None:
    """Name the package that is missing, or what keeps transformers from loading.

    None where docaudit is at fault.
    """
    package = (error.name or "").partition(".")[0]
    if package == "audit":
        return None
    if package:
        from audit.parts import missing_module

        lacking = missing_module(package)
        if lacking is not None:
            return lacking
        return EngineError(f"{package} is not installed", "install docaudit with all that it needs")
    cause = error.__cause__  # transformers hides it
    if cause is None:
        return None
    while cause.__cause__ is not None:
        cause = cause.__cause__
    from audit.workflows.start import INSTALL

    hint = HELP["doctor.broken"]
    if "torchvision" in str(cause):
        hint = INSTALL["torchvision"]
    return EngineError(f"transformers cannot load its models: {cause}", hint)


@contextmanager
def show_errors() -> Iterator[None]:
    """Print known errors, missing packages and lack of memory, a line each.

    The command ends with their exit code. Anything else is a bug, of which `audit.cli.main` tells
    class and place; with `DEBUG` in the environment everything keeps its traceback.
    """
    is_debugging = bool(os.environ.get(DEBUG))
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; run the same command again to go on\n")
        raise typer.Exit(130) from None
    except DocauditError as error:
        if is_debugging:
            traceback.print_exc()
        failure = error
    except (MemoryError, ImportError, RuntimeError) as error:
        expected = None if is_debugging else _describe_expected(error)
        if expected is None:
            raise
        failure = expected
    else:
        return
    console.show_error(failure)
    raise typer.Exit(failure.exit_code)


def _describe_expected(error: Exception) -> DocauditError | None:
    """Describe an error that says that something is missing; None for a bug."""
    if isinstance(error, ModuleNotFoundError):
        return _describe_failed_import(error)
    if lacks_memory(error):
        return EngineError("there is not enough memory", "give it more, or stop what else takes it")
    return None
