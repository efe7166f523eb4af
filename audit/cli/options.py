"""Arguments and options that several commands have, and how a command ends in an error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from audit.cli import console
from audit.errors import DocauditError, EngineError, UsageError

EXIT_HELP = (
    "Exit codes: 0 passed; 10 a limit is violated; 11 undecided; 2 wrong usage or input; 1 docaudit failed, no record "
    "was written; 130 interrupted and 143 terminated: run the same command again to go on."
)
SHIPPED_POLICIES = ("default", "strict")
DEBUG = "DOCAUDIT_DEBUG"
"""The environment variable that asks for the traceback of every error."""
Budget = Literal["quick", "standard", "full"]
"""How much of the work to do."""
Assignment = Literal["random", "by-provider", "by-date", "official"]
"""The rules by which documents are chosen for training."""
RULES: Mapping[Assignment, str] = {
    "random": "documents were drawn by lot, as train_test_split does",
    "by-provider": "providers were drawn by lot",
    "by-date": "they come from another time",
    "official": "somebody else divided them, or the rule is not known",
}


def complete_policy(incomplete: str) -> list[str]:
    """Complete the name of a shipped policy; where there is none the shell names files."""
    return [name for name in SHIPPED_POLICIES if name.startswith(incomplete)]


DataDir = Annotated[Path, typer.Argument(metavar="DATA_DIR", help="Folder with manifest.toml.", show_default=False)]
Assigned = Annotated[
    Assignment | None,
    typer.Option(
        "--assigned",
        metavar="RULE",
        help="How the documents of training were chosen. "
        + "; ".join(f"{rule}: {meaning}" for rule, meaning in RULES.items())
        + ".",
        show_default="official",
    ),
]
PolicyName = Annotated[
    str,
    typer.Option("--policy", help="A shipped policy (default, strict) or a TOML file.", autocompletion=complete_policy),
]
ModelOfRecord = Annotated[
    Path | None,
    typer.Option("--model", metavar="MODEL_DIR", help="The model that the record must be of.", show_default=False),
]
DataOfRecord = Annotated[
    Path | None,
    typer.Option("--data", metavar="DATA_DIR", help="The data set that the record must be of.", show_default=False),
]
Evidence = Annotated[
    Path | None,
    typer.Option(
        "--evidence",
        metavar="DIR",
        help="Where journals and values are kept, for you alone, so that the rest of --out can be passed on.",
        show_default="evidence/ in --out",
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Every random choice follows from it.")]
Documents = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="Try so many documents (or providers, or canaries) of those in training and kept aside, half of each, "
        "drawn by lot; a first look.",
        show_default=False,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="TIME",
        help="Try as many documents as fit, drawn by lot before any is tried: 30m, 2h, 90s.",
        show_default=False,
    ),
]
Dtype = Annotated[
    Literal["auto", "float32", "bfloat16"],
    typer.Option(
        help="Number format of the model. bfloat16: a model that answers holds its weights in it, an encoder computes "
        "in it if a preflight finds no difference. auto: bfloat16 for encoders on CUDA, and for models of over two "
        "billion parameters that are stored in half precision."
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME[:KEY=VALUE,...]",
        help="Where trials run. local: in this process; ray: on Ray workers (install docaudit with its extra ray), as "
        "ray:workers=4 on this machine, or ray:address=HOST:PORT on the cluster that it is part of (or address=auto).",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=PATH",
        help="A reference model: auxiliary, pretrained, baselines or splits; may be repeated. See docaudit references.",
    ),
]
Pretrained = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="pretrained=PATH: what the model was fine-tuned from, unless the manifest says it (for intents and slots "
        "the model itself, and for an adapter its folder: settings alone are read); with defend also baselines=PATH.",
    ),
]


def say_unstated(manifest: Path) -> None:
    """Say that nobody stated how the documents of training were chosen, and where to state it."""
    console.say(
        f'{manifest} says assigned = "official", as nobody stated how the documents of training were chosen. '
        'Write "random" there if they were drawn by lot, as train_test_split does (or give --assigned random).'
    )


def seconds_of(text: str | None) -> float | None:
    """Read the time of `--time`.

    Raises:
        UsageError: it is none.
    """
    if text is None:
        return None
    try:
        seconds = float(text[:-1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[text[-1:]]
        if 0 < seconds < float("inf"):
            return seconds
    except (ValueError, KeyError):
        pass
    raise UsageError(f"--time {text}: no time", "a number with s, m or h, as 30m")


def named_paths(pairs: Sequence[str] | None) -> dict[str, list[Path]]:
    """Read the folders of `--reference NAME=PATH`, by name.

    Raises:
        UsageError: one is not written so.
    """
    named: dict[str, list[Path]] = {}
    for pair in pairs or ():
        name, _, path = pair.partition("=")
        if not name or not path:
            raise UsageError(f"--reference {pair!r}: write NAME=PATH")
        named.setdefault(name, []).append(Path(path))
    return named


_NO_MEMORY = (
    "failed to map segment",
    "allocate memory",
    "out of memory",
    "not enough memory",
    "bad_alloc",
    "create a primitive",
)
"""Parts of messages of errors of other kinds, raised while libraries are loaded or compute."""


@contextmanager
def show_errors() -> Iterator[None]:
    """Print known errors, missing packages and lack of memory as a line each, and end with their exit code.

    Anything else is a bug and keeps its traceback; with `DEBUG` in the environment everything does.
    """
    debug = bool(os.environ.get(DEBUG))
    try:
        yield
    except DocauditError as error:
        if debug:
            traceback.print_exc()
        shown = error
    except ModuleNotFoundError as error:
        package, _, _ = (error.name or "").partition(".")
        if debug or package in ("", "audit"):
            raise
        shown = EngineError(f"{package} is not installed", "install docaudit with all that it needs")
    except (MemoryError, ImportError, RuntimeError) as error:
        lacks = isinstance(error, MemoryError) or any(words in str(error).lower() for words in _NO_MEMORY)
        if debug or not lacks:
            raise
        shown = EngineError("there is not enough memory", "give it more, or stop what else takes it")
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; run the same command again to go on\n")
        raise typer.Exit(130) from None
    else:
        return
    console.show_error(shown)
    raise typer.Exit(shown.exit_code)
