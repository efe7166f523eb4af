"""Names of labels in another order are found, and a merely weak model raises no alarm."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from audit.arrays import Ints
from audit.corpus.tagging import scheme_of
from audit.measurements import LABEL_ORDER
from audit.policy.checks import LEVEL
from audit.targets.label_order import LabelledPage, check_label_order

LABELS = ("O", "B-DATE", "I-DATE", "B-NUMBER", "I-NUMBER", "B-TOTAL", "I-TOTAL", "B-VENDOR")
N_LABELS = len(LABELS)
IDENTITY = np.arange(N_LABELS)
SHIFTED = (IDENTITY + 1) % N_LABELS
SWAPPED = np.array([0, 3, 4, 1, 2, 5, 6, 7])
N_SEEDS = 40


def true_pages(rng: np.random.Generator, n_pages: int) -> list[Ints]:
    """Draw pages of six entities of one to three words, with others between them."""
    pages = []
    for _ in range(n_pages):
        tags: list[int] = []
        for _ in range(6):
            tags += [0] * int(rng.integers(1, 6))
            kind = int(rng.integers(0, 4))
            tags.append(1 + 2 * kind)
            if kind < 3:
                tags += [2 + 2 * kind] * int(rng.integers(0, 3))
        pages.append(np.array(tags))
    return pages


def entities_right(true: Ints, predicted: Ints) -> float:
    """Return the F1 of the entities of one page."""
    spans_of = scheme_of(LABELS).spans
    truth = spans_of([LABELS[tag] for tag in true])
    answers = spans_of([LABELS[tag] for tag in predicted])
    return 2 * len(truth & answers) / max(1, len(truth) + len(answers))


def checked(pages: Sequence[Ints], predicted: Sequence[Ints]) -> Any:
    compared = [LabelledPage(*pair) for pair in zip(pages, predicted, strict=True)]
    return check_label_order(N_LABELS, compared, lambda page, tags: entities_right(page.true, tags))


def predictions(
    rng: np.random.Generator, pages: Sequence[Ints], skill: float, names: Ints = IDENTITY
) -> list[Ints]:
    """Return what a model with some skill predicts, by other names."""
    answers = []
    for page in pages:
        guessed = rng.integers(0, N_LABELS, len(page))
        knows = rng.random(len(page)) < skill
        answers.append(names[np.where(knows, page, guessed)])
    return answers


@pytest.mark.parametrize("skill", [0.6, 0.9, 1.0])
@pytest.mark.parametrize("names", [SHIFTED, SWAPPED], ids=["shifted by one", "two swapped"])
def test_names_in_another_order_are_found(names: Ints, skill: float) -> None:
    rng = np.random.default_rng(0)
    pages = true_pages(rng, 40)
    check = checked(pages, predictions(rng, pages, skill, names))
    assert (check.name, check.cause) == (LABEL_ORDER, "alarm")
    assert check.p_value < 0.001
    assert "id2label" in check.remedy


def test_two_swapped_labels_are_named_by_their_outputs() -> None:
    rng = np.random.default_rng(0)
    pages = true_pages(rng, 40)
    swapped = IDENTITY.copy()
    swapped[[3, 5]] = (5, 3)
    check = checked(pages, predictions(rng, pages, 1.0, swapped))
    assert check.reason.endswith(": outputs 3 and 5 look swapped")


def test_a_shift_names_each_output_with_the_name_that_fits_it() -> None:
    rng = np.random.default_rng(0)
    pages = true_pages(rng, 40)
    check = checked(pages, predictions(rng, pages, 1.0, SHIFTED))
    assert "output 1 fits the name of output 0" in check.reason


@pytest.mark.parametrize(
    ("n_pages", "skill"), [(12, 0.0), (12, 0.3), (40, 0.0), (40, 0.1), (40, 0.3), (40, 0.6)]
)
def test_a_merely_weak_model_raises_no_alarm(n_pages: int, skill: float) -> None:
    raised = 0
    for seed in range(N_SEEDS):
        rng = np.random.default_rng(seed)
        pages = true_pages(rng, n_pages)
        raised += checked(pages, predictions(rng, pages, skill)).p_value <= LEVEL
    assert raised == 0


@pytest.mark.parametrize("output", range(N_LABELS))
def test_a_model_that_gives_one_label_to_all_words_raises_no_alarm(output: int) -> None:
    pages = true_pages(np.random.default_rng(0), 40)
    always = [np.full(len(page), output) for page in pages]
    assert checked(pages, always).p_value == 1.0


def test_a_model_whose_outputs_do_not_depend_on_the_words_raises_no_alarm() -> None:
    """An untrained head prefers some outputs, whose numbers other names would fit better."""
    rng = np.random.default_rng(0)
    pages = true_pages(rng, 40)
    preferred = np.array([1, 2, 3, 20, 40, 10, 4, 20]) / 100
    answers = [rng.choice(N_LABELS, len(page), p=preferred) for page in pages]
    assert checked(pages, answers).p_value == 1.0


def test_a_model_that_confuses_two_labels_as_often_as_not_raises_no_alarm() -> None:
    raised = 0
    for seed in range(N_SEEDS):
        rng = np.random.default_rng(seed)
        pages = true_pages(rng, 40)
        answers = []
        for page in pages:
            confuses = rng.random(len(page)) < 0.55
            answers.append(np.where(confuses, SWAPPED[page], page))
        raised += checked(pages, answers).p_value <= LEVEL
    assert raised == 0


def test_the_right_names_and_too_few_pages_raise_no_alarm() -> None:
    rng = np.random.default_rng(0)
    pages = true_pages(rng, 40)
    assert checked(pages, pages).p_value == 1.0
    assert checked(pages[:1], [SHIFTED[page] for page in pages[:1]]).p_value == 1.0
    assert checked([], []).p_value == 1.0
