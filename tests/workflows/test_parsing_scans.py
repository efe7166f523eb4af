"""Models that write pages, from the command line to the record."""

import pytest
from commands import docaudit
from parsed_pages import corpus as parsed_corpus
from parsed_pages import donut

from audit import record as records
from audit.corpus.documents import ReferencePaths
from audit.record import Result

pytestmark = pytest.mark.slow


def result_of(record, name):
    return next(result for result in record.attacks if result.attack == name)


@pytest.fixture(scope="module")
def parsed(tmp_path_factory):
    """A data set for parsing, a model, and what it was trained from: random weights."""
    root = tmp_path_factory.mktemp("parsed")
    for seed, name in enumerate(("pretrained", "model")):
        donut(root / "data" / "references" / name, seed)
    references = ReferencePaths(pretrained="references/pretrained")
    parsed_corpus(root / "data", members=8, heldout=4, public=4, references=references)
    (root / "data" / "references" / "model").rename(root / "model")
    return root


def test_a_scan_of_a_parsing_model_runs_the_attacks_on_answers_with_a_baseline_that_it_trains(
    parsed, tmp_path
):
    trained = docaudit(
        "references", parsed / "data", parsed / "model", "--train", "--out", tmp_path
    )
    assert trained.exit_code == 0, trained.output
    more = (
        "--reference",
        f"baselines={tmp_path / 'baselines'}",
        "--out",
        tmp_path / "out",
        "--budget",
        "quick",
    )
    scan = docaudit("scan", parsed / "model", parsed / "data", *more)
    assert scan.exit_code in (0, 10, 11), scan.output
    record = records.read(tmp_path / "out")
    assert record.target.task == record.corpus.task == "parsing"
    assert {card.role for card in record.references} == {"baseline-0", "pretrained"}
    for name in ("memorisation", "membership"):
        assert isinstance(result_of(record, name), Result), result_of(record, name)
    left_out = record.results["reconstruction"]
    assert (left_out.status, left_out.reason.kind) == ("skipped", "budget")
    assert "net" in {item.name for item in result_of(record, "memorisation").measurements}
    found = {item.name: item for item in result_of(record, "memorisation").measurements}
    assert found["net.paraphrased"].kind == "unresolved"
    (useful,) = record.utility
    assert (useful.name, useful.unit) == ("anls", "fields")


def test_a_countermeasure_that_rewords_questions_is_refused_for_a_parsing_model(parsed, tmp_path):
    more = ("--out", tmp_path / "out", "--budget", "quick", "--defense", "paraphrase")
    result = docaudit("scan", parsed / "model", parsed / "data", *more)
    assert result.exit_code == 2
    assert "is asked no question" in result.output
