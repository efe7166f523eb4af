"""Files of a data set that is handed out in folders of fixed names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from audit.errors import ManifestError, UsageError
from audit.importers.source import Source


def files_by_stem(source: Source, layouts: Sequence[Sequence[str]], suffixes: Sequence[str]) -> dict[str, Path]:
    """List the files with one of these suffixes in the first layout that a source has, by stem, sorted.

    Args:
        source: the folder.
        layouts: each the folders that hold the files in it; of a layout, those that exist are read.
        suffixes: in lower case, with their dots.

    Raises:
        UsageError: there is no such folder, or nothing in it.
        ManifestError: two files share a stem, or one leads out of the source through a symbolic link.
    """
    for layout in layouts:
        found: dict[str, Path] = {}
        problems = []
        for folder in layout:
            place = source.root / folder
            for path in sorted(place.iterdir()) if place.is_dir() else ():
                if path.suffix.lower() in suffixes:
                    if path.stem in found:
                        problems.append(f"{folder}/{path.name}: another file of this name is there")
                    found[path.stem] = source.at(f"{folder}/{path.name}")
        if problems:
            raise ManifestError(problems)
        if found:
            return found
    names = ", ".join(f"{folder}/" for layout in layouts for folder in layout)
    raise UsageError(
        f"{source.path} has no folder {names} with a file of type {', '.join(suffixes)}",
        "give the folder that holds it; pages in other folders: docaudit import forms, see --help",
    )
