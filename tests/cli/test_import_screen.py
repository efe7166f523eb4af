"""What `docaudit import` and `inspect` print for a new user."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import docaudit
from PIL import Image


def forms(folder: Path, shades: Sequence[int]) -> Path:
    """Forms with a field each; equal shades are equal images."""
    for name in ("annotations", "images"):
        (folder / name).mkdir(parents=True)
    for number, shade in enumerate(shades):
        words = [{"text": f"NO. {number}", "box": [1, 1, 40, 9]}]
        item = {"id": 0, "label": "answer", "words": words, "linking": []}
        (folder / "annotations" / f"f{number}.json").write_text(json.dumps({"form": [item]}))
        Image.new("L", (60, 50), shade).save(folder / "images" / f"f{number}.png")
    return folder


def imported(source: Path) -> str:
    ran = docaudit("import", "funsd", source, source.parent / "out", terminal_width=80)
    assert ran.exit_code == 0, ran.output
    return ran.output


@pytest.mark.parametrize(
    ("shades", "text"),
    [
        ([0, 10, 20, 30, 40, 50], ""),
        ([0, 0, 20, 30, 40, 50], "groups of documents with the same image, never in two splits: 1"),
    ],
)
def test_documents_with_the_same_image_are_told_where_there_are_some(
    shades: Sequence[int], text: str, tmp_path: Path
) -> None:
    printed = imported(forms(tmp_path / "forms", shades))
    lines = [line for line in printed.splitlines() if "with the same image" in line]
    assert lines == [text] * bool(text)


def test_the_table_of_fields_says_how_they_were_found(tmp_path: Path) -> None:
    printed = imported(forms(tmp_path / "forms", range(0, 60, 10)))
    lines = printed.splitlines()
    table = lines[lines.index("Fields and answers found among the words") + 1 :][:2]
    assert table[0].split()[:3] == ["label", "fields", "exactly"]
    assert table[1].split()[:3] == ["ANSWER", "6", "6"]
    assert max(map(len, table)) <= 80


def test_one_kind_of_fields_is_one_kind(tmp_path: Path) -> None:
    imported(forms(tmp_path / "forms", range(0, 60, 10)))
    printed = docaudit("inspect", tmp_path / "out", terminal_width=80).output
    assert "of 1 kind " in printed
