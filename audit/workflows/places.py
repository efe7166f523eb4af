"""What a command was given as its model and its data set, asked before anything is loaded."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from audit.errors import TargetError, UsageError, command_line, typed
from audit.files import read_file, read_toml
from audit.parts import require_models
from audit.targets.places import MANIFEST, Place, base_refusal, what_is
from audit.workflows import wording

SCAN = "docaudit scan {model} {data}"
"""Form of a command whose places are checked."""
_ADDRESS = re.compile(r"https?://\S+/v1")
"""The address of a server in the hint to start one."""


def check_places(
    model: Path | None,
    data: Path | None,
    references: Mapping[str, Sequence[Path]] | None = None,
    form: str = SCAN,
    *,
    opens: bool = True,
) -> None:
    """Refuse a model that docaudit cannot open, and what is no data set.

    Neither torch nor transformers is imported.

    Args:
        model: model that a command was given; None: none.
        data: data set that it was given; None: none.
        references: folders of references by name; the base of an adapter may be among them.
        form: how the command is written, with {model} and {data}.
        opens: whether the model is opened; else its files alone are compared.

    Raises:
        TargetError: the model cannot be opened; with the way out.
        UsageError: this installation opens no models, the two are swapped, or the data set is a
            model.
        ManifestError: the data set has no folder, or no manifest.
    """
    place = None
    if model is not None:
        place = what_is(model)
    if data is not None:
        _refuse_as_data(data, place, form)
    if place is not None and (opens or place.kind not in ("adapter", "checkpoint")):
        _refuse_unopened(place, data, references or {}, form)
    if data is not None:
        # Imported late: it loads what checks documents, which a model alone does without.
        from audit.corpus.manifest import read_manifest

        read_manifest(data)


def _refuse_unopened(
    place: Place, data: Path | None, references: Mapping[str, Sequence[Path]], form: str
) -> None:
    """Refuse a model that this installation, or docaudit, does not open; see `check_places`."""
    if place.kind in ("adapter", "checkpoint"):
        require_models()
    refuse_model(place, data, form)
    if place.kind == "adapter":
        refused = base_refusal(place.path, _base_of(data, references))
        if refused is not None:
            raise TargetError(refused.problem, refused.hint)


def refuse_model(place: Place, data: Path | None, form: str) -> None:
    """Refuse what docaudit cannot audit as a model.

    Args:
        place: what the model is.
        data: data set or source beside it; None: none.
        form: how the command is written, with {model} and {data}.

    Raises:
        TargetError: it cannot be audited; with the way out.
    """
    if not place.problem:
        return
    hint = place.hint
    if place.instead is not None:
        source = data or Path("DATA_DIR")
        hint = form.format(model=quoted(place.instead), data=quoted(source))
    raise TargetError(place.problem, hint)


def refusal_of_export(error: TargetError, data: Path | None, derived_from: Path) -> TargetError:
    """Return the refusal of an export that docaudit does not open, with the scan of it served.

    Args:
        error: refusal of any such model.
        data: folder of the data set; None: none was given.
        derived_from: scan of the audited model.
    """
    address = _ADDRESS.search(error.hint)
    if address is None:
        return error
    words = [Path(address[0]), data or "DATA_DIR", "--derived-from", derived_from]
    command = command_line("scan", *words)
    (hint,) = wording("served_export", hint=error.hint, command=command)
    return TargetError(error.problems, hint)


def _refuse_as_data(data: Path, model: Place | None, form: str) -> None:
    """Refuse a model that was given as a data set, and name a swap of the two."""
    place = what_is(data)
    if not place.is_model or (data / MANIFEST).is_file():
        return
    if model is not None and model.kind == "data set":
        command = form.format(model=quoted(data), data=quoted(model.path))
        raise UsageError(*wording("swapped", model=model.path, data=typed(data), command=command))
    raise UsageError(*wording("model_as_data", data=typed(data)))


def _base_of(data: Path | None, references: Mapping[str, Sequence[Path]]) -> Path | None:
    """Return the base of an adapter that the command or the manifest names; None without one."""
    for path in references.get("pretrained", ()):
        return path
    if data is None:
        return None
    try:
        stated = read_toml(read_file(data / MANIFEST))["references"]["pretrained"]
        return data / str(stated)
    except (OSError, ValueError, LookupError, TypeError):
        # Whoever reads the manifest says what is wrong with it.
        return None


def is_there(path: Path) -> bool:
    """Test whether something lies at a path; a server is taken to be there."""
    return what_is(path).kind == "address" or path.exists()


def quoted(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(typed(path))
