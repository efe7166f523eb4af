"""Arguments and options that several commands have, and how a command ends in an error."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import click
import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from audit.cli import console
from audit.errors import DocauditError, EngineError, UsageError, listed

EXIT_HELP = (
    "Exit codes: 0 passed; 10 a limit is violated; 11 undecided; 2 wrong usage or input; 1 docaudit failed, no record "
    "was written; 130 interrupted and 143 terminated: run the same command again to go on."
)
SHIPPED_POLICIES = ("default", "strict")
Budget = Literal["quick", "standard", "full"]
"""How much of the work to do."""
DataDir = Annotated[Path, typer.Argument(metavar="DATA_DIR", help="Folder with manifest.toml.", show_default=False)]


Assignment = Literal["random", "by-provider", "by-date", "official"]
"""The rules by which documents are chosen for training."""
RULES: Mapping[Assignment, str] = {
    "random": "documents were drawn by lot, as train_test_split does",
    "by-provider": "providers were drawn by lot",
    "by-date": "they come from another time",
    "official": "somebody else divided them, or the rule is not known",
}
Assigned = Annotated[
    Assignment | None,
    typer.Option(
        "--assigned",
        metavar="RULE",
        help="How the documents of training were chosen. "
        + "; ".join(f"{rule}: {meaning}" for rule, meaning in RULES.items())
        + ".",
        show_default="asked for on a terminal, else official",
    ),
]


def on_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty()


def choose(question: str, choices: Sequence[str], usual: str | None) -> str:
    """Ask until one of the choices is given."""
    while True:
        given = str(typer.prompt(question, default=usual)).strip()
        if given in choices:
            return given
        console.say(f"One of {', '.join(choices)}.")


def ask_assigned() -> Assignment:
    """Ask how the documents of training were chosen."""
    console.say("How were the documents of training chosen?", *(f"  {rule}: {text}" for rule, text in RULES.items()))
    return cast("Assignment", choose("Rule", [*RULES], "official"))


def say_unstated(manifest: Path) -> None:
    """Say that nobody stated how the documents of training were chosen, and where to state it."""
    console.say(
        f'{manifest} says assigned = "official", as nobody stated how the documents of training were chosen. '
        'Write "random" there if they were drawn by lot, as train_test_split does (or give --assigned random).'
    )


def complete_policy(incomplete: str) -> list[str]:
    """The shipped policies that begin so, for a shell; where there is none it names files."""
    return [name for name in SHIPPED_POLICIES if name.startswith(incomplete)]


def complete_attack(incomplete: str) -> list[str]:
    """The attacks that begin so, for a shell."""
    from audit.attacks import BATTERY
    from audit.attacks.description import describe

    return [kind.name for kind in describe(BATTERY) if kind.name.startswith(incomplete)]


def complete_query_defense(incomplete: str) -> list[str]:
    """The countermeasures that a scan can ask behind, for a shell."""
    from audit.defenses.registry import query_defenses

    return [name for name in query_defenses() if name.startswith(incomplete)]


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
Reveal = Annotated[
    bool,
    typer.Option(
        "--reveal", help="Also write report-revealed.html, with the values, into evidence/. Keep it to yourself."
    ),
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
Weights = Annotated[
    Literal["auto", "float32", "bfloat16"],
    typer.Option(
        help="What weights are held in; auto: bfloat16 for a model of over two billion parameters that is stored in "
        "half precision, else float32."
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
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Pretrained = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="pretrained=PATH: what the model was fine-tuned from, unless the manifest says it (for intents and slots "
        "the model itself, and for an adapter its folder: settings alone are read); with defend also baselines=PATH.",
    ),
]


def _set_plain(_context: click.Context, _param: click.Parameter, given: bool) -> None:
    console.set_plain(given)


def _plain_option() -> TyperOption:
    """The option --plain, which every command has."""
    return TyperOption(
        param_decls=["--plain"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_set_plain,
        help="Print for a log: no colours, no bars, a line of progress every ten seconds. Usual where standard error "
        "is no terminal, and with NO_COLOR, CI or TERM=dumb.",
    )


class ProseCommand(TyperCommand):
    """A command whose help is folded to the terminal, whatever the lines of its docstring; it has --plain."""

    def __init__(
        self, name: str | None, *, help: str | None = None, params: list[click.Parameter] | None = None, **more: Any
    ) -> None:
        paragraphs = inspect.cleandoc(help or "").split("\n\n")
        told = "\n\n".join(" ".join(part.split()) for part in paragraphs)
        super().__init__(name, help=told, params=[*(params or ()), _plain_option()], **more)


class FilledCommand(ProseCommand):
    """A command that says what is registered: it asks only when it is called, so that the others start without that.

    Attributes:
        choice: the type of a parameter with choices.
    """

    choice: ClassVar[type[click.Choice[str]]] = click.Choice

    def choices(self) -> Mapping[str, Sequence[str]]:
        """The values that a parameter can take, by the parameter's name."""
        return {}

    def fillings(self) -> Mapping[str, str]:
        """The text that the help has in place of each "{NAME}", by NAME."""
        return {}

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """See `click.Command.make_context`."""
        choices, fillings = self.choices(), self.fillings()
        for param in self.params:
            if param.name in choices:
                param.type = self.choice(choices[param.name])
            if isinstance(param, TyperArgument | TyperOption):
                param.help = _fill(param.help, fillings)
                if isinstance(param.show_default, str):
                    param.show_default = _fill(param.show_default, fillings) or ""
        self.help = _fill(self.help, fillings)
        return super().make_context(*given, **more)


def _fill(text: str | None, fillings: Mapping[str, str]) -> str | None:
    for name, filling in fillings.items():
        text = text and text.replace(f"{{{name}}}", filling)
    return text


class DefenseCommand(FilledCommand):
    """A command about countermeasures, with the registered ones in its choices and its help."""

    def choices(self) -> Mapping[str, Sequence[str]]:
        """See `FilledCommand.choices`."""
        from audit.defenses.registry import DEFENSES

        return {"countermeasure": tuple(DEFENSES)}

    def fillings(self) -> Mapping[str, str]:
        """See `FilledCommand.fillings`."""
        from audit.attacks import BATTERY
        from audit.attacks.description import describe
        from audit.defenses import registry

        asked, rewritten = list(registry.query_defenses()), list(registry.data_defenses())
        kinds = [
            f"{listed(asked, 'and')} change the question while the model is used.",
            f"Others train a model again: {'; '.join(_trained(True))}; each beside baselines trained the same way.",
            *(f"{one}, beside the references as they are." for one in _trained(False)),
            *(
                f"{name} writes a copy of a data set {defense.description}, and says what that hides from an attacker "
                "who knows of it."
                for name, defense in registry.data_defenses().items()
            ),
        ]
        return {
            "attacks": listed([kind.name for kind in describe(BATTERY)], "or"),
            "kinds": " ".join(kinds),
            "while_used": listed(asked, "or"),
            "data_alone": f"{listed(rewritten, 'and')} {'take' if rewritten[1:] else 'takes'} DATA_DIR alone.",
        }


def _trained(baselines_like: bool) -> Iterator[str]:
    """Countermeasures that train, with the model that each trains."""
    from audit.defenses import registry

    for name, defense in registry.training_defenses().items():
        if defense.baselines_like == baselines_like:
            yield f"{name}: {defense.description}"


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str | None) -> float | None:
    """Read the time of `--time`.

    Raises:
        UsageError: it is none.
    """
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * _UNITS[unit]
        if not 0 < seconds < float("inf"):
            raise ValueError
    except (ValueError, KeyError):
        raise UsageError(f"--time {text}: no time", "a number with s, m or h, as 30m") from None
    return seconds


def named_paths(pairs: Sequence[str] | None) -> dict[str, list[Path]]:
    """Read the folders of `--reference NAME=PATH`, by name.

    Raises:
        UsageError: one is not written so.
    """
    named: dict[str, list[Path]] = {}
    for pair in pairs or ():
        name, separator, path = pair.partition("=")
        if not separator or not name or not path:
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
"""What libraries say in an error of another kind, while they are loaded or compute."""


def _lacks_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(said in str(error).lower() for said in _NO_MEMORY)


@contextmanager
def show_errors(debug: bool) -> Iterator[None]:
    """Known errors, and packages that are missing, become a line each and their exit code.

    Anything else is a bug and keeps its traceback.
    """
    try:
        yield
    except DocauditError as error:
        if debug:
            traceback.print_exc()
        console.show_error(error)
        raise typer.Exit(error.exit_code) from None
    except ModuleNotFoundError as error:
        package, _, _ = (error.name or "").partition(".")
        if debug or package in ("", "audit"):
            raise
        console.show_error(EngineError(f"{package} is not installed", "install docaudit with all that it needs"))
        raise typer.Exit(EngineError.exit_code) from None
    except (MemoryError, ImportError, RuntimeError) as error:
        if debug or not _lacks_memory(error):
            raise
        console.show_error(EngineError("there is not enough memory", "give it more, or stop what else takes it"))
        raise typer.Exit(EngineError.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; run the same command again to go on\n")
        raise typer.Exit(130) from None
