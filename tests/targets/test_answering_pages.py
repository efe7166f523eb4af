"""Pages as tokens for models that answer from words: one contract for VT5 and UDOP, and who has no such pages."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from answering_checkpoints import make_donut
from asked_pages import asked
from text_answering_checkpoints import make_udop, make_vt5

from audit.corpus.documents import Document, Question
from audit.corpus.images import PageView
from audit.targets.answering.loading import load_answering
from audit.targets.answering.target import AnsweringTarget, AskedPage
from audit.targets.interface import AnswerLoss, TrainingLoss

FAMILIES: dict[str, Callable[[Path], Path]] = {"vt5": make_vt5, "udop": make_udop}
DOCUMENT, OTHER = (
    replace(asked(document), image="page.png") for document in tiny.documents(2, 0, 0, seed=3)
)
SIGHTED = 8
"""Candidates of a query here."""


@pytest.fixture(scope="module", params=FAMILIES)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AnsweringTarget:
    folder = FAMILIES[request.param](tmp_path_factory.mktemp("pages") / "model")
    return load_answering(folder, images=tiny.page_image)


def page_of(
    target: AnsweringTarget, document: Document = DOCUMENT, around: tuple[int, ...] = ()
) -> AskedPage:
    page = target.encode(document, around)
    assert isinstance(page, AskedPage)
    return page


def queries(target: AnsweringTarget) -> list[TrainingLoss]:
    """Some of each document, at other places with other candidates."""
    found = []
    for number, document in enumerate((DOCUMENT, OTHER)):
        page = page_of(target, document)
        for position in (2, 9, 20):
            candidates = 5 + np.arange(SIGHTED - number) * 3 + position
            found.append(TrainingLoss(page.scrubbed([position]), position, candidates))
    return found


def row_of(target: AnsweringTarget, page: AskedPage) -> list[list[int]]:
    """The ids of each row, padding taken off."""
    inputs = target.reader.prompts(page.samples())
    lengths = inputs["attention_mask"].sum(dim=1).tolist()
    return [row[:length].tolist() for row, length in zip(inputs["input_ids"], lengths, strict=True)]


def test_losses_of_candidates_depend_on_their_query_alone(target: AnsweringTarget) -> None:
    asked_together = queries(target)
    losses = target.ask(asked_together)
    assert [len(loss) for loss in losses] == [len(query.candidates) for query in asked_together]
    alone = [target.ask([query])[0] for query in asked_together]
    backwards = target.ask(asked_together[::-1])[::-1]
    one_candidate = [
        np.array(
            [
                target.ask([replace(query, candidates=query.candidates[[place]])])[0][0]
                for place in range(2)
            ]
        )
        for query in asked_together
    ]
    for found, *others, first in zip(losses, alone, backwards, one_candidate, strict=True):
        assert np.ptp(found) > 0
        for other in others:
            np.testing.assert_array_equal(found, other)
        np.testing.assert_array_equal(found[:2], first)


def test_the_loss_of_a_page_as_it_is_is_the_mean_loss_of_its_answers(
    target: AnsweringTarget,
) -> None:
    page = page_of(target)
    (loss,) = target.ask([TrainingLoss(page, 4, page.ids[[4]])])
    view = PageView(DOCUMENT.words, DOCUMENT.size, lambda: tiny.page_image(DOCUMENT))
    asked_alone = [
        AnswerLoss(view, question.question, question.answers[0]) for question in DOCUMENT.questions
    ]
    assert len(asked_alone) == 2
    np.testing.assert_allclose(
        loss, np.mean([-found.mean() for found in target.ask(asked_alone)]), rtol=1e-6
    )


def test_a_page_has_the_tokens_boxes_and_words_of_its_document(target: AnsweringTarget) -> None:
    page = page_of(target)
    assert page.has_loss
    assert page.labels is None
    assert (page.boxes.shape, {*page.words.tolist()}) == (
        (len(page.ids), 4),
        {*range(len(DOCUMENT.words))},
    )
    total = next(entity for entity in DOCUMENT.entities if entity.label == "TOTAL")
    assert target.token_strings(page.ids[list(page.positions_of(total.words))]) == DOCUMENT.text_of(
        total
    )
    x0, _, _, y1 = DOCUMENT.words[0].box or (0, 0, 0, 0)
    assert page.boxes[0, 0] == pytest.approx(x0 / tiny.SIZE[0], abs=1e-3)
    assert (page.boxes[0, 3], target.labels) == (pytest.approx(y1 / tiny.SIZE[1], abs=1e-3), ())


def test_a_scrubbed_page_shows_the_field_neither_in_words_nor_in_pixels(
    target: AnsweringTarget,
) -> None:
    page = page_of(target)
    total = next(entity for entity in DOCUMENT.entities if entity.label == "TOTAL")
    positions = page.positions_of(total.words)
    hidden = page.scrubbed(positions)
    other = "".join(
        "8" if letter != "8" else "3" for letter in DOCUMENT.text_of(total) if letter != "."
    )
    words = tuple(
        replace(word, text=f"{other[:-2]}.{other[-2:]}") if index in total.words else word
        for index, word in enumerate(DOCUMENT.words)
    )
    # A page with another total of as many tokens, scrubbed, is the same input bit for bit.
    changed = page_of(target, replace(DOCUMENT, words=words)).scrubbed(positions)
    assert (page.ids != page_of(target, replace(DOCUMENT, words=words)).ids).any()
    assert row_of(target, hidden) == row_of(target, changed)
    for row in row_of(target, hidden):
        assert row.count(hidden.mask_id) >= len(positions)
    image = hidden.view.image
    assert image is not None
    x0, y0, x1, y1 = (int(value) for value in DOCUMENT.words[total.words[0]].box or (0, 0, 0, 0))
    assert (np.asarray(image)[y0:y1, x0:x1] == 255).all()
    assert (np.asarray(image) != 255).any()
    filled = hidden.with_tokens(positions[:1], [7])
    assert filled.view is hidden.view


def test_a_page_is_read_as_far_as_its_rows_hold_it(target: AnsweringTarget) -> None:
    wordy = Question("q", "what is it that was paid?", ("9.00",))
    long = replace(DOCUMENT, words=DOCUMENT.words * 6, questions=(*DOCUMENT.questions, wordy))
    page = page_of(target, long)
    assert len(page.ids) < target.card.max_tokens
    last = len(long.words) - 1
    assert target.encode(long, (last,)) is None
    assert target.encode(long, (0, 1)) is not None
    at_the_edge = int(page.words[-1])
    assert target.encode(long, (at_the_edge,)) is None, "a longer question cuts this word off"


def test_a_page_without_words_or_questions(target: AnsweringTarget) -> None:
    assert target.encode(Document("empty", "member", size=tiny.SIZE, image="page.png")) is None
    unasked = target.encode(replace(DOCUMENT, questions=()))
    assert unasked is not None
    assert not unasked.has_loss
    with pytest.raises(ValueError, match="without questions"):
        target.ask([TrainingLoss(unasked, 0, unasked.ids[:1])])
    unanswered = replace(DOCUMENT, questions=(Question("q", "what?", ()), *DOCUMENT.questions))
    assert page_of(target, unanswered).asked == page_of(target).asked


def test_a_reader_of_pixels_has_no_pages(tmp_path: Path) -> None:
    donut = load_answering(make_donut(tmp_path / "donut"), images=tiny.page_image)
    assert TrainingLoss not in donut.answers
    assert donut.encode(DOCUMENT) is None


def test_a_vocabulary_with_a_mask_reads_pages_as_its_masked_models_do() -> None:
    from audit.targets.answering.reader import PageTokens
    from audit.targets.answering.target import page_of as made

    tokenizer: Any = tiny.tokenizer()
    page = made(
        tokenizer, PageView(DOCUMENT.words, DOCUMENT.size), PageTokens((7, 8, 9), (0, 0, 1))
    )
    assert page.ids.tolist() == [tokenizer.cls_token_id, 7, 8, 9, tokenizer.sep_token_id]
    assert (page.words.tolist(), page.mask_id) == ([-1, 0, 0, 1, -1], tokenizer.mask_token_id)
    assert [sample.tokens for sample in replace(page, asked=(("what?", "x"),)).samples()] == [
        (7, 8, 9)
    ]
