"""The files beside a page: which of several has its words, and which has labels."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from audit.errors import ManifestError
from audit.files import table_beside
from audit.importers.files import read_text
from audit.importers.services.programs import LABELS, read_result, recognise

WORD_FILES: Mapping[str, Mapping[str, Any]] = table_beside(__file__, "word_files.toml")
"""The formats of word files, by name."""
CHOSEN = "pages with several word files, of which one was read"
"""Count of pages for the report."""


@dataclass(frozen=True)
class Layers:
    """The files beside a page.

    Attributes:
        words: paths of those that may have its words.
        labels: paths of those with labels, which become fields.
        n_left: how many others were left out: of no known program, or of another format.
    """

    words: Sequence[str]
    labels: Sequence[str] = ()
    n_left: int = 0


def layers_of(root: Path, paths: Sequence[str], format: str) -> Layers:
    """Return what each of several files beside a page is.

    Args:
        root: folder of the source.
        paths: paths of the files within it.
        format: format that the owner named; its files come first.
    """
    if len(paths) < 2:
        return Layers(paths)
    of_formats = defaultdict[str | None, list[str]](list)
    for path in paths:
        of_formats[_format_of(root / path)].append(path)
    n_unknown = len(of_formats.pop(None, ()))
    labels = of_formats.pop(LABELS.name, [])
    readable = list(chain.from_iterable(of_formats.values()))
    if not readable:
        return Layers(paths)
    words = of_formats[format] or readable
    return Layers(words, labels, n_unknown + len(readable) - len(words))


def _format_of(path: Path) -> str | None:
    """Return the format of a word file; None where it has none, `LABELS.name` for labels."""
    if path.suffix.lower() == ".json":
        return _format_of_json(path)
    for name, table in WORD_FILES.items():
        for pattern, content in table["marks"]:
            if PurePosixPath(path.name).match(pattern) and re.search(content, read_text(path)):
                return name
    return path.suffix.lower()


def _format_of_json(path: Path) -> str | None:
    """Return the format of a JSON file; None where no known program wrote it."""
    try:
        form = recognise(read_result(path))
    except ManifestError:
        return None
    if form is LABELS:
        return form.name
    if form is None or form.read is None:
        return None
    return form.format
