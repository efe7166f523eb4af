"""A marked value is planted in every place of every format, and the source is broken: no message has the value."""

import copy
import csv
import io
import json
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import docaudit
from hostile_sources import SOURCES
from hostile_tables import MARK, write_table

from audit.corpus.documents import Split
from audit.errors import DocauditError
from audit.importers import interface
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.importers.source import Options

ALL: dict[Split, float] = {"member": 1.0}
TREES = (".json", ".jsonl")
TEXTS = (".csv", ".tsv", ".xml", ".hocr", ".txt", ".train", ".testa")
HIDING: tuple[Callable[[Any], Any], ...] = (
    lambda value: MARK,
    lambda value: [MARK],
    lambda value: {MARK: value},
    lambda value: f"http://[{MARK}/a.png",
    lambda value: f"../{MARK}/a.png",
    lambda value: [[{MARK: MARK}]] * 3,
)
"""What is put in the place of a value, with the mark as text, entry, key, address, path, and
deep."""
BREAKING: tuple[Any, ...] = (None, 5, [], {}, "", [None], 10**90)
"""What breaks a place, while all other texts of the file are marked."""
CASES_A_FILE = int(os.environ.get("DOCAUDIT_MARKED_CASES", "25"))


def places_in(tree: Any) -> list[tuple[Any, Any]]:
    """The dictionaries and lists of a tree, with each key in them."""
    places: list[tuple[Any, Any]] = []
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
        for key in keys:
            places.append((parent, key))
            waiting.append(parent[key])
    return places


def trees_of(path: Path) -> list[Any]:
    text = path.read_text()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return [json.loads(text)]


def written(path: Path, trees: list[Any]) -> str:
    separator = "\n" if path.suffix == ".jsonl" else ""
    return separator.join(json.dumps(tree) for tree in trees)


def hidden_in_trees(path: Path) -> Iterator[str]:
    """Contents of a file of JSON with the mark in one place, as a value or a key."""
    trees = trees_of(path)
    for number in range(len(places_in(trees))):
        for hiding in HIDING:
            changed = copy.deepcopy(trees)
            parent, key = places_in(changed)[number]
            parent[key] = hiding(parent[key])
            yield written(path, changed)
        changed = copy.deepcopy(trees)
        parent, key = places_in(changed)[number]
        if isinstance(parent, dict):
            parent[MARK] = parent.pop(key)
            yield written(path, changed)


def broken_trees(path: Path) -> Iterator[str]:
    """Contents of a file of JSON whose texts are all marked, and in which one place is broken."""
    trees = trees_of(path)
    for number in range(len(places_in(trees))):
        for value in BREAKING:
            changed = copy.deepcopy(trees)
            places = places_in(changed)
            for parent, key in places:
                if isinstance(parent[key], str) and len(parent[key]) > 1:
                    parent[key] = f"{parent[key]} {MARK}"
            parent, key = places[number]
            parent[key] = value
            yield written(path, changed)


def broken_texts(path: Path) -> Iterator[str]:
    """Contents of a table or a text with the mark in place of a line, a cell, a word or a number of it."""
    text = path.read_text()
    yield f"{MARK},{MARK} 2,{MARK} 3\n{text}"
    for match in re.finditer(r"[^\s,;<>\"'=|]+", text):
        for mark in (MARK, f"{match[0]}{MARK}", f"[{MARK}", ""):
            yield f"{text[: match.start()]}{mark}{text[match.end() :]}"
    rows = list(csv.reader(io.StringIO(text)))
    for number in range(len(rows)):
        stream = io.StringIO()
        csv.writer(stream).writerows(
            [*rows[:number], [MARK, *rows[number], MARK], *rows[number + 1 :]]
        )
        yield stream.getvalue()


def contents_of(path: Path, seed: str) -> list[str]:
    """Some broken contents of a file, always the same ones."""
    contents: list[str] = []
    if path.suffix in TREES:
        contents += hidden_in_trees(path)
        contents += broken_trees(path)
    elif path.suffix in TEXTS:
        contents += broken_texts(path)
    order = random.Random(seed)
    return order.sample(contents, min(CASES_A_FILE, len(contents)))


def refusal_of(format_name: str, src: Path, dst: Path) -> list[str]:
    """What the error of an import says; nothing where the source is taken."""
    try:
        FORMATS[format_name].convert(ImportRequest(src, dst, ALL, 1))
    except DocauditError as error:
        return error.lines
    return []


def scratch_within(place: Path) -> Callable[[], Any]:
    """What makes scratch folders without a process that watches over each."""

    @contextmanager
    def scratch() -> Iterator[Path]:
        folder = place / f"scratch{len(list(place.iterdir()))}"
        folder.mkdir()
        yield folder

    return scratch


@pytest.fixture
def src(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of a kind, which imports read without a process that watches over each scratch folder."""
    monkeypatch.setattr(interface, "PrivateFolder", scratch_within(tmp_path))
    folder = tmp_path / "src"
    folder.mkdir()
    SOURCES[kind](folder)
    return folder


@pytest.mark.parametrize("kind", ["hf parquet", "hf saved"])
def test_no_message_of_a_table_of_any_types_has_a_value(
    kind: str, src: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (path,) = [path for path in src.iterdir() if path.suffix in (".parquet", ".arrow")]
    n_refused = 0
    for seed in range(8 * CASES_A_FILE):
        write_table(path, seed)
        lines = refusal_of("hf", src, tmp_path / f"out{seed}")
        n_refused += bool(lines)
        assert MARK not in "\n".join(lines), seed
    printed = capfd.readouterr()
    assert MARK not in printed.out + printed.err
    assert 5 < n_refused < 8 * CASES_A_FILE, "some are taken and some refused"


@pytest.mark.parametrize("kind", SOURCES)
def test_no_message_of_a_broken_source_has_a_value(
    kind: str, src: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    format_name = kind.split()[0]
    n_refused = 0
    firsts = {(path.parent, path.suffix): path for path in sorted(src.rglob("*"), reverse=True)}
    for path in firsts.values():
        if path.suffix not in (*TREES, *TEXTS):
            continue
        intact = path.read_bytes()
        for number, content in enumerate(contents_of(path, kind)):
            path.write_text(content)
            lines = refusal_of(format_name, src, tmp_path / f"out{path.stem}{number}")
            n_refused += bool(lines)
            assert MARK not in "\n".join(lines), content
        path.write_bytes(intact)
    printed = capfd.readouterr()
    assert MARK not in printed.out + printed.err
    assert n_refused > 5 or kind in ("pdf", "hf parquet", "snips", "conll"), (
        "the test must reach what refuses"
    )


def test_a_table_without_a_head_is_refused_without_its_values(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "values.csv").write_text(f"p0.png,{MARK},{MARK}2\np1.png,total,9.00\n")
    result = docaudit("import", "csv", tmp_path / "src", tmp_path / "out")
    assert result.exit_code == 2
    assert "3 of names that docaudit does not know" in " ".join(result.output.split())
    assert MARK not in result.output


@pytest.mark.parametrize(
    "columns", ["image=text", "file=text", "question=image,answers=text", "label=text"]
)
def test_a_column_that_the_owner_takes_for_another_is_not_printed(
    columns: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    rows = [{"text": f"{MARK} lives in Ely", "image": "p.png", "answers": MARK} for _ in range(3)]
    (tmp_path / "src" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = docaudit("import", "hf", tmp_path / "src", tmp_path / "out", "--columns", columns)
    assert result.exit_code == 2, result.output
    assert MARK not in result.output


@pytest.mark.parametrize(
    "address", ["http://[bad/a.png", "http://a\u2100b.example/a.png", "https://[::1/a.png"]
)
@pytest.mark.parametrize("kind", ["hf", "chat", "label-studio", "csv", "coco"])
def test_an_address_that_is_none_is_refused_in_a_sentence(
    kind: str, address: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    SOURCES[kind](tmp_path / "src")
    for path in tmp_path.glob("src/*"):
        if path.suffix in (*TREES, ".csv"):
            path.write_text(re.sub(r"[\w/]*p\d\.png", address, path.read_text()))
    with pytest.raises(DocauditError) as caught:
        FORMATS[kind].convert(ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1))
    assert "the name of its image is neither a path nor an address" in str(caught.value)


def test_labels_that_are_lists_or_objects_are_named_by_their_type(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    rows = [{"words": ["a", "b"], "ner_tags": [tag, tag]} for tag in ([MARK], {MARK: 1})]
    (tmp_path / "src" / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DocauditError) as caught:
        FORMATS["hf"].convert(
            ImportRequest(tmp_path / "src", tmp_path / "out", ALL, 1, options=Options())
        )
    assert any(
        "ner_tags: a list is none of 0 names" in problem for problem in caught.value.problems
    )
    assert any(
        "ner_tags: an object is none of 0 names" in problem for problem in caught.value.problems
    )
