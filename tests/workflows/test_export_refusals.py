"""What `scan --derived-from` refuses before a model is loaded, with the command that goes on."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import tiny
from commands import docaudit

from audit import record as records
from audit.cards import Bounds
from audit.corpus import manifest as manifests
from audit.record import AuditRecord, Reason, Result
from docaudit import DocauditError, scan

MODEL = ("bert", "token-classification")


class Scanned(NamedTuple):
    """An audited model, its data set, and the folder of its scan with another seed."""

    model: Path
    data: Path
    audit: Path

    @property
    def record(self) -> AuditRecord:
        return records.read(self.audit)


@pytest.fixture(scope="module")
def scanned(checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Scanned:
    folder = tmp_path_factory.mktemp("audited")
    data = tiny.corpus(folder / "data")
    model = Path(shutil.copytree(checkpoints(*MODEL, 1), folder / "model"))
    chosen = ("--only", "membership", "--seed", "3", "--budget", "full")
    done = docaudit("scan", model, data, "--out", folder / "audit", *chosen)
    assert done.exit_code in (0, 10, 11), done.output
    return Scanned(model, data, folder / "audit")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(*words: object) -> str:
    """The one line of an error that was printed, and that nothing was written."""
    done = docaudit("scan", *words)
    assert done.exit_code == 2, done.output
    assert not Path("docaudit-export").exists()
    return " ".join(done.output.split())


def command_in(text: str) -> list[str]:
    """The command at the end of an error."""
    assert "docaudit scan " in text
    return shlex.split(text.rpartition("docaudit scan ")[2])


def export_words(scanned: Scanned) -> list[str]:
    """The command that every refusal of an option leads to, without `docaudit scan`."""
    return [str(scanned.model), str(scanned.data), "--derived-from", str(scanned.audit)]


OTHER_OPTIONS = {
    "another seed": (("--seed", "0"), "--seed 0: the audited model was scanned with 3"),
    "another budget": (
        ("--budget", "standard"),
        "--budget standard: the audited model was scanned with full",
    ),
    "another attack": (
        ("--only", "reconstruction"),
        "--only reconstruction: the audited model was scanned with membership",
    ),
    "fewer documents": (
        ("--documents", "4"),
        "--documents 4: the audited model was scanned with none",
    ),
    "a time": (("--time", "30m"), "--time 1800 s: the audited model was scanned with none"),
    "a countermeasure": (
        ("--defence", "random-before"),
        "--defence random-before: the audited model was scanned with none",
    ),
    "another policy": (
        ("--policy", "strict"),
        "--policy strict: the audited model was scanned under the policy default",
    ),
}


@pytest.mark.parametrize("case", OTHER_OPTIONS)
def test_an_option_that_changes_the_trials_is_refused(scanned: Scanned, case: str) -> None:
    option, sentence = OTHER_OPTIONS[case]
    text = refusal(*export_words(scanned), *option)
    assert sentence in text
    assert f"leave {option[0]} out" in text
    assert command_in(text) == export_words(scanned)


def test_other_parameters_of_an_attack_are_refused(scanned: Scanned, tmp_path: Path) -> None:
    path = tmp_path / "parameters.toml"
    path.write_text("[membership]\nn_masks = 3\n")
    text = refusal(*export_words(scanned), "--attack-parameters", path)
    assert "parameters.toml: the audited model was scanned with none" in text
    assert command_in(text) == export_words(scanned)


def test_the_options_of_the_audited_scan_may_be_repeated_and_the_command_runs(
    scanned: Scanned,
) -> None:
    repeated = ("--seed", "3", "--budget", "full", "--only", "membership", "--policy", "default")
    done = docaudit("scan", *export_words(scanned), *repeated)
    record = records.read(Path("docaudit-export"))
    assert (record.seed, record.budget) == (3, "full")
    assert record.derived_from is not None
    assert record.derived_from.outcome == "undecided", done.output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--no-model", "DATA"), "--no-model cannot go with it"),
        (("--checkpoints", "run/*", "DATA"), "--checkpoints cannot go with it"),
    ],
)
def test_anything_but_one_export_is_refused(
    scanned: Scanned, words: tuple[str, ...], sentence: str
) -> None:
    filled = [str(scanned.data) if word == "DATA" else word for word in words]
    text = refusal(*filled, "--derived-from", scanned.audit)
    assert sentence in text
    assert command_in(text) == ["EXPORT_DIR", *export_words(scanned)[1:]]


def test_another_data_set_is_refused_and_its_folder_named(scanned: Scanned, tmp_path: Path) -> None:
    other = tiny.corpus(tmp_path / "other", seed=5)
    text = refusal(scanned.model, other, "--derived-from", scanned.audit)
    assert "is not the data set that the audited model was scanned with" in text
    assert command_in(text) == export_words(scanned)


def test_a_data_set_that_changed_since_is_refused(scanned: Scanned, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(scanned.data, tmp_path / "data"))
    corpus = manifests.load(changed)
    manifests.write(changed, replace(corpus.manifest, name="renamed"), corpus.documents[1:])
    text = refusal(scanned.model, changed, "--derived-from", scanned.audit)
    assert "or not its state of then" in text


def test_the_folder_of_the_audited_model_is_not_written_over(scanned: Scanned) -> None:
    before = (scanned.audit / "record.json").read_bytes()
    text = refusal(*export_words(scanned), "--out", scanned.audit)
    assert "holds the record of the audited model" in text
    assert command_in(text) == [*export_words(scanned), "--out", "docaudit-export"]
    assert (scanned.audit / "record.json").read_bytes() == before


def without_numbers(record: AuditRecord) -> AuditRecord:
    reason = Reason("missing", "no documents", "add documents")
    return replace(record, attacks=(Result("membership", status="skipped", reason=reason),))


def of_text(record: AuditRecord) -> AuditRecord:
    return replace(record, target=replace(record.target, task="none", sha256=""))


def in_time(record: AuditRecord) -> AuditRecord:
    return replace(record, bounds=Bounds(documents=4, seconds=300.0, part=0.5))


def saved(record: AuditRecord) -> Path:
    Path("audited").mkdir()
    records.write(record, Path("audited/record.json"))
    return Path("audited")


def test_a_record_without_a_number_is_refused(scanned: Scanned) -> None:
    place = saved(without_numbers(scanned.record))
    text = refusal(scanned.model, scanned.data, "--derived-from", place)
    assert "no attack gave a number" in text
    assert command_in(text)[:3] == ["MODEL_DIR", str(scanned.data), "--out"]


def test_a_bound_that_nobody_gave_is_not_refused(scanned: Scanned) -> None:
    place = saved(in_time(scanned.record))
    words = (scanned.model, scanned.data, "--derived-from", place)
    text = refusal(*words, "--documents", "6")
    assert "--documents 6: the audited model was scanned with 4" in text
    done = docaudit("scan", *words, "--documents", "4")
    assert "leave --time out" not in done.output


def test_a_quantised_encoder_is_refused_with_the_way_to_unpack_it(scanned: Scanned) -> None:
    export = Path(shutil.copytree(scanned.model, "export"))
    config = json.loads((export / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (export / "config.json").write_text(json.dumps(config))
    text = refusal(export, scanned.data, "--derived-from", scanned.audit)
    assert "an encoder with quantised weights (bitsandbytes)" in text
    assert "BertForTokenClassification" in text
    program = shlex.split(text.partition("rounded as they are: ")[2].partition("; then: ")[0])
    assert program[:2] == ["python", "-c"]
    assert command_in(text) == ["export-unpacked", *export_words(scanned)[1:]]
    # Without the library of the quantisation, the same program on weights that are not packed.
    shutil.copy(scanned.model / "config.json", export / "config.json")
    exec(program[2].replace(".dequantize()", ""), {})
    done = docaudit("scan", *command_in(text))
    assert done.exit_code == 11, done.output


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema_version": 99}'])
def test_what_is_no_record_is_refused(scanned: Scanned, content: str) -> None:
    Path("record.json").write_text(content)
    text = refusal(scanned.model, scanned.data, "--derived-from", "record.json")
    assert "record.json" in text


def test_notes_call_both_scans_what_they_are(scanned: Scanned) -> None:
    docaudit("scan", *export_words(scanned))
    derived = records.read(Path("docaudit-export")).derived_from
    assert derived is not None
    assert "the audited model and the export are of the same model (same sha256)" in derived.notes


def test_the_python_api_takes_the_trials_of_the_audited_model_and_refuses_others(
    scanned: Scanned,
) -> None:
    result = scan(scanned.model, scanned.data, derived_from=scanned.audit)
    assert (result.record.seed, result.record.budget, result.out.name) == (
        3,
        "full",
        "docaudit-export",
    )
    assert result.record.derived_from is not None
    assert result.record.derived_from.outcome == "undecided"
    assert result.verdict.policy == "default"
    for other, said in (({"seed": 4}, "--seed 4"), ({"policy": "strict"}, "--policy strict")):
        with pytest.raises(DocauditError, match=f"{said}: the audited model was scanned"):
            scan(scanned.model, scanned.data, derived_from=scanned.audit, **other)
    with pytest.raises(DocauditError, match="--no-model cannot go with it"):
        scan(None, scanned.data, derived_from=scanned.audit)
