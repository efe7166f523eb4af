"""`audit.corpus.folding`: when values are the same, how many documents have them, and which answers a page has."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.documents import (
    Category,
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Question,
    Split,
    Task,
    Word,
)
from audit.corpus.folding import fold, is_on_page, occurrences


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("BOOK TA.K", "book  ta .k"),
        ("Straße", "STRASSE"),
        # full-width
        ("Ｒ Ｍ９.00", "rm9.00"),
        # ligature
        ("ﬁne", "FINE"),
        # composed and not
        ("cafe\u0301", "CAFÉ"),
        # other white space
        ("a\xa0b\u3000c", "ABC"),
    ],
)
def test_values_that_are_the_same(first: str, second: str) -> None:
    assert fold(first) == fold(second)


@pytest.mark.parametrize(("first", "second"), [("9.00", "900"), ("A-1", "A1"), ("e", "é")])
def test_values_that_differ(first: str, second: str) -> None:
    assert fold(first) != fold(second)


@given(st.lists(st.text(max_size=6), max_size=4))
def test_folding_words_one_by_one_is_folding_the_whole(words: list[str]) -> None:
    assert "".join(map(fold, words)) == fold(" ".join(words))


@given(st.text(st.characters(codec="ascii")))
def test_ascii_takes_the_same_way_as_other_text(text: str) -> None:
    assert fold(text) == fold(text + "é").removesuffix("é")


def page(
    name: str, split: Split, text: str, *values: tuple[int, ...], category: Category = "misc"
) -> Document:
    words = tuple(Word(word) for word in text.split(" "))
    entities = tuple(Entity(str(i), "X", category, indices) for i, indices in enumerate(values))
    return Document(name, split, words, entities=entities)


def corpus_of(*documents: Document) -> Corpus:
    return Corpus(Path("/"), Manifest(1, "x", Task("mlm"), Membership("random")), documents, "")


def test_values_are_counted_by_document_and_split() -> None:
    pages = [page("a", "member", "Gardenia Bakery 9.00 Gardenia bakery", (0, 1), (3, 4), (2,))]
    pages += [
        page("b", "member", "x GARDENIA BAKERY", (1, 2)),
        page("c", "heldout", "GardeniaBakery y", (0,)),
    ]
    found = occurrences(corpus_of(*pages, page("d", "public", "z Unique Name", (1, 2))))
    bakery = found["gardeniabakery"]
    assert dict(bakery.as_value) == {"member": 2, "heldout": 1, "public": 0}
    assert not bakery.unique
    assert found["uniquename"].unique
    assert found["9.00"].unique


def test_a_value_on_another_page_is_not_unique_even_without_annotation() -> None:
    found = occurrences(
        corpus_of(
            page("a", "member", "Gardenia Bakery", (0, 1)),
            page("b", "public", "thanks GARDENIA bakery again"),
        )
    )
    assert dict(found["gardeniabakery"].as_value) == {"member": 1, "heldout": 0, "public": 0}
    assert dict(found["gardeniabakery"].anywhere) == {"member": 1, "heldout": 0, "public": 1}
    assert not found["gardeniabakery"].unique


@pytest.mark.parametrize("other", ["19.00", "9.000", "9.0 0x", "9 . 0"])
def test_part_of_a_word_is_no_occurrence(other: str) -> None:
    assert occurrences(corpus_of(page("a", "member", "9.00", (0,)), page("b", "public", other)))[
        "9.00"
    ].unique


def test_short_values_count_as_values_only() -> None:
    pages = [
        page("a", "member", "7.5 x", (0,)),
        page("b", "public", "7.5 y"),
        page("c", "public", "11", (0,)),
    ]
    found = occurrences(corpus_of(*pages, page("d", "heldout", "11", (0,))))
    assert found["7.5"].unique
    assert not found["11"].unique


@given(
    st.lists(
        st.lists(st.sampled_from(["ab", "cd", "a", "bcd", "d"]), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_pages_are_searched_like_a_plain_search_would(pages: list[list[str]]) -> None:
    documents = [
        page(str(i), "member", " ".join(words), tuple(range(len(words))))
        for i, words in enumerate(pages)
    ]

    def stands_on(value: str, words: list[str]) -> bool:
        pairs = [(i, j) for i in range(len(words)) for j in range(i + 1, len(words) + 1)]
        return any("".join(words[i:j]) == value for i, j in pairs)

    for value, occurrence in occurrences(corpus_of(*documents)).items():
        expected = [
            w for w in pages if "".join(w) == value or (len(value) >= 4 and stands_on(value, w))
        ]
        assert occurrence.anywhere["member"] == len(expected)


def on(page: list[str], *answers: str) -> bool:
    return is_on_page(Question("q", "What?", answers), [Word(text) for text in page])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("9.00", True),
        ("total rm", True),
        ("TOTALRM", True),
        # a full-width letter
        ("Ｒed Shop", True),
        ("00", False),
        ("RM 9", False),
        ("RM 19.00", False),
        # not in this order
        ("shop total", False),
    ],
)
def test_whole_words_in_order(answer: str, expected: bool) -> None:
    assert on(["Total", "RM", "9.00", "Red", "SHOP"], answer) is expected


def test_any_accepted_answer_will_do_and_an_empty_page_has_none() -> None:
    assert on(["9.00"], "nine", "9.00")
    assert not on([], "9.00")
    assert not on(["9.00"])


@given(
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=7),
    st.text("ab", min_size=1, max_size=5),
)
def test_it_is_some_window_of_words(page: list[str], answer: str) -> None:
    windows = {"".join(page[i:j]) for i in range(len(page)) for j in range(i + 1, len(page) + 1)}
    assert on(page, answer) == (fold(answer) in windows)
