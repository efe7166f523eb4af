"""Places that a command must not write into: what is audited stays as it is."""

from __future__ import annotations

from pathlib import Path

from audit.errors import UsageError
from audit.workflows import wording

MARKS = {"MODEL_DIR": ("config.json", "adapter_config.json"), "DATA_DIR": ("manifest.toml",)}
"""Files of which such a folder has one."""


def refuse_audited(option: str, written: Path) -> None:
    """Refuse to write into a model or a data set, wherever it lies around the place.

    Args:
        option: option that names what is written.
        written: file or folder that is written.

    Raises:
        UsageError: it is, or lies in, a folder of one.
    """
    place = written.resolve()
    for folder in (place, *place.parents):
        if (folder / "manifest.toml").is_file() and (folder / "documents.jsonl").is_file():
            refuse_inside("DATA_DIR", folder, option, written)
        if any(folder.glob("*.safetensors")):
            refuse_inside("MODEL_DIR", folder, option, written)


def refuse_inside(name: str, folder: Path, option: str, written: Path) -> None:
    """Refuse to write into a folder that is audited.

    Args:
        name: name of the argument that names the folder.
        folder: folder of a model, or of a data set; anything else is refused when it is opened.
        option: option that names what is written.
        written: folder that is written into.

    Raises:
        UsageError: it is the other one, or lies in it.
    """
    if not any(Path(folder, file).is_file() for file in MARKS[name]):
        return
    if written.resolve() == folder.resolve():
        raise UsageError(*wording("written_into", option=option, written=written, name=name))
    if written.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            *wording("written_inside", option=option, written=written, name=name, path=folder)
        )
