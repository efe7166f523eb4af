"""The format that a folder looks like, told by names of files and folders and by the keys of one record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

MAX_BYTES = 50_000_000
"""Larger JSON files are not read to guess a format (ours)."""
MAX_LOOKED_AT = 2_000
"""Files and folders of a source that are looked at (ours)."""
_IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")


def guess_format(path: Path) -> str | None:
    """Return the name of the import format that a folder or file looks like; None where it looks like none.

    Only formats that can be imported are named. A guess is a suggestion: the import checks what it reads.
    """
    # Importers are many and heavy, and most guesses end before one is needed.
    from audit.importers.registry import FORMATS

    return next((name for name, fits in _SHAPES.items() if name in FORMATS and fits(path)), None)


def suggest_import(name: str, path: Path) -> str:
    """The arguments of the import of a folder that looks like a format; its own parts where it has two.

    FUNSD's importer reads one folder of annotations: others are read as forms.
    """
    if name == "funsd" and not (path / "annotations").is_dir():
        name = "forms"
    parts = [_part(path, beginnings, name) for beginnings in (("train",), ("test", "val", "dev", "heldout"))]
    if name not in ("forms", "chat", "hf") or None in parts:
        return f"{name} {path} DATA_DIR"
    return f"{name} {parts[0]} DATA_DIR --heldout-from {parts[1]}"


def _part(path: Path, beginnings: tuple[str, ...], name: str) -> Path | None:
    """The one folder, or file of conversations, that is called after a part; None where there is none or several."""
    found = [
        own
        for own in (path.iterdir() if path.is_dir() else ())
        if own.name.lower().startswith(beginnings)
        and (own.is_dir() if name != "chat" else own.suffix in (".json", ".jsonl"))
    ]
    return found[0] if len(found) == 1 else None


def _has(path: Path, *names: str) -> bool:
    """Test whether all of these are there, in the folder or together in one below it."""
    return path.is_dir() and any(all((own / name).exists() for name in names) for own in (path, *_folders(path)))


def _folders(path: Path) -> list[Path]:
    return sorted(own for own in islice(path.iterdir(), MAX_LOOKED_AT) if own.is_dir())


def _names(path: Path, *patterns: str) -> list[Path]:
    """Files with one of these names, in the folder or in one below it; the file itself where `path` is one."""
    if not path.is_dir():
        return [path] if path.is_file() and any(path.match(pattern) for pattern in patterns) else []
    found = (own for pattern in patterns for depth in ("", "*/") for own in path.glob(depth + pattern))
    return sorted(own for own in islice(found, MAX_LOOKED_AT) if own.is_file())


def _first_record(path: Path) -> Any:
    """The first object of a JSON-lines file, or the content of a JSON file; None where there is none to read."""
    try:
        if path.suffix == ".jsonl":
            with path.open(encoding="utf-8") as stream:
                return json.loads(stream.readline(MAX_BYTES))
        if path.stat().st_size > MAX_BYTES:
            return None
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _records(path: Path, *patterns: str) -> Iterator[Mapping[str, Any]]:
    """One object of each of the first few files: the file's own, or the first of its list."""
    for own in islice(_names(path, *patterns), 5):
        content = _first_record(own)
        first = content[0] if isinstance(content, list) and content else content
        if isinstance(first, dict):
            yield first


def _keys(*wanted: str, patterns: tuple[str, ...] = ("*.json",)) -> Callable[[Path], bool]:
    """A test whether some record has all of these keys."""
    return lambda path: any({*wanted} <= {*record} for record in _records(path, *patterns))


def _forms(path: Path) -> bool:
    if not path.is_dir():
        return False
    return any((own / "images").is_dir() and _keys("form")(own / "annotations") for own in (path, *_folders(path)))


def _chat(path: Path) -> bool:
    return any({"messages", "conversations"} & {*record} for record in _records(path, "*.jsonl", "*.json"))


def _docvqa(path: Path) -> bool:
    for record in _records(path, "train*.json", "val*.json"):
        data = record.get("data")
        if isinstance(data, list) and data and isinstance(data[0], dict) and "questionId" in data[0]:
            return True
    return False


def _hugging_face(path: Path) -> bool:
    if _has(path, "dataset_info.json", "state.json") or _has(path, "dataset_dict.json"):
        return True
    return bool(_names(path, "*.parquet")) or bool(_names(path, "metadata.jsonl", "metadata.csv"))


def _texts_with_mentions(path: Path) -> bool:
    if _has(path, "texts.json", "mentions.json"):
        return True
    return any({"text", "annotations", "doc_id"} <= {*record} for record in _records(path, "echr_*.json"))


def _table(path: Path) -> bool:
    for own in _names(path, "*.csv"):
        try:
            with own.open(encoding="utf-8-sig") as stream:
                columns = {name.strip().strip('"').lower() for name in stream.readline(10_000).split(",")}
        except (OSError, UnicodeDecodeError):
            continue
        if {"key", "value"} <= columns:
            return True
    return False


def _hocr(path: Path) -> bool:
    return bool(_names(path, "*.hocr"))


def _alto(path: Path) -> bool:
    for own in islice(_names(path, "*.xml"), 3):
        try:
            with own.open("rb") as stream:
                head = stream.read(2_000).lower()
        except OSError:
            continue
        if b"<alto" in head:
            return True
    return False


def _pdf(path: Path) -> bool:
    return bool(_names(path, "*.pdf")) and not _names(path, *(f"*{suffix}" for suffix in _IMAGES))


_SHAPES: Mapping[str, Callable[[Path], bool]] = {
    "sroie": lambda path: _has(path, "img", "box", "key"),
    "snips": lambda path: bool(_names(path, "seq.in")) and bool(_names(path, "seq.out")),
    "tab": _texts_with_mentions,
    "docvqa": _docvqa,
    "pfl-docvqa": _keys("question", "image_name", "ocr_tokens", patterns=("*.json", "*.jsonl")),
    "funsd": _forms,
    "hf": _hugging_face,
    "coco": _keys("images", "annotations", "categories"),
    "label-studio": _keys("annotations", "data"),
    "doctr": _keys("pages"),
    "textract": _keys("Blocks"),
    "chat": _chat,
    "hocr": _hocr,
    "alto": _alto,
    "csv": _table,
    "pdf": _pdf,
}
"""By format, in the order in which they are tried: the more particular first."""
