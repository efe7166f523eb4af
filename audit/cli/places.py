"""The first step of every command: what was given as its model and its data set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from audit.cli import console
from audit.cli.options import named_paths, show_errors
from audit.errors import TargetError, UsageError
from audit.parts import require_models

FORMS = {
    "scan": "docaudit scan {model} {data}",
    "forget_check": "docaudit forget-check {model} {data} --ids FILE",
    "defend": "docaudit defend COUNTERMEASURE {model} {data}",
    "inspect": "docaudit inspect {model} {data}",
    "plan": "docaudit plan {model} {data}",
    "references": "docaudit references {model} {data}",
    "gate": "docaudit gate RECORD --model {model} --data {data}",
    "verify": "docaudit verify RECORD --model {model} --data {data}",
    "ocr": "docaudit ocr {data}",
    "insert": "docaudit canary insert {data} OUT",
}
"""How a command is written, by the name of its function; the others take neither."""
MANIFEST = "manifest.toml"
COMPARE = ("gate", "verify")
"""Those that compare the files of a model and never open it."""
ALWAYS_OPEN = ("demo", "fix", "init", "plan")
"""Those that open or size a model, whatever they are given."""
WRITE = ("scan", "forget_check", "defend", "references", "plan")
"""Those that look at where they write before they miss a model or a data set."""


class Places(NamedTuple):
    """What a command was given.

    Attributes:
        model: its model; None where it was given none.
        data: its data set; None where it was given none.
    """

    model: Path | None
    data: Path | None


def recognising(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that first looks at what it was given, before torch is imported."""
    if function.__name__ not in (*FORMS, *ALWAYS_OPEN):
        return function

    @wraps(function)
    def command(**options: Any) -> Any:
        """Check the model and the data set, then run the command."""
        with show_errors():
            if function.__name__ in ALWAYS_OPEN:
                require_models()
            if function.__name__ in FORMS:
                _check(options, function.__name__)
        return function(**options)

    vars(command)["__signature__"] = inspect.signature(function, eval_str=True)
    return command


def _check(options: Mapping[str, Any], name: str) -> None:
    """Check the model and the data set among the options of the command of this name."""
    places = _places_in(options)
    if places == Places(None, None):
        return
    # Imported late: help and other commands do without.
    from audit.workflows.places import check_places, is_there, refusal_of_export

    _check_written(options)
    model = places.model
    data = places.data
    if name in WRITE and model is not None and not is_there(model):
        model = None
    if name in WRITE and data is not None and not is_there(data):
        data = None
    references = named_paths(options.get("reference"))
    try:
        check_places(model, data, references, FORMS[name], opens=name not in COMPARE)
    except TargetError as error:
        derived_from = options.get("derived_from")
        if derived_from is None:
            raise
        raise refusal_of_export(error, data, derived_from) from None


def _check_written(options: Mapping[str, Any]) -> None:
    """Refuse to write into the model or the data set; a folder that is not used may be anything."""
    written = options.get("out")
    if written is None or not options.get("train", True):
        return
    from audit.workflows.apart import refuse_audited

    refuse_audited("--out", written)


def _places_in(options: Mapping[str, Any]) -> Places:
    """Return the model and the data set among the options of a command.

    Neither where the number of folders is wrong, which the command itself refuses.
    """
    folders = options.get("folders")
    if folders is None:
        model = options.get("model") or options.get("model_dir")
        return Places(model, options.get("data") or options.get("data_dir"))
    if options.get("no_model") or options.get("checkpoints") is not None:
        return Places(None, _only_folder(folders))
    model = options.get("model")
    if "model" in options and len(folders) == 1:
        return Places(model, folders[0])
    if model is None and len(folders) == 2:
        return Places(*folders)
    return Places(None, None)


def _only_folder(folders: Sequence[Path]) -> Path | None:
    """Return the folder where there is no other; None of several."""
    if len(folders) != 1:
        return None
    return folders[0]


def split_places(
    command: str, folders: Sequence[Path], model: Path | None
) -> tuple[Path | None, Path]:
    """Return the model and the data set of a command that takes [MODEL_DIR] DATA_DIR.

    Args:
        command: name of the command.
        folders: arguments of the command.
        model: what `--model` names, the way of earlier versions.

    Raises:
        UsageError: the number of folders is wrong.
    """
    form = f"docaudit {command} [MODEL_DIR] DATA_DIR"
    if model is not None and len(folders) == 1:
        console.note(f"--model is the old way: write docaudit {command} MODEL_DIR DATA_DIR")
        return model, folders[0]
    if model is not None:
        raise UsageError("--model names a second model", form)
    if len(folders) > 2:
        raise UsageError(f"{command} takes two folders at most, not {len(folders)}", form)
    if len(folders) == 2:
        return folders[0], folders[1]
    return None, folders[0]


def in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `references` with its model first, which takes the order of earlier versions too."""
    if function.__name__ != "references":
        return function

    @wraps(function)
    def command(model_dir: Path, data_dir: Path, **options: Any) -> Any:
        """Swap the two folders where the data set comes first, then run the command."""
        if (model_dir / MANIFEST).is_file() and not (data_dir / MANIFEST).is_file():
            console.note("the model comes first now: write docaudit references MODEL_DIR DATA_DIR")
            model_dir, data_dir = data_dir, model_dir
        return function(model_dir=model_dir, data_dir=data_dir, **options)

    return command
