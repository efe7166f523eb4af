"""`python -m benchmarks.tune_attack`, and scans that read its file."""

from __future__ import annotations

import io
import json
import shutil
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import partial

import pytest
import tiny
from typer.testing import CliRunner

from audit import record as records
from audit.attacks import parameters
from audit.attacks.reconstruction import Reconstruction
from audit.cli import app
from audit.corpus.documents import ReferencePaths
from audit.engine.interface import SILENT
from audit.errors import UsageError
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.loading import load
from audit.workflows.options import ScanOptions
from audit.workflows.setup import open_scan
from benchmarks import tune_attack as tuning
from benchmarks.attack_tuning import Grid, Score, Tuned, tune

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

few_settings = partial(tune, grid=Grid((0.2, 0.3), (1.0, 10.0), (0.4, 0.6), (0.1, 0.9)))


def docaudit(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@dataclass(frozen=True)
class Result:
    """The exit code of the script, and what it printed on both streams."""

    exit_code: int
    output: str


def tune_attack(*arguments):
    """Run the script in this process; a fixture of module scope needs it, which capsys does not allow."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = tuning.main([str(argument) for argument in arguments])
    return Result(code, printed.getvalue())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data set of which only the totals are attacked: a character is a token here, and other fields have many."""
    folder = tiny.corpus(tmp_path_factory.mktemp("data") / "data", members=3, heldout=3, public=20)
    return _attack_only(folder, "TOTAL")


def _attack_only(folder, label):
    lines = [json.loads(line) for line in (folder / "documents.jsonl").read_text().splitlines()]
    for entity in (entity for document in lines for entity in document["entities"]):
        entity["attack"] = entity["label"] == label
    (folder / "documents.jsonl").write_text("".join(json.dumps(document) + "\n" for document in lines))
    return folder


@pytest.fixture(scope="module")
def models(checkpoints):
    return {
        "mlm": checkpoints("layoutlm", "mlm", 1),
        "classifier": checkpoints("layoutlm", "token-classification", 2),
        "pretrained": checkpoints("layoutlm", "mlm", 3),
    }


@pytest.fixture(scope="module")
def tuned(models, data, tmp_path_factory):
    """The classifier's parameters, and every document that anything read as tokens while they were fitted."""
    out = tmp_path_factory.mktemp("tuned") / "attack.toml"
    read = []
    with pytest.MonkeyPatch.context() as patch:
        tokenise = Encoder._tokenise
        patch.setattr(tuning, "tune", few_settings)
        patch.setattr(Encoder, "_tokenise", lambda self, document: read.append(document) or tokenise(self, document))
        result = tune_attack(
            models["classifier"], data, "--out", out, "--epochs", 2,
            "--reference", f"pretrained={models['pretrained']}",
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    return out, read, result.output


def scan(models, data, out, *more):
    auxiliary = f"auxiliary={models['pretrained']}"
    return docaudit(
        "scan", models["classifier"], data, "--reference", auxiliary, "--out", out, "--budget", "quick", *more
    )


def test_only_public_documents_are_read(tuned):
    _, read, _ = tuned
    assert {document.id for document in read} == {f"p{number}" for number in range(20)}


def test_the_file_says_what_was_tuned_on_what_and_how_well_it_does(tuned, models, data):
    out, _, output = tuned
    text = out.read_text()
    content = tomllib.loads(text)
    assert set(content) == {"reconstruction", "provenance"}
    assert set(content["reconstruction"]) == {"temperature", "temperature_start", "target_weight", "top_p"}
    provenance = content["provenance"]
    corpus = tuning.load_corpus(data)
    assert provenance["corpus_sha256"] == corpus.sha256
    assert provenance["target_sha256"] == load(models["classifier"]).card.sha256
    assert provenance["pretrained_sha256"] == load(models["pretrained"]).card.sha256
    assert [provenance[name] for name in ("seed", "epochs", "shadow_documents", "public_documents", "documents")] == [
        0, 2, 10, 10, 10,
    ]  # fmt: skip
    assert provenance["fields"] == 10
    assert provenance["objective_in_sample"] > provenance["objective_defaults"]
    assert f"objective {provenance['objective_cross_validated']:.4f}" in text
    assert "no audited document was used" in text
    assert "temperature_start" in output
    assert "10 fields of 10 documents" in output


def test_a_scan_takes_the_parameters_into_its_record_and_warns_when_they_come_from_other_data(
    tuned, models, data, tmp_path
):
    out, _, _ = tuned
    file = tmp_path / "attack.toml"
    elsewhere = out.read_text().replace(tuning.load_corpus(data).sha256, "0" * 64)
    file.write_text(elsewhere.replace("[reconstruction]", "[reconstruction]\nn_attempts = 3"))
    result = scan(models, data, tmp_path / "out", "--attack-parameters", file)
    assert result.exit_code == 11, result.output
    assert "these parameters were tuned on another data set" in result.output
    found = records.read(tmp_path / "out").attacks[0].parameters
    expected = tomllib.loads(file.read_text())["reconstruction"]
    assert found == {**asdict(Reconstruction.preset("quick")), **expected}
    assert found["n_attempts"] == 3
    assert (found["temperature"], found["top_p"]) != (0.3, 0.1)


def test_parameters_from_the_same_data_give_no_warning_and_are_those_of_the_attack(tuned, models, data, tmp_path):
    out, _, _ = tuned
    expected = tomllib.loads(out.read_text())["reconstruction"]
    references = {"auxiliary": [models["pretrained"]]}
    options = ScanOptions(
        models["classifier"], data, tmp_path, device="cpu", attack_parameters=out, references=references
    )
    opened = open_scan(options)
    assert opened.warnings == ()
    assert opened.attacks[0] == replace(Reconstruction.preset("standard"), **expected)


def test_a_second_run_finds_its_models_and_writes_the_same_file(tuned, models, data, monkeypatch):
    out, _, _ = tuned
    before = out.read_text()

    def trained_again(*_, **__):
        raise AssertionError("trained although the cache holds it")

    monkeypatch.setattr(tuning, "tune", few_settings)
    monkeypatch.setattr("benchmarks.shadow_target.fit", trained_again)
    monkeypatch.setattr("audit.references.encoders.fit", trained_again)
    options = tuning.TuningOptions(
        models["classifier"], data, out, {"pretrained": [models["pretrained"]]}, epochs=2, device="cpu"
    )
    tuning.tune_attack(tuning.open_tuning(options), SILENT)
    assert out.read_text() == before


def test_a_masked_language_model_needs_no_public_one_and_gets_no_weight(models, tmp_path):
    paths = ReferencePaths(pretrained="pretrained")
    data = tiny.corpus(tmp_path / "data", members=1, heldout=1, public=20, kind="mlm", references=paths)
    shutil.copytree(models["pretrained"], data / "pretrained")
    out = tmp_path / "new" / "attack.toml"
    result = tune_attack(models["mlm"], data, "--out", out, "--epochs", 1, "--cache", tmp_path / "cache")
    assert result.exit_code == 0, result.output
    assert "target_weight" not in tomllib.loads(out.read_text())["reconstruction"]
    assert [folder.name.split("-")[0] for folder in (tmp_path / "cache").iterdir()] == ["shadow"]
    assert list(out.parent.iterdir()) == [out]


def test_a_spade_target_that_sees_images_is_tuned_from_a_text_and_layout_checkpoint(checkpoints, models, tmp_path):
    data = tiny.corpus(tmp_path / "data", members=1, heldout=1, public=20, kind="spade-extraction", images=True)
    _attack_only(data, "TOTAL")
    model_dir = checkpoints("docaudit-layoutlm-image", "spade-extraction", 1)
    references = {"pretrained": [models["pretrained"]]}
    options = tuning.TuningOptions(model_dir, data, tmp_path / "attack.toml", references, epochs=1, device="cpu")
    opened = tuning.open_tuning(options)
    found = tuning.tune_attack(opened, SILENT)
    assert found.weighed
    assert found.n_fields == 10
    (place,) = (tmp_path / "references").glob("shadow-*")
    (public,) = (tmp_path / "references").glob("public-mlm-*")
    assert load(place).card.architecture == opened.target.card.architecture
    assert load(public).card.task == "mlm"


def test_a_family_without_a_masked_language_model_is_refused_before_anything_is_trained(checkpoints, data, tmp_path):
    lilt = checkpoints("lilt", "token-classification", 1)
    result = tune_attack(lilt, data, "--out", tmp_path / "attack.toml", "--reference", f"pretrained={lilt}")
    assert result.exit_code == 2
    assert "LiLT has no masked-language-model head" in result.output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[reconstruction]\ntemperatur = 0.3\n", "[reconstruction] temperatur: no such parameter"),
        ("[extraction]\nx = 1\n", "[extraction]: no attack is called so"),
        ("reconstruction = 3\n", "reconstruction: must be a table"),
        ('[reconstruction]\ntemperature = "hot"\n', "[reconstruction] temperature: Input should be a valid number"),
        ("[reconstruction]\ntemperature = 0\n", "[reconstruction] temperature: Input should be greater than 0"),
        ("[reconstruction]\ntemperature = nan\n", "[reconstruction] temperature: Input should be a finite number"),
        ("[reconstruction]\ntemperature_start = -1.0\n", "[reconstruction] temperature_start: Input should be greater"),
        ("[reconstruction]\ntarget_weight = 1.5\n", "[reconstruction] target_weight: Input should be less than or"),
        ("[reconstruction]\ntarget_weight = true\n", "[reconstruction] target_weight: Input should be a valid number"),
        ("[reconstruction]\ntop_p = 0.0\n", "[reconstruction] top_p: Input should be greater than 0"),
        ("[reconstruction]\nn_attempts = 2.5\n", "[reconstruction] n_attempts: Input should be a valid integer"),
        ("[reconstruction]\ntarget_weight = 0\n", "[reconstruction] target_weight: Input should be greater than 0"),
        ("[reconstruction]\nmin_tokens = 5\nmax_tokens = 4\n", "min_tokens: 5 is more than max_tokens, 4"),
        ("[reconstruction]\nmin_tokens = 16\n", "min_tokens: 16 is more than max_tokens, 15"),  # the default
        ("[reconstruction]\nn_candidates = 0\n", "[reconstruction] n_candidates: Input should be greater than or"),
        ('[reconstruction]\nmean = "harmonic"\n', "[reconstruction] mean: Input should be 'geometric' or 'arithmetic'"),
        ("[reconstruction\n", "not readable as TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(models, data, tmp_path, text, told):
    file = tmp_path / "attack.toml"
    file.write_text(text)
    result = scan(models, data, tmp_path / "out", "--attack-parameters", file)
    assert result.exit_code == 2
    assert told in result.output
    assert str(file) in result.output
    assert not (tmp_path / "out").exists()


def test_all_that_is_wrong_with_a_file_is_said_at_once_and_a_missing_one_too(tmp_path):
    file = tmp_path / "attack.toml"
    file.write_text("[reconstruction]\ntop_p = 2\nn_shots = 3\n[other]\n")
    with pytest.raises(UsageError) as caught:
        parameters.read(file)
    assert len(caught.value.problems) == 3
    with pytest.raises(UsageError, match="No such file"):
        parameters.read(tmp_path / "missing.toml")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not readable as TOML"):
        parameters.read(file)


def test_every_parameter_of_the_attack_can_be_set(tmp_path):
    file = tmp_path / "attack.toml"
    wanted = Reconstruction(16, 2, 1.0, 2.0, 0.1, "arithmetic", 1.0, 4, 5)
    file.write_text(
        "[reconstruction]\nn_candidates = 16\nn_attempts = 2\ntemperature = 1\ntemperature_start = 2\n"
        'target_weight = 0.1\nmean = "arithmetic"\ntop_p = 1.0\nmin_tokens = 4\nmax_tokens = 5\n'
    )
    assert parameters.read(file).applied(Reconstruction()) == wanted


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), "nothing to train a shadow target from"),
        (("--reference", "auxiliary={pretrained}"), "trains its own models, from pretrained alone"),
        (("--reference", "pretrained={classifier}"), "holds the target's own weights"),
        (("--reference", "pretrained={pretrained}", "--share", "0.9"), "20 public documents divide into 18 and 2"),
        (("--reference", "pretrained={pretrained}", "--share", "1"), "--share 1: must lie between 0 and 1"),
        (("--reference", "pretrained={pretrained}", "--epochs", "0"), "--epochs 0: must be at least 1"),
        (("--reference", "pretrained={pretrained}", "--seed", "-1"), "--seed -1: must lie between 0 and 4294967295"),
        (("--reference", "pretrained"), "write NAME=PATH"),
        (("--reference", "pretrained={pretrained}", "--out", "{here}"), "is a folder"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_trained(models, data, tmp_path, more, told):
    more = [part.format(here=tmp_path, **models) for part in more]
    result = tune_attack(models["classifier"], data, "--out", tmp_path / "attack.toml", *more)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_public_documents_without_fields_to_attack_are_refused(models, tmp_path):
    data = _attack_only(tiny.corpus(tmp_path / "data", members=2, heldout=2, public=20), "none")
    result = tune_attack(
        models["classifier"], data, "--out", tmp_path / "attack.toml",
        "--reference", f"pretrained={models['pretrained']}",
    )  # fmt: skip
    assert result.exit_code == 2
    assert "0 of the 10 public documents of the shadow target hold a field of 3 to 15 tokens" in result.output
    assert not (tmp_path / "references").exists()


def test_the_user_is_told_when_tuning_gained_nothing():
    default, other = Reconstruction(), Reconstruction(temperature=0.2)
    low, high = Score(0.0, 0.2), Score(0.0, 0.4)
    assert "file holds the defaults" in tuning.warn_of_tuned(Tuned(default, low, low, low, 40, 10, True))[0]
    assert "do no better" in tuning.warn_of_tuned(Tuned(other, low, high, low, 40, 10, True))[0]
    assert tuning.warn_of_tuned(Tuned(other, low, high, high, 40, 10, True)) == []
