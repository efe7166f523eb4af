"""Data sets on disk, made by hand so that a test can break any part of them."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from PIL import Image

SETTINGS = {
    "schema": 1,
    "name": "receipts",
    "task": {"kind": "token-classification", "labels": ["O", "B-TOTAL", "I-TOTAL", "B-NAME"]},
    "membership": {"assigned": "random"},
}
RECEIPT = {
    "id": "r1",
    "split": "member",
    "image": "images/r1.png",
    "size": [100, 200],
    "provider": "Gardenia",
    "words": [
        {"text": "Gardenia", "box": [5, 5, 60, 20]},
        {"text": "RM", "box": [5, 50, 20, 60]},
        {"text": "9.00", "box": [25, 50, 60, 60]},
    ],
    "entities": [
        {
            "id": "e1",
            "label": "TOTAL",
            "category": "amount",
            "words": [1, 2],
        },
        {
            "id": "e2",
            "label": "NAME",
            "category": "organization",
            "words": [0],
            "attack": False,
        },
    ],
    "links": [["e1", "e2"]],
    "questions": [
        {
            "id": "q1",
            "question": "What is the total?",
            "answers": ["9.00"],
            "entity": "e1",
        }
    ],
}
"""A sound data set of one receipt, which tests break in any part."""


@pytest.fixture
def settings() -> dict[str, Any]:
    return copy.deepcopy(SETTINGS)


@pytest.fixture
def receipt() -> dict[str, Any]:
    return copy.deepcopy(RECEIPT)


@pytest.fixture
def lay_out(tmp_path: Path) -> Callable[..., Path]:
    """Writes settings and documents as they are given, right or wrong, and a white image where a document names one."""

    def write(settings: dict[str, Any] | bytes, *documents: dict[str, Any] | bytes) -> Path:
        folder = tmp_path / "data"
        (folder / "images").mkdir(parents=True, exist_ok=True)
        content = settings if isinstance(settings, bytes) else tomli_w.dumps(settings).encode()
        (folder / "manifest.toml").write_bytes(content)
        lines = [d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
        (folder / "documents.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        for document in documents:
            if (
                isinstance(document, dict)
                and document.get("image") == f"images/{document.get('id')}.png"
            ):
                Image.new("L", (100, 200), 255).save(folder / document["image"])
        return folder

    return write
