"""`audit.corpus.folding`: an answer stands on a page as whole words, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.documents import Question, Word
from audit.corpus.folding import fold, is_on_page


def on(page: list[str], *answers: str) -> bool:
    return is_on_page(Question("q", "What?", answers), [Word(text) for text in page])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("9.00", True),
        ("total rm", True),
        ("TOTALRM", True),
        ("Ｒed Shop", True),  # a full-width letter
        ("00", False),
        ("RM 9", False),
        ("RM 19.00", False),
        ("shop total", False),  # not in this order
    ],
)
def test_whole_words_in_order(answer: str, expected: bool) -> None:
    assert on(["Total", "RM", "9.00", "Red", "SHOP"], answer) is expected


def test_any_accepted_answer_will_do_and_an_empty_page_has_none() -> None:
    assert on(["9.00"], "nine", "9.00")
    assert not on([], "9.00")
    assert not on(["9.00"])


@given(st.lists(st.text("ab", min_size=1, max_size=3), max_size=7), st.text("ab", min_size=1, max_size=5))
def test_it_is_some_window_of_words(page: list[str], answer: str) -> None:
    windows = {"".join(page[i:j]) for i in range(len(page)) for j in range(i + 1, len(page) + 1)}
    assert on(page, answer) == (fold(answer) in windows)
