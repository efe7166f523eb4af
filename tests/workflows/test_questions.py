"""Models that answer questions, from the command line to the record: scans, baselines, splits, countermeasures."""

import json
import shutil
from dataclasses import replace

import pytest
from answering_checkpoints import make_donut
from asked_pages import corpus
from commands import docaudit
from scanned_by_engines import opened_elsewhere, work_of
from scanned_worlds import make_questions

from audit import record as records
from audit.corpus import manifest
from audit.engine.interface import SILENT
from audit.record import Result
from audit.references.training import train_baseline
from audit.workflows.attacking import fill_references
from audit.workflows.options import ScanOptions, claim_folder
from audit.workflows.run import read_outcomes
from audit.workflows.session import open_session

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data set with questions, a model, a baseline and what both were trained from: random weights."""
    root = tmp_path_factory.mktemp("questions")
    make_questions(root)
    return root


@pytest.fixture(scope="module")
def scanned(place):
    result = docaudit(
        "scan", place / "model", place / "data", "--out", place / "scan", "--budget", "quick"
    )
    assert result.exit_code in (10, 11, 0), result.output
    return records.read(place / "scan")


def result_of(record, name):
    return next(result for result in record.attacks if result.attack == name)


def test_a_quick_scan_of_a_donut_runs_the_attacks_on_answers_and_says_what_it_leaves_out(
    scanned,
):
    assert isinstance(result_of(scanned, "memorisation"), Result)
    assert isinstance(result_of(scanned, "membership"), Result)
    left_out = result_of(scanned, "reconstruction")
    assert (left_out.status, left_out.reason.kind) == ("skipped", "budget")
    assert left_out.reason.why.startswith("not tried, as in every quick scan")
    assert [item.name for item in scanned.utility] == ["anls"]
    assert {card.role for card in scanned.references} == {"baseline-0", "pretrained"}
    assert scanned.corpus.questions == {"member": 10, "heldout": 4, "public": 4}


def test_the_same_scan_gives_the_same_record_whatever_the_batch_size(place, scanned):
    more = ("--out", place / "rows", "--budget", "quick", "--batch-size", 16)
    docaudit("scan", place / "model", place / "data", *more)
    assert replace(records.read(place / "rows"), timing=scanned.timing) == scanned


def test_without_a_baseline_the_attack_is_skipped_and_says_how_to_make_one(place, tmp_path):
    corpus(tmp_path / "data", members=10, heldout=4, labels=("TOTAL",))
    docaudit(
        "scan", place / "model", tmp_path / "data", "--out", tmp_path / "out", "--budget", "quick"
    )
    result = result_of(records.read(tmp_path / "out"), "memorisation")
    assert result.status == "skipped"
    assert "docaudit references MODEL_DIR DATA_DIR --train" in result.reason.fix


def test_baselines_and_split_models_are_trained_and_taken_by_a_scan(place, tmp_path):
    make_donut(tmp_path / "baselines" / "of-another-model", 7, size=(32, 32))
    given = ("references", place / "data", place / "model", "--train", "--out", tmp_path)
    trained = docaudit(*given, "splits", "baselines", "--count", 2)
    assert trained.exit_code == 0, trained.output
    command = trained.output.split("docaudit ")[-1].split()
    assert command[:3] == ["scan", str(place / "model"), str(place / "data")]
    members = json.loads((tmp_path / "splits" / "splits.json").read_text())["members"]
    assert len(members) == 2
    scan = docaudit(*command, "--out", tmp_path / "out", "--budget", "quick", "--documents", 6)
    assert scan.exit_code in (0, 10, 11), scan.output
    roles = {card.role for card in records.read(tmp_path / "out").references}
    assert roles == {"baseline-0", "baseline-1", "pretrained", "split-0", "split-1"}
    result = result_of(records.read(tmp_path / "out"), "membership")
    assert {"split models": 2}.items() <= {
        count.name: count.value for count in result.counts
    }.items()


@pytest.mark.parametrize("name", ["baselines", "splits"])
def test_references_are_never_trained_from_the_audited_model(place, tmp_path, name):
    """Such a baseline knows the audited documents: it would hide the leak that it is to show."""
    shutil.copytree(place / "model", tmp_path / "copy")
    given = ("--train", name, "--out", tmp_path / "references")
    start = ("--reference", f"pretrained={tmp_path / 'copy'}")
    result = docaudit("references", place / "model", place / "data", *given, *start)
    assert result.exit_code == 2, result.output
    message = " ".join(result.output.split())
    assert "holds the audited model's own weights" in message
    assert "name what the model was fine-tuned from: --reference pretrained=PATH" in message
    assert not (tmp_path / "references").exists()


def test_what_is_lacking_to_train_references_is_said(place, tmp_path):
    corpus(tmp_path / "data", members=10, heldout=4, public=0, labels=("TOTAL",))
    start = ("--reference", f"pretrained={place / 'data' / 'references' / 'pretrained'}")
    result = docaudit(
        "references", place / "model", tmp_path / "data", "--train", "--out", tmp_path, *start
    )
    assert result.exit_code == 2, result.output
    assert "there is nothing to train a baseline on" in " ".join(result.output.split())
    assert "--public" in result.output


def trained_on_what_is_audited(place, folder):
    """A baseline, and a data set that declares its documents held-out."""
    data = shutil.copytree(place / "data", folder / "data")
    assert (
        docaudit(
            "references", data, place / "model", "baselines", "--train", "--out", folder
        ).exit_code
        == 0
    )
    documents = (data / "documents.jsonl").read_text()
    (data / "documents.jsonl").write_text(
        documents.replace('"split": "public"', '"split": "heldout"')
    )
    return data, f"baselines={folder / 'baselines'}"


def trained_from_the_target(place, folder):
    """A baseline that another tool trained; `docaudit references` refuses such a start."""
    train_baseline(place / "model", manifest.load(place / "data"), folder / "baselines")
    return place / "data", f"baselines={folder / 'baselines'}"


def splits_of_another_data_set(place, folder):
    given = ("--train", "splits", "--out", folder, "--count", 2)
    assert docaudit("references", place / "data", place / "model", *given).exit_code == 0
    path = folder / "splits" / "splits.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"corpus": "0" * 64}))
    return place / "data", f"splits={folder / 'splits'}"


def of_another_size(place, folder):
    return place / "data", f"baselines={make_donut(folder / 'other', 7, size=(32, 32))}"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (trained_on_what_is_audited, "was trained on 4 documents that are members or held-out now"),
        (trained_from_the_target, "was trained from the target itself"),
        (splits_of_another_data_set, "trained on another data set"),
        (of_another_size, "another size"),
        (
            lambda place, _: (place / "data", f"baselines={place / 'model'}"),
            "holds the target's own weights",
        ),
    ],
)
def test_unfair_references_are_refused_and_nothing_is_written(make, reason, place, tmp_path):
    data, reference = make(place, tmp_path)
    result = docaudit(
        "scan", place / "model", data, "--reference", reference, "--out", tmp_path / "out"
    )
    assert result.exit_code == 2
    assert reason in result.output
    assert not (tmp_path / "out").exists()


def test_on_a_cpu_only_some_numbers_of_rows_keep_answers_apart(place, tmp_path):
    result = docaudit(
        "scan", place / "model", place / "data", "--batch-size", 5, "--out", tmp_path / "out"
    )
    assert result.exit_code == 2
    assert "multiple of 16" in result.output


def test_workers_elsewhere_open_the_same_references(place):
    out = place / "elsewhere"
    opened = open_session(ScanOptions(place / "model", place / "data", out, budget="quick"))
    attack = next(attack for attack in opened.attacks if attack.name == "memorisation")
    with claim_folder(out):
        planned, outcomes = read_outcomes(opened, "memorisation")
        filled = fill_references(opened, SILENT)
        work = opened_elsewhere(work_of(opened, filled, attack=attack), place / "copies")
    from audit.engine.driver import drive

    assert dict(drive(work, planned.trials[:4], 2)) == dict(
        zip((trial.id for trial in planned.trials[:4]), outcomes[:4], strict=True)
    )
    assert len(planned.case.references.baselines) == 1


def test_a_countermeasure_stands_before_the_references_too(place, tmp_path):
    options = ScanOptions(
        place / "model", place / "data", tmp_path, defense="random-after", only=("memorisation",)
    )
    opened = open_session(options)
    references = opened.case_with(fill_references(opened, SILENT)).references
    assert [type(model).__name__ for model in references.baselines] == ["Reworded"]
