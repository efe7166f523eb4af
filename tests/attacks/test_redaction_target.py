"""What the target adds to the context: planted taggers and masked language models that know some documents."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redacted

from audit.attacks.redaction.target_gain import ELSE, categories_of_tags
from audit.attacks.redaction.target_gain import redacted as hide
from audit.corpus.documents import CATEGORIES, Document, Entity, Word
from audit.measurements import Unresolved


@pytest.mark.parametrize("kind", [redacted.Tagging, redacted.Filling])
@pytest.mark.parametrize("mask", ["fixed", "length"])
def test_a_model_that_remembers_its_members_makes_it_worse_for_them_alone(kind, mask):
    data = redacted.texts(24, told=False, seed=2, mask=mask)
    target = kind(known=data.of("member"))
    found = redacted.findings(data, target)
    member, heldout = (redacted.measured(found, f"target_gain.{split}") for split in ("member", "heldout"))
    assert member.low > 0.3
    assert heldout.low <= 0 <= heldout.high
    assert member.clusters == heldout.clusters == 12
    assert redacted.count(found, "asked of the target") == 24 * 6


def test_a_model_that_knows_nothing_adds_nothing():
    data = redacted.texts(20, told=True)
    found = redacted.findings(data, redacted.Tagging())
    for split in ("member", "heldout"):
        gain = redacted.measured(found, f"target_gain.{split}")
        assert gain.low <= 0 <= gain.high


def test_a_model_that_names_neither_tags_nor_words_is_not_asked_and_that_is_said():
    found = redacted.findings(redacted.texts(10, told=True))
    gap = redacted.measured(found, "target_gain.member")
    assert isinstance(gap, Unresolved)
    assert "neither tags nor hidden words" in gap.reason
    assert gap.inapplicable
    public = [replace(one, split="public") for one in redacted.texts(10, told=True).documents]
    unasked = redacted.measured(redacted.findings(redacted.corpus(public), redacted.Tagging()), "target_gain")
    assert "no member or held-out document" in unasked.reason
    assert not unasked.inapplicable


class Unreading(redacted.Tagging):
    """Cannot read any page."""

    def encode(self, one, around=()):
        return None


def test_what_the_model_cannot_read_is_counted():
    data = redacted.texts(10, told=True)
    found = redacted.findings(data, Unreading())
    assert redacted.count(found, "not read by the target") == 60
    assert isinstance(redacted.measured(found, "target_gain.member"), Unresolved)


def test_a_tag_is_of_the_category_that_its_label_mostly_has():
    words = (Word("a"),)
    entities = [Entity("e", "Ort", category, (0,)) for category in ("location", "location", "misc")]
    documents = [Document(f"d{n}", "member", words, entities=(one,)) for n, one in enumerate(entities)]
    data = redacted.corpus(documents)
    place = CATEGORIES.index("location")
    assert categories_of_tags(data, ("O", "B-Ort", "I-Ort", "Ort", "B-else")) == (ELSE, place, place, place, ELSE)


def test_under_a_mask_of_one_length_no_word_of_a_value_is_left_to_count():
    texts = ("x", "Ann", "Lee", "of", "Bonn")
    one = Document(
        "d",
        "member",
        tuple(Word(text, (10.0 * n, 0.0, 10.0 * n + 9, 8.0)) for n, text in enumerate(texts)),
        size=(200, 20),
        entities=(Entity("a", "person", "person", (1, 2)), Entity("b", "location", "location", (4,))),
    )
    hidden, places = hide(one, one.entities[:1], "fixed")
    assert [word.text for word in hidden.words] == ["x", "*", "of", "Bonn"]
    assert places == ((1,),)
    # Behind the word before it; five characters, half as wide as high.
    assert hidden.words[1].box == (9.0, 0.0, 29.0, 8.0)
    assert hidden.entities == ()
    every, places = hide(one, one.entities, "all")
    assert [word.text for word in every.words] == ["x", "*", "of", "*"]
    assert places == ((1,), (3,))
    same, places = hide(one, one.entities[:1], "length")
    assert same.words == one.words
    assert places == ((1, 2),)
