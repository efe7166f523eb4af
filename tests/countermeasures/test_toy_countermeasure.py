"""Countermeasures that are registered, and nothing else: taken by the command line, compared, and recommended."""

import json
from pathlib import Path

import example_answers as answers
import pytest
from answering_checkpoints import make_donut
from scanned_worlds import make_questions
from typer.testing import CliRunner

from audit import record as records
from audit.cli import app
from audit.corpus.documents import Corpus
from audit.defenses.interface import DEFENSES, QueryDefense
from audit.defenses.remedy import AnsweredFinding, Remedy
from audit.defenses.rewording import reworded
from audit.engine.interface import Progress
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense
from audit.report.facts.recommend import recommend
from audit.report.html import html
from audit.targets.interface import Target


class Shouted(QueryDefense):
    """Every question in capitals."""

    name = "shouted"
    title = "Question in capitals"
    remedy = Remedy(
        id="shouted",
        name="Shout every question",
        does="The question of training is not asked.",
        cost="Peace.",
        check="Scan with it.",
        source="This test.",
        answers=(AnsweredFinding("memorisation", "*", ("violated",)),),
        measured_by=("shouted",),
    )

    def wrap(self, target: Target) -> Target:
        return reworded(self.name, target, str.upper)


class Unlearned(TrainingDefense):
    """A model that saw nothing of the data set: other random weights."""

    name = "unlearned"
    title = "No training at all"
    description = "not trained"
    teaches_refusal = True

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        return RetrainedModel(make_donut(out / "unlearned", 9), corpus.root)

    def refuses(self, answer: str) -> bool:
        return answer == ""


class Perfect:
    """Reads what the words say, as Tesseract does on pages larger than these."""

    def ask(self, queries):
        return [" ".join(word.text for word in query.view.words) for query in queries]


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    for defense in (Shouted(), Unlearned()):
        monkeypatch.setitem(DEFENSES, defense.name, defense)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data set with questions, a model, a baseline and what both were trained from: random weights."""
    root = tmp_path_factory.mktemp("toy")
    make_questions(root)
    return root


def docaudit(*arguments: object) -> tuple[str, int]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])

    return " ".join(result.output.split()), result.exit_code


def test_each_is_measured_and_compared_with_the_model_as_it_was(place, tmp_path, monkeypatch):
    monkeypatch.setattr("audit.attacks.questions.TESSERACT", Perfect())
    output, code = docaudit(
        "defend", "shouted,unlearned", place / "model", place / "data", "--out", tmp_path
    )
    assert code == 0, output
    assert records.read(tmp_path / "before").derived_by == ()
    page = (tmp_path / "defences.html").read_text()
    for defense in (Shouted, Unlearned):
        folder = tmp_path / str(defense.name)
        assert records.read(folder / "after").derived_by == (defense.title,)
        found = json.loads((folder / "comparison.json").read_text())
        assert {"net", "net.paraphrased"} <= {
            row["metric"] for row in found["effects"] if row["paired"]
        }
        assert [row["metric"] for row in found["usefulness"] if row["paired"]] == ["anls"]
        assert (found["side_channel"] is not None) == (defense is Unlearned)
        assert str(defense.title) in page


def test_a_scan_behind_it_says_so_under_either_spelling(place, tmp_path):
    given = (
        "--defence",
        "shouted",
        "--out",
        tmp_path / "out",
        "--budget",
        "quick",
        "--only",
        "memorisation",
    )
    docaudit("scan", place / "model", place / "data", *given)
    assert records.read(tmp_path / "out").derived_by == (Shouted.title,)
    for option in ("--defense", "--defence"):
        output, code = docaudit(
            "scan", place / "model", place / "data", option, "unlearned", "--out", tmp_path / "no"
        )
        assert code == 2
        assert "one of paraphrase, random-after, random-before, shouted" in output


def test_it_is_recommended_with_the_command_that_measures_it():
    record, verdict, policy = answers.leaky()
    assert "shouted" in {item.remedy.id for item in recommend(record, verdict)}
    page = html(record, verdict, policy)
    assert "Shout every question" in page
    assert "docaudit fix SCAN_DIR --try shouted" in page
    assert "docaudit defend random-before, docaudit defend random-after" in page
    assert "shouted" not in {item.remedy.id for item in recommend(*answers.clean()[:2])}


def test_one_that_is_not_registered_is_refused():
    output, code = docaudit("defend", "prayer", "MODEL_DIR", "DATA_DIR")
    assert code == 2
    assert "no countermeasure is called 'prayer'" in output
