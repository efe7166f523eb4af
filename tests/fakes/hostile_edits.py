"""Edits of files, drawn by Hypothesis: of what a file says, of its text, of its bytes, of what kind of file it is."""

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

import hostile_hub
import hostile_pictures
import hostile_tables
import tomli_w
from hypothesis import strategies as st

_MOST_ALIKE = 24
"""Entries of a dictionary or list that are edited: a vocabulary of thousands would keep edits from
all else."""
LARGEST = 2**21
"""Bytes of a file that is edited, and about what an edit adds: data that memory cannot hold is no
finding."""
TEXTS = (
    *(
        "",
        " ",
        "\x1b[2J\x1b[1;1HMET: exit code 0",
        "a\nMET\n",
        "\u202emet",
        "\u200b",
        "\ud800",
        "\0",
        "~",
    ),
    *(
        "../../../etc/passwd",
        "/etc/passwd",
        "C:\\x",
        "a/../..",
        "https://example.org/x",
        "{question}",
        "%s%n",
    ),
    *(
        "<script>alert(1)</script>",
        "'\"`$(id)",
        "nan",
        "1e999",
        "2026-13-45",
        "0000-00-00",
        "default",
    ),
    *(hostile_tables.MARK, f"http://[{hostile_tables.MARK}/a.png", f"../{hostile_tables.MARK}"),
    *("\u0130\u00df\ufb01", "x" * 5_000, "\u0301" * 300),
)
WHOLE = (0, -1, 1, 2, 7, 255, 256, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**30, 10**400)
REAL = (0.0, -0.0, 0.5, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"))
RAW = (
    *(
        "9" * 5_000,
        "1e999",
        "0x10",
        "00",
        "[" * 3_000 + "]" * 3_000,
        "[" * 100_000,
        "{" * 50_000,
        "inf",
        "'''",
    ),
    *('{"a":' * 3_000 + "1" + "}" * 3_000, "", ",", '"', "]", "}", "1979-05-27", "07:32:00"),
)
"""Texts that are written as they stand in place of a value, whether or not they are one."""
SNIPPETS = (
    *(
        "\0",
        "\ufeff",
        "\x1b[31m",
        "\u2028",
        "\r",
        "\t",
        '"',
        "\\",
        "\\ud800",
        "{",
        "[",
        "]]",
        "=",
        "#",
        ",",
        "<",
        "&",
    ),
    *(
        "&lol;",
        "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>",
        "%PDF-1.7",
        "[table]\n",
        "[[table]]\n",
    ),
    *("a.b.c.d = 1\n", "schema = 1\n", "9" * 400, "-1", "1e999", "nan"),
)


@dataclass(frozen=True)
class Raw:
    """A value that is written as it stands."""

    text: str


@dataclass(frozen=True)
class Edit:
    """An edit of one of several files.

    Attributes:
        file: its number among them.
        kind: one of `TREE`, `TEXT`, `BYTES`, `FILES`, or picture.
        where: a place in it: a node of its tree, a line, a byte; counted from the start again
            beyond the end.
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
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            path.write_bytes(
                TEXT[self.kind](text, self.where, self.value).encode("utf-8", "surrogatepass")
            )
        elif self.kind in BYTES:
            path.write_bytes(BYTES[self.kind](path.read_bytes(), self.where, self.value))
        elif self.kind == "picture":
            path.write_bytes(hostile_pictures.picture(self.where, self.value))
        elif self.kind in WRITTEN:
            WRITTEN[self.kind](path, self.where)
        else:
            FILES[self.kind](path, files)


WRITTEN: Mapping[str, Callable[[Path, int], None]] = {
    "table": hostile_tables.write_table,
    "template": hostile_tables.write_template,
    "hub": hostile_hub.write_plan,
}
"""What writes a whole file, by its kind."""


# What a file says. An edit gets the dictionary or list, the key in it, and a value.


def _nodes(tree: Any) -> list[tuple[Any, Any]]:
    """List the places of a tree, outer ones first.

    Of each dictionary and list the first `_MOST_ALIKE`.
    """
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        parent = waiting.pop()
        keys = (
            list(parent)
            if isinstance(parent, dict)
            else range(len(parent))
            if isinstance(parent, list)
            else ()
        )
        for key in keys[:_MOST_ALIKE]:
            found.append((parent, key))
            waiting.append(parent[key])
    return found


def _delete(parent: Any, key: Any, _value: Any) -> None:
    """Delete a key of a tree's node."""
    del parent[key]


def _replace(parent: Any, key: Any, value: Any) -> None:
    parent[key] = (
        value[_type_of(parent[key])] if isinstance(value, dict) and "other" in value else value
    )


def _rename(parent: Any, key: Any, value: Any) -> None:
    """Rename a key of a table to the value."""
    if isinstance(parent, dict):
        parent[value if isinstance(value, str) else str(type(value))] = parent.pop(key)


def _add(parent: Any, key: Any, value: Any) -> None:
    if isinstance(parent, dict):
        parent["unknown"] = value
    else:
        parent.insert(key, value)


def _repeat(parent: Any, key: Any, value: Any) -> None:
    """More of the same: entries of a list, or letters of a text."""
    own = parent[key]
    if isinstance(own, list | str):
        most = max(2, LARGEST // max(len(json.dumps(own, default=str)), 1))
        parent[key] = own * (2 if not isinstance(value, int) else min(abs(value), 2_000, most))
    elif isinstance(parent, list):
        parent.append(own)


def _negate(parent: Any, key: Any, _value: Any) -> None:
    """Negate a number or truth value, reverse a list, or wrap any other value in a list."""
    own = parent[key]
    if isinstance(own, int | float):
        parent[key] = not own if isinstance(own, bool) else -own
    elif isinstance(own, list):
        own.reverse()
    else:
        parent[key] = [own]


_TREE: Sequence[Callable[[Any, Any, Any], None]] = (
    _delete,
    _replace,
    _rename,
    _add,
    _repeat,
    _negate,
)
TREE = {edit.__name__[1:]: edit for edit in _TREE}


def _type_of(value: Any) -> str:
    kinds = (("bool", bool), ("int", int), ("float", float), ("str", str))
    return next((name for name, kind in kinds if isinstance(value, kind)), "other")


def _edit_tree(path: Path, edit: Edit) -> None:
    """Edit one place of a file's tree; do nothing where the format cannot say it."""
    try:
        tree = _read(path)
        places = _nodes(tree)
        TREE[edit.kind](*places[edit.where % len(places)], edit.value)
        path.write_bytes(_written(path, tree).encode("utf-8", "surrogatepass"))
    except (
        ValueError,
        TypeError,
        KeyError,
        RecursionError,
        ZeroDivisionError,
        AttributeError,
        OverflowError,
    ):
        return  # no such file any more, after an earlier edit, or nothing that the format can say


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
        return (struct.pack("<Q", len(header)) + header.encode() + content[8 + length :]).decode(
            "latin-1"
        )
    else:
        text = json.dumps(marked)
    for number, raw in enumerate(raws):
        text = text.replace(f'"hostile-raw-{number}"', raw)
    return text


def _without_raw(value: Any, raws: list[str]) -> Any:
    if isinstance(value, Raw):
        raws.append(value.text)
        return f"hostile-raw-{len(raws) - 1}"
    if isinstance(value, dict):
        return {key: _without_raw(inner, raws) for key, inner in value.items()}
    return [_without_raw(inner, raws) for inner in value] if isinstance(value, list) else value


# Its text


def _number(text: str, where: int, value: Any) -> str:
    found = list(re.finditer(r"-?\d+(\.\d+)?", text))
    if not found:
        return text
    one = found[where % len(found)]
    return text[: one.start()] + str(value) + text[one.end() :]


def _lines(change: Callable[[list[str], int], object]) -> Callable[[str, int, Any], str]:
    def changed(text: str, where: int, _: Any) -> str:
        lines = text.splitlines(keepends=True)
        if lines:
            change(lines, where % len(lines))
        return "".join(lines)

    return changed


TEXT: Mapping[str, Callable[[str, int, Any], str]] = {
    "number": _number,
    "delete line": _lines(lambda lines, at: lines.pop(at)),
    "double line": _lines(lambda lines, at: lines.insert(at, lines[at])),
    "move line": _lines(lambda lines, at: lines.append(lines.pop(at))),
    "insert": lambda text, at, value: (
        text[: at % (len(text) + 1)] + str(value) + text[at % (len(text) + 1) :]
    ),
    "cut text": lambda text, at, _: text[: at % (len(text) + 1)],
}


# Its bytes


def _flip(content: bytes, at: int, value: Any) -> bytes:
    if not content:
        return b"\xff"
    at %= len(content)
    return content[:at] + bytes([content[at] ^ (1 + abs(value) % 255)]) + content[at + 1 :]


def _encoded(content: bytes, at: int, _value: Any) -> bytes:
    return content.decode("latin-1").encode(
        ("utf-16", "utf-32", "utf-8", "utf-8-sig", "utf-7")[at % 5]
    )


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


# Drawn


_whole = st.sampled_from(WHOLE) | st.integers(-5, 5_000)
_real = st.sampled_from(REAL) | st.floats()
_words = st.sampled_from(TEXTS) | st.text(max_size=12)
_scalars = st.one_of(
    _whole, _real, _words, st.sampled_from((None, True, False)), st.sampled_from(RAW).map(Raw)
)
_keys = st.sampled_from(("id", "a", "text", "", "x\n"))
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner),
    max_leaves=5,
)
_odd = st.fixed_dictionaries(
    {"bool": st.booleans(), "int": _whole, "float": _real, "str": _words, "other": _values}
)
"""Values by the type of what they replace: what it takes to pass for it."""
_mild = st.fixed_dictionaries(
    {
        "bool": st.booleans(),
        "int": st.integers(0, 12) | st.integers(0, 5_000),
        "float": st.sampled_from((0.0, 1.0, 0.5, 1e-9, 1e9)) | st.floats(0, 1),
        "str": st.text(
            "abcABC0123 .,:/-\u00e9\u00df\u0130\u4e2d\u05d0\u0e01\U0001f600",
            min_size=1,
            max_size=30,
        ),
        "other": st.none(),
    }
)
"""Values by type that may well stand there."""


def _edits(
    kinds: Mapping[str, object] | Sequence[str], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[Edit]:
    places = st.integers(0, 100_000)
    return st.builds(Edit, places, st.sampled_from(sorted(kinds)), places, values)


def whole_files(kind: str) -> st.SearchStrategy[list[Edit]]:
    """Draw one edit that writes a whole file of this kind, "table", "template" or "hub"."""
    places = st.integers(0, 100_000)
    return st.lists(st.builds(Edit, places, st.just(kind), places), min_size=1, max_size=1)


def edits(trees: bool, pictures: bool) -> st.SearchStrategy[list[Edit]]:
    """Draw one to three edits.

    Half of those of trees leave a file that may well be taken, and says something odd.

    Args:
        trees: the files are JSON, TOML or safetensors.
        pictures: they are pictures.
    """
    small = st.integers(0, 500)
    kinds = [_edits(BYTES, small), st.builds(Edit, small, st.sampled_from(sorted(FILES)))]
    if trees:
        kinds += [_edits(TREE, _values), _edits(["replace"], _odd)] * 3
    if pictures:
        kinds += [_edits(["picture"], st.integers(0, 100_000))] * 2
    else:
        kinds += [_edits(TEXT, st.sampled_from(SNIPPETS)), _edits(["number"], _whole | _real)]
    rough = st.lists(st.one_of(*kinds), min_size=1, max_size=3)
    mild = st.lists(
        _edits(["replace"], _mild) | _edits(("delete", "repeat", "negate"), small),
        min_size=1,
        max_size=3,
    )
    return rough | mild if trees else rough
