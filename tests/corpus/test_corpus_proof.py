"""The proof of a removal can fail in each of its parts (methods/memorisation.md#proof-of-removal).

Real Tesseract reads the pages.
"""

import random
import shutil
from dataclasses import replace

import drawn
import numpy as np
import pytest
from PIL import Image

from audit.corpus.documents import Box, Word
from audit.corpus.images import PageView
from audit.corpus.removal import Removal, remove, tesseract
from audit.corpus.removal.proof import MAX_CROPS, Proof, crops_of, prove_removal, survives
from audit.corpus.removal.tesseract import TESSERACT, ReadCrop, Tesseract

reads = pytest.mark.skipif(
    not TESSERACT.installed(), reason="tesseract is not on this machine's PATH"
)

RECEIPT = ("Gardenia Bakeries Kuala Lumpur", "DATE: 25/12/2018 8:13 PM", "TOTAL 45.80 CASH 50.00")


def proof(view: PageView, removal: Removal, *answers: str, reader: Tesseract = TESSERACT) -> Proof:
    """As an attack does it."""
    before = reader.ask(crops_of(view, removal))
    after = reader.ask(crops_of(removal.view, removal))
    return prove_removal(view, removal, answers, before, after)


def moved(view: PageView, dy: float) -> PageView:
    """The page with every box so many pixels lower: an OCR that missed the place."""
    shift = np.array([0, dy, 0, dy])
    words = [replace(word, box=tuple((np.array(word.box) + shift).tolist())) for word in view.words]
    return PageView(tuple(words), view.size, view.open_page)


@reads
@pytest.mark.parametrize(
    "answer", ["25/12/2018", "45.80", "RM45.80", "Gardenia Bakeries", "50.00", "8:13", "DATE"]
)
@pytest.mark.parametrize("angle", [0.0, 1.5])
def test_a_proven_removal(answer, angle):
    view = drawn.page(RECEIPT, angle=angle)
    removal = remove(view, [answer])
    assert removal.words
    found = proof(view, removal, answer)
    assert (found, found.status) == (Proof(pixels=True, words=True, reading="gone"), "proven")


@reads
def test_an_answer_over_two_lines_and_one_that_stands_twice():
    view = drawn.page(
        ("ship to 12 High", "Street London by", "order of 12 High Street", "London 2018")
    )
    removal = remove(view, ["12 High Street"])
    assert (removal.words, len(crops_of(view, removal))) == ((2, 3, 4, 9, 10, 11), 2)
    assert proof(view, removal, "12 High Street").status == "proven"


@reads
def test_where_nothing_is_painted_the_answer_is_still_read():
    view = drawn.page(RECEIPT)
    removal = remove(view, ["25/12/2018"])
    unpainted = replace(removal, view=PageView(removal.view.words, view.size, view.open_page))
    found = proof(view, unpainted, "25/12/2018")
    assert (found, found.status) == (
        Proof(pixels=False, words=True, reading="still read"),
        "survives",
    )


@reads
def test_a_box_beside_its_word_is_one_colour_and_the_answer_is_still_read():
    view = moved(drawn.page(("Gardenia Bakeries", "TOTAL 4580.12 CASH")), 30)
    removal = remove(view, ["4580.12"])
    found = proof(view, removal, "4580.12")
    assert (found, found.status) == (
        Proof(pixels=True, words=True, reading="still read"),
        "survives",
    )


@reads
def test_a_patch_that_covers_half_of_the_answers_places_leaves_it_read():
    view = drawn.page(("from Gardenia Bakeries", "paid 20.00 change 0.00", "to Gardenia Bakeries"))
    removal = remove(view, ["Gardenia Bakeries"])
    first = remove(PageView(view.words[:3], view.size, view.open_page), ["Gardenia Bakeries"])
    half = replace(removal, view=PageView(removal.view.words, view.size, first.view.open_page))
    assert proof(view, half, "Gardenia Bakeries") == Proof(
        pixels=False, words=True, reading="still read"
    )


@reads
def test_a_place_that_nobody_can_read_is_no_control():
    view = drawn.page(RECEIPT, shown=[0, 1, 2, 3])
    found = proof(view, remove(view, ["25/12/2018"]), "25/12/2018")
    assert (found, found.status) == (
        Proof(pixels=True, words=True, reading="no control"),
        "unproven",
    )


@reads
def test_one_unreadable_place_of_two_is_no_control():
    lines = ("from Gardenia Bakeries", "paid 20.00 change 0.00", "to Gardenia Bakeries")
    view = drawn.page(lines, shown=[0, 1, 2, 3, 4, 5, 6, 7])
    assert (
        proof(view, remove(view, ["Gardenia Bakeries"]), "Gardenia Bakeries").status == "unproven"
    )


def test_without_tesseract_nothing_is_proven(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda command: None)
    reader = Tesseract("a-tesseract-that-nobody-asked-for-yet")
    assert not reader.installed()
    view = drawn.page(RECEIPT)
    found = proof(view, remove(view, ["45.80"]), "45.80", reader=reader)
    assert (found, found.status) == (
        Proof(pixels=True, words=True, reading="not installed"),
        "unproven",
    )


def test_a_tesseract_that_fails_says_nothing(tmp_path):
    program = tmp_path / "tesseract"
    program.write_text("#!/bin/sh\ncat > /dev/null\necho 45.80\nexit 1\n")
    program.chmod(0o755)
    view = drawn.page(RECEIPT)
    crops = crops_of(view, remove(view, ["45.80"]))
    assert Tesseract(str(program)).installed()
    assert Tesseract(str(program)).ask(crops) == [None] * len(crops)
    program.write_text("#!/bin/sh\ncat > /dev/null\necho 45.80 $OMP_THREAD_LIMIT\n")
    assert Tesseract(str(program)).ask(crops) == ["45.80 1\n"] * len(crops)


@reads
def test_a_picture_reads_the_same_whatever_is_read_beside_it(monkeypatch):
    monkeypatch.setattr(tesseract, "_TEXTS", {})
    views = [drawn.page(RECEIPT, angle=angle) for angle in (0.0, 1.0)]
    crops = [
        crop
        for view in views
        for word in view.words
        for crop in crops_of(view, remove(view, [word.text]))
    ]
    together = Tesseract(workers=1).ask(crops)
    assert len(set(together)) > tesseract.SHEET
    for crop, text in random.Random(1).sample([*zip(crops, together, strict=True)], 12):
        tesseract._TEXTS.clear()
        assert TESSERACT.ask([crop]) == [text]


@reads
def test_where_a_sheet_cannot_be_read_its_pictures_are_read_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tesseract, "_TEXTS", {})
    view = drawn.page(RECEIPT)
    crops = [crop for word in view.words[:3] for crop in crops_of(view, remove(view, [word.text]))]
    program = tmp_path / "tesseract"
    real = f'{shutil.which("tesseract")} "$@" < {tmp_path}/sheet'
    program.write_text(
        f"#!/bin/sh\ncat > {tmp_path}/sheet\ntext=$({real}) || exit 1\n"
        'case "$text" in *"\f"*) exit 1;; esac\nprintf "%s\\n" "$text"\n'
    )
    program.chmod(0o755)
    alone = Tesseract(str(program), workers=1).ask(crops)
    assert [text and text.strip() for text in alone] == [
        text and text.strip() for text in TESSERACT.ask(crops)
    ]


@reads
def test_answers_come_in_order_and_a_place_off_the_page_gives_none():
    view = drawn.page(("first", "second", "third", "fourth", "fifth"))
    boxes = [word.box for word in view.words]
    queries = [ReadCrop(view, box, box[3] - box[1]) for box in boxes if box is not None]
    off = ReadCrop(view, (5000, 5000, 5050, 5020), 20)
    texts = TESSERACT.ask([*queries, off, ReadCrop(PageView(()), (0, 0, 9, 9), 9)])
    assert (texts[5:], TESSERACT.ask([])) == ([None, None], [])
    for word, text in zip(view.words, texts, strict=False):
        assert text is not None
        assert word.text in text


def test_pixels_fail_where_a_single_one_is_left():
    view = drawn.page(RECEIPT)
    removal = remove(view, ["45.80"])
    (box,) = removal.boxes
    image = removal.view.open_page()
    image.putpixel((int(box[2]) - 1, int(box[3]) - 1), (254, 255, 255))
    spoilt = replace(removal, view=PageView(removal.view.words, view.size, lambda: image))
    found = prove_removal(view, spoilt, ["45.80"], ["TOTAL 45.80"], ["TOTAL"])
    assert (found, found.status) == (Proof(pixels=False, words=True, reading="gone"), "survives")
    image.putpixel((int(box[2]) - 1, int(box[3]) - 1), (255, 255, 255))
    image.putpixel((int(box[2]), int(box[3])), (0, 0, 0))  # the first one outside
    assert prove_removal(view, spoilt, ["45.80"], ["TOTAL 45.80"], ["TOTAL"]).status == "proven"


def test_words_without_boxes_cannot_leave_an_image():
    view = PageView(
        (Word("total"), Word("45.80")), (40, 30), lambda: Image.new("RGB", (40, 30), "white")
    )
    removal = remove(view, ["45.80"])
    assert crops_of(view, removal) == ()
    assert prove_removal(view, removal, ["45.80"], [], []) == Proof(
        pixels=False, words=True, reading="no control"
    )


def test_an_answer_that_is_not_among_the_words_of_an_image_is_not_proven_gone():
    view = drawn.page(RECEIPT)
    assert (
        prove_removal(view, remove(view, ["Istanbul"]), ["Istanbul"], [], []).status == "unproven"
    )


def test_a_page_of_words_only_is_decided_by_its_words():
    view = PageView(tuple(Word(text) for text in RECEIPT[2].split()))
    removal = remove(view, ["45.80"])
    found = prove_removal(view, removal, ["45.80"], [], [])
    assert (found, found.status) == (Proof(pixels=None, words=True, reading="no image"), "proven")
    assert prove_removal(view, replace(removal, view=view), ["45.80"], [], []).status == "survives"


def test_an_answer_at_too_many_places_is_never_proven_and_never_overlooked():
    places = MAX_CROPS + 1
    lines = [
        (text, x0, 10 * line, x1)
        for line in range(places)
        for text, x0, x1 in (("pay", 0, 9), ("7", 9, 14))
    ]
    words = tuple(Word(text, (x0, y, x1, y + 8)) for text, x0, y, x1 in lines)
    view = PageView(words, (20, 200), lambda: Image.new("RGB", (20, 200), "white"))
    removal = remove(view, ["7"])
    assert len(removal.words) == places
    crops = crops_of(view, removal)
    assert len(crops) == MAX_CROPS
    read = ["pay 7"] * MAX_CROPS
    assert prove_removal(view, removal, ["7"], read, ["pay"] * MAX_CROPS).reading == "no control"
    assert (
        prove_removal(view, removal, ["7"], read, ["pay"] * (MAX_CROPS - 1) + ["pay 7"]).reading
        == "still read"
    )


@pytest.mark.parametrize(
    ("before", "after", "reading"),
    [
        pytest.param(("TOTAL 4580.12",), ("TOTAL",), "gone", id="the value is gone"),
        pytest.param(("TOTAL 4580.12",), ("",), "gone", id="nothing is read any more"),
        pytest.param(
            ("TOTAL 4530.12",), ("TOTAL",), "gone", id="an OCR error, and read all the same"
        ),
        pytest.param(
            ("T0TAL 4B80.12",), ("TOTAL 4 580.1Z",), "still read", id="misread before and after"
        ),
        pytest.param(("TOTAL",), ("TOTAL",), "no control", id="read neither before nor after"),
        pytest.param(("TOTAL",), ("TOTAL 4580.12",), "still read", id="read only after"),
        pytest.param(("TOTAL 4580.12",), (None,), "no control", id="not read after"),
        pytest.param((None,), ("TOTAL",), "no control", id="not read before"),
        pytest.param((None,), (None,), "not installed", id="OCR is not installed"),
        pytest.param((), (), "no control", id="no readings"),
        pytest.param(("TOTAL 4580.12",), (), "no control", id="no reading after"),
    ],
)
def test_what_the_texts_prove(before, after, reading):
    view = drawn.page(("TOTAL 4580.12 CASH",))
    assert (
        prove_removal(view, remove(view, ["4580.12"]), ["4580.12"], before, after).reading
        == reading
    )


@pytest.mark.parametrize(
    ("page", "answer", "left"),
    [
        ("mail to sanyustationers@mail.com", "Sanyu Stationery", True),
        ("www. gar denia .com", "Gardenia", True),
        ("G A R D E N I A", "Gardenia", True),
        ("Gardening in Asia", "Gardenia", True),
        ("Garlic dinner", "Gardenia", False),
        ("Gar", "Gardenia", False),
        ("Gardenia", "Gardenia Bakeries Kuala Lumpur", False),
        ("4 58 0.12", "4580.12", True),
        ("458.12", "4580.12", True),
        ("id 12345", "12345", True),
        ("id 1 2 3 4 5", "12345", True),
        ("id 1 2 3 4 6", "12345", True),
        ("id 1246", "12345", False),
        ("a tender", "ten", False),
        ("a ten", "ten", True),
        ("a t e n", "ten", True),
        ("9 . 0 0", "9.00", True),
        ("19.00", "9.00", False),
        ("5 %", "%", True),
        ("5%", "%", False),
        ("", "Gardenia", False),
    ],
)
def test_the_wider_rule_for_words(page, answer, left):
    assert survives(page.split(), [answer]) == left
    assert survives(page.split(), ["something else entirely", answer]) == left


def test_the_box_of_a_crop_is_that_of_its_words():
    view = drawn.page(RECEIPT)
    removal = remove(view, ["Gardenia Bakeries"])
    (crop,) = crops_of(removal.view, removal)
    first, last = removal.boxes
    box: Box = (first[0], min(first[1], last[1]), last[2], max(first[3], last[3]))
    assert crop.box == box
    assert crop.view is removal.view
