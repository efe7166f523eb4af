"""Perturbed pages: what moves, what goes, what stays, and that no image is opened before it is asked for."""

from __future__ import annotations

from math import cos, radians, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from audit.corpus import perturbations
from audit.corpus.documents import Word
from audit.corpus.folding import fold
from audit.corpus.page_view import PageView
from audit.corpus.paraphrases import paraphrase

SIZE = (200, 120)
WORDS = (
    Word("top", (10, 10, 40, 20)),
    Word("middle", (90, 55, 110, 65)),
    Word("corner", (170, 100, 199, 118)),
    Word("nowhere"),
)
CHANGES = {
    "no text": perturbations.without_text,
    "blank": perturbations.blank,
    "rotated": lambda view: perturbations.rotated(view, 5),
    "shifted": lambda view: perturbations.shifted(view, (20, -20)),
    "brightened": lambda view: perturbations.brightened(view, 0.5),
}


def drawn():
    """A grey page on which every word is a black box."""
    image = Image.new("RGB", SIZE, (200, 200, 200))
    brush = ImageDraw.Draw(image)
    for word in WORDS:
        if word.box is not None:
            x0, y0, x1, y1 = word.box
            brush.rectangle((x0, y0, x1 - 1, y1 - 1), fill="black")
    return image


def page():
    return PageView(WORDS, SIZE, drawn)


def dark(image):
    """Where the page is black: x0, y0, x1, y1 of all such pixels, and how many there are."""
    rows, columns = np.nonzero(np.asarray(image).max(axis=2) < 60)
    return (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1), len(rows)


def texts(view):
    return [word.text for word in view.words]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_images_are_made_when_asked_for_and_the_first_sheet_stays_as_it_was(change):
    opened = []

    def open_page():
        opened.append(1)
        return drawn()

    view = PageView(WORDS, SIZE, open_page)
    changed = change(view)
    assert not opened
    assert changed.size == SIZE
    assert changed.image.size == SIZE
    assert changed.image.mode == "RGB"
    assert opened == [1]
    assert np.array_equal(np.asarray(view.image), np.asarray(drawn()))
    assert np.asarray(changed.image).tolist() != np.asarray(view.image).tolist()
    assert view.words == WORDS


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_page_without_image_has_its_words_changed_alone(change):
    with_image, without = change(page()), change(PageView(WORDS, SIZE))
    assert without.image is None
    assert without.words == with_image.words


def test_no_text_leaves_no_word_and_no_ink_in_a_words_box():
    view = perturbations.without_text(page())
    assert view.words == ()
    pixels = np.asarray(view.image)
    assert pixels.min() == 200, "something other than a word was black, or a word still is"
    assert (pixels[12:18, 12:38] == 255).all()
    assert (pixels[40:50, 60:160] == 200).all(), "the rest of the page stays"


def test_a_blank_page_is_the_average_of_the_page():
    view = perturbations.blank(page())
    assert view.words == ()
    colours = np.unique(np.asarray(view.image).reshape(-1, 3), axis=0)
    assert np.allclose(colours, np.asarray(drawn()).mean(axis=(0, 1)), atol=0.5)
    assert len(colours) == 1


def test_shifting_moves_pixels_and_boxes_alike_and_uncovers_white():
    view = perturbations.shifted(page(), (20, -12))
    assert [word.box for word in view.words] == [
        (30, 0, 60, 8),
        (110, 43, 130, 53),
        (190, 88, 200, 106),
        None,
    ]
    alone = perturbations.shifted(PageView(WORDS[1:2], SIZE, lambda: _only(WORDS[1])), (20, -12))
    assert dark(alone.image)[0] == alone.words[0].box
    pixels = np.asarray(view.image)
    assert (pixels[:, :20] == 255).all()
    assert (pixels[-12:] == 255).all()


def test_words_that_leave_the_page_are_dropped():
    assert texts(perturbations.shifted(page(), (100, 100))) == ["top", "nowhere"]
    assert texts(perturbations.shifted(page(), (30, 0))) == ["top", "middle", "nowhere"], "it touches the edge only"
    assert texts(perturbations.shifted(page(), (29, 0))) == ["top", "middle", "corner", "nowhere"]
    assert texts(perturbations.shifted(page(), (-1000, 0))) == ["nowhere"]


def _only(word):
    image = Image.new("RGB", SIZE, "white")
    x0, y0, x1, y1 = word.box
    ImageDraw.Draw(image).rectangle((x0, y0, x1 - 1, y1 - 1), fill="black")
    return image


@pytest.mark.parametrize("degrees", [-10, -5, 5, 10])
@pytest.mark.parametrize("word", WORDS[:2], ids=lambda word: word.text)
def test_rotation_moves_boxes_with_their_pixels(degrees, word):
    view = perturbations.rotated(PageView((word,), SIZE, lambda: _only(word)), degrees)
    (moved,) = view.words
    found, _ = dark(view.image)
    assert np.allclose(found, moved.box, atol=1.6)
    x0, y0, x1, y1 = word.box
    width, height = x1 - x0, y1 - y0
    c, s = cos(radians(degrees)), abs(sin(radians(degrees)))
    assert moved.box[2] - moved.box[0] == pytest.approx(width * c + height * s)
    if moved.box[1] > 0:  # turned over the upper edge, a box is cut
        assert moved.box[3] - moved.box[1] == pytest.approx(height * c + width * s)


def test_rotation_uncovers_white_and_cuts_boxes_at_the_edge():
    view = perturbations.rotated(page(), 10)
    pixels = np.asarray(view.image)
    assert (pixels[0, 0] == 255).all()
    assert (pixels[-1, -1] == 255).all()
    for word in view.words:
        if word.box is not None:
            assert 0 <= word.box[0] < word.box[2] <= SIZE[0]
            assert 0 <= word.box[1] < word.box[3] <= SIZE[1]


@given(degrees=st.floats(-90, 90), seed=st.integers(0, 100))
def test_turning_back_gives_boxes_that_hold_the_old_ones(degrees, seed):
    rng = np.random.default_rng(seed)
    x0, y0 = rng.uniform(80, 100, 2)
    word = Word("x", (float(x0), float(y0), float(x0) + 10, float(y0) + 5))
    there = perturbations.rotated(PageView((word,), (200, 200)), degrees)
    (back,) = perturbations.rotated(there, -degrees).words
    assert back.box[0] <= word.box[0] + 1e-6
    assert back.box[1] <= word.box[1] + 1e-6
    assert back.box[2] >= word.box[2] - 1e-6
    assert back.box[3] >= word.box[3] - 1e-6


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.3, 2])
def test_brightness_is_a_factor_up_to_white(factor):
    view = perturbations.brightened(page(), factor)
    expected = np.minimum(np.asarray(drawn()) * float(factor), 255)
    assert np.abs(np.asarray(view.image) - expected).max() <= 1
    assert view.words == WORDS


QUESTIONS = (
    "What is the total?",
    "what's the Fax No.?",
    "Who is the sender of the letter",
    "How many pages are there?",
    "How much was paid?",
    "When was this issued?",
    "Which company issued the receipt?",
    "total",
    "Is it signed?",
    "Mention the page number.",
    "What is {x} in `y`?",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_paraphrase_is_other_words_about_the_same_thing(question):
    found = {paraphrase(question, seed) for seed in range(30)}
    assert len(found) > 1
    assert fold(question) not in {fold(other) for other in found}
    thing = fold(question).rstrip("?.").split("is")[-1].removeprefix("the")[-8:]
    assert all(thing in fold(other) for other in found)
    assert paraphrase(question, 3) == paraphrase(question, 3)


@given(st.text(min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_any_text_can_be_paraphrased(question, seed):
    assert fold(paraphrase(question, seed)) != fold(question)
