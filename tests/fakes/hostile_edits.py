"""Edits of files: of what a file says, of its text, of its bytes, of what kind of file it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile_pictures
import tomli_w
from hostile_values import Raw

_MARK = "hostile-raw-{}"


_MOST_ALIKE = 24
"""Entries of a dictionary or list that are edited: a vocabulary of thousands would keep edits from all else."""
LARGEST = 2**21
"""Bytes of a file that is edited, and about what an edit adds: data that memory cannot hold is no finding."""


@dataclass(frozen=True)
class Edit:
    """An edit of one of several files.

    Attributes:
        file: its number among them.
        kind: one of `TREE`, `TEXT`, `BYTES`, `FILES`, or picture.
        where: a place in it: a node of its tree, a line, a byte; counted from the start again beyond the end.
        value: what is put there, where the kind puts something there.
    """

    file: int
    kind: str
    where: int = 0
    value: Any = None

    def apply(self, files: Sequence[Path]) -> None:
        """Edit the file; as often as not what comes of it is no valid file."""
        path = files[self.file % len(files)]
        if not path.is_file() or path.is_symlink() or path.stat().st_size > LARGEST:
            return
        if self.kind in TREE:
            _edit_tree(path, self)
        elif self.kind in TEXT:
            _edit_text(path, self)
        elif self.kind in BYTES:
            path.write_bytes(BYTES[self.kind](path.read_bytes(), self.where, self.value))
        elif self.kind == "picture":
            path.write_bytes(hostile_pictures.picture(self.where, self.value))
        else:
            FILES[self.kind](path, files)


# What a file says


@dataclass(frozen=True)
class Node:
    """A place in a tree of dictionaries and lists."""

    parent: Any
    key: Any

    @property
    def value(self) -> Any:
        """What stands there."""
        return self.parent[self.key]


def nodes(tree: Any, most: int | None = None) -> list[Node]:
    """The places of a tree, outer ones first; of each dictionary and list the first `most`, None: all."""
    found: list[Node] = []
    waiting = [tree]
    while waiting:
        parent = waiting.pop()
        keys: Sequence[Any] = (
            list(parent) if isinstance(parent, dict) else range(len(parent)) if isinstance(parent, list) else ()
        )
        for key in keys[:most]:
            found.append(Node(parent, key))
            waiting.append(parent[key])
    return found


def _delete(node: Node, _tree: Any, _value: Any) -> None:
    del node.parent[node.key]


def _replace(node: Node, _tree: Any, value: Any) -> None:
    node.parent[node.key] = value


def _rename(node: Node, _tree: Any, value: Any) -> None:
    if isinstance(node.parent, dict):
        node.parent[value if isinstance(value, str) else str(type(value))] = node.parent.pop(node.key)


def _add(node: Node, _tree: Any, value: Any) -> None:
    if isinstance(node.parent, dict):
        node.parent["unknown"] = value
    else:
        node.parent.insert(node.key, value)


def _wrap(node: Node, _tree: Any, _value: Any) -> None:
    node.parent[node.key] = [node.value]


def _repeat(node: Node, _tree: Any, value: Any) -> None:
    """More of the same: entries of a list, or letters of a text."""
    if isinstance(node.value, list | str):
        most = max(2, LARGEST // max(len(json.dumps(node.value, default=str)), 1))
        node.parent[node.key] = node.value * (2 if not isinstance(value, int) else min(abs(value), 2_000, most))
    elif isinstance(node.parent, list):
        node.parent.append(node.value)


def _copy(node: Node, tree: Any, value: Any) -> None:
    """What stands elsewhere in the same file."""
    others = nodes(tree)
    other = others[hash(repr(value)) % len(others)] if not isinstance(value, int) else others[value % len(others)]
    node.parent[node.key] = json.loads(json.dumps(other.value, default=str))


def _negate(node: Node, _tree: Any, _value: Any) -> None:
    if isinstance(node.value, int | float):
        node.parent[node.key] = not node.value if isinstance(node.value, bool) else -node.value
    elif isinstance(node.value, list):
        node.value.reverse()


TREE: Mapping[str, Callable[[Node, Any, Any], None]] = {
    "delete": _delete,
    "replace": _replace,
    "same type": _replace,
    "rename": _rename,
    "add": _add,
    "wrap": _wrap,
    "repeat": _repeat,
    "copy": _copy,
    "negate": _negate,
}


def _edit_tree(path: Path, edit: Edit) -> None:
    try:
        tree = _read(path)
        places = nodes(tree, _MOST_ALIKE)
        node = places[edit.where % len(places)]
        value = edit.value
        if edit.kind == "same type":
            value = value[_type_of(node.value)]
        TREE[edit.kind](node, tree, value)
        path.write_bytes(_written(path, tree).encode("utf-8", "surrogatepass"))
    except (ValueError, TypeError, KeyError, RecursionError, ZeroDivisionError, AttributeError, OverflowError):
        return  # no such file any more, after an earlier edit, or nothing that the format can say


def _type_of(value: Any) -> str:
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("str", str)):
        if isinstance(value, kind):
            return name
    return "other"


def _read(path: Path) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(path.read_text())
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if path.suffix == ".safetensors":
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        return json.loads(content[8 : 8 + length])
    return json.loads(path.read_text())


def _written(path: Path, tree: Any) -> str:
    raws: list[str] = []
    marked = _without_raw(tree, raws)
    if path.suffix == ".toml":
        text = tomli_w.dumps(marked)
    elif path.suffix == ".jsonl":
        text = "".join(json.dumps(row) + "\n" for row in marked)
    elif path.suffix == ".safetensors":
        header = json.dumps(marked)
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        return (struct.pack("<Q", len(header)) + header.encode() + content[8 + length :]).decode("latin-1")
    else:
        text = json.dumps(marked)
    for number, raw in enumerate(raws):
        text = text.replace(f'"{_MARK.format(number)}"', raw)
    return text


def _without_raw(value: Any, raws: list[str]) -> Any:
    if isinstance(value, Raw):
        raws.append(value.text)
        return _MARK.format(len(raws) - 1)
    if isinstance(value, dict):
        return {key: _without_raw(inner, raws) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_raw(inner, raws) for inner in value]
    return value


# Its text


def _number(text: str, where: int, value: Any) -> str:
    found = list(re.finditer(r"-?\d+(\.\d+)?", text))
    if not found:
        return text
    one = found[where % len(found)]
    return text[: one.start()] + str(value) + text[one.end() :]


def _lines(change: Callable[[list[str], int, Any], None]) -> Callable[[str, int, Any], str]:
    def changed(text: str, where: int, value: Any) -> str:
        lines = text.splitlines(keepends=True)
        if lines:
            change(lines, where % len(lines), value)
        return "".join(lines)

    return changed


TEXT: Mapping[str, Callable[[str, int, Any], str]] = {
    "number": _number,
    "delete line": _lines(lambda lines, at, _: lines.pop(at)),
    "double line": _lines(lambda lines, at, _: lines.insert(at, lines[at])),
    "move line": _lines(lambda lines, at, _: lines.append(lines.pop(at))),
    "insert": lambda text, at, value: text[: at % (len(text) + 1)] + value + text[at % (len(text) + 1) :],
    "overwrite": lambda text, at, value: text[: at % (len(text) + 1)] + value + text[at % (len(text) + 1) + 1 :],
    "cut text": lambda text, at, _: text[: at % (len(text) + 1)],
}


def _edit_text(path: Path, edit: Edit) -> None:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    path.write_bytes(TEXT[edit.kind](text, edit.where, edit.value).encode("utf-8", "surrogatepass"))


# Its bytes


def _flip(content: bytes, at: int, value: Any) -> bytes:
    if not content:
        return b"\xff"
    at %= len(content)
    return content[:at] + bytes([content[at] ^ (1 + abs(value) % 255)]) + content[at + 1 :]


def _encoded(content: bytes, at: int, _value: Any) -> bytes:
    text = content.decode("latin-1")
    return text.encode(("utf-16", "utf-32", "utf-8", "utf-8-sig", "utf-7")[at % 5])


BYTES: Mapping[str, Callable[[bytes, int, Any], bytes]] = {
    "flip": _flip,
    "flip near the start": lambda content, at, value: _flip(content, at % 64, value),
    "cut": lambda content, at, _: content[: at % (len(content) + 1)],
    "zeros": lambda content, at, _: content[: at % (len(content) + 1)] + bytes(64),
    "encode": _encoded,
    "empty": lambda *_: b"",
    "long": lambda content, *_: content * 20,
}


# What kind of file it is


def _instead(make: Callable[[Path], object]) -> Callable[[Path, Sequence[Path]], None]:
    def edited(path: Path, _: Sequence[Path]) -> None:
        path.unlink()
        make(path)

    return edited


def _of_another(path: Path, files: Sequence[Path]) -> None:
    other = next((one for one in files if one != path and one.is_file()), path)
    if other != path:
        shutil.copyfile(other, path)


FILES: Mapping[str, Callable[[Path, Sequence[Path]], None]] = {
    "missing": _instead(lambda _: None),
    "folder": _instead(os.mkdir),
    "pipe": _instead(os.mkfifo),
    "link to nothing": _instead(lambda path: path.symlink_to("nothing")),
    "link to itself": _instead(lambda path: path.symlink_to(path.name)),
    "link out": _instead(lambda path: path.symlink_to("/etc/passwd")),
    "device": _instead(lambda path: path.symlink_to("/dev/zero")),
    "of another": _of_another,
}
