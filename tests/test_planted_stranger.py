"""A stranger's memoriser on the documented path: imported without a word on the split, violated all the same."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app
from benchmarks import strangers
from benchmarks.strangers import STRANGERS, scan

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT tokenizer of 900 words, and the pieces of numbers."""
    from transformers import BertTokenizerFast

    folder = tmp_path_factory.mktemp("vocabulary")
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(4, 9))) for _ in range(900)]
    digits = [piece for digit in "0123456789" for piece in (digit, f"##{digit}")]
    unused = (f"[unused{number}]" for number in range(2000))  # as many as BERT's vocabulary begins with, and more
    lines = list(dict.fromkeys((*SPECIAL, *digits, *unused, *words)))
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab=dict(zip(lines, range(len(lines)), strict=True))).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def docaudit(*arguments: object, codes: tuple[int, ...] = (0,)) -> int:
    done = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code in codes, done.output
    return done.exit_code


def test_a_memoriser_is_violated_and_its_twin_is_not(
    vocabulary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets")
    # Fewer documents of training than in the benchmark, in this process: the same path in a fourth of the time.
    monkeypatch.setattr(strangers, "MEMBERS", 80)
    monkeypatch.setattr(strangers, "OTHERS", 160)
    monkeypatch.setattr(strangers, "docaudit", docaudit)
    rows = [*scan(STRANGERS["bert"], vocabulary, tmp_path)]
    memoriser, twin = (json.loads((tmp_path / f"{role}-report" / "record.json").read_text()) for role in ROLES)
    assert {one["corpus"]["assigned"] for one in (memoriser, twin)} == {"official"}
    assert all(_confounded(one) for one in (memoriser, twin)), "the blind check has no power over so few documents"
    assert "| memoriser | official | 10 |" in rows[0]
    assert "| twin | official | 11 |" in rows[1] or "| twin | official | 0 |" in rows[1]


ROLES = ("memoriser", "twin")


def _confounded(record: dict) -> bool:
    return any(one.get("confounded") for one in record["attacks"])
