"""Perturbed pages: what moves, what goes, what stays, and that no image is opened before it is asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from audit.attacks.memorisation.contexts import BRIGHTNESS, brightened, without_text
from audit.corpus.documents import Word
from audit.corpus.folding import fold
from audit.corpus.images import PageView
from audit.corpus.paraphrases import paraphrase

SIZE = (200, 120)
BOXES = {
    "top": (10, 10, 40, 20),
    "middle": (90, 55, 110, 65),
    "corner": (170, 100, 199, 118),
    "nowhere": None,
}
WORDS = tuple(Word(text, box) for text, box in BOXES.items())
CHANGES = {"no text": without_text, "brightened": brightened}


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


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_images_are_made_when_asked_for_and_the_first_sheet_stays_as_it_was(change):
    opened = []

    def open_page():
        opened.append(1)
        return drawn()

    view = PageView(WORDS, SIZE, open_page)
    changed = change(view)
    assert not opened
    assert (changed.size, changed.image.size, changed.image.mode, opened) == (
        SIZE,
        SIZE,
        "RGB",
        [1],
    )
    assert np.array_equal(np.asarray(view.image), np.asarray(drawn()))
    assert np.asarray(changed.image).tolist() != np.asarray(view.image).tolist()
    assert view.words == WORDS


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_page_without_image_has_its_words_changed_alone(change):
    with_image = change(page())
    without = change(PageView(WORDS, SIZE))
    assert without.image is None
    assert without.words == with_image.words


def test_no_text_leaves_no_word_and_no_ink_in_a_words_box():
    view = without_text(page())
    assert view.words == ()
    pixels = np.asarray(view.image)
    assert pixels.min() == 200, "something other than a word was black, or a word still is"
    assert (pixels[12:18, 12:38] == 255).all()
    assert (pixels[40:50, 60:160] == 200).all(), "the rest of the page stays"


def test_brightness_is_a_factor_up_to_white():
    view = brightened(page())
    expected = np.minimum(np.asarray(drawn()) * BRIGHTNESS, 255)
    assert np.abs(np.asarray(view.image) - expected).max() <= 1
    assert view.words == WORDS


@pytest.mark.parametrize(
    "question",
    [
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
    ],
)
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
