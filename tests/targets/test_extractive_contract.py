"""One contract for every family of models that point at answers.

A family joins by its name in the zoo.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from encoder_zoo import POINTING, pointing_tokenizer, write_extractive
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from audit.corpus.documents import Corpus, Document, Manifest, Membership, Question, Task, Word
from audit.corpus.folding import places_of
from audit.corpus.images import PageView
from audit.errors import ManifestError, TargetError
from audit.targets.extractive import ExtractiveTarget, load_extractive
from audit.targets.interface import Answer, AnswerLoss, BestTokens
from audit.targets.opening import (
    NONE_UNREAD,
    count_questions,
    find_unread,
    target_of,
    without_unread,
)
from audit.targets.spans import MAX_ANSWER, Scores, Window, best_span

TEXT = "abc stores invoice no 77 date 01/02/2024 clerk anna berg item 3 x 4.00 total 12.00 paid"


def page(text: str = TEXT, shade: int = 200) -> PageView:
    return PageView(
        tiny.laid_out(text.split()),
        tiny.SIZE,
        lambda: Image.new("RGB", tiny.SIZE, (shade, 90, 160)),
    )


def corpus_of(*documents: Document, kind: str = "extractive-qa") -> Corpus:
    manifest = Manifest(schema=1, name="asked", task=Task(kind), membership=Membership("random"))  # type: ignore[arg-type]  # some tests name others
    return Corpus(Path(), manifest, documents, "0" * 64)


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    @cache
    def loaded(family: str) -> ExtractiveTarget:
        return load_extractive(write_extractive(tmp_path_factory.mktemp(family), family))

    return loaded


@pytest.mark.parametrize("family", POINTING)
def test_one_question_alone_equals_many_in_any_order(load, family):
    target = load(family)
    long = " ".join([TEXT] * 3)
    asked = [
        (page(), "total?"),
        (page(long), "date?"),
        (page("a b"), "who is the clerk"),
        (page(), ""),
    ]
    queries = [Answer(*one) for one in asked] * 2
    losses = [AnswerLoss(view, question, "12.00") for view, question in asked] * 2
    many = target.ask(queries)
    scored = target.ask(losses)
    for number in (5, 0, 3):
        (alone,) = target.ask([queries[number]])
        (loss,) = target.ask([losses[number]])
        assert alone == many[number] or vars(alone) == vars(many[number])
        np.testing.assert_array_equal(loss, scored[number])
        assert 0 <= alone.confidence <= 1
    assert len({reply.text for reply in many}) > 1
    assert target.ask([]) == []
    with pytest.raises(ValueError, match="cannot answer"):
        target.ask([BestTokens(None, ())])  # type: ignore[arg-type]  # refused before it is looked at


@pytest.mark.parametrize("family", ["bert", "layoutlmv3", "roberta", "deberta-v2"])
def test_scores_are_those_of_transformers_on_its_own_tokens(load, family):
    target = load(family)
    tokenizer = pointing_tokenizer(family)
    if family == "roberta":
        tokenizer.backend_tokenizer.pre_tokenizer.add_prefix_space = True
        target.reader.tokenizer.backend_tokenizer.pre_tokenizer.add_prefix_space = True
    view = page()
    question = "what is the total"
    words = [word.text for word in view.words]
    more = {}
    if family == "layoutlmv3":
        width, height = tiny.SIZE
        boxes = [
            [int(v * 1000 / s + 1e-6) for v, s in zip(w.box, (width, height) * 2, strict=True)]
            for w in view.words
        ]
        encoded = tokenizer(question, words, boxes=boxes, return_tensors="pt")
        more["pixel_values"] = target.reader.page_images._processor(
            [np.asarray(view.image)], return_tensors="pt"
        ).pixel_values
    else:
        encoded = tokenizer(question.split(), words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        out = target.model(**encoded, **more)
    n = encoded["input_ids"].shape[1]
    (window,) = target.reader.windows(view, question)
    np.testing.assert_array_equal(window.ids, encoded["input_ids"][0])
    first, last = window.span_of(words.index("12.00"), words.index("12.00"))
    (loss,) = target.ask([AnswerLoss(view, question, "12.00")])
    expected = [
        torch.log_softmax(out.start_logits[0], -1)[first],
        torch.log_softmax(out.end_logits[0], -1)[last],
    ]
    np.testing.assert_allclose(loss, [float(value) for value in expected], atol=1e-4)
    assert out.start_logits.shape[1] >= n


def window_of(words: list[int]) -> Window:
    n = len(words)
    return Window(np.zeros(n, int), np.zeros(n, int), np.zeros((n, 4), int), np.array(words), 0)


def scores_of(begins: list[float], ends: list[float]) -> Scores:
    logs = [np.array(x) - np.log(np.exp(x).sum()) for x in (begins, ends)]
    return Scores(np.array(begins), np.array(ends), *logs)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_best_span_is_that_of_brute_force(data):
    windows = []
    scores = []
    numbers = st.floats(-4, 4, allow_nan=False)
    for _ in range(data.draw(st.integers(1, 3))):
        words = [-1, *data.draw(st.lists(st.integers(0, 5), max_size=6).map(sorted)), -1]
        lists = [
            data.draw(st.lists(numbers, min_size=len(words), max_size=len(words))) for _ in range(2)
        ]
        windows.append(window_of(words))
        scores.append(scores_of(*lists))
    best = best_span(windows, scores)
    spans = [
        own.begins[i] + own.ends[j]
        for window, own in zip(windows, scores, strict=True)
        for i in range(len(window.words))
        for j in range(i, min(i + MAX_ANSWER, len(window.words)))
        if window.words[i] >= 0 and window.words[j] >= 0
    ]
    null = min(own.begins[0] + own.ends[0] for own in scores)
    if best.words is None:
        assert not spans or null > max(spans)
        assert best.score == null
    else:
        assert best.score == max(spans) >= null
        assert best.log_probability <= 0


def test_a_span_is_never_longer_than_allowed_and_never_backwards():
    n = MAX_ANSWER + 10
    begins = np.zeros(n)
    ends = np.zeros(n)
    begins[1], ends[n - 1] = 9, 9  # too long
    begins[n - 2], ends[2] = 9, 5  # backwards
    begins[0] = ends[0] = -9
    best = best_span([window_of([-1, *range(n - 1)])], [scores_of(list(begins), list(ends))])
    assert best.words is not None
    assert best.n_tokens <= MAX_ANSWER
    assert best.words[0] <= best.words[1]
    assert best.score == 18  # the one that begins at n - 2 and ends at n - 1


@pytest.mark.parametrize("family", ["layoutlm", "layoutlmv3", "longformer"])
def test_a_long_page_is_read_to_its_end(load, family):
    target = load(family)
    words = [f"w{number}" for number in range(120)]
    windows = target.reader.windows(page(" ".join(words)), "which one")
    assert len(windows) > 1
    assert {int(word) for window in windows for word in window.words} == {-1, *range(120)}
    assert all(len(window.ids) <= target.reader.max_tokens for window in windows)
    heads = {tuple(window.ids[: int(np.flatnonzero(window.words >= 0)[0])]) for window in windows}
    assert len(heads) == 1  # the question stands before every part of the page
    (loss,) = target.ask([AnswerLoss(page(" ".join(words)), "which one", "w119")])
    assert loss.shape == (2,)


def test_an_answer_that_is_not_there_has_the_loss_of_no_answer(load):
    target = load("bert")
    view = page()
    gone, other = target.ask(
        [AnswerLoss(view, "total", "99.99"), AnswerLoss(view, "total", "never there")]
    )
    np.testing.assert_array_equal(gone, other)
    (window,) = target.reader.windows(view, "total")
    assert window.null == 0


@pytest.mark.parametrize(
    ("answer", "words", "expected"),
    [
        pytest.param("12.00", "total 12.00 paid 12.00", [[1, 1], [3, 3]], id="in two places"),
        pytest.param("Anna  BERG", "clerk anna berg", [[1, 2]], id="in other cases"),
        pytest.param("9.00", "sum $9.00, eur", [[1, 1]], id="inside a word of punctuation"),
        pytest.param("9", "sum 19 29", [], id="a part of a number"),
        pytest.param("b", "ab b", [[1, 1]], id="a part of a word"),
        pytest.param("", "a b", [], id="no answer"),
        pytest.param("ab", "a · b ab", [[3, 3]], id="a sign between words is none"),
    ],
)
def test_answers_are_found_where_they_stand(answer, words, expected):
    found = places_of(answer, [Word(text) for text in words.split()])
    assert [list(place) for place in found] == expected


@given(st.lists(st.text("ab c", min_size=1, max_size=3), min_size=1, max_size=6), st.data())
def test_whole_words_are_found_at_their_own_place(texts, data):
    words = [Word(text) for text in texts]
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    text = " ".join(texts[first : last + 1])
    joined = ["".join(texts[a : b + 1]).replace(" ", "") for a, b in places_of(text, words)]
    assert all(own == text.replace(" ", "") for own in joined)
    assert bool(joined) == bool(text.strip())


def asked(**changed) -> Document:
    question = Question("q", "total?", ("12.00",))
    return Document(
        **{
            "id": "d",
            "split": "member",
            "words": page().words,
            "size": tiny.SIZE,
            "questions": (question,),
            **changed,
        }
    )


def test_documents_that_it_cannot_read_are_named(load):
    with pytest.raises(
        ManifestError, match=r"1 documents with questions, the first is d, have no words"
    ):
        load("bert").check(corpus_of(asked(words=())))
    load("bert").check(corpus_of(asked(words=(Word("12.00"),), size=None)))
    load("bert").check(corpus_of(asked(), kind="question-answering"))
    with pytest.raises(ManifestError, match="have no boxes"):
        load("layoutlm").check(corpus_of(asked(words=(Word("a"),))))
    with pytest.raises(ManifestError, match="have no image"):
        load("layoutlmv3").check(corpus_of(asked()))
    with pytest.raises(ManifestError, match="no answer of a training document occurs on its page"):
        load("bert").check(corpus_of(asked(words=(Word("a"),))))
    with pytest.raises(ManifestError, match="the data set is for mlm"):
        load("bert").check(corpus_of(asked(), kind="mlm"))
    with pytest.raises(TargetError, match="without an image"):
        load("layoutlmv3").ask([Answer(PageView(page().words, tiny.SIZE), "total")])


def test_every_family_with_other_inputs_is_refused_with_its_reason(tmp_path):
    write_extractive(tmp_path, "bert")
    config = tmp_path / "config.json"
    config.write_text(
        config.read_text().replace('"bert"', '"layoutlmv2"').replace("BertFor", "LayoutLMv2For")
    )
    with pytest.raises(TargetError, match="detectron2"):
        target_of(tmp_path, corpus_of(asked()))


def test_questions_whose_answer_is_off_the_page_are_counted_and_left_out(load):
    gone = Question("gone", "who?", ("nobody at all",))
    documents = [
        asked(),
        asked(id="h", split="heldout", questions=(gone, Question("q", "total?", ("12.00",)))),
    ]
    corpus = corpus_of(*documents)
    load("bert").check(corpus)
    unread = find_unread(load("bert"), corpus)
    assert unread.warnings == (
        "1 questions are left out of the audit (1 held-out): their answer does not occur on the page.",
    )
    assert [len(one.questions) for one in without_unread(corpus, unread).documents] == [1, 1]
    assert count_questions(corpus, unread) == {"heldout": 1}
    assert find_unread(load("bert"), corpus_of(asked())) == NONE_UNREAD


def test_documents_without_any_answer_on_the_page_are_counted_as_documents(load):
    gone = Question("gone", "who?", ("nobody at all",))
    documents = [
        asked(),
        asked(id="n", questions=(gone,)),
        asked(id="h", split="heldout", questions=(gone, gone)),
    ]
    corpus = corpus_of(*documents)
    unread = find_unread(load("bert"), corpus)
    assert (unread.documents, count_questions(corpus, unread)) == ({"n", "h"}, {})
    (warning,) = unread.warnings
    assert warning.startswith(
        "2 documents are left out of the audit (1 member, 1 held-out): no answer to their"
    )
    assert [one.id for one in without_unread(corpus, unread).documents] == ["d"]


def test_a_question_longer_than_the_row_leaves_room_for_the_page(load):
    windows = load("bert").reader.windows(page("a b c"), "long " * 100)
    assert [len(window.ids) <= 127 and (window.words >= 0).any() for window in windows] == [True]
