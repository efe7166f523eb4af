"""The files of a checkpoint's folder.

Which of them a loader reads, and which folders and links are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from audit.errors import TargetError
from audit.targets import TABLE, wording

_FILES = TABLE["files"]
OTHER_WEIGHTS = frozenset(_FILES["other_weights"])
CODE = frozenset({".py", ".so", ".pyc"})
SAFETENSORS = ".safetensors"
LEFT_OVER = (
    "training_args.bin",
    "optimizer.pt",
    "optimizer.bin",
    "scheduler.pt",
    "scaler.pt",
    "rng_state",
)
"""Beginnings of the names of files of a training that no model is loaded from."""
_INERT: Mapping[str, str] = _FILES["inert"]
"""Patterns of names of files that say nothing about what a checkpoint does, and why."""
_READ_FOLDERS: Mapping[str, str] = _FILES["read_folders"]
"""Folders inside a checkpoint's folder that transformers reads, and what they hold."""
_LEFT_FOLDERS: Mapping[str, str] = _FILES["left_folders"]
"""Patterns of names of folders inside a checkpoint's folder that no loader of it reads, and why."""


def files_of(folder: Path) -> dict[str, Path]:
    """Return by name the files that may decide what a checkpoint does; its sha256 covers them.

    Every file counts but those that `families.toml` knows to be inert, and code and weights that
    docaudit never loads (`unscanned_files` names these).

    Returns:
        Paths by name, as "config.json" or "additional_chat_templates/tools.jinja", in the order of
        the names.
    """
    files: dict[str, Path] = {}
    for inner in ("", *_READ_FOLDERS):
        place = folder / inner
        # A link to a folder is refused elsewhere, and never followed.
        if not place.is_dir() or (inner and place.is_symlink()):
            continue
        for path in place.iterdir():
            name = f"{inner}/{path.name}" if inner else path.name
            if is_hashed(name) and path.is_file():
                files[name] = path
    return dict(sorted(files.items()))


def is_hashed(name: str) -> bool:
    """Test by its name whether a file may decide what a checkpoint does.

    It is known by its path within the folder, as `files_of` writes it.
    """
    folder, _, file = name.rpartition("/")
    suffix = Path(file).suffix.lower()
    if suffix in CODE or suffix in OTHER_WEIGHTS:
        return False
    if folder:
        # Only names in the folder itself are known to be inert: in others transformers reads
        # whatever it finds.
        return folder in _READ_FOLDERS and suffix != SAFETENSORS
    return not any(fnmatchcase(file, pattern) for pattern in _INERT)


def unscanned_files(folder: Path) -> list[str]:
    """Return the names of weights and code in a folder that its sha256 does not cover.

    They are named by their paths within it.

    docaudit reads safetensors of the folder itself; another loader may take these instead.
    """
    hashed = {*files_of(folder).values()}
    loadable = OTHER_WEIGHTS | CODE | {SAFETENSORS}
    names = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in name.parts)
        if is_hidden or path in hashed or name.name.startswith(LEFT_OVER):
            continue
        if path.suffix.lower() in loadable and path.is_file():
            names.append(name.as_posix())
    return sorted(names)


def refuse_links(folder: Path) -> None:
    """Refuse a checkpoint's folder with a link out of it or to a folder, or with a pipe or device.

    What it leads to could decide what the model answers, and may change after it was hashed.

    Raises:
        TargetError: with the first of them.
    """
    for path in _entries(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            if _leads_outside(folder, path) or not path.is_file():
                raise TargetError(*wording("links_out", folder=folder, first=name))
        elif not (path.is_file() or path.is_dir()):
            raise TargetError(*wording("no_regular_file", folder=folder, first=name))


def refuse_unknown_folders(folder: Path, base: Path | None = None) -> None:
    """Refuse a checkpoint's folder with a folder in it whose purpose is not known.

    No hash would cover what it holds.

    Args:
        folder: the checkpoint or adapter.
        base: the folder of an adapter's base, which may lie inside the adapter's and is checked on
            its own.

    Raises:
        TargetError: with the first of them.
    """
    for path in _entries(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() and name not in _READ_FOLDERS and not _is_left(path, folder, base):
            raise TargetError(*wording("unknown_folder", folder=folder, first=name))


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the paths in a folder and in those folders inside it that transformers reads."""
    for path in sorted(folder.iterdir()):
        yield path
        if path.name in _READ_FOLDERS and path.is_dir() and not path.is_symlink():
            yield from sorted(path.iterdir())


def _is_left(path: Path, folder: Path, base: Path | None) -> bool:
    """Test whether a folder inside a checkpoint's may stay: unread, empty, or with the base.

    It is known to be read by nothing, is empty, or holds the base.
    """
    if path.parent == folder and any(fnmatchcase(path.name, pattern) for pattern in _LEFT_FOLDERS):
        return True
    if base is not None and base.resolve().is_relative_to(path.resolve()):
        return True
    with os.scandir(path) as entries:
        return next(entries, None) is None


def _leads_outside(folder: Path, path: Path) -> bool:
    """Test whether a link in the folder leads out of it.

    A snapshot in the Hub's cache may link to the blobs beside it.
    """
    try:
        root = folder.resolve()
        place = path.resolve()
    except (OSError, RuntimeError):  # a loop of symbolic links: RuntimeError before Python 3.13
        return True
    if place.is_relative_to(root):
        return False
    cache = root.parent.parent
    is_snapshot = root.parent.name == "snapshots" and cache.name.startswith("models--")
    return not (is_snapshot and place.is_relative_to(cache / "blobs"))
