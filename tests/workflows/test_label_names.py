"""A tagger whose labels are named in another order is told so, and a weak one is not."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import noisy_utterances as noisy
import pytest
from commands import docaudit

from audit import record as records
from audit.measurements import LABEL_ORDER

N = 80
OUTSIDE, THING, PLACE, TIME = noisy.TAGS


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    members = noisy.utterances("member", N, 0)
    noisy.write_corpus(folder / "data", [*members, *noisy.utterances("heldout", N, 1000)])
    noisy.train(folder / "model", members, 1)
    noisy.train(folder / "weak", members, 1, epochs=1)
    return folder


def renamed(world: Path, folder: Path, names: Sequence[str]) -> Path:
    shutil.copytree(world / "model", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["id2label"] = {str(number): name for number, name in enumerate(names)}
    config["label2id"] = {name: number for number, name in enumerate(names)}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def scan(model: Path, world: Path, out: Path) -> str:
    command = ["scan", model, world / "data", "--only", "membership", "--budget", "quick"]
    result = docaudit(*command, "--out", out)
    assert result.exit_code == 11, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("names", "outputs"),
    [
        pytest.param(
            (THING, PLACE, TIME, OUTSIDE), "output 1 fits the name of output 0", id="shifted"
        ),
        pytest.param(
            (OUTSIDE, THING, TIME, PLACE), "outputs 2 and 3 look swapped", id="two swapped"
        ),
    ],
)
def test_labels_named_in_another_order_are_the_first_advice(
    names: Sequence[str], outputs: str, world: Path, tmp_path: Path
) -> None:
    model = renamed(world, tmp_path / "renamed", names)
    shown = scan(model, world, tmp_path / "out")
    assert f"Fix: The labels are named in another order than the model's outputs: {outputs}" in (
        shown.replace("output 0 fits the name of output 3, ", "")
    )
    assert "On unseen documents: Fields found (F1)" in shown


def test_a_weak_tagger_is_called_no_more_than_weak(world: Path, tmp_path: Path) -> None:
    shown = scan(world / "weak", world, tmp_path / "out")
    assert "another order" not in shown
    checks = {check.name: check for check in records.read(tmp_path / "out").checks}
    assert checks[LABEL_ORDER].p_value == 1.0
