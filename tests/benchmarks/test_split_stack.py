"""The split stack of losses: whose losses it reads, and what it makes of planted truth."""

import json
from pathlib import Path

import numpy as np
import pytest

from audit.stats.roc import auc
from benchmarks.papers import split_stack_planted as planted
from benchmarks.papers import split_stack_sixteen as sixteen
from benchmarks.papers.split_stack import mean_unseen, single_unseen

SAW = 100.0


@pytest.fixture
def trained():
    """Four models; each of six documents was in the training of two."""
    rows = [[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1]]
    return np.array(rows, bool)


@pytest.mark.parametrize("outside_of", [single_unseen, mean_unseen])
@pytest.mark.parametrize("but", [None, 0, 1, 2, 3])
def test_no_model_that_saw_a_document_says_how_hard_it_is(outside_of, but, trained):
    losses = np.where(trained, SAW, 1.0)
    if but is not None:
        losses[:, but] = SAW
    before = trained.copy()
    assert outside_of(losses, trained, but).tolist() == [1.0] * 6
    assert np.array_equal(trained, before)


def test_the_mean_takes_all_models_that_did_not_see_a_document(trained):
    losses = np.arange(24.0).reshape(6, 4)
    assert mean_unseen(losses, trained, None)[0] == (2.0 + 3.0) / 2
    assert mean_unseen(losses, trained, 3)[0] == 2.0


@pytest.mark.parametrize("name", planted.SCORES)
def test_every_score_finds_planted_members(name):
    audit = planted.draw(8, 2.5, np.random.default_rng(0))
    column = planted.SCORES[name](audit)
    assert auc(column[: planted.SIDE], column[planted.SIDE :]) > 0.8


def test_the_page_has_the_tables_of_its_numbers():
    text = planted.PAGE.read_text(encoding="utf-8")
    rows = json.loads(Path(planted.RESULT).read_text(encoding="utf-8"))["rows"]
    assert "\n".join(planted.table_of(rows)) in text


def test_the_page_has_the_tables_of_the_models_numbers():
    text = sixteen.PAGE.read_text(encoding="utf-8")
    numbers = json.loads(sixteen.RESULT.read_text(encoding="utf-8"))
    for name, lines in sixteen.tables_of(numbers).items():
        assert f"<!-- {name} -->\n\n" + "\n".join(lines) + "\n" in text
