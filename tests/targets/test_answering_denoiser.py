"""A T5 or VT5 as the public model: what it is given, what it proposes, and who cannot serve."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from text_answering_checkpoints import make_sentinel_vt5, make_t5, make_vt5, sentinel_tokenizer
from transformers import T5ForConditionalGeneration

from audit.corpus.documents import Document
from audit.errors import TargetError
from audit.targets.answering.denoiser import Denoiser, is_denoiser, load_denoiser
from audit.targets.answering.target import AskedPage
from audit.targets.interface import BestTokens, FillMask, TrainingLoss
from audit.targets.utility import measure_task

KINDS: dict[str, Callable[[Path], Path]] = {
    "t5": make_t5,
    "vt5": make_sentinel_vt5,
    "blind-vt5": partial(make_sentinel_vt5, visual=False),
}
DOCUMENT = replace(tiny.documents(1, 0, 0)[0], image="page.png")
WORDS = sentinel_tokenizer()
FIRST, SECOND = (WORDS.convert_tokens_to_ids(f"<extra_id_{number}>") for number in range(2))


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return KINDS[request.param](tmp_path_factory.mktemp("denoiser") / "model")


@pytest.fixture(scope="module")
def model(folder: Path) -> Denoiser:
    return load_denoiser(folder, images=tiny.page_image)


def page_of(model: Denoiser, document: Document = DOCUMENT) -> AskedPage:
    page = model.encode(document)
    assert isinstance(page, AskedPage)
    return page


def given(model: Denoiser, page: AskedPage, position: int) -> list[int]:
    ids: list[int] = model._inputs(page, position)["input_ids"][0].tolist()
    return ids


def test_what_is_not_reached_yet_is_one_span_and_copies_are_others(model: Denoiser) -> None:
    page = page_of(model)
    own = page.ids.tolist()
    hidden = page.scrubbed((2, 3, 10, 11, 12))
    end = model.model.config.eos_token_id
    assert given(model, hidden, 10) == [*own[:2], SECOND, *own[4:10], FIRST, *own[13:], end]
    after_one = hidden.with_tokens((10,), own[10:11])
    assert given(model, after_one, 11) == [*own[:2], SECOND, *own[4:11], FIRST, *own[13:], end]
    # A copy that ends where the field begins is a span of its own all the same.
    assert given(model, page.scrubbed((8, 9, 10)), 10) == [*own[:8], SECOND, FIRST, *own[11:], end]


def test_candidates_are_text_best_first(model: Denoiser) -> None:
    page = page_of(model).scrubbed((5, 6))
    (found,) = model.ask([FillMask(page, 5, 10_000)])
    text = {*range(len(WORDS))} - {*WORDS.all_special_ids}
    assert {*found.ids.tolist()} == text
    assert (np.diff(found.logits) <= 0).all()
    (few,) = model.ask([FillMask(page, 5, 7)])
    assert few.ids.tolist() == found.ids[:7].tolist()
    (best,) = model.ask([BestTokens(page, (5, 6))])
    assert best[0] == found.ids[0]


def test_answers_depend_on_their_query_alone(model: Denoiser) -> None:
    queries = [
        FillMask(page_of(model).scrubbed((place, place + 1)), place, 9) for place in (1, 7, 30)
    ]
    together = model.ask(queries)
    for query, found in zip(queries, together, strict=True):
        (alone,) = model.ask([query])
        np.testing.assert_array_equal(found.logits, alone.logits)
    assert len({tuple(found.ids.tolist()) for found in together}) == 3


def test_scores_are_those_of_transformers_for_the_token_after_the_first_sentinel(
    tmp_path: Path,
) -> None:
    folder = make_t5(tmp_path / "t5", 3)
    model = load_denoiser(folder)
    page = page_of(model).scrubbed((4, 5, 6))
    text = page_of(model).ids.tolist()
    with torch.no_grad():
        own = T5ForConditionalGeneration.from_pretrained(folder).eval()
        masked = [[*text[:4], FIRST, *text[7:], 1]]
        given = {"input_ids": torch.tensor(masked), "decoder_input_ids": torch.tensor([[0, FIRST]])}
        scores = own(**given).logits[0, -1].numpy()
    (found,) = model.ask([FillMask(page, 4, 5)])
    np.testing.assert_allclose(found.logits, scores[found.ids], rtol=1e-4)


def test_a_vt5_sees_boxes_and_a_page_without_the_hidden_words(tmp_path: Path) -> None:
    model = load_denoiser(make_sentinel_vt5(tmp_path / "vt5"), images=tiny.page_image)
    page = page_of(model)
    word = int(page.words[8])
    positions = page.positions_of([word])
    inputs = model._inputs(page.scrubbed(positions), positions[0])
    place = inputs["input_ids"][0].tolist().index(FIRST)
    box = DOCUMENT.words[word].box or (0, 0, 0, 0)
    shares = np.array(box) / [*tiny.SIZE, *tiny.SIZE] * 1000
    np.testing.assert_allclose(inputs["bbox"][0, place].numpy(), shares, atol=1)
    assert (inputs["pixel_values"] != model._inputs(page, positions[0])["pixel_values"]).any()


def test_the_share_of_hidden_tokens_that_it_names_is_measured(model: Denoiser) -> None:
    documents = [replace(document, image="page.png") for document in tiny.documents(0, 4, 0)]
    ((found, _),) = measure_task(model, documents, 0)
    assert found.kind == "estimate"
    assert model.encode(Document("empty", "heldout", size=tiny.SIZE)) is None
    assert TrainingLoss not in model.answers


def test_without_sentinels_it_is_refused(tmp_path: Path) -> None:
    folder = make_vt5(tmp_path / "vt5")
    assert is_denoiser(folder)
    with pytest.raises(TargetError, match="no sentinels"):
        load_denoiser(folder)
