"""Keep what was made under a name of its content: data sets, trained models, numbers of direct attacks, scans."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

from audit.corpus.documents import Document, Split
from audit.corpus.manifest import lines_of

KEY_LENGTH = 12
"""Hexadecimal digits of a key."""


def key_of(*parts: Any) -> str:
    """Digest values that JSON can hold, and dataclasses of them, into a key.

    Args:
        *parts: what the thing follows from.
    """
    text = json.dumps(parts, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def _plain(value: Any) -> Any:
    """Return a value as JSON takes it: a dataclass as a table, all else as text."""
    if is_dataclass(value):
        return asdict(value)  # type: ignore[arg-type]
    return str(value)


def digest(documents: Sequence[Document]) -> str:
    """Digest the content of documents, in their order."""
    return hashlib.sha256(lines_of(documents)).hexdigest()


def digest_of_files(paths: Iterable[Path], root: Path) -> str:
    """Digest files with their places below `root`."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(str(path.relative_to(root)).encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def on_sides(sides: Mapping[Split, Sequence[Document]]) -> list[Document]:
    """Return the documents of all sides, each with its side as its split."""
    documents: list[Document] = []
    for split, side in sides.items():
        documents += [replace(document, split=split) for document in side]
    return documents


class Store:
    """A folder of folders and numbers, each made once.

    Args:
        root: the folder; it may be deleted at any time.
    """

    def __init__(self, root: Path) -> None:
        """Take the folder that results are kept in."""
        self.root = root

    def folder(self, kind: str, name: str, key: str, make: Callable[[Path], object]) -> Path:
        """Return the folder of this content; make it beside its place where it is missing.

        Args:
            kind: "data", "models" or "scans".
            name: for people.
            key: of the content.
            make: fills an absent folder.
        """
        place = self.root / kind / f"{name}-{key}"
        if place.exists():
            return place
        draft = place.with_name(f".{place.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.parent.mkdir(parents=True, exist_ok=True)
        make(draft)
        draft.rename(place)
        return place

    def numbers(self, key: str, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the numbers of this key; measure them where they are missing."""
        place = self.root / "numbers" / f"{key}.json"
        if place.exists():
            return dict(json.loads(place.read_text(encoding="utf-8")))
        measured = measure()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(measured) + "\n", encoding="utf-8")
        return measured
