"""Pages whose words are listed across two columns: newspapers are named, tables are not."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.arrays import Floats
from audit.corpus.columns import find_across_columns, reads_across
from audit.corpus.documents import Document, Word
from audit.corpus.manifest import load

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
HEIGHT = 10.0


def line(top: float, left: float, widths: Sequence[float]) -> list[tuple[float, ...]]:
    """The boxes of the words of a line, with a third of its height between them."""
    boxes: list[tuple[float, ...]] = []
    for width in widths:
        boxes.append((left, top, left + width, top + HEIGHT))
        left += width + HEIGHT / 3
    return boxes


def columns(n_lines: int, words: int, seed: int) -> tuple[Floats, Floats]:
    """Two columns of running text, 240 wide each: words across both, and column by column."""
    rng = np.random.default_rng(seed)
    left: list[list[tuple[float, ...]]] = []
    right: list[list[tuple[float, ...]]] = []
    for number in range(n_lines):
        top = 14.0 * number
        for side, start in ((left, 0.0), (right, 270.0)):
            widths = rng.uniform(0.5, 1.0, words)
            room = 240 - (words - 1) * HEIGHT / 3
            side.append(line(top, start, list(widths * room / widths.sum())))
    across: list[tuple[float, ...]] = []
    for first, second in zip(left, right, strict=True):
        across += [*first, *second]
    down = [box for boxes in (*left, *right) for box in boxes]
    return np.array(across), np.array(down)


@given(st.integers(8, 50), st.integers(4, 9), st.integers(0, 1000))
def test_columns_are_named_where_words_go_across_and_not_where_they_go_down(
    n_lines: int, words: int, seed: int
) -> None:
    across, down = columns(n_lines, words, seed)
    assert reads_across(across)
    assert not reads_across(down)


def test_a_heading_over_both_columns_changes_nothing() -> None:
    across, down = columns(20, 6, 1)
    heading = np.array(line(-30.0, 100.0, [150.0, 160.0]))
    assert reads_across(np.concatenate([heading, across]))
    assert not reads_across(np.concatenate([heading, down]))


@given(st.integers(8, 50), st.integers(5, 14), st.integers(0, 1000))
def test_one_column_of_running_text_has_no_gap(n_lines: int, words: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes: list[tuple[float, ...]] = []
    for number in range(n_lines):
        boxes += line(14.0 * number, 0.0, list(rng.uniform(15.0, 60.0, words)))
    assert not reads_across(np.array(boxes))


@given(st.integers(8, 40), st.integers(1, 3), st.integers(1, 3), st.integers(0, 1000))
def test_tables_and_forms_are_rightly_read_across(
    n_lines: int, key: int, value: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    boxes: list[tuple[float, ...]] = []
    for number in range(n_lines):
        boxes += line(14.0 * number, 0.0, list(rng.uniform(15.0, 40.0, key)))
        boxes += line(14.0 * number, 300.0, list(rng.uniform(15.0, 40.0, value)))
    assert not reads_across(np.array(boxes))


def document(name: str, boxes: Floats) -> Document:
    words = tuple(Word("a", (x0, y0, x1, y1)) for x0, y0, x1, y1 in boxes.tolist())
    return Document(name, "member", words, None, (510, 800))


def test_pages_and_their_words_are_counted() -> None:
    across, down = columns(20, 6, 1)
    without_boxes = replace(document("c", down), words=(Word("a"),) * 50)
    counted = find_across_columns([document("a", across), document("b", down), without_boxes])
    assert counted.pages == ("a",)
    assert (counted.words, counted.all_words) == (240, 480)


@pytest.mark.parametrize("sample", ["receipts", "letters"])
def test_samples_of_forms_have_no_such_page(sample: str) -> None:
    assert find_across_columns(load(SAMPLES / sample / "data").documents).pages == ()
