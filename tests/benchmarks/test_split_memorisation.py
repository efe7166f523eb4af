"""Memorisation and simplicity of single answers, from models trained on halves."""

import json
from pathlib import Path

import numpy as np

from benchmarks.papers import split_memorisation
from benchmarks.papers.split_memorisation import Answers, page_of, rows_of, scores_of

TRAINED_ON = np.array(
    [
        [True, True, False, False],
        [True, False, True, False],
        [False, True, False, True],
        [False, False, True, True],
    ]
)
"""Four models, each trained on the documents of two of four questions."""


def test_a_question_that_only_models_with_its_document_answer_is_memorised() -> None:
    scores = scores_of(TRAINED_ON, TRAINED_ON)

    assert scores.memorisation.tolist() == [1.0, 1.0, 1.0, 1.0]
    assert scores.simplicity.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_a_question_that_every_model_answers_is_simple() -> None:
    scores = scores_of(np.ones_like(TRAINED_ON), TRAINED_ON)

    assert scores.memorisation.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert scores.simplicity.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_a_question_that_half_of_the_models_answer_by_luck_is_neither() -> None:
    by_luck = np.array([[True], [False], [True], [False]])
    trained_on = np.array([[True], [True], [False], [False]])

    scores = scores_of(by_luck, trained_on)

    assert scores.memorisation.tolist() == [0.0]
    assert scores.simplicity.tolist() == [0.5]


def test_questions_are_grouped_by_what_the_audit_says_of_them() -> None:
    answers = Answers(
        questions=("a 1", "b 1", "c 1", "d 1"),
        documents=("a", "b", "c", "d"),
        given=np.array([True, True, True, False]),
        given_by_baseline=np.array([False, False, True, False]),
    )
    given = TRAINED_ON.copy()
    given[:, 2] = True

    proven, simple, rest = rows_of(answers, scores_of(given, TRAINED_ON))

    assert (proven["n"], proven["mean M"], proven["mean S"]) == (2, 1.0, 0.0)
    assert proven["memorised"]["hits"] == 2
    assert (simple["n"], simple["mean M"], simple["mean S"]) == (1, 0.0, 1.0)
    assert simple["memorised"]["hits"] == 0
    assert rest["n"] == 1


def test_the_page_says_what_its_numbers_say() -> None:
    folder = Path(split_memorisation.__file__).parent
    content = json.loads((folder / "split_memorisation.json").read_text())

    assert (folder / "split_memorisation.md").read_text() == page_of(content)
