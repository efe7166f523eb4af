"""A small source of each format on disk, imported as a data set or refused."""

import time
from pathlib import Path
from typing import Any

from commands import docaudit
from hostile_sources import SOURCES

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Split
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

ALL: dict[Split, float] = {"member": 1.0}


def lay_out(kind: str, folder: Path) -> Path:
    """Write the source of a kind into a new folder."""
    folder.mkdir()
    SOURCES[kind](folder)
    return folder


def convert(
    kind: str, src: Path, dst: Path, shares: dict[Split, float] = ALL, **more: Any
) -> tuple[Document, ...]:
    """Import a source, and return its documents."""
    FORMATS[kind.split()[0]].convert(ImportRequest(src, dst, shares, 1, **more))
    return manifests.load(dst).documents


def refused(kind: str, src: Path) -> str:
    """Return what the command prints on a source that it must refuse.

    Fail where it is accepted, takes long or leaves something.
    """
    before = sorted(src.parent.iterdir())
    start = time.process_time()
    arguments = ["import", kind.split()[0], str(src), str(src.parent / "out")]
    result = docaudit(*arguments, terminal_width=1000)
    assert result.exit_code == 2, (result.output, result.exception)
    assert time.process_time() - start < 10
    assert sorted(src.parent.iterdir()) == before
    return result.output
