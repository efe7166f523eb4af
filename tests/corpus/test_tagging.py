"""Schemes of labels: known answers, and entities that come back from their own tags."""

import pytest
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


@pytest.mark.parametrize(
    ("labels", "tag_of_one_word", "tags_of_three_words"),
    [
        pytest.param(BIO_LABELS, "B-A", "B-A I-A I-A", id="BIO"),
        pytest.param(BIOES_LABELS, "S-A", "B-A I-A E-A", id="BIOES"),
        pytest.param(BILOU_LABELS, "U-A", "B-A I-A L-A", id="BILOU"),
        pytest.param(IO_LABELS, "A", "A A A", id="names alone"),
        pytest.param(INSIDE_LABELS, "I-A", "I-A I-A I-A", id="I- alone"),
        pytest.param(("O", "B-A", "I-A", "E-A"), "B-A", "B-A I-A E-A", id="BIOES without S-"),
        pytest.param(("O", "B-A", "I-A", "S-A"), "S-A", "B-A I-A I-A", id="BIOES without E-"),
    ],
)
def test_the_tags_of_an_entity(labels, tag_of_one_word, tags_of_three_words):
    scheme = scheme_of(labels)
    assert (scheme.tags_of("A", 1), " ".join(scheme.tags_of("A", 3))) == (
        (tag_of_one_word,),
        tags_of_three_words,
    )
    assert scheme.tags_of("O", 2) == (scheme.outside,) * 2
    assert scheme.knows("O")
    assert scheme.knows("A")
    assert not scheme.knows("C")


@pytest.mark.parametrize(
    ("labels", "outside_name", "outside"),
    [
        pytest.param(("O", "other", "A"), None, "O", id="O among other names"),
        pytest.param(("OTHER", "A"), None, "OTHER", id="OTHER"),
        pytest.param(("A", "none"), None, "none", id="none"),
        pytest.param(("0", "A"), None, "0", id="zero"),
        pytest.param(("misc", "B-A", "I-A"), None, "misc", id="the only one without a prefix"),
        pytest.param(("rest", "A"), "rest", "rest", id="as named"),
        pytest.param(("rest", "A"), None, None, id="not named"),
    ],
)
def test_the_class_outside_of_entities(labels, outside_name, outside):
    assert outside_of(labels, outside_name) == outside
    if outside is not None:
        assert "O" in canonical(labels, outside_name)
        assert len(canonical(labels, outside_name)) == len(labels)


@pytest.mark.parametrize(
    ("labels", "outside_name", "problem"),
    [
        pytest.param(
            ("O", "B-A", "I-A", "TOTAL"),
            None,
            "TOTAL is none of O, B-..., I-...",
            id="one label without a prefix",
        ),
        pytest.param(("rest", "A"), None, "no label is O", id="no label outside"),
        pytest.param(
            ("O", "A"), "rest", "outside: rest is none of the labels", id="outside is no label"
        ),
        pytest.param(
            ("O", "rest", "A"),
            "rest",
            "outside: rest, but O is a label too",
            id="two labels outside",
        ),
    ],
)
def test_labels_that_are_in_no_scheme(labels, outside_name, problem):
    (found,) = [text for text in scheme_problems(labels, outside_name) if problem in text]
    with pytest.raises(ValueError, match=r"is none|no label|is a label too"):
        scheme_of(labels, outside_name)
    assert found


def test_names_that_look_like_tags_stay_names():
    scheme = scheme_of(("O", "E-MAIL", "S-BAHN"))
    assert (scheme.name, scheme.tags_of("E-MAIL", 2)) == ("IO", ("E-MAIL", "E-MAIL"))


@pytest.mark.parametrize(
    ("labels", "tags", "spans"),
    [
        pytest.param(
            BIOES_LABELS,
            "S-A B-A E-A",
            (("A", 0, 1), ("A", 1, 3)),
            id="a single one before another",
        ),
        pytest.param(
            BIOES_LABELS,
            "I-A E-A I-A",
            (("A", 0, 2), ("A", 2, 3)),
            id="I- begins one where B- is missing",
        ),
        pytest.param(
            BIOES_LABELS,
            "B-A S-A I-B",
            (("A", 0, 1), ("A", 1, 2), ("B", 2, 3)),
            id="S- ends what is open",
        ),
        pytest.param(
            BIOES_LABELS,
            "E-A E-A O",
            (("A", 0, 1), ("A", 1, 2)),
            id="E- begins one where B- is missing",
        ),
        pytest.param(
            IO_LABELS, "A A B other A", (("A", 0, 2), ("B", 2, 3), ("A", 4, 5)), id="names alone"
        ),
        pytest.param(INSIDE_LABELS, "I-A I-A O I-B", (("A", 0, 2), ("B", 3, 4)), id="I- alone"),
        pytest.param(
            BIO_LABELS,
            "B-A B-A I-B",
            (("A", 0, 1), ("A", 1, 2), ("B", 2, 3)),
            id="two of one label side by side",
        ),
    ],
)
def test_the_entities_of_tags(labels, tags, spans):
    assert scheme_of(labels).spans(tags.split()) == {*spans}


@pytest.mark.parametrize("labels", ALL.values(), ids=ALL)
@given(st.data())
def test_entities_come_back_from_their_tags(labels, data):
    scheme = scheme_of(labels)
    tags = []
    expected = set()
    before = ""
    for _ in range(data.draw(st.integers(0, 5))):
        gap = data.draw(st.integers(0, 2))
        name = data.draw(st.sampled_from("AB"))
        length = data.draw(st.integers(1, 4))
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
