"""An export that docaudit does not open is audited served: the refusal says how, and that runs."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import answering
import pytest
import served
from commands import docaudit

from audit import record as records
from audit.corpus.documents import ReferencePaths
from audit.corpus.manifest import load, write
from audit.extensions import remote
from docaudit import DocauditError, scan

PRINTED = "http://127.0.0.1:8080/v1"
"""The address that a refusal puts in."""


class Served(NamedTuple):
    """A data set, the scan of a served model, and the address of its quantised export."""

    data: Path
    audit: Path
    export: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    planted = answering.corpus(30, 30)
    write(
        folder / "data", replace(planted.manifest, references=ReferencePaths()), planted.documents
    )
    memory = answering.memory_of(load(folder / "data").of("member"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "PAUSES", (0.0, 0.0))
        with (
            served.serve(model=served.planted(memory), clean=served.planted()) as audited,
            served.serve(model=served.planted(memory)) as export,
        ):
            options = ("--only", "memorisation", "--out", folder / "audit")
            baseline = ("--reference", f"baselines={audited.address}#clean")
            model = f"{audited.address}#model"
            done = docaudit("scan", model, folder / "data", *options, *baseline)
            assert done.exit_code in (0, 10, 11), done.output
            yield Served(folder / "data", folder / "audit", export.address)


def refused(world: Served, place: Path, file: str) -> list[str]:
    """The command at the end of the refusal of a place that holds this GGUF file."""
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_bytes(b"GGUF")
    done = docaudit("scan", place, world.data, "--derived-from", world.audit)
    text = " ".join(done.output.split())
    assert done.exit_code == 2
    assert f"llama-server -m {file} --port 8080" in text
    assert "what the audited model showed by losses stays undecided" in text
    return shlex.split(text.rpartition("; then: ")[2])


def test_a_gguf_file_is_refused_with_the_scan_of_it_served_which_runs(
    world: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = refused(world, Path("model-Q4_K_M.gguf"), "model-Q4_K_M.gguf")
    assert command[:3] == ["docaudit", "scan", PRINTED]
    assert refused(world, Path("export"), "export/model.gguf") == command
    scanned = docaudit(*(word.replace(PRINTED, world.export) for word in command[1:]))
    assert scanned.exit_code in (0, 10, 11), scanned.output
    derived = records.read(Path("docaudit-export")).derived_from
    assert derived is not None
    number = derived.deciding("memorisation")
    assert number.paired
    assert number.outcome in ("no more", "undecided")
    assert number.difference.value == 0


def test_the_python_api_refuses_it_in_the_same_words(world: Served, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(DocauditError) as raised:
        scan(tmp_path / "model.gguf", world.data, derived_from=world.audit)
    command = f"docaudit scan {PRINTED} {world.data} --derived-from {world.audit}"
    assert raised.value.hint.endswith(f"; then: {command}")


def test_without_an_audited_model_the_refusal_stays_as_it_was(
    world: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.gguf").write_bytes(b"GGUF")
    text = " ".join(docaudit("scan", "model.gguf", world.data).output.split())
    assert "llama-server -m model.gguf" in text
    assert "audited model" not in text
