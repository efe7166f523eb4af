"""Hidden values: what stays around them in sentences and on pages, under each mask, and where sentences begin."""

from dataclasses import replace
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.bars import LAYOUT, lines_of
from audit.corpus.documents import CATEGORIES, Box, Document, Entity, Mask, Word
from audit.corpus.redaction import FIXED, STAR, RedactedSpan, fits, redacted_spans, sentence_starts

MASKS: tuple[Mask, ...] = get_args(Mask)


def text(words: str, *entities: Entity, paragraphs: tuple[int, ...] = ()) -> Document:
    return Document(
        "d", "member", tuple(map(Word, words.split())), entities=entities, paragraphs=paragraphs
    )


def person(number: int, *words: int, attack: bool = True) -> Entity:
    return Entity(f"e{number}", "PERSON", "person", words, attack)


def one(document: Document, mask: Mask) -> RedactedSpan:
    (span,) = redacted_spans([document], mask)
    return span


def texts(document: Document, mask: Mask) -> list[str]:
    return [span.text for span in redacted_spans([document], mask)]


@pytest.mark.parametrize(
    ("written", "starts"),
    [
        pytest.param("He came. She went.", [0, 2], id="two sentences"),
        pytest.param(
            "The case (no. 12/3) was heard v. Poland by Mr. X and Mrs. Y.",
            [0],
            id="abbreviations of a case",
        ),
        pytest.param(
            "Nos. 1 and 2 of Art. 6 para. 1 apply. They do.",
            [0, 10],
            id="abbreviations of articles",
        ),
        pytest.param(
            "It was J. S. Wigand of the U.K. Government. So what? Yes! Then …",
            [0, 9, 11, 12],
            id="initials and an ellipsis",
        ),
        pytest.param("He said: “I will.” He did. and more", [0, 4], id="quotation marks"),
        pytest.param("1. The applicant was born. 2. He left.", [0, 5], id="numbered paragraphs"),
        pytest.param("It ended at 5 p.m. Then nothing.", [0], id="a time of the day"),
        pytest.param("In Bonn . The end", [0, 3], id="a stop that stands alone"),
    ],
)
def test_sentences_end_where_a_court_ends_them(written: str, starts: list[int]) -> None:
    assert list(sentence_starts(written.split())) == starts


def test_paragraphs_end_sentences_and_values_do_not() -> None:
    words = ["THE", "FACTS", "He", "met", "Co.", "Ltd.", "There", "today"]
    assert sentence_starts(words, paragraphs=(0, 2)) == (0, 2)
    ends = ["Acme", "ended.", "There", "it", "lay"]
    assert ((sentence_starts(ends), sentence_starts(ends, whole=(1, 2))), sentence_starts([])) == (
        ((0, 2), (0,)),
        (),
    )


def test_each_value_is_one_sample_and_the_others_stay_readable() -> None:
    document = text("Then Paolo was in New York . It rained .", person(1, 1), person(2, 4, 5))
    assert texts(document, "length") == [
        "Then ***** was in New York .",
        "Then Paolo was in ******** .",
    ]
    assert texts(document, "fixed") == [
        f"Then {FIXED} was in New York .",
        f"Then Paolo was in {FIXED} .",
    ]
    assert texts(document, "all") == [f"Then {FIXED} was in {FIXED} ."] * 2
    first, second = redacted_spans([document], "length")
    assert (first.n_characters, second.n_characters) == (5, 8)
    assert first.sentence == second.sentence == ("d", 0)
    assert (first.layout, first.bar, first.shown) == ((), None, None)


def test_values_that_may_not_be_attacked_are_no_samples_and_stay_readable() -> None:
    assert texts(text("Ann met Bob .", person(1, 0), person(2, 2, attack=False)), "all") == [
        f"{FIXED} met Bob ."
    ]


def test_a_value_that_is_its_sentence_has_no_context() -> None:
    span = one(text("Heading Acme It rained .", person(1, 1), paragraphs=(0, 1, 2)), "length")
    assert ((span.before, span.mask, span.after), span.sentence) == (("", "****", ""), ("d", 1))


def test_values_that_overlap_hide_what_is_their_own() -> None:
    document = text("Dr Ann Lee of Bonn", person(1, 0, 1, 2), person(2, 1, 2), person(3, 2, 3, 4))
    assert texts(document, "fixed") == [
        f"{FIXED} of Bonn",
        f"Dr {FIXED} of Bonn",
        f"Dr Ann {FIXED}",
    ]
    assert texts(document, "all") == [
        f"{FIXED} {FIXED}",
        f"{FIXED} {FIXED} {FIXED}",
        f"{FIXED} {FIXED}",
    ]


def test_a_value_in_pieces_is_hidden_in_all_of_them() -> None:
    document = text("Ann , called Nan . Nan left .", person(1, 0, 3, 5))
    assert texts(document, "length") == ["*** , called *** ."]
    assert texts(document, "fixed") == [f"{FIXED} , called {FIXED} ."]
    assert one(document, "length").n_characters == len("Ann Nan Nan")


def test_nothing_to_hide_gives_no_sample() -> None:
    assert redacted_spans([], "fixed") == ()
    blank = Document("d", "member", (Word(" "), Word("a")), entities=(person(1, 0), person(2)))
    assert redacted_spans([text("No value here ."), blank], "all") == ()


@st.composite
def documents(draw: st.DrawFn) -> Document:
    words = draw(
        st.lists(
            st.sampled_from(["Ann", "left.", "no.", "Then", "it", "(a)", "."]),
            min_size=1,
            max_size=12,
        )
    )
    places = st.lists(st.integers(0, len(words) - 1), min_size=1, max_size=4, unique=True)
    entities = [
        Entity(
            f"e{number}",
            "X",
            draw(st.sampled_from(CATEGORIES)),
            tuple(draw(places)),
            draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    if draw(st.booleans()):
        return text(" ".join(words), *entities)
    corner = st.tuples(st.integers(0, 80), st.integers(0, 80))
    boxed = []
    for word in words:
        x, y = draw(corner)
        boxed.append(Word(word, (x, y, x + draw(st.integers(0, 20)), y + draw(st.integers(0, 12)))))
    return Document("d", "member", tuple(boxed), size=(100, 100), entities=tuple(entities))


@given(documents(), st.sampled_from(MASKS))
def test_no_word_of_a_value_is_left_and_all_else_comes_from_the_document(
    document: Document, mask: Mask
) -> None:
    spans = redacted_spans([document], mask)
    attacked = [entity for entity in document.entities if entity.attack]
    assert [(span.entity, span.category) for span in spans] == [
        (one.id, one.category) for one in attacked
    ]
    for span, entity in zip(spans, attacked, strict=True):
        hidden = {*entity.words} | (
            {w for other in attacked for w in other.words} if mask == "all" else set()
        )
        left = [word.text for index, word in enumerate(document.words) if index not in hidden]
        context = [word for word in f"{span.before} {span.after}".split() if set(word) != {STAR}]
        for word in set(context):
            assert context.count(word) <= left.count(word)
        assert set(span.mask) == {STAR}
        assert mask == "length" or span.mask == FIXED
        assert span.n_characters == len(document.text_of(entity))
        assert len(span.layout) in (0, len(LAYOUT))
        assert (span.shown is not None) <= (mask == "length" and span.bar is not None)


@given(documents())
def test_a_text_reads_the_same_under_both_masks_of_a_single_value_but_for_its_bars(
    document: Document,
) -> None:
    for first, second in zip(
        *(redacted_spans([document], mask) for mask in ("length", "fixed")), strict=True
    ):
        assert (first.sentence, first.entity, first.n_characters) == (
            second.sentence,
            second.entity,
            second.n_characters,
        )
        assert not any(second.layout[2:])
        if not first.layout:
            words = [
                [word for word in span.text.split() if set(word) != {STAR}]
                for span in (first, second)
            ]
            assert words[0] == words[1]


def box(line: int, column: int, length: int) -> Box:
    return (column * 10.0, line * 20.0, (column + length) * 10.0, line * 20.0 + 10)


def page(*lines: tuple[int, str], entities: tuple[Entity, ...]) -> Document:
    """Words of ten pixels a character, on lines of ten pixels, twenty apart."""
    words = []
    for number, line in lines:
        column = 0
        for word in line.split():
            words.append(Word(word, box(number, column, len(word))))
            column += len(word) + 1
    return Document("d", "member", tuple(words), size=(400, 400), entities=entities)


def test_the_context_of_a_page_is_the_line_and_its_neighbours() -> None:
    document = page(
        (0, "far away"),
        (5, "Buyer"),
        (6, "Name Ann Lee 1987"),
        (7, "Total"),
        (15, "End"),
        entities=(person(1, 4, 5),),
    )
    span = one(document, "length")
    assert (span.text, span.sentence) == ("Buyer\nName ******* 1987\nTotal", ("d", 2))
    assert span.layout == pytest.approx((50 / 400, 125 / 400, 7.0, 70 / (14 * 10 / 14)))
    assert span.bar is not None
    assert (span.bar.width, span.bar.height, span.bar.character) == (70, 10, 10)
    assert one(document, "fixed").layout[2:] == (0, 0)
    assert one(document, "fixed").shown is None


def test_reading_order_of_a_page_is_that_of_its_boxes() -> None:
    words = (
        Word("Lee", box(0, 9, 3)),
        Word("Name", box(0, 0, 4)),
        Word("of", box(1, 0, 2)),
        Word("Ann", box(0, 5, 3)),
    )
    document = Document("d", "member", words, size=(400, 400), entities=(person(1, 0, 3),))
    assert (one(document, "length").text, lines_of(words)) == (
        "Name *******\nof",
        ((1, 3, 0), (2,)),
    )


def test_a_value_over_two_lines_is_hidden_in_both() -> None:
    span = one(page((0, "at Long"), (1, "Street 5 in"), entities=(person(1, 1, 2, 3),)), "length")
    assert span.text == "at ****\n******** in"
    assert span.bar is not None
    assert span.bar.width == 40 + 80


@pytest.mark.parametrize("mask", ["fixed", "all"])
def test_under_bars_of_one_length_neither_lines_nor_place_tell_how_long_a_value_is(
    mask: Mask,
) -> None:
    short = page((0, "at Rue"), (1, "in France"), (2, "end"), entities=(person(1, 1),))
    wrapped = page((0, "at Long"), (1, "Street in France"), (2, "end"), entities=(person(1, 1, 2),))
    full = page(
        (0, "at Long"), (1, "Street and Yard"), (2, "in France"), entities=(person(1, 1, 2, 3, 4),)
    )
    assert {one(document, mask).text for document in (short, wrapped, full)} == {
        f"at {FIXED}\nin France"
    }
    fields = [  # forms, whose fields stay where they are, however long a value is
        page(
            (0, f"L {value}"),
            *((n + 1, "x") for n in range(n_more)),
            (3, "M"),
            entities=(person(1, 1, *range(2, 2 + n_more)),),
        )
        for value, n_more in (("x", 0), ("x", 1), ("x", 2))
    ]
    assert {one(document, mask).text for document in fields} == {f"L {FIXED}\nM"}
    flush = []
    for value in ("1", "10,000.00"):
        words = (Word("Sum", box(0, 0, 3)), Word(value, box(0, 20 - len(value), len(value))))
        flush.append(Document("d", "member", words, size=(400, 400), entities=(person(1, 1),)))
    first, second = (one(document, mask) for document in flush)
    assert (first.text, first.layout) == (second.text, second.layout)
    assert first.layout[0] == 30 / 400  # where the word before ends
    assert one(flush[0], "length").layout != one(flush[1], "length").layout
    alone = [
        replace(document, words=document.words[1:], entities=(person(1, 0),)) for document in flush
    ]
    assert one(alone[0], mask).layout == one(alone[1], mask).layout


def test_under_all_the_length_of_a_hidden_neighbour_does_not_show_either() -> None:
    short = page((0, "By Al x"), (1, "tail"), entities=(person(1, 1), person(2, 2)))
    long = page((0, "By Alexander x"), (1, "tail"), entities=(person(1, 1), person(2, 2)))
    wrapped = page(
        (0, "By Al x"), (1, "Ander"), (2, "tail"), entities=(person(1, 1, 3), person(2, 2))
    )
    found = [redacted_spans([document], "all") for document in (short, long, wrapped)]
    for number in (0, 1):
        assert (
            len({span[number].text for span in found}),
            len({span[number].layout for span in found}),
        ) == (1, 1)


def test_the_width_of_a_character_is_measured_beside_the_bar_only() -> None:
    words = (Word("ab", (0, 0, 20, 10)), Word("WW", (30, 0, 90, 10)), Word("far", (0, 90, 60, 100)))
    wide = Document("d", "member", words, size=(100, 100), entities=(person(1, 1),))
    bar = one(wide, "length").bar
    assert bar is not None
    assert bar.character == 10
    alone = replace(wide, words=(*wide.words[1:],), entities=(person(1, 0),))
    bar = one(alone, "length").bar
    assert bar is not None
    assert bar.character == 20  # of the page's other words


def test_a_line_on_a_slope_is_still_one_line() -> None:
    words = tuple(Word("word", (50.0 * n, 3.0 * n, 50.0 * n + 40, 3.0 * n + 12)) for n in range(3))
    assert (lines_of(words), lines_of((Word("a"), Word("b")))) == (((0, 1, 2),), ())


def test_words_in_lines_are_all_there_once_and_from_left_to_right() -> None:
    words = [Word("x", box(line, column, 2)) for line in (3, 0, 2) for column in (4, 0, 9)]
    found = lines_of(words)
    assert sorted(index for line in found for index in line) == list(range(9))
    for line in found:
        lefts = [word_box[0] for index in line if (word_box := words[index].box)]
        assert all(earlier <= later for earlier, later in pairwise(lefts))


def test_names_fit_under_a_bar_within_a_pixel() -> None:
    assert (fits(70.0, 10.0, [7, 7, 6, 8]), fits(70.9, 10.0, [7]), fits(71.1, 10.0, [7])) == (
        2,
        1,
        0,
    )
    assert (fits(70.0, 0.5, [138, 139, 142, 143]), fits(70.0, 10.0, [])) == (3, 0)
