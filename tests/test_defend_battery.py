"""Countermeasures measured with the whole battery: several at once, killed and gone on with, merged into a report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import nlu_models
import pytest
from typer.testing import CliRunner

from audit import record as records
from audit.cli import app
from audit.corpus import manifest
from audit.corpus.documents import Corpus, Manifest, Membership, Task, TrainingRecipe
from audit.defenses import measured
from audit.defenses.interface import RetrainedModel, TrainingDefense
from audit.defenses.registry import DEFENSES
from audit.defenses.remedies import AnsweredFinding, Remedy
from audit.engine.interface import Progress
from audit.errors import TargetError
from audit.training.dp.options import DpOptions
from audit.training.nlu import NluRecipe, fit_nlu
from audit.workflows.defend import placing

pytestmark = pytest.mark.usefixtures("undrawn")
NAMES = ("ann lee", "bo", "cy", "dee", "ed fox", "flo", "gus", "hal ito")


class Copied(TrainingDefense):
    """The audited model once more: it changes nothing, and takes the options of private training."""

    name = "copied"
    title = "The same model again"
    description = "the same"
    baselines_like = False
    remedy = Remedy(
        id="copied",
        name="Train it once more",
        does="Nothing.",
        cost="A training.",
        check="Scan again.",
        source="This test.",
        answers=(AnsweredFinding("*", "*", ("violated", "wide", "unmeasured", "weakened", "useless", "unresolved")),),
        measured_by=("copied",),
    )
    trained: list[DpOptions | None] = []
    model: Path | None = None

    def __init__(self, options: DpOptions | None = None) -> None:
        self.options = options

    def with_options(self, options: DpOptions) -> Copied:
        return Copied(options)

    def train(self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress) -> RetrainedModel:
        self.trained.append(self.options)
        shutil.copytree(str(Copied.model), out / "copied", dirs_exist_ok=True)
        return RetrainedModel(out / "copied", corpus.root)


class Refusing(TrainingDefense):
    """For no such model."""

    name = "refusing"
    title = "For other models"
    description = "not made"

    def train(self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress) -> RetrainedModel:
        raise TargetError("it is for other models")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Utterances, and a model that was trained on some of them."""
    root = tmp_path_factory.mktemp("battery")
    documents = nlu_models.documents()
    documents += [nlu_models.play(f"h{number}", name, "heldout") for number, name in enumerate(NAMES)]
    documents += [nlu_models.rate(f"g{number}", str(number), "heldout") for number in range(10, 14)]
    documents += [nlu_models.play(f"o{number}", f"{name} x", "public") for number, name in enumerate(NAMES)]
    recipe = TrainingRecipe(epochs=2, batch_size=8)
    task = Task("intent-slots", nlu_models.TAGS)
    manifest.write(root / "data", Manifest(1, "utterances", task, Membership("random"), recipe=recipe), documents)
    data = manifest.load(root / "data")
    (root / "model").mkdir()
    fit_nlu(data.of("member"), (), NluRecipe(epochs=2, batch_size=8), root / "model", labels=nlu_models.TAGS)
    return root


@pytest.fixture(autouse=True)
def _registered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Copied.model, Copied.trained = place / "model", []
    for defense in (Copied(), Refusing()):
        monkeypatch.setitem(DEFENSES, defense.name, defense)


Run = Callable[..., tuple[str, int]]


@pytest.fixture
def defend(place: Path) -> Run:
    def run(name: str, out: Path, *more: object) -> tuple[str, int]:
        reference = f"pretrained={place / 'model'}"
        given = [place / "model", place / "data", "--out", out, "--budget", "quick", "--reference", reference, *more]
        result = CliRunner().invoke(app, ["defend", name, *map(str, given)])
        return " ".join(result.output.split()), result.exit_code

    return run


def test_a_countermeasure_that_changes_nothing_differs_by_nothing(defend: Run, tmp_path: Path) -> None:
    output, code = defend("copied", tmp_path)
    assert code == 0, output
    found = measured.read(tmp_path)
    assert (found.name, found.kind, found.verdict_before) == ("copied", "training", found.verdict_after)
    assert {one.attack for one in found.effects} >= {"membership"}
    compared = [one for one in (*found.effects, *found.usefulness) if one.difference is not None]
    assert {one.metric for one in compared} >= {"auc", "entity_f1"}
    assert all((one.difference.value, one.p) == (0, 1) for one in compared if one.difference is not None)
    assert all(one.difference.low <= 0 <= one.difference.high for one in compared if one.difference is not None)
    assert all(one.difference is not None or one.note for one in found.effects)
    missing = {one.attack: one for one in found.missing}
    assert missing["memorisation"].before == missing["memorisation"].after != ""
    page = (tmp_path / "defences.html").read_text()
    for words in ("The same model again: what it changes", "Not compared: ", "memorisation: "):
        assert words in page
    assert "memorisation: not compared" in output


def test_its_effect_stands_in_the_plan_of_the_scan_without_it(defend: Run, place: Path, tmp_path: Path) -> None:
    defend("copied", tmp_path / "out")
    sentence = "Measured on this model with docaudit defend copied"
    assert sentence in (tmp_path / "out" / "before" / "report.html").read_text()
    CliRunner().invoke(app, ["report", str(tmp_path / "out" / "before")])
    assert sentence not in (tmp_path / "out" / "before" / "report.html").read_text()
    given = ["report", str(tmp_path / "out" / "before"), "--defense", str(tmp_path / "out")]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert sentence in (tmp_path / "out" / "before" / "report.html").read_text()
    comparison = json.loads((tmp_path / "out" / "comparison.json").read_text())
    for key, word in (("target", "model"), ("data", "data set")):
        (tmp_path / "other.json").write_text(json.dumps(comparison | {key: "0" * 64}))
        result = CliRunner().invoke(app, [*given[:3], str(tmp_path / "other.json")])
        assert result.exit_code == 2
        assert f"measured on another {word} than" in " ".join(result.output.split())


def test_several_stand_beside_each_other_and_a_second_run_reads_what_is_finished(defend: Run, tmp_path: Path) -> None:
    output, code = defend("copied,refusing,paraphrase,evasion", tmp_path, "--steps", 7)
    assert code == 0, output
    assert "refusing: not measured: it is for other models" in output
    assert "paraphrase: not measured: " in output
    assert "evasion: not measured: it rewrites a data set" in output
    assert Copied.trained == [DpOptions(steps=7)]
    page = (tmp_path / "defences.html").read_text()
    assert "Not measured, because they do not apply" in page
    first = (tmp_path / "copied" / "comparison.json").read_bytes()
    output, code = defend("copied,refusing", tmp_path, "--steps", 7)
    assert code == 0, output
    assert "copied: measured before" in output
    assert len(Copied.trained) == 1
    assert (tmp_path / "copied" / "comparison.json").read_bytes() == first
    defend("copied,refusing", tmp_path, "--steps", 8)
    assert len(Copied.trained) == 2, "other options are another countermeasure"
    output, code = defend("refusing,paraphrase", tmp_path)
    assert code == 2
    assert "refusing: it is for other models" in output


def test_all_means_every_registered_countermeasure(defend: Run, place: Path, tmp_path: Path) -> None:
    reference = f"pretrained={place / 'model'}"
    given = [place / "model", place / "data", "--all", "--out", tmp_path, "--budget", "quick", "--reference", reference]
    result = CliRunner().invoke(app, ["defend", *map(str, given)])
    assert result.exit_code == 0, result.output
    listed = " ".join(result.output.split())
    assert all(f"{name}: not measured" in listed for name in DEFENSES if name != "copied")
    assert [one.name for one in measured.read_all(tmp_path)] == ["copied"]


def test_options_of_private_training_are_refused_for_others(defend: Run, tmp_path: Path) -> None:
    output, code = defend("blocking", tmp_path, "--epsilon", 8, "--train", "head")
    assert code == 2
    assert "--epsilon, --train: options of differential privacy, not of blocking" in output


def test_a_leak_that_contradicts_the_guarantee_ends_it(
    defend: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "contradiction", lambda record: "epsilon 8 is claimed, 9 was measured")
    output, code = defend("copied", tmp_path)
    assert code == 1
    assert "epsilon 8 is claimed, 9 was measured" in output
    assert not (tmp_path / "comparison.json").exists()
    assert records.read(tmp_path / "after").target is not None


def test_the_audited_model_is_no_start_for_weights(tmp_path: Path) -> None:
    import tiny

    (tmp_path / "model").mkdir()
    tiny.checkpoint(tmp_path / "model")
    data = manifest.load(tiny.corpus(tmp_path / "data"))
    with pytest.raises(TargetError, match="holds the audited model's own weights"):
        placing.check_start(data, tmp_path / "model", tmp_path / "model")
