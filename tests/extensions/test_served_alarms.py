"""What is wrong with a served model, or with its baseline, is the one piece of advice."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import answering
import pytest
import served
from commands import docaudit

from audit.corpus.documents import ReferencePaths
from audit.corpus.manifest import load, write
from audit.extensions import remote

REFUSAL = "I'm sorry, but I can't help with that."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "data"
    planted = answering.corpus(90, 90)
    write(folder, replace(planted.manifest, references=ReferencePaths()), planted.documents)
    return folder


@pytest.fixture
def server(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0))
    monkeypatch.setenv(remote.KEY, served.KEY)
    models = {
        "leaky": served.planted(answering.memory_of(load(data).of("member"))),
        "clean": served.planted(),
        "refusing": lambda content: REFUSAL,
    }
    with served.serve(**models) as running:
        yield running


@pytest.mark.parametrize(
    ("model", "baseline", "advice"),
    [
        pytest.param(
            "refusing", "clean", "The model refuses to answer", id="refuses, with a baseline"
        ),
        pytest.param("refusing", None, "The model refuses to answer", id="refuses, without one"),
        pytest.param(
            "clean",
            "leaky",
            "The baseline knows the training documents",
            id="a baseline that knows the audited documents",
        ),
        pytest.param(
            "clean", None, "give models that were trained as this one", id="a missing baseline"
        ),
    ],
)
def test_the_advice_names_what_is_wrong(
    model: str, baseline: str | None, advice: str, server: Any, data: Path, tmp_path: Path
) -> None:
    scan = ["scan", f"{server.address}#{model}", data, "--budget", "quick"]
    if baseline is not None:
        scan += ["--reference", f"baselines={server.address}#{baseline}"]
    result = docaudit(*scan, "--out", tmp_path / "out")
    assert result.exit_code == 11, result.output
    shown = " ".join(result.output.split())
    _, _, fix = shown.rpartition("Fix: ")
    assert advice in fix
    assert "gaps" not in fix
    assert REFUSAL not in (tmp_path / "out" / "record.json").read_text(encoding="utf-8")
