"""`python -m benchmarks.tools.tune_attack`, and scans that read its file."""

import io
import json
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial

import pytest
import tiny
from commands import docaudit

from audit import record as records
from audit.attacks import battery as parameters
from audit.attacks.reconstruction import Reconstruction
from audit.errors import UsageError
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.loading import load
from benchmarks.tools import tune_attack as tuning
from benchmarks.tools.attack_tuning import Grid, tune

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_candidates")]

few_settings = partial(tune, grid=Grid((0.2, 0.3), (1.0, 10.0), (0.4, 0.6), (0.1, 0.9)))


@dataclass(frozen=True)
class Result:
    """The exit code of the script, and what it printed on both streams."""

    exit_code: int
    output: str


def tune_attack(*arguments):
    """Run the script in this process.

    A fixture of module scope needs it, which capsys does not allow.
    """
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
    (folder / "documents.jsonl").write_text(
        "".join(json.dumps(document) + "\n" for document in lines)
    )
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
        patch.setattr(
            Encoder,
            "_tokenise",
            lambda self, document: read.append(document) or tokenise(self, document),
        )
        result = tune_attack(
            models["classifier"], data, "--out", out, "--epochs", 2,
            "--reference", f"pretrained={models['pretrained']}",
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    return out, read, result.output


def scan(models, data, out, *more):
    auxiliary = f"auxiliary={models['pretrained']}"
    return docaudit(
        "scan",
        models["classifier"],
        data,
        "--reference",
        auxiliary,
        "--out",
        out,
        "--budget",
        "quick",
        *more,
    )


def test_the_file_says_what_was_tuned_on_what(tuned, models, data):
    provenance = tomllib.loads(tuned[0].read_text())["provenance"]
    assert provenance["corpus_sha256"] == tuning.load_corpus(data).sha256
    assert (provenance["target_sha256"], provenance["fields"]) == (
        load(models["classifier"]).card.sha256,
        10,
    )
    assert provenance["objective_in_sample"] > provenance["objective_defaults"]


def test_a_scan_takes_the_parameters_into_its_record(tuned, models, data, tmp_path):
    out, _, _ = tuned
    file = tmp_path / "attack.toml"
    file.write_text(out.read_text().replace("[reconstruction]", "[reconstruction]\nn_attempts = 3"))
    result = scan(models, data, tmp_path / "out", "--attack-parameters", file)
    assert result.exit_code == 11, result.output
    found = records.read(tmp_path / "out").attacks[0].parameters
    expected = (
        asdict(Reconstruction.preset("quick")) | tomllib.loads(file.read_text())["reconstruction"]
    )
    # A model that fills in words is asked about no page by a value of its own.
    del expected["n_pages"]
    assert (found, found["n_attempts"]) == (expected, 3)
    assert (found["temperature"], found["top_p"]) != (0.3, 0.1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[reconstruction]\ntemperatur = 0.3\n", "[reconstruction] temperatur: no such parameter"),
        ("[extraction]\nx = 1\n", "[extraction]: no attack is called so"),
        ("reconstruction = 3\n", "reconstruction: must be a table"),
        (
            '[reconstruction]\ntemperature = "hot"\n',
            "[reconstruction] temperature: Input should be a valid number",
        ),
        (
            "[reconstruction]\ntemperature = 0\n",
            "[reconstruction] temperature: Input should be greater than 0",
        ),
        (
            "[reconstruction]\ntarget_weight = 1.5\n",
            "[reconstruction] target_weight: Input should be less than or",
        ),
        (
            "[reconstruction]\ntop_p = 0.0\n",
            "[reconstruction] top_p: Input should be greater than 0",
        ),
        (
            "[reconstruction]\ntarget_weight = 0\n",
            "[reconstruction] target_weight: Input should be greater than 0",
        ),
        (
            '[reconstruction]\nmean = "harmonic"\n',
            "[reconstruction] mean: Input should be 'geometric' or 'arithmetic'",
        ),
        ("[reconstruction\n", "not readable as TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(models, data, tmp_path, text, message):
    file = tmp_path / "attack.toml"
    file.write_text(text)
    result = scan(models, data, tmp_path / "out", "--attack-parameters", file)
    assert result.exit_code == 2
    assert message in result.output
    assert str(file) in result.output
    assert not (tmp_path / "out").exists()


def test_all_that_is_wrong_with_a_file_is_said_at_once_and_a_missing_one_too(tmp_path):
    file = tmp_path / "attack.toml"
    file.write_text("[reconstruction]\ntop_p = 2\nn_shots = 3\n[other]\n")
    with pytest.raises(UsageError) as caught:
        parameters.read_parameters(file)
    assert len(caught.value.problems) == 3
    with pytest.raises(UsageError, match="No such file"):
        parameters.read_parameters(tmp_path / "missing.toml")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not readable as TOML"):
        parameters.read_parameters(file)


def test_every_parameter_of_the_attack_can_be_set(tmp_path):
    file = tmp_path / "attack.toml"
    wanted = Reconstruction(16, 2, 1.0, 2.0, 0.1, "arithmetic", 1.0, 4, 5)
    file.write_text(
        "[reconstruction]\nn_candidates = 16\nn_attempts = 2\ntemperature = 1\ntemperature_start = 2\n"
        'target_weight = 0.1\nmean = "arithmetic"\ntop_p = 1.0\nmin_tokens = 4\nmax_tokens = 5\n'
    )
    assert parameters.read_parameters(file).applied(Reconstruction()) == wanted
