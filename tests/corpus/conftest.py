"""Data sets on disk, made by hand so that a test can break any part of them."""

import copy
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from case_tables import read_tables
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import Corpus, Split
from audit.importers.assemble import ImportReport
from audit.importers.divide import equal_images
from audit.importers.registry import FORMATS

REPOSITORY = Path(__file__).resolve().parents[2]
SOUND = read_tables(Path(__file__).with_name("sound.toml"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real corpora: DOCAUDIT_REAL_DATA, else ../shared/data beside the repository."""
    folder = Path(os.environ.get("DOCAUDIT_REAL_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the real corpora are not at {folder}; set DOCAUDIT_REAL_DATA")
    return folder


@cache
def _equal_images(images: tuple[tuple[str, Path], ...]) -> tuple[tuple[str, ...], ...]:
    return equal_images(dict(images))


def _compare_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("audit.importers.divide.equal_images", lambda images: _equal_images(tuple(images.items())))


@pytest.fixture
def compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real pictures that another test's import has decoded and compared are not decoded and compared again."""
    _compare_once(monkeypatch)


@pytest.fixture(scope="session")
def real_receipts(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ImportReport, Corpus]:
    """SROIE, imported once for all tests; read only."""
    dst = tmp_path_factory.mktemp("sroie") / "data"
    shares: dict[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.4}
    with pytest.MonkeyPatch.context() as patch:
        _compare_once(patch)
        return FORMATS["sroie"].convert(real_data / "sroie", dst, shares, seed=7), manifests.load(dst)


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
            if isinstance(document, dict) and document.get("image") == f"images/{document.get('id')}.png":
                Image.new("L", (100, 200), 255).save(folder / document["image"])
        return folder

    return write
