"""Batches that fit into memory, and the encoder in bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from short_memory import ShortOfMemory

from audit.errors import EngineError
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import TrainingLoss

CANDIDATES = np.arange(len(tiny.SPECIAL), len(tiny.SPECIAL) + 30)


@pytest.fixture
def tagger(checkpoints: Any) -> EncoderTarget:
    return load(checkpoints("layoutlm", "token-classification"), labels=tiny.LABELS)


def queries(target: EncoderTarget) -> list[TrainingLoss]:
    pages = [target.encode(document) for document in tiny.documents(3, 1, 0)]
    return [TrainingLoss(page, 4, CANDIDATES) for page in pages if page is not None]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_batches_shrink_when_memory_runs_out_and_answers_stay_the_same(tagger: EncoderTarget, error: Any) -> None:
    expected = tagger.ask(queries(tagger))
    short = ShortOfMemory(tagger.forward._encoder, 700, error)
    tagger.forward._encoder = short
    for one, other in zip(expected, tagger.ask(queries(tagger)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert 350 <= short.largest <= 700
    assert tagger.forward.lowered == short.failures > 0
    assert tagger.batch_tokens <= 700
    before = short.failures
    tagger.ask(queries(tagger))
    assert short.failures == before  # what was learned is kept


def test_a_page_that_never_fits_is_an_error(tagger: EncoderTarget) -> None:
    tagger.forward._encoder = ShortOfMemory(tagger.forward._encoder, 10)
    with pytest.raises(EngineError, match="not enough memory for a single page"):
        tagger.ask(queries(tagger))


def test_another_error_is_not_taken_for_lack_of_memory(tagger: EncoderTarget) -> None:
    class Broken(torch.nn.Module):
        def forward(self, **_: Any) -> Any:
            raise RuntimeError("shapes do not match")

    tagger.forward._encoder = Broken()
    with pytest.raises(RuntimeError, match="shapes"):
        tagger.ask(queries(tagger))


@pytest.mark.parametrize("family", ["layoutlm", "bros"])
def test_the_encoder_in_bfloat16_rounds_and_its_answers_do_not_depend_on_what_stands_beside_them(
    checkpoints: Any, family: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = load(checkpoints(family, "token-classification"), labels=tiny.LABELS)
    rounded = exact.rounded("bfloat16")
    assert (exact.card.dtype, rounded.card.dtype) == ("float32", "bfloat16")
    asked = queries(rounded)
    alone = [rounded.ask([query])[0] for query in asked]
    for batch_tokens in (300, 2048):
        monkeypatch.setattr(rounded.forward, "batch_tokens", batch_tokens)
        for one, other in zip(alone, rounded.ask(asked), strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(alone, exact.ask(asked), strict=True):
        assert not np.array_equal(one, other)
        np.testing.assert_allclose(one, other, rtol=0.1)
