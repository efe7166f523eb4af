"""The first step of every command: what was given as its model and its data set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from audit.cli.options import named_paths, show_errors
from audit.parts import require_models

FORMS = {
    "scan": "docaudit scan {model} {data}",
    "forget_check": "docaudit forget-check {model} {data} --ids FILE",
    "defend": "docaudit defend COUNTERMEASURE {model} {data}",
    "inspect": "docaudit inspect {data} --model {model}",
    "plan": "docaudit plan {data} --model {model}",
    "references": "docaudit references {data} {model}",
    "gate": "docaudit gate RECORD --model {model} --data {data}",
    "verify": "docaudit verify RECORD --model {model} --data {data}",
    "ocr": "docaudit ocr {data}",
    "insert": "docaudit canary insert {data} OUT",
}
"""How a command is written, by the name of its function; the others take neither."""
COMPARE = ("gate", "verify")
"""Those that compare the files of a model and never open it."""
ALWAYS_OPEN = ("demo", "fix", "init", "plan")
"""Those that open or size a model, whatever they are given."""
WRITE = ("scan", "forget_check", "defend", "references")
"""Those that look at where they write before they miss a model that is not there."""


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
    from audit.workflows.places import check_places, is_there

    _check_written(options)
    model = places.model
    if name in WRITE and model is not None and not is_there(model):
        model = None
    references = named_paths(options.get("reference"))
    check_places(model, places.data, references, FORMS[name], opens=name not in COMPARE)


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
    takes_data_alone = options.get("no_model") or options.get("checkpoints") is not None
    if takes_data_alone and len(folders) == 1:
        return Places(None, folders[0])
    if not takes_data_alone and len(folders) == 2:
        return Places(*folders)
    return Places(None, None)
