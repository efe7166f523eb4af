"""The classifier of hidden values, and what it is given: everything is fitted on the training fold."""

from dataclasses import replace

import numpy as np
import pytest
import redacted
from attempts import counts, measured
from scipy.sparse import csr_array

from audit.attacks.redaction import contexts
from audit.corpus.bars import LAYOUT
from audit.corpus.documents import CATEGORIES, Document, Entity, Word
from audit.corpus.redaction import redacted_spans


def test_the_linear_svm_predicts_what_it_can_and_the_same_again():
    rng = np.random.default_rng(0)
    classes = np.arange(150) % 3
    rows = csr_array(rng.normal(0, 1, (3, 100))[classes] + rng.normal(0, 0.5, (150, 100)))
    told, again = (
        np.asarray(contexts.fit(rows[:120], classes[:120], 3).predict(rows[120:])) for _ in range(2)
    )
    assert (told == classes[120:]).mean() > 0.9
    assert np.array_equal(again, told)
    assert contexts.fit(rows[:6], np.full(6, 4), 0).predict(rows[:2]).tolist() == [4, 4]


def test_who_knows_no_context_names_the_commonest_or_goes_by_length():
    training, held = contexts.samples_of(
        redacted.texts(10, told=False, lengths=True), "fixed", 5
    ).divided(0)
    told = contexts.predict_blindly(training, held)
    assert (told["length"] == held.classes).all()
    assert set(told["prior"].tolist()) == {int(np.bincount(training.classes).argmax())}


def test_what_only_the_held_fold_says_is_no_column():
    spans = redacted_spans(redacted.texts(10, told=True).documents, "fixed")
    training = spans[:40]
    held = spans[40:]
    strange = tuple(replace(span, before="Xyzzy plugh ", after=" frotz") for span in held)
    first, as_it_is = contexts.tfidf(training, held)
    again, changed = contexts.tfidf(training, strange)
    assert (first != again).nnz == 0
    assert first.shape[1] == as_it_is.shape[1] == changed.shape[1]
    assert changed.nnz < as_it_is.nnz


def test_contexts_without_a_word_are_samples_too():
    spans = redacted_spans(
        [redacted.document(f"d{n}", [([], "person", ["Xy"], [])]) for n in range(4)], "fixed"
    )
    empty = tuple(replace(span, before="", after="") for span in spans)
    first, second = contexts.tfidf(empty[:2], empty[2:])
    assert first.shape[0] == second.shape[0] == 2
    assert np.isfinite(first.toarray()).all()


def test_how_an_annotation_divides_words_does_not_show():
    assert contexts.words_of("in Bonn, (no. 12/3") == contexts.words_of("in Bonn , ( no. 12/3")
    assert contexts.words_of("Born 1987 in ****** .") == [
        "born",
        "####",
        "in",
        contexts.MASKED,
        ".",
    ]
    assert contexts.words_of("a ** b") == contexts.words_of("a ***** b")


def page(number, kind, width):
    """A page whose value is `width` characters wide.

    Nothing else near it differs from page to page.
    """
    # The last line is too far away to be part of the context; it makes pages differ.
    texts = [("Head", 0, 0), ("line", 50, 0), ("x" * width, 10, 20), (f"Page {number}", 0, 200)]
    words = tuple(Word(text, (x, y, x + 10.0 * len(text), y + 10)) for text, x, y in texts)
    entity = Entity("e", kind, kind, (2,))
    return Document(f"p{number:02}", "member", words, size=(400, 220), entities=(entity,))


@pytest.fixture(scope="module")
def pages():
    return redacted.corpus(
        [page(n, ("amount", "person")[n % 2], 6 + 9 * (n % 2)) for n in range(60)], "length", "mlm"
    )


def test_a_page_gives_its_layout_and_what_fits_under_the_bar(pages):
    training, held = contexts.samples_of(pages, "length", 5).divided(0)
    names = contexts.dictionary(training)
    # Equal values are one name.
    assert [len(own) for own in names] == [int(name in ("amount", "person")) for name in CATEGORIES]
    first, second = contexts.layout(training, held)
    assert first.shape == (len(training), len(LAYOUT) + len(CATEGORIES))
    assert np.ptp(first[:, LAYOUT.index("width")]) > 0
    assert np.allclose(first.mean(axis=0), 0)
    fixed, _ = contexts.layout(*contexts.samples_of(pages, "fixed", 5).divided(0))
    assert np.ptp(fixed[:, 2:]) == 0
    assert np.allclose(
        contexts.lengths(training),
        contexts.lengths(contexts.samples_of(pages, "fixed", 5).divided(0)[0]),
    )
    texts = contexts.samples_of(redacted.texts(10, told=True), "length", 5)
    assert contexts.layout(*texts.divided(0)) is None
    assert (contexts.lengths(texts)[0].tolist(), len(second)) == (
        [texts.spans[0].n_characters, 0, 0],
        len(held),
    )
    rows = contexts.features_of(training, held)
    width = contexts.tfidf(training.spans, held.spans)[0].shape[1] + len(LAYOUT) + len(CATEGORIES)
    assert [own.shape for own in rows] == [(len(training), width), (len(held), width)]


def test_the_width_of_a_bar_tells_what_its_context_does_not(pages):
    found = redacted.findings(pages)
    assert (measured(found, "accuracy").value, measured(found, "accuracy.length-only").value) == (
        1.0,
        1.0,
    )
    assert counts(found)["on pages"] == 60
    fixed = redacted.findings(replace(pages, manifest=redacted.corpus((), "fixed", "mlm").manifest))
    assert measured(fixed, "accuracy").value < 0.8
