"""A gate says whether somebody vouches for a record that passes, and refuses weights that were not scanned."""

from dataclasses import replace
from pathlib import Path

import attested
import pytest
from commands import docaudit
from policy_texts import write_policy
from test_attest import write_keys

from audit import record as records
from audit.attestation import FILE_NAME, read_public_key
from audit.workflows.attest import attest


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return write_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def out(tmp_path, tiny_corpus):
    """A report folder, with the model beside it."""
    return attested.folder(tmp_path, tiny_corpus)


@pytest.fixture
def lenient(tmp_path):
    """A policy that the record of `out` meets."""
    return write_policy(
        tmp_path / "lenient.toml", "reconstruction excess_pr.unique max = 0.99", name="lenient"
    )


def gate(*arguments: object) -> tuple[int, str]:
    ran = docaudit("gate", *arguments)
    return ran.exit_code, " ".join(ran.output.split())


def test_a_pass_of_a_record_that_nobody_signed_says_so_in_every_format(out, lenient):
    code, said = gate(out, "--policy", lenient)
    assert code == 0
    assert "unsigned: nobody vouches for this record" in said
    for form in ("json", "markdown"):
        assert (
            "unsigned: nobody vouches for this record"
            in gate(out, "--policy", lenient, "--format", form)[1]
        )


def test_an_attestation_alone_vouches_for_nothing(out, lenient, keys):
    for key in (None, keys[0]):
        attest(out, key)
        assert "unsigned" in gate(out, "--policy", lenient)[1]


@pytest.mark.parametrize("record", ["folder", "file"])
def test_a_record_with_a_verified_signature_is_gated(record, out, lenient, keys):
    attest(out, keys[0])
    code, said = gate(
        out if record == "folder" else out / "record.json", "--policy", lenient, "--pub", keys[1]
    )
    assert code == 0
    assert f"signed with the key {read_public_key(keys[1]).keyid[:12]}" in said
    assert "unsigned" not in said
    assert gate(out, "--pub", keys[1])[0] == 10


def edited(out: Path) -> None:
    record = records.read(out)
    records.write(
        replace(record, corpus=replace(record.corpus, name="another")), out / "record.json"
    )


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda out: (out / FILE_NAME).unlink(), "no attestation"),
        (lambda out: attest(out), "is not signed with this key"),
        (lambda out: attest(out, write_keys(out.parent)[0]), "is not signed with this key"),
        (edited, "is not the record that was signed"),
        (lambda out: (out / FILE_NAME).write_text("{}"), FILE_NAME),
        (
            lambda out: (out / FILE_NAME).write_text(
                (out / FILE_NAME).read_text().replace("A", "B", 1)
            ),
            FILE_NAME,
        ),
    ],
)
def test_with_a_key_a_record_without_its_signature_is_refused(break_it, said, out, lenient, keys):
    attest(out, keys[0])
    assert gate(out, "--policy", lenient, "--pub", keys[1])[0] == 0
    break_it(out)
    code, output = gate(out, "--policy", lenient, "--pub", keys[1])
    assert code == 2
    assert said in output


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.gguf", "model.PT", "weights.npz", "tf_model.h5"]
)
def test_a_second_set_of_weights_beside_those_that_were_scanned_is_refused(name, out, lenient):
    model = out.parent / "model"
    assert gate(out, "--policy", lenient, "--model", model)[0] == 0
    (model / name).write_bytes(b"another model")
    code, said = gate(out, "--policy", lenient, "--model", model)
    assert code == 2
    assert f"{name} was not scanned, and a loader may take it for the model's weights" in said
    assert "move it out of the folder" in said


def test_what_is_left_over_of_a_training_and_other_folders_are_no_second_set(out, lenient):
    model = out.parent / "model"
    (model / "optimizer.pt").write_bytes(b"state")
    (model / "onnx").mkdir()
    (model / "onnx" / "model.onnx").write_bytes(b"exported")
    code, said = gate(out, "--policy", lenient, "--model", model)
    assert code == 0
    assert "onnx/model.onnx were not scanned" in said


def test_a_baseline_keeps_both(out, lenient, keys, tmp_path):
    older = tmp_path / "older"
    older.mkdir()
    record = records.read(out)
    records.write(
        replace(record, timing=replace(record.timing, seconds=1.0)), older / "record.json"
    )
    asked = (out, "--policy", lenient, "--baseline", older)
    assert "unsigned" in gate(*asked)[1]
    assert gate(*asked, "--pub", keys[1])[0] == 2
    attest(out, keys[0])
    assert "signed with the key" in gate(*asked, "--pub", keys[1])[1]


def test_a_key_that_is_none_is_refused(out):
    assert gate(out, "--pub", out / "record.json")[0] == 2
