"""DocLayNet's cells beside its COCO file are the words of its pages."""

from pathlib import Path
from typing import Any

from imported_files import import_files, refusal_of
from imported_sources import as_json

COCO = {
    "images": [{"id": 1, "file_name": "a.png", "width": 400, "height": 200}],
    "categories": [{"id": 8, "name": "Title"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 8, "bbox": [0, 0, 300, 60]}],
}


def cells(**metadata: Any) -> str:
    """The cells of a page of 200 to 100 points."""
    entries = [{"bbox": [10, 10, 50, 10], "text": "My page"}, {"bbox": [0, 0, 9, 9], "text": ""}]
    shape = {"original_width": 200, "original_height": 100, **metadata}
    return as_json({"metadata": shape, "cells": entries})


def files(content: str) -> dict[str, str]:
    """The files of a page in DocLayNet's folders."""
    return {"PNG/a.png": "400x200", "COCO/train.json": as_json(COCO), "JSON/a.json": content}


def test_cells_are_words_on_the_original_page(tmp_path: Path) -> None:
    imported = import_files("coco", files(cells()), tmp_path)
    assert imported.fields("a") == [("Title", "My page")]
    assert imported.documents["a"].words[1].box == (62.9, 20, 120, 40)


def test_cells_without_a_size_are_refused(tmp_path: Path) -> None:
    problem = refusal_of("coco", files(cells(original_height="tall")), tmp_path)
    assert "not DocLayNet's cells (ValueError)" in problem
