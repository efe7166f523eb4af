"""Models that point at answers, from the command line to the record."""

from dataclasses import replace

import asked_pages
import pytest
from commands import docaudit
from encoder_zoo import write_extractive

from audit import policy as policies
from audit import record as records
from audit.corpus.documents import ReferencePaths, Task, TrainingRecipe
from audit.corpus.manifest import write

OFF_PAGE = ("memorisation", "attribute_inference", "canaries", "reconstruction")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data set with questions, a model and a baseline: random weights."""
    root = tmp_path_factory.mktemp("extractive")
    for seed, name in enumerate(("model", "baseline")):
        write_extractive(root / name, "layoutlm", seed)
    made = asked_pages.corpus(
        root / "data", members=6, heldout=4, public=3, labels=("TOTAL",), images=False
    )
    manifest = replace(
        made.manifest,
        task=Task("extractive-qa"),
        recipe=TrainingRecipe(epochs=1, batch_size=4, learning_rate=1e-3),
        references=ReferencePaths(),
    )
    write(root / "data", manifest, made.documents)
    return root


def test_such_a_model_is_inspected_planned_and_told_its_references(place):
    inspected = docaudit("inspect", place / "data", "--model", place / "model")
    assert inspected.exit_code == 0, inspected.output
    assert "of 7 attacks can run" in " ".join(inspected.output.split())
    planned = docaudit("plan", place / "data", "--model", place / "model", "--budget", "quick")
    assert planned.exit_code == 0, planned.output
    told = docaudit("references", place / "data", place / "model")
    assert told.exit_code == 0, told.output
    assert "--train splits" in " ".join(told.output.split())


@pytest.fixture(scope="module")
def scanned(place):
    given = (
        "--reference",
        f"baselines={place / 'baseline'}",
        "--reference",
        f"pretrained={place / 'baseline'}",
    )
    result = docaudit(
        "scan",
        place / "model",
        place / "data",
        "--out",
        place / "scan",
        "--budget",
        "quick",
        *given[:2],
    )
    assert result.exit_code in (0, 10, 11), result.output
    return records.read(place / "scan")


def test_membership_is_measured_and_what_is_off_the_page_is_said_to_be_out_of_reach(scanned):
    results = {result.attack: result for result in scanned.attacks}
    assert results["membership"].status == "completed"
    for name in OFF_PAGE:
        assert results[name].status == "inapplicable", name
        assert "points at words of the page" in results[name].why
    assert (scanned.target.task, [one.name for one in scanned.utility]) == (
        "extractive-qa",
        ["anls"],
    )


@pytest.mark.parametrize("name", ["default", "strict"])
def test_the_shipped_policies_permit_these_gaps(name):
    gaps = {gap.attack for gap in policies.load(name).gaps if "extractive-qa" in gap.tasks}
    assert gaps == {*OFF_PAGE, "redaction"}
