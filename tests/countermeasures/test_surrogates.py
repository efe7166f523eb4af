"""Surrogates: no sensitive value is left, and all else stays as it was."""

import re

import nlu_models
import numpy as np
import tiny
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from audit.corpus.documents import CATEGORIES, Document, Entity, Question, Word
from audit.corpus.folding import fold
from audit.corpus.images import PageView
from audit.corpus.removal import draw_surrogates
from audit.corpus.removal.matching import find_answers
from audit.extensions.countermeasures.scrubbing import is_searched, scrub, slot_category
from audit.extensions.countermeasures.surrogates import Surrogates

PLAIN = st.sampled_from(
    ["paid", "thank", "you", "for", "your", "visit", "again", "soon", "at", "shop"]
)
TOKEN = st.text("abcdefghijkmnopqrstuvwxyzABCDEFXYZ0123456789.,:/-@éßЖ中²™", min_size=1, max_size=8)
VALUE = st.lists(TOKEN, min_size=1, max_size=3)


def words_of(text: str) -> tuple[Word, ...]:
    return tuple(map(Word, text.split()))


def shape(text: str) -> str:
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", text))


@st.composite
def documents(draw):
    """Marked values among plain words, each value once more elsewhere, and a question for the first."""
    texts = draw(st.lists(PLAIN, max_size=4))
    entities = []
    for number, value in enumerate(draw(st.lists(VALUE, min_size=1, max_size=4))):
        entities.append(
            Entity(
                f"e{number}",
                "X",
                draw(st.sampled_from(CATEGORIES)),
                tuple(range(len(texts), len(texts) + len(value))),
            )
        )
        texts += [*value, draw(PLAIN), *(value if draw(st.booleans()) else ())]
    first = " ".join(texts[index] for index in entities[0].words)
    questions = (Question("q", f"is it {first} ?", (first,), entity="e0"),)
    return Document(
        "d", "member", tuple(map(Word, texts)), entities=tuple(entities), questions=questions
    )


@given(documents())
@settings(max_examples=60)
def test_no_value_of_four_characters_is_left_and_words_stay_in_their_places(document):
    values = [document.text_of(entity) for entity in document.entities]
    made = scrub(document, seed=1).document
    texts = [word.text for word in made.words]
    question = made.questions[0]
    for value in values:
        if is_searched(value):
            assert find_answers(texts, [value], fuzzy=False) == ()
            assert find_answers(question.question.split(), [value], fuzzy=False) == ()
            assert find_answers(question.answers[0].split(), [value], fuzzy=False) == ()
    assert (len(made.words), made.entities) == (len(document.words), document.entities)
    assert all(word.text and not word.text.isspace() for word in made.words)


@given(documents())
@settings(max_examples=60)
def test_other_words_stay_and_what_is_told_as_changed_is_what_changed(document):
    done = scrub(document, seed=1)
    pairs = list(zip(document.words, done.document.words, strict=True))
    assert done.changed == tuple(
        index for index, (old, new) in enumerate(pairs) if old.text != new.text
    )
    values = [document.text_of(entity) for entity in document.entities]
    touched = set(find_answers([word.text for word in document.words], values, fuzzy=True))
    marked = {index for entity in document.entities for index in entity.words}
    cores = {
        fold(word.text).strip("-.,:/@™") for word in (document.words[index] for index in marked)
    }
    for index in done.changed:
        core = fold(document.words[index].text).strip("-.,:/@™")
        assert index in touched | marked or core in cores


@given(
    VALUE,
    st.sampled_from(["code", "contact", "datetime", "url", "misc", "amount", "quantity"]),
    st.integers(0, 99),
)
def test_the_form_of_numbers_and_codes_stays(words, category, seed):
    assume(all(text.isascii() for text in words))
    new = Surrogates(np.random.default_rng(seed)).of_value(words, category)
    assert [shape(text) for text in new] == [shape(text) for text in words]


@given(VALUE, st.sampled_from(CATEGORIES))
def test_a_value_has_one_surrogate_whatever_its_case(words, category):
    surrogates = Surrogates(np.random.default_rng(0))
    first = surrogates.of_value(words, category)
    assert surrogates.of_value(words, category) == first
    assume(all(text.isascii() for text in words))
    shouted = surrogates.of_value([text.upper() for text in words], category)
    assert [text.upper() for text in shouted] == [text.upper() for text in first]


def test_a_surrogate_is_not_computed_from_the_value():
    """Who knows the seed and guesses the value cannot tell from the surrogate whether the guess is right."""

    def surrogate(value):
        words = (*map(Word, ["no.", value]),)
        made = scrub(
            Document("d", "member", words, entities=(Entity("e", "NO", "code", (1,)),)), seed=3
        ).document
        return made.words[1].text

    assert surrogate("4107") == surrogate("9853") not in ("4107", "9853")


def test_parts_of_names_and_values_within_words_go_too():
    entities = (Entity("p", "NAME", "person", (0, 1)), Entity("a", "TOTAL", "amount", (11,)))
    words = words_of("Rosa Cross paid TOTAL:9.00 now , said MS CROSS . Across 9.00 more")
    made = scrub(Document("d", "member", words, entities=entities), seed=0).document
    new = [word.text for word in made.words]
    assert new[8] == new[1].upper() != "CROSS"
    assert new[3] == f"TOTAL:{new[11]}" != "TOTAL:9.00"
    assert [new[index] for index in (2, 4, 5, 6, 7, 9, 12)] == [
        "paid",
        "now",
        ",",
        "said",
        "MS",
        ".",
        "more",
    ]


def test_an_answer_stays_what_stands_on_the_page():
    for document in tiny.documents():
        entity = document.entities[3]
        asked = Question("q", "total?", (document.text_of(entity),), entity=entity.id)
        free = Question("r", "how much?", (document.text_of(entity),), category="amount")
        old = Document(
            "d", "member", document.words, entities=document.entities, questions=(asked, free)
        )
        made = scrub(old, seed=0).document
        assert [question.answers for question in made.questions] == [(made.text_of(entity),)] * 2
        assert made.questions[0].answers != asked.answers


def test_answers_of_no_known_kind_are_replaced_where_they_name_or_number_something():
    words = words_of("box 12 was ticked yes by Ann")
    questions = tuple(Question(answer, "?", (answer,)) for answer in ("12", "yes", "Ann", "Berlin"))
    done = scrub(Document("d", "member", words, questions=questions), seed=0)
    new = [word.text for word in done.document.words]
    assert [question.answers[0] for question in done.document.questions[:3]] == [
        new[1],
        "yes",
        new[6],
    ]
    assert (done.changed, done.not_found) == ((1, 6), 1)


def test_slots_are_sensitive_by_their_names_and_a_canary_is():
    assert (slot_category("B-contact_name"), slot_category("I-canary")) == ("person", "code")
    assert slot_category("B-music") is None
    old = nlu_models.play("p", "anna berg")
    made = scrub(old, seed=0).document
    assert ([word.text for word in made.words[:2]], made.tags) == (["play", "by"], old.tags)
    assert not {"anna", "berg"} & {word.text for word in made.words}


def test_fields_that_are_there_for_no_attack_stay_unless_a_canary_is_planted():
    words = (Word("Name"), Word("kodira"))
    document = Document(
        "d", "member", words, entities=(Entity("e", "QUESTION", "misc", (0, 1), attack=False),)
    )
    assert (
        scrub(document, seed=0).document,
        len(scrub(document, seed=0, planted=True).changed),
    ) == (document, 2)


def test_the_image_shows_the_surrogate_in_the_place_of_the_value():
    old = tiny.documents(members=1)[0]
    done = scrub(old, seed=0)
    view = PageView(old.words, old.size, lambda: tiny.page_image(old))
    before = np.asarray(view.image)
    after = np.asarray(draw_surrogates(view, done.changed, done.document.words))
    for index, word in enumerate(old.words):
        x0, y0, x1, y1 = (int(value) for value in word.box)
        patch = after[y0:y1, x0:x1]
        if index in done.changed:
            assert set(map(tuple, patch.reshape(-1, 3))) <= {
                (grey, grey, grey) for grey in range(256)
            }
            assert (patch == 255).any()
            assert (patch < 128).any(), done.document.words[index]
        else:  # the patches beside it are a little larger than their words
            inside = np.s_[y0 + 3 : y1 - 3, x0 + 3 : x1 - 3]
            assert (after[inside] == before[inside]).all()
