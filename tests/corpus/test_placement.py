"""Boxes that lie elsewhere than the words of their pages are warned of before any model is asked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.corpus import manifest
from audit.corpus.boxes import box_changes, rewrite_boxes
from audit.corpus.documents import Corpus, Document
from audit.corpus.placement import FEWEST_PAGES, placement_warnings

SAMPLES = Path(__file__).parents[2] / "sample_models"
N_PAGES = 16
CHANGES = dict(box_changes())


@pytest.fixture(scope="module")
def receipts() -> Corpus:
    """Some receipts of the sample, with their pictures."""
    sample = manifest.load(SAMPLES / "receipts" / "data")
    return dataclasses.replace(sample, documents=sample.documents[:N_PAGES])


def changed(corpus: Corpus, name: str) -> Corpus:
    """Write all boxes otherwise, in one of the ways that the checks of a scan try."""
    documents = tuple(rewrite_boxes(CHANGES[name], document) for document in corpus.documents)
    return dataclasses.replace(corpus, documents=documents)


@pytest.mark.parametrize("name", ["receipts", "questions"])
def test_right_boxes_are_not_warned_of(name: str) -> None:
    sample = manifest.load(SAMPLES / name / "data")
    assert [*placement_warnings(dataclasses.replace(sample, documents=sample.documents[:24]))] == []


WRONG = [
    pytest.param("scaled by 0.5", "scaled by 2", True, id="half as large"),
    pytest.param("scaled by 0.72", "scaled by 1.39", True, id="points for pixels"),
    pytest.param("scaled by 0.97", "scaled by 1.03", False, id="3 % too small"),
    pytest.param("scaled by 0.985", "scaled by 1.015", False, id="1.5 % too small"),
    pytest.param(
        "shifted right and down by 2 pixels",
        "shifted left and up by 2 pixels",
        False,
        id="2 pixels off",
    ),
    pytest.param("upside down", "upside down", False, id="upside down"),
    pytest.param(
        "of a page with margins of 5 % added",
        "of a page without margins of 5 %",
        False,
        id="margins",
    ),
]


@pytest.mark.parametrize(("wrong", "correction", "far"), WRONG)
def test_wrong_boxes_are_warned_of_and_the_correction_is_named(
    receipts: Corpus, wrong: str, correction: str, far: bool
) -> None:
    warnings = [*placement_warnings(changed(receipts, wrong))]
    assert f"boxes {correction} hold" in warnings[-1]
    assert warnings[0].startswith(f"On nearly all of {N_PAGES} pages no box reaches beyond") == far
    assert all("docaudit inspect DATA_DIR --preview 3" in warning for warning in warnings)


def stretched(
    right: float, bottom: float, *, pictured: bool = False
) -> Callable[[Document], Document]:
    """Return the change that multiplies all coordinates of boxes by these factors."""

    def change(document: Document) -> Document:
        words = []
        for word in document.words:
            assert word.box is not None
            x0, y0, x1, y1 = word.box
            box = (x0 * right, y0 * bottom, x1 * right, y1 * bottom)
            words.append(dataclasses.replace(word, box=box))
        image = document.image if pictured else None
        return dataclasses.replace(document, words=tuple(words), image=image)

    return change


@pytest.mark.parametrize(
    ("right", "bottom"), [(1, 0.57), (0.6, 1), (0.95, 0.7)], ids=["lower", "right", "thousandths"]
)
def test_an_empty_quarter_of_most_pages_is_warned_of(
    receipts: Corpus, right: float, bottom: float
) -> None:
    documents = tuple(map(stretched(right, bottom), receipts.documents))
    (warning,) = placement_warnings(dataclasses.replace(receipts, documents=documents))
    assert warning.startswith("On three of four of 16 pages no box reaches beyond")
    assert "thousandths" in warning


def test_pages_whose_ink_ends_with_their_boxes_are_not_warned_of(receipts: Corpus) -> None:
    """The sample's receipts end at 73 % of the page's height, and so do their boxes."""
    documents = tuple(map(stretched(1, 1, pictured=True), receipts.documents))
    assert [*placement_warnings(dataclasses.replace(receipts, documents=documents))] == []
    documents = tuple(map(stretched(1, 0.8, pictured=True), receipts.documents))
    warning, *_ = placement_warnings(dataclasses.replace(receipts, documents=documents))
    assert warning.startswith("On three of four of 16 pages")


def without_pictures(document: Document) -> Document:
    return dataclasses.replace(document, image=None)


def in_the_corner(document: Document) -> Document:
    return rewrite_boxes(CHANGES["scaled by 0.5"], without_pictures(document))


UNPICTURED: list = [
    pytest.param(in_the_corner, N_PAGES, 1, id="boxes in a corner"),
    pytest.param(without_pictures, N_PAGES, 0, id="right boxes"),
    pytest.param(in_the_corner, FEWEST_PAGES - 1, 0, id="too few pages"),
]


@pytest.mark.parametrize(("change", "n_pages", "n_warnings"), UNPICTURED)
def test_pages_without_pictures_are_judged_by_their_edges(
    receipts: Corpus, change: Callable[[Document], Document], n_pages: int, n_warnings: int
) -> None:
    documents = tuple(change(document) for document in receipts.documents[:n_pages])
    assert (
        len([*placement_warnings(dataclasses.replace(receipts, documents=documents))]) == n_warnings
    )
