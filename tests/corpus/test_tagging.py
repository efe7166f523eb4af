"""Schemes of labels: known answers, and entities that come back from their own tags."""

import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.tagging import BIO, canonical, outside_of, scheme_of, scheme_problems

BIO_LABELS = ("O", "B-A", "I-A", "B-B", "I-B")
BIOES_LABELS = ("O", *(f"{p}-{n}" for n in "AB" for p in "BIES"))
BILOU_LABELS = ("O", *(f"{p}-{n}" for n in "AB" for p in "BILU"))
IO_LABELS = ("other", "A", "B")
INSIDE_LABELS = ("O", "I-A", "I-B")
ALL = {
    "BIO": BIO_LABELS,
    "BIOES": BIOES_LABELS,
    "BILOU": BILOU_LABELS,
    "IO": IO_LABELS,
    "I only": INSIDE_LABELS,
}


@table("labels, one, three", globals())
def test_the_tags_of_an_entity(labels, one, three):
    scheme = scheme_of(labels)
    assert (scheme.tags_of("A", 1), " ".join(scheme.tags_of("A", 3))) == ((one,), three)
    assert scheme.tags_of("O", 2) == (scheme.outside,) * 2
    assert scheme.knows("O")
    assert scheme.knows("A")
    assert not scheme.knows("C")


@table("labels, named, outside", globals())
def test_the_class_outside_of_entities(labels, named, outside):
    assert outside_of(labels, named) == outside
    if outside is not None:
        assert "O" in canonical(labels, named)
        assert len(canonical(labels, named)) == len(labels)


@table("labels, named, problem", globals())
def test_labels_that_are_in_no_scheme(labels, named, problem):
    (found,) = [text for text in scheme_problems(labels, named) if problem in text]
    with pytest.raises(ValueError, match=r"is none|no label|is a label too"):
        scheme_of(labels, named)
    assert found


def test_names_that_look_like_tags_stay_names():
    scheme = scheme_of(("O", "E-MAIL", "S-BAHN"))
    assert (scheme.name, scheme.tags_of("E-MAIL", 2)) == ("IO", ("E-MAIL", "E-MAIL"))


@table("labels, tags, spans", globals())
def test_the_entities_of_tags(labels, tags, spans):
    assert scheme_of(labels).spans(tags.split()) == {*spans}


@pytest.mark.parametrize("labels", ALL.values(), ids=ALL)
@given(st.data())
def test_entities_come_back_from_their_tags(labels, data):
    scheme = scheme_of(labels)
    tags, expected, before = [], set(), ""
    for _ in range(data.draw(st.integers(0, 5))):
        gap = data.draw(st.integers(0, 2))
        name, length = data.draw(st.sampled_from("AB")), data.draw(st.integers(1, 4))
        if scheme.name == "IO" and name == before and not gap:
            gap = 1  # words of one name that follow each other are one entity there
        tags += [scheme.outside] * gap
        expected.add((name, len(tags), len(tags) + length))
        tags += scheme.tags_of(name, length)
        before = name
    assert scheme.spans(tags) == expected
    assert set(tags) <= {*labels}


@given(st.lists(st.sampled_from(BIO_LABELS)))
def test_bio_needs_no_list_of_labels(tags):
    assert BIO.spans(tags) == scheme_of(BIO_LABELS).spans(tags)
