"""An answer leaves the page whole, and alone (methods/memorisation.md#proof-of-removal)."""

import drawn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from rapidfuzz.distance import Levenshtein
from scipy.ndimage import gaussian_filter

from audit.corpus.documents import Word
from audit.corpus.images import PageView
from audit.corpus.removal import cover, remove
from audit.corpus.removal.matching import (
    find_answers,
    letters_and_digits,
    normalise_ocr,
    prepare_answers,
)
from audit.corpus.removal.proof import survives, why_derivable

OCR_ERRORS = [
    ("Anna", "signed by [Anma] on Monday"),
    ("Anna", "signed by [Ana] on Monday"),
    ("Anna", "[Annna] / was here"),
    ("7391", "room [7891] first floor"),
    ("7391", "room 12 [739] key 5"),
    ("7391", "room [73491] key"),
    ("Smith", "Mr [Smlth] and Mr [Smirh] and Mr [5mith] of Leeds"),
    ("Smith", "dear [Snith] and Smurfs"),
    ("Keller", "[Kelter] & Sons"),
    ("Keller", "to: [Keler] / Zurich"),
    ("Keller", "[Kellner] Zurich"),
    ("48213", "ref [48218] page 1 of 3"),
    ("48213", "ref [48-21Z] page"),
    ("48213", "4 [4821] 7"),
    ("Lisbon", "from [Llsbon] or [L1shon] to Porto"),
    ("Lisbon", "from [Lisb0m] to Porto"),
    ("Mercury", "the planet [Mercucy] moves"),
    ("Mercury", "the planet [Mencury] and Mars"),
    ("904-117", "code [904-177] ok"),
    ("904-117", "code [904 117] ok [90-117]"),
    ("Hannover", "[Hanmover] Messe"),
    ("Hannover", "[Hannver] / Messe"),
    ("Hannover", "[Harmover] Messe"),
    ("25/12/18", "on [25/12/19] at 10:30"),
    ("26071987", "born [26071981] male"),
    ("26071987", "born [2607198] A male"),
    ("26071987", "born [260719987] male"),
    ("12345678", "id [12345679] 9 next"),
    ("1234567", "[1Z34567] B"),
    ("Gardenia", "by [Gardenla] or [Gandenia] Bakeries"),
    ("Strasburg", "in [Strasbrg] city"),
    ("Strasburg", "in [Strasborg] city"),
    ("Wellman 4", "[Welman 4] and co"),
    ("Jalan Sagu", "no 5 [Jalan Saga] 7 [Jalam Sagu] x"),
]
ADDRESSES = [
    ("john.smith", "write to [john.smith@mail.com] today"),
    ("John Smith", "write to [john.smith@mail.com] today"),
    ("john smith", "[John_Smith@mail.com] or [www.johnsmith.org/cv]"),
    ("Smith", "mail [jsmith@x.org] or call"),
    ("acme", "see [www.acme.com] for more"),
    ("acme.com", "see [https://www.acme.com/legal] or info at [acme.com]"),
    ("Acme Tools", "[http://acme-tools.de] by [ACME Tools] GmbH"),
    ("0172 5551", "[tel:+49-172-5551,ext] or [+49(0)1725551] now"),
    ("muller", "[h.müller@web.de] / [Müller,] Hans"),
    ("gardenia", "[(gardenia.com.my)] / [www.gardenia.com.my] guard"),
    ("lee", "lee@mail.com and leeway but [Lee]"),
    ("ana", "[Ana] banana@fruit.org"),
    ("7391", "[https://x.org/?id=7391&p=2] page"),
    ("info@x.org", "[info@x.org,] [INFO@X.ORG] office"),
]
AMOUNTS = [
    ("9.00", "total [RM9.00] of 19.00"),
    ("9.00", "total RM [9.00] of 109.00 or 9.001"),
    ("RM9.00", "total [RM 9.00] and [9.00] change 1.00"),
    ("RM 9.00", "[RM9.00SR] / [9.00]"),
    ("$9.00", "[9.00] [$9.00] [USD9.00] 90.00"),
    ("9.00", "[€9.00] [9.00€] [9,00] 0.90"),
    ("9.00", "TOTAL:9.50 [TOTAL:9.00] [(9.00)] [|9.00|]"),
    ("9.00", "[RM9.O0] [9.0O] [9. 00]"),
    ("1,234.50", "sum [1234.50] or [RM1,234.50] or 12.00"),
    ("RM 1,234.50", "sum [1,234.50] [MYR1234.50] of"),
    ("12.50", "[RM12.50] USD [12.50] total"),
    ("USD 12.50", "[12.50] [12.50*] of 3 items"),
    ("RM 5", "[RM 5] or [RM5] or [5] but 5.00 and 15"),
    ("5", "[5] [$5] 55 A5 5.00 5/6"),
    ("45.80", "[S$45.80] [Total:45.80] paid 20.00"),
    ("45.80", "[RM45.30] cash 7.10"),
]
LINE_BREAKS = [
    ("Anna Berg", "by [Anna / Berg] here"),
    ("Anna Berg", "by [Anna- / Berg,] here"),
    ("Hannover", "in [Han- / nover] today"),
    ("12 High Street", "at [12 High / Street] / London"),
    ("12 High Street", "at [12 / High / Street] London 12"),
    ("0172 555 123", "call [0172 / 555123] or fax"),
    ("25/12/2018", "date [25/ / 12/ / 2018] end"),
    ("25/12/2018", "date [25 / 12 / 2018] end"),
    ("John Smith", "Mr. [John / Smith's] car"),
    ("1234", "a [12 / 34] b"),
]
PARTS_OF_WORDS = [
    ("ten", "tender often [Ten] attend"),
    ("ten", "ten-fold [(ten)] [TEN.]"),
    ("ten", "kitten mitten [ten:] tent [t en]"),
    ("art", "party [Art] smart start"),
    ("or", "for order [OR] and/or"),
    ("12", "112 123 [12] 12.50 2012"),
    ("12", "Table:15 [Table:12] 12:30 1/12"),
    ("15", "is this his IS2 [15] [lS] 115"),
    ("50", "so some [50] 500 also [5O]"),
    ("10", "[1O] lo 100 [IO] [l0]"),
    ("M", "[M] MR am [m.] Mm"),
    ("A5", "[A5] A55 [a5,] A5B [AS]"),
    ("yes", "eyes [Yes] yesterday"),
    ("abc", "abcd [a.b.c.] [ABC] dabc"),
]
PAGES = {
    "OCR error": OCR_ERRORS,
    "e-mail or URL": ADDRESSES,
    "amount": AMOUNTS,
    "line break": LINE_BREAKS,
    "part of a word": PARTS_OF_WORDS,
}
"""Answers and pages by what is hard about them.

What has to go stands in brackets; "/" is the end of a line.
"""
ROTATED = [
    ("Anna Berg", ["signed by [Anna Berg] today", "for the city of Leeds"], 2.0),
    ("Anna Berg", ["signed by [Anna Berg] today", "for the city of Leeds"], -2.0),
    ("45.80", ["item 12.10", "TOTAL [45.80]", "CASH 50.00"], 1.0),
    ("45.80", ["item 12.10", "TOTAL [RM45.80]", "CASH 50.00"], -1.5),
    ("45.80", ["TOTAL [45.80] paid [45.30]"], 3.0),
    ("25/12/2018", ["DATE: [25/12/2018] 8:13:39 PM", "CASHIER: MANIS"], 2.5),
    ("Keller", ["Messrs [Kelter] & Sons", "Zurich"], -3.0),
    ("12 High Street", ["at [12 High", "Street] London W1", "United Kingdom"], 2.0),
    ("12 High Street", ["at [12 High", "Street] London W1", "United Kingdom"], -2.0),
    ("john.smith", ["write to [john.smith@mail.com] now", "or call 5551"], 1.5),
    ("ten", ["a tender for [ten] kittens", "often attend"], -2.5),
    ("9.00", ["price 19.00 RM [9.00]", "rounding 0.01"], 5.0),
]
"""Answers, lines, and the angle of the scan in degrees."""


def marked(text: str) -> tuple[list[str], tuple[int, ...]]:
    """The words of a page, and which stand in brackets."""
    words = []
    gone = []
    within = False
    for word in text.replace(" / ", " ").split():
        within = within or word.startswith("[")
        if within:
            gone.append(len(words))
        words.append(word.removeprefix("[").removesuffix("]") if within else word)
        within = within and not word.endswith("]")
    return words, tuple(gone)


CASES = [
    pytest.param(answer, page, id=f"{kind}: {answer}|{page}")
    for kind, pages in PAGES.items()
    for answer, page in pages
]


def test_there_are_a_hundred_cases() -> None:
    assert len(CASES) + len(ROTATED) == 100


@pytest.mark.parametrize(("answer", "page"), CASES)
def test_no_answer_survives_and_nothing_else_is_lost(answer: str, page: str) -> None:
    words, gone = marked(page)
    assert gone
    assert [words[index] for index in find_answers(words, [answer])] == [
        words[index] for index in gone
    ]
    assert find_answers(words, [answer]) == gone
    assert not survives([word for index, word in enumerate(words) if index not in gone], [answer])


@pytest.mark.parametrize(("answer", "page"), OCR_ERRORS)
def test_with_the_fuzzy_rule_switched_off_the_proof_reports_the_survivors(
    answer: str, page: str
) -> None:
    words, gone = marked(page)
    exact = find_answers(words, [answer], fuzzy=False)
    assert set(exact) < set(gone)
    assert survives([word for index, word in enumerate(words) if index not in exact], [answer])


@pytest.mark.parametrize(("answer", "lines", "angle"), ROTATED)
def test_on_a_scan_that_lies_askew_the_answers_ink_goes(
    answer: str, lines: list[str], angle: float
) -> None:
    words, gone = marked(" ".join(lines))
    plain = [line.replace("[", "").replace("]", "") for line in lines]
    view = drawn.page(plain, angle=angle)
    removal = remove(view, [answer])
    assert ([word.text for word in view.words], removal.words) == (words, gone)
    assert not survives([word.text for word in removal.view.words], [answer])
    own = drawn.ink(drawn.page(plain, angle=angle, shown=gone))
    assert own.sum() > 100
    assert not (drawn.ink(removal.view) & own).any()
    outside = ~covered(view, removal.boxes)
    assert (np.asarray(removal.view.image)[outside] == np.asarray(view.image)[outside]).all()
    others = drawn.ink(view) & ~own
    assert (drawn.ink(removal.view) & others).sum() > 0.8 * others.sum()


def covered(view: PageView, boxes) -> np.ndarray:
    assert view.size is not None
    inside = np.zeros(view.size[::-1], bool)
    for x0, y0, x1, y1 in boxes:
        inside[int(y0) : int(y1), int(x0) : int(x1)] = True
    return inside


def test_all_accepted_answers_go() -> None:
    assert find_answers(
        ["due", "9.00", "or", "nine", "ringgit", "now"], ["9.00", "Nine Ringgit"]
    ) == (1, 3, 4)


def test_answers_without_letters_and_digits_equal_themselves_only() -> None:
    words = ["10", "%", "of", "5%", "-", "a", "--", "b"]
    assert (find_answers(words, ["%"]), find_answers(words, ["-"])) == ((1,), (4,))
    assert (find_answers(words, ["", "  "]), find_answers([], ["Anna"])) == ((), ())


def test_of_overlapping_near_windows_the_nearest_goes_and_its_neighbours_stay() -> None:
    assert find_answers(["12345679", "A", "5"], ["12345678"]) == (0,)
    assert find_answers(["A", "1234567", "9"], ["12345678"]) == (1,)
    assert find_answers(["to", "Jalan", "Sagu", "13", "B"], ["Jalan Sagu 18"]) == (1, 2, 3)
    assert find_answers(["to", "Jalan", "Sagu", "TAMAN"], ["Jalan Sagu 18"]) == (1, 2)
    assert find_answers(["MR", "TAN", "CHAY", "YFE", "A"], ["Tan Chay Yee"]) == (1, 2, 3)


def test_what_stands_together_once_the_answer_is_gone_goes_too() -> None:
    assert find_answers(["12", "1234", "34", "x"], ["1234"]) == (0, 1, 2)


def test_signs_between_the_answers_words_go_and_those_beside_it_stay() -> None:
    assert find_answers(["-", "25", "/", "12", "/", "2018", "-", "x"], ["25/12/2018"]) == (
        1,
        2,
        3,
        4,
        5,
    )


def test_an_answer_of_two_thousand_characters() -> None:
    words = [f"w{number:03d}" for number in range(400)]
    answer = " ".join(words)
    page = ["before", *words[:200], words[200][:-1] + "x", *words[201:], "after"]
    assert (len(answer), find_answers(page, [answer])) == (1999, tuple(range(1, 401)))
    assert find_answers(page, [answer], fuzzy=False) == ()


LETTERS = "0159abloSI é.@-,:|"
TEXTS = st.lists(
    st.text(LETTERS, min_size=1, max_size=7).map(lambda text: text.replace(" ", "")), max_size=14
)
ANSWERS = st.lists(st.text(LETTERS, max_size=12), min_size=1, max_size=2)


def near(window: str, answer: str) -> bool:
    """The rule of methods/memorisation.md#proof-of-removal for a folded window."""
    if len(answer) < 4:
        return False
    return answer in window or Levenshtein.distance(window, answer) <= (1 if len(answer) < 8 else 2)


@settings(max_examples=300, deadline=None)
@given(TEXTS, ANSWERS)
def test_nothing_is_left_that_the_rule_names(words: list[str], answers: list[str]) -> None:
    gone = find_answers(words, answers)
    left = [word for index, word in enumerate(words) if index not in gone]
    assert find_answers(left, answers) == ()
    assert set(find_answers(words, answers, fuzzy=False)) <= set(gone)
    folded = [text for word in left if (text := normalise_ocr(word))]
    for answer in prepare_answers(answers):
        if letters_and_digits(answer.text):
            for start in range(len(folded)):
                for stop in range(start + 1, min(start + answer.most_words, len(folded)) + 1):
                    assert not near("".join(folded[start:stop]), answer.folded)
        assert answer.text not in left


@settings(max_examples=200, deadline=None)
@given(TEXTS, ANSWERS)
def test_a_page_without_the_answer_loses_nothing(words: list[str], answers: list[str]) -> None:
    """Short answers have none of the letters that every word begins and ends with here."""
    strange = [f"zq{word}wz" for word in words if word.isalnum()]
    short = [answer for answer in answers if len(normalise_ocr(answer)) < 4]
    assert find_answers(strange, short, fuzzy=False) == ()


BOXES = st.lists(
    st.tuples(
        st.integers(0, 35), st.integers(0, 25), st.integers(1, 12), st.integers(1, 8), st.booleans()
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(BOXES, st.none() | st.floats(1, 25))
def test_pixels_outside_the_boxes_are_untouched_and_inside_white_or_blurred(places, blur) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    words = tuple(
        Word("secret" if gone else "other", (x, y, min(x + width, 40), min(y + height, 30)))
        for x, y, width, height, gone in places
    )
    opened = []
    view = PageView(words, (40, 30), lambda: opened.append(1) or Image.fromarray(noise))
    removal = remove(view, ["secret"], blur=blur)
    assert not opened
    assert removal.words == tuple(index for index, place in enumerate(places) if place[4])
    assert len(removal.boxes) == len(removal.words)
    changed = np.asarray(removal.view.image)
    inside = covered(view, removal.boxes)
    assert (changed[~inside] == noise[~inside]).all()
    assert blur is not None or (changed[inside] == 255).all()
    for index in removal.words:
        x0, y0, x1, y1 = (int(value) for value in words[index].box)
        assert inside[y0:y1, x0:x1].all()
    again = remove(removal.view, ["secret"], blur=blur)
    assert again.words == ()
    assert (np.asarray(again.view.image) == changed).all()
    assert (np.asarray(view.image) == noise).all()


def test_a_box_is_blurred_by_a_gaussian_of_that_radius_and_sees_nothing_beyond_its_edges() -> None:
    page = np.full((200, 300, 3), (240, 120, 60), np.uint8)
    page[:, 150:] //= 4
    page[90:] //= 2
    page[:, :45] = 255  # right up to where the grown box begins
    view = PageView(
        (Word("secret", (60, 40, 220, 140)),), (300, 200), lambda: Image.fromarray(page)
    )
    removal = remove(view, ["secret"], blur=20)
    ((x0, y0, x1, y1),) = (tuple(map(int, box)) for box in removal.boxes)
    expected = gaussian_filter(page[y0:y1, x0:x1].astype(float), (20, 20, 0), mode="nearest")
    # Pillow's Gaussian is three box filters, and whole numbers.
    assert np.abs(np.asarray(removal.view.image)[y0:y1, x0:x1] - expected).max() < 4


def test_no_stroke_of_a_blurred_word_is_left() -> None:
    view = drawn.page(["Hannover Messe"])
    removal = remove(view, ["Hannover"], blur=20)
    ((x0, y0, x1, y1),) = (tuple(map(int, box)) for box in removal.boxes)
    before, after = (
        np.asarray(one.image.convert("L"), int)[y0:y1, x0:x1] for one in (view, removal.view)
    )
    assert np.abs(np.diff(before, axis=1)).max() > 200
    assert max(np.abs(np.diff(after, axis=axis)).max() for axis in (0, 1)) <= 3


def test_a_box_grows_by_15_percent_of_its_lines_height_and_stays_on_the_page() -> None:
    words = (
        Word("-----", (50, 58, 90, 62)),
        Word("Tall", (100, 40, 140, 80)),
        Word("far", (0, 200, 40, 220)),
    )
    (box,) = remove(PageView(words, (300, 300)), ["-----"]).boxes
    assert box == (46, 54, 94, 66)  # the line: median of 4 and 40 is 22, of which 3.3
    (box,) = remove(PageView(words, (300, 300)), ["far"]).boxes
    assert box == (0, 197, 43, 223)
    (box,) = remove(PageView((Word("edge", (280, 290, 302, 302)),), (300, 300)), ["edge"]).boxes
    assert box == (278, 288, 300, 300)


def test_a_page_of_words_only() -> None:
    removal = remove(PageView((Word("pay"), Word("9.00"))), ["9.00"])
    assert ([word.text for word in removal.view.words], removal.boxes) == (["pay"], ())
    assert removal.view.image is None


@pytest.mark.parametrize(
    ("page", "answer", "reason"),
    [
        ("did he sign", "Yes", "yes or no"),
        ("did he sign", "NO.", "yes or no"),
        ("did he sign", "Noah", ""),
        ("cash 10.00 change 1.00 total", "9.00", "sum of visible amounts"),
        ("net RM8.49 tax RM0.51 total", "RM 9.00", "sum of visible amounts"),
        ("1.10 a 2.20 b 3.30 c total", "6.60", "sum of visible amounts"),
        ("1.10 a 0.70 b 2.20 c 3.30 total", "6.60", ""),
        ("cash 10.00 rounding 0.00 total", "9.00", ""),
        ("rooms 4 and 5", "9", ""),
        ("1,200.00 and 34.50", "1,234.50", "sum of visible amounts"),
        ("", "3", ""),
    ],
)
def test_answers_that_follow_from_what_is_left(page: str, answer: str, reason: str) -> None:
    assert why_derivable(page.split(), [answer]) == (reason or None)
    assert why_derivable(page.split(), ["something else", answer]) == (reason or None)


def test_covered_words_are_painted_as_removed_ones_and_stay_in_the_words():
    page = drawn.page(["total 48213 paid"])
    removed = remove(page, ["48213"])
    covered = cover(page, removed.words)
    assert covered.words == page.words
    np.testing.assert_array_equal(np.asarray(covered.image), np.asarray(removed.view.image))
    assert (np.asarray(covered.image) != np.asarray(page.image)).any()
    assert cover(PageView((Word("a"),)), [0]).open_page is None
