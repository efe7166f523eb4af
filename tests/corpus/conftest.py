"""Data sets on disk, made by hand so that a test can break any part of them."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from case_tables import read_tables
from PIL import Image

SOUND = read_tables(Path(__file__).with_name("sound.toml"))


@pytest.fixture
def settings() -> dict[str, Any]:
    return copy.deepcopy(SOUND["settings"])


@pytest.fixture
def receipt() -> dict[str, Any]:
    return copy.deepcopy(SOUND["receipt"])


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
