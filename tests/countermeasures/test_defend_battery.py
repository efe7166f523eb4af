"""Countermeasures measured with the whole battery: several at once, killed and gone on with, merged into a report."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from commands import docaudit
from scanned_worlds import make_utterances

from audit.compare import defended as measured
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.defenses.interface import DEFENSES
from audit.defenses.remedy import AnsweredFinding, Remedy
from audit.engine.interface import Progress
from audit.errors import TargetError
from audit.extensions.countermeasures import measuring
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense
from audit.references.retrain import check_start

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
        answers=(
            AnsweredFinding(
                "*", "*", ("violated", "wide", "unmeasured", "weakened", "useless", "unresolved")
            ),
        ),
        measured_by=("copied",),
    )
    takes_settings = True
    trained: ClassVar[list[dict[str, object]]] = []
    model: ClassVar[Path | None] = None

    def __init__(self, options: dict[str, object] | None = None) -> None:
        self.options = options or {}

    def with_settings(self, settings: dict[str, object], options: object) -> "Copied":
        return Copied(settings)

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        self.trained.append(self.options)
        shutil.copytree(str(Copied.model), out / "copied", dirs_exist_ok=True)
        return RetrainedModel(out / "copied", corpus.root)


class Refusing(TrainingDefense):
    """For no such model."""

    name = "refusing"
    title = "For other models"
    description = "not made"

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        raise TargetError("it is for other models")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Utterances, and a model that was trained on some of them."""
    root = tmp_path_factory.mktemp("battery")
    make_utterances(root)
    return root


@pytest.fixture(scope="module", autouse=True)
def _registered(place):
    Copied.model = place / "model"
    with pytest.MonkeyPatch.context() as patch:
        training = {name for name, one in DEFENSES.items() if isinstance(one, TrainingDefense)}
        for name in training - {"blocking", "dp"}:  # those that would train on utterances
            patch.setitem(DEFENSES, name, type(name, (Refusing,), {"name": name})())  # type: ignore[arg-type]
        for defense in (Copied(), Refusing()):
            patch.setitem(DEFENSES, defense.name, defense)  # type: ignore[arg-type]  # a Mapping that is a dict
        yield


Run = Callable[..., tuple[str, int]]


@pytest.fixture(scope="module")
def defend(place, _registered):
    def run(name: str, out: Path, *more: object) -> tuple[str, int]:
        reference = f"pretrained={place / 'model'}"
        given = [
            place / "model",
            place / "data",
            "--out",
            out,
            "--budget",
            "quick",
            "--reference",
            reference,
            *more,
        ]
        result = docaudit("defend", name, *given)
        return " ".join(result.output.split()), result.exit_code

    return run


@pytest.fixture(scope="module")
def compared(defend, tmp_path_factory):
    """What `docaudit defend copied` wrote, printed and returned.

    Its evidence is in the folder `kept` beside it.
    """
    out = tmp_path_factory.mktemp("compared") / "out"
    return out, *defend("copied", out, "--evidence", out.parent / "kept")


def test_all_its_evidence_can_be_kept_elsewhere(compared):
    out = compared[0]
    kept = compared[0].parent / "kept"
    assert [*out.rglob("*.jsonl")] == [*out.rglob("evidence")] == []
    assert {path.parent.name for path in kept.rglob("recovered.jsonl")} == {"before", "after"}
    found = [path for path in kept.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (kept, *found) if path.is_dir()} == {0o700}
    text = (out / "before" / "record.json").read_text() + (
        out / "copied" / "comparison.json"
    ).read_text()
    assert str(kept) not in text
    # The same trials of both sides, however fast each of them is: time decides for a scan alone.
    sides = [json.loads(path.read_text()) for path in sorted(out.rglob("record.json"))]
    assert [(one["share"], one["shares"]) for one in sides] == [(0.25, {})] * 2


def test_a_countermeasure_that_changes_nothing_differs_by_nothing(compared):
    out, output, code = compared
    assert code == 0, output
    (found,) = measured.read_all(out)
    assert (found.name, found.kind, found.verdict_before) == (
        "copied",
        "training",
        found.verdict_after,
    )
    assert {one.attack for one in found.effects} >= {"membership"}
    differing = [one for one in (*found.effects, *found.usefulness) if one.difference is not None]
    assert {one.metric for one in differing} >= {"auc", "entity_f1"}
    assert all(
        (one.difference.value, one.p) == (0, 1) for one in differing if one.difference is not None
    )
    assert all(
        one.difference.low <= 0 <= one.difference.high
        for one in differing
        if one.difference is not None
    )
    assert all(one.difference is not None or one.note for one in found.effects)
    assert any(one.startswith("memorisation: ") for one in found.missing)
    page = (out / "defences.html").read_text()
    assert all(words in page for words in ("The same model again: effect", "Not compared (OLD is"))
    assert "not compared: memorisation: " in output


def test_its_effect_stands_in_the_plan_of_the_scan_without_it(compared, tmp_path):
    out = compared[0]
    sentence = "Measured on this model. The same model again: "
    assert sentence in (out / "before" / "report.html").read_text()
    docaudit("report", out / "before")
    assert sentence not in (out / "before" / "report.html").read_text()
    given = ["report", str(out / "before"), "--defense", str(out)]
    result = docaudit(*given)
    assert result.exit_code == 0, result.output
    assert sentence in (out / "before" / "report.html").read_text()
    comparison = json.loads((out / "copied" / "comparison.json").read_text())
    for key, word in (("target", "model"), ("data", "data set")):
        (tmp_path / "other.json").write_text(json.dumps(comparison | {key: "0" * 64}))
        result = docaudit(*given[:3], tmp_path / "other.json")
        assert result.exit_code == 2
        assert f"measured on another {word} than" in " ".join(result.output.split())


def test_several_stand_beside_each_other_and_a_second_run_reads_what_is_finished(defend, tmp_path):
    Copied.trained.clear()
    output, code = defend("copied,refusing,paraphrase", tmp_path, "--set", "steps=7")
    assert code == 0, output
    assert "refusing: not measured: it is for other models" in output
    assert "paraphrase: not measured: " in output
    assert Copied.trained == [{"steps": "7"}]
    assert "Not measured, because they do not apply" in (tmp_path / "defences.html").read_text()
    first = (tmp_path / "copied" / "comparison.json").read_bytes()
    output, code = defend("all", tmp_path, "--set", "steps=7")
    assert code == 0, output
    assert all(f"{name}: not measured" in output for name in DEFENSES if name != "copied")
    assert "copied: measured before" in output
    assert (len(Copied.trained), (tmp_path / "copied" / "comparison.json").read_bytes()) == (
        1,
        first,
    )


def test_where_none_applies_every_reason_is_given(defend, tmp_path):
    output, code = defend("refusing,paraphrase", tmp_path)
    assert code == 2
    assert "refusing: it is for other models" in output
    assert "paraphrase: " in output


def test_options_of_private_training_are_refused_for_others(defend, tmp_path):
    output, code = defend("blocking", tmp_path, "--epsilon", 8, "--set", "trained=head")
    assert code == 2
    assert "epsilon, trained: not of blocking" in output


def test_a_leak_that_contradicts_the_guarantee_ends_it(defend, tmp_path, monkeypatch):
    monkeypatch.setattr(
        measuring, "contradiction", lambda record: "epsilon 8 is claimed, 9 was measured"
    )
    output, code = defend("copied", tmp_path)
    assert code != 0
    assert "epsilon 8 is claimed, 9 was measured" in output


def test_the_audited_model_is_no_start_for_weights(tmp_path):
    import tiny

    (tmp_path / "model").mkdir()
    tiny.checkpoint(tmp_path / "model")
    data = manifest.load(tiny.corpus(tmp_path / "data"))
    with pytest.raises(TargetError, match="holds the audited model's own weights"):
        check_start(data, tmp_path / "model", tmp_path / "model")
