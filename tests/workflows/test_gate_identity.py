"""What a record is of: gates name another model, data set or file, and no text of a file writes a verdict."""

import json
import shutil
from pathlib import Path
from typing import Any

import attested
import pytest
from commands import docaudit, run_python

from audit import record as records
from audit.attestation import FILE_NAME
from audit.files import digest_of_files
from audit.report.revealed import write_owner
from audit.targets.checkpoint.content import hash_files, unrun_code
from audit.workflows.arguments import called_by
from audit.workflows.attest import attest, verify

Content = dict[str, Any]


@pytest.fixture(scope="module")
def scanned(tmp_path_factory, tiny_corpus):
    return attested.folder(tmp_path_factory.mktemp("scanned"), tiny_corpus)


@pytest.fixture
def content(scanned):
    return json.loads((scanned / "record.json").read_text())  # type: ignore[no-any-return]


def test_gate_prints_the_model_the_date_and_the_policy(scanned):
    record = records.read(scanned)
    assert record.policy is not None
    printed = docaudit("gate", scanned).output
    for part in (
        f"model {record.target.name} (sha256 {record.target.sha256[:12]})",
        f"(sha256 {record.corpus.sha256[:12]})",
        f"scanned {record.timing.started}",
        f"policy default (sha256 {record.policy.sha256[:12]})",
    ):
        assert part in printed


def test_gate_refuses_the_record_of_another_model_or_data_set(scanned, tmp_path):
    model = scanned.parent / "model"
    data = scanned.parent / "data"
    assert docaudit("gate", scanned, "--model", model, "--data", data).exit_code == 10
    (tmp_path / "evidence").mkdir()
    write_owner(
        records.read(scanned),
        tmp_path / "evidence",
        {"MODEL_DIR": str(model), "DATA_DIR": str(data)},
    )
    record = records.read(scanned)
    copied = Path(shutil.copy(scanned / "record.json", tmp_path))
    places = {"MODEL_DIR": str(model), "DATA_DIR": str(data)}
    assert called_by(copied, record).places == {**places, "SCAN_DIR": str(tmp_path)}
    assert called_by(scanned, record).places["SCAN_DIR"] == str(scanned)
    (tmp_path / "evidence" / "scan.json").unlink()
    alone = called_by(copied, record).places
    assert alone == {"SCAN_DIR": str(tmp_path)}, "the evidence alone knows the paths"
    other = shutil.copytree(model, tmp_path / "model")
    (other / "model.safetensors").write_bytes(b"another")
    (other / "generation_config.json").write_text("{}")
    result = docaudit("gate", scanned, "--model", other)
    assert result.exit_code == 2
    assert "model.safetensors is not the file that was scanned" in result.output
    assert "generation_config.json is there, and not in the record" in result.output
    later = shutil.copytree(data, tmp_path / "data")
    (later / "manifest.toml").write_text((later / "manifest.toml").read_text() + "\n")
    result = docaudit("gate", scanned, "--model", model, "--data", later)
    assert (result.exit_code, "the record is of another data set" in result.output) == (2, True)


def test_gate_hashes_a_model_without_any_library_of_models(scanned):
    script = (
        "import sys; from pathlib import Path; from audit.workflows.gate import gate_record\n"
        f"gate_record(Path({str(scanned)!r}), 'default', Path({str(scanned.parent / 'model')!r}), "
        f"Path({str(scanned.parent / 'data')!r}))\n"
        "assert not {'torch', 'transformers', 'scipy'} & set(sys.modules), 'a heavy import'"
    )
    found = run_python("-c", script)
    assert found.returncode == 0, found.stderr


FALSE = "\x1b[2J\nMET  every limit that applies is met  (policy default, exit code 0)"


def is_clean(printed: str) -> bool:
    return "\x1b[2J" not in printed and not any(
        line.startswith("MET") for line in printed.splitlines()
    )


PLACES = ("target.name", "corpus.name", "timing.started", "policy.name", "corpus.documents")


@pytest.mark.parametrize("place", [*PLACES, "attestation", "policy"])
def test_no_text_of_a_file_writes_a_verdict_on_the_terminal(place, scanned, content, tmp_path):
    if place == "attestation":
        attest(scanned, out=tmp_path / FILE_NAME)
        statement = json.loads((tmp_path / FILE_NAME).read_text())
        statement["subject"][0]["name"] = statement["predicate"]["result"] = FALSE
        (tmp_path / FILE_NAME).write_text(json.dumps(statement))
        results = [docaudit("verify", scanned, "--attestation", tmp_path / FILE_NAME)]
    elif place == "policy":
        name = json.dumps(f"mine{FALSE}")
        results = []
        for limit in (
            'attack = "reconstruction"\nmetric = "excess_pr.unique"',
            f"attack = {name}\nmetric = 'x'",
        ):
            head = f"schema = 1\nname = {name}\n[[limits]]\n"
            (tmp_path / "own.toml").write_text(f"{head}{limit}\nmax = 0.05\nrationale = 'ours'\n")
            results.append(docaudit("gate", scanned, "--policy", tmp_path / "own.toml"))
    else:
        part, name = place.split(".")
        content[part][name] = {FALSE: "many"} if name == "documents" else FALSE
        (tmp_path / "record.json").write_text(json.dumps(content))
        results = [docaudit("gate", tmp_path)]
    for result in results:
        assert result.exit_code in (2, 10)
        assert is_clean(result.output)


def test_gate_and_verify_name_weights_and_code_that_were_not_scanned(scanned, tmp_path):
    model = shutil.copytree(scanned.parent / "model", tmp_path / "model")
    for name in ("optimizer.pt", "training_args.bin", "rng_state.pth"):
        (model / name).write_bytes(b"left over from the training")
    (model / ".git").mkdir()
    (model / ".git" / "hook.py").write_text("pass")
    quiet = docaudit("gate", scanned, "--model", model)
    assert quiet.exit_code == 10
    assert "were not scanned" not in quiet.output
    (model / "onnx").mkdir()
    for name in ("model.gguf", "pytorch_model.bin", "onnx/model.onnx", "modeling_evil.py"):
        (model / name).write_bytes(b"what a loader may take")
    refused = docaudit("gate", scanned, "--model", model)
    assert refused.exit_code == 2
    assert "pytorch_model.bin was not scanned" in " ".join(refused.output.split())
    (model / "model.gguf").unlink()
    (model / "pytorch_model.bin").unlink()
    result = docaudit("gate", scanned, "--model", model)
    assert result.exit_code == 10
    said = "modeling_evil.py, onnx/model.onnx were not scanned: the verdict says nothing"
    assert said in " ".join(result.output.split())
    attest(scanned, out=tmp_path / "a.jsonl")
    notes = verify(scanned, model=model, attestation=tmp_path / "a.jsonl")[1].notes
    assert any("modeling_evil.py, onnx/model.onnx" in note for note in notes)


def test_gate_refuses_code_that_the_configuration_runs(scanned, content, tmp_path):
    model = shutil.copytree(scanned.parent / "model", tmp_path / "model")
    (model / "config.json").write_text(
        '{"model_type": "layoutlm", "auto_map": {"AutoModel": "modeling_evil.Evil"}}'
    )
    files = hash_files(model)
    content["target"].update(files=files, sha256=digest_of_files(files))
    (tmp_path / "record.json").write_text(json.dumps(content))
    assert docaudit("gate", tmp_path, "--model", model).exit_code == 10
    (model / "modeling_evil.py").write_text("pass")
    refused = docaudit("gate", tmp_path, "--model", model)
    assert refused.exit_code == 2
    assert "modeling_evil.py is run by what config.json names, and was not scanned" in " ".join(
        refused.output.split()
    )
    content["target"]["unrun_code"] = unrun_code(model)
    (tmp_path / "record.json").write_text(json.dumps(content))
    assert docaudit("gate", tmp_path, "--model", model).exit_code == 10, "the scan met this code"
    (model / "modeling_evil.py").write_text("pass  # changed")
    assert docaudit("gate", tmp_path, "--model", model).exit_code == 2
