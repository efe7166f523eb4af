"""The classifiers of hidden values, and what they are given: everything is fitted on the training fold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import redacted
from scipy.sparse import csr_array

from audit.attacks.redaction import RedactionContext
from audit.attacks.redaction.classifiers import CLASSIFIERS, TAKES_SPARSE, by_length, fit, most_common
from audit.attacks.redaction.embedding import MASKED, dense, dictionary, layout, lengths, tfidf, words_of
from audit.attacks.redaction.folds import FoldTrial, features_of, predict
from audit.attacks.redaction.samples import samples_of
from audit.case import Case
from audit.corpus.bars import LAYOUT
from audit.corpus.documents import CATEGORIES, Document, Entity, Word
from audit.corpus.redaction import redacted_spans

NETWORKS = ("mlp", "cnn")
"""What they learn of more samples is tested beside them."""


def blobs(n=60, n_columns=100):
    """Three classes with a pattern of their own, and noise."""
    rng = np.random.default_rng(0)
    classes = np.arange(n) % 3
    return rng.normal(0, 1, (3, n_columns))[classes] + rng.normal(0, 0.5, (n, n_columns)), classes


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in NETWORKS])
def test_every_classifier_tells_what_can_be_told_and_the_same_again(name):
    rows, classes = blobs(150)
    given = csr_array(rows) if name in TAKES_SPARSE else rows
    told, again = (np.asarray(fit(name, given[:120], classes[:120], 3).predict(given[120:])) for _ in range(2))
    assert (told == classes[120:]).mean() > 0.9
    assert np.array_equal(again, told)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_take_tables_of_few_columns_and_say_the_same_again(name):
    rows, classes = blobs(6, 20)
    told, again = (np.asarray(fit(name, rows, classes, 3).predict(rows)) for _ in range(2))
    assert told.shape == (6,)
    assert set(told.tolist()) <= set(range(len(CATEGORIES)))
    assert np.array_equal(again, told)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_of_one_class_every_classifier_says_that(name):
    rows, _ = blobs(6)
    assert fit(name, rows, np.full(6, 4), 0).predict(rows[:2]).tolist() == [4, 4]


@pytest.mark.parametrize(("name", "answer"), [("bagged-svm", 1), ("gradient-boosting", 1), ("linear-svm", 0)])
def test_classes_count_alike_but_in_the_linear_svm_where_values_do(name, answer):
    """Of a common and a rare class that overlap, the rare one is given up only where being right most often counts."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(0, 1, (190, 1)), rng.normal(2, 1, (10, 1))])
    told = fit(name, rows, np.repeat([0, 1], [190, 10]), 0).predict(np.array([[2.0]]))
    assert told.tolist() == [answer]


def test_who_knows_no_context_names_the_commonest_or_goes_by_length():
    assert most_common(np.array([3, 1, 1, 3])).predict(np.empty((2, 0))).tolist() == [1, 1]
    sizes = np.repeat([3.0, 9.0], 20)[:, None]
    assert by_length(sizes, np.repeat([0, 1], 20)).predict(np.array([[2.0], [10.0]])).tolist() == [0, 1]


def test_what_only_the_held_fold_says_is_no_column():
    data = redacted.texts(10, told=True)
    spans = redacted_spans(data.documents, "fixed")
    training, held = spans[:40], spans[40:]
    strange = tuple(replace(span, before="Xyzzy plugh ", after=" frotz") for span in held)
    first, as_it_is = tfidf(training, held)
    again, changed = tfidf(training, strange)
    assert (first != again).nnz == 0
    assert first.shape[1] == as_it_is.shape[1] == changed.shape[1]
    assert changed.nnz < as_it_is.nnz


def test_contexts_without_a_word_are_samples_too():
    spans = redacted_spans([redacted.document(f"d{n}", [([], "person", ["Xy"], [])]) for n in range(4)], "fixed")
    empty = tuple(replace(span, before="", after="") for span in spans)
    first, second = tfidf(empty[:2], empty[2:])
    assert first.shape[0] == second.shape[0] == 2
    assert np.isfinite(first.toarray()).all()


def test_how_an_annotation_divides_words_does_not_show():
    assert words_of("in Bonn, (no. 12/3") == words_of("in Bonn , ( no. 12/3")
    assert words_of("Born 1987 in ****** .") == ["born", "####", "in", MASKED, "."]
    assert words_of("a ** b") == words_of("a ***** b")


def test_a_projection_is_as_wide_as_it_can_be():
    rows, _ = blobs(5, 9)
    first, second = dense(csr_array(rows[:3]), csr_array(rows[3:]), 0)
    assert first.shape == (3, 2)
    assert second.shape == (2, 2)


def page(number, kind, width):
    """A page whose value is `width` characters wide; nothing else near it differs from page to page."""
    # The last line is too far away to be part of the context; it makes pages differ.
    texts = [("Head", 0, 0), ("line", 50, 0), ("x" * width, 10, 20), (f"Page {number}", 0, 200)]
    words = tuple(Word(text, (x, y, x + 10.0 * len(text), y + 10)) for text, x, y in texts)
    entity = Entity("e", kind, kind, (2,))
    return Document(f"p{number:02}", "member", words, size=(400, 220), entities=(entity,))


@pytest.fixture(scope="module")
def pages():
    return redacted.corpus([page(n, ("amount", "person")[n % 2], 6 + 9 * (n % 2)) for n in range(60)], "length", "mlm")


def test_a_page_gives_its_layout_and_what_fits_under_the_bar(pages):
    training, held = samples_of(pages, "length", 5).divided(0)
    names = dictionary(training)
    # Equal values are one name.
    assert [len(own) for own in names] == [int(name in ("amount", "person")) for name in CATEGORIES]
    first, second = layout(training, held)
    assert first.shape == (len(training), len(LAYOUT) + len(CATEGORIES))
    assert np.ptp(first[:, LAYOUT.index("width")]) > 0
    assert np.allclose(first.mean(axis=0), 0)
    fixed, _ = layout(*samples_of(pages, "fixed", 5).divided(0))
    assert np.ptp(fixed[:, 2:]) == 0
    assert np.allclose(lengths(training), lengths(samples_of(pages, "fixed", 5).divided(0)[0]))
    texts = samples_of(redacted.texts(10, told=True), "length", 5)
    assert layout(*texts.divided(0)) is None
    assert lengths(texts)[0].tolist() == [texts.spans[0].n_characters, 0, 0]
    assert len(second) == len(held)


def test_the_width_of_a_bar_tells_what_its_context_does_not(pages):
    found = redacted.findings(pages)
    assert redacted.measured(found, "accuracy").value == 1.0
    assert redacted.measured(found, "accuracy.length-only").value == 1.0
    assert redacted.measured(found, "dictionary_share").value == 1.0
    diagnostics = {one.name: one.value for one in found.diagnostics}
    assert diagnostics["fitting_own"] == 1.0  # letters of one width: every value is as wide as its own bar
    assert redacted.count(found, "on pages") == 60
    fixed = redacted.findings(replace(pages, manifest=redacted.corpus((), "fixed", "mlm").manifest))
    assert redacted.measured(fixed, "accuracy").value < 0.8
    assert not [item for item in fixed.measurements if item.name == "dictionary_share"]


@pytest.mark.parametrize("name", ["linear-svm", "random-forest"])
def test_features_of_pages_hold_text_and_layout(pages, name):
    training, held = samples_of(pages, "length", 5).divided(1)
    classes, first, second = features_of(None, "tfidf", name, training, held, 0)
    assert len(classes) == first.shape[0] == len(training)
    assert second.shape == (len(held), first.shape[1])


def test_every_classifier_is_a_trial_of_its_own():
    data = redacted.texts(10, told=True)
    attack = RedactionContext(masks=(), classifiers=("linear-svm", "bagged-svm"))
    case = Case(redacted.Silent(), data)
    found = redacted.run(attack, case)[2]
    assert len(attack.trials(case)) == 10
    for name in ("lift_share", "lift_share.bagged-svm", "worst_class.bagged-svm"):
        assert redacted.measured(found, name).value > 0.5
    trial = FoldTrial("fixed", 2, "bagged-svm")
    assert FoldTrial.of(trial.id) == trial
    assert predict(case, trial, "tfidf", 5, 9) == predict(case, trial, "tfidf", 5, 9)
