"""An encoder through PyTorch's compiler, traced here as on a GPU, and then run as it is."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from test_encoders_contract import opened, own_tokens, pages_of

from audit.targets.encoders.compiling import COMPILED, COMPILED_STEP
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import RelaxedLoss, TrainingLoss


@pytest.fixture
def compiler(monkeypatch):
    """Trace without making kernels, which takes a minute."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    yield
    torch.compiler.reset()


@pytest.fixture
def tagger(checkpoints) -> EncoderTarget:
    return opened(checkpoints("layoutlm", "token-classification"))


def losses_of(target: EncoderTarget) -> list[np.ndarray[Any, Any]]:
    tokens = own_tokens(target)[:5]
    return target.ask([TrainingLoss(page, at, tokens) for page, at in pages_of(target)])


@pytest.mark.usefixtures("compiler")
def test_its_losses_are_those_of_the_plain_encoder_but_for_rounding(tagger):
    for loss, expected in zip(
        losses_of(tagger.rounded(COMPILED)), losses_of(tagger.rounded("bfloat16")), strict=True
    ):
        np.testing.assert_allclose(loss, expected, rtol=0.02, atol=0.02)


@pytest.mark.usefixtures("compiler")
def test_its_rows_are_padded_to_few_lengths(tagger, monkeypatch):
    compiled = tagger.rounded(COMPILED)
    lengths: set[int] = set()
    run = compiled.forward._compiled

    def noted(**inputs: Any) -> Any:
        lengths.add(inputs["input_ids"].shape[1])
        return run(**inputs)

    monkeypatch.setattr(compiled.forward, "_compiled", noted)
    losses_of(compiled)
    assert lengths == {COMPILED_STEP, 2 * COMPILED_STEP}


@pytest.mark.usefixtures("compiler")
def test_gradients_are_those_of_the_plain_encoder(tagger):
    page, at = pages_of(tagger)[3]
    candidates = own_tokens(tagger)[:4]
    query = RelaxedLoss(page, (at,), candidates, np.full((1, 4), 0.25))
    (found,) = tagger.rounded(COMPILED).ask([query])
    (expected,) = tagger.rounded("bfloat16").ask([query])
    assert found.loss == pytest.approx(expected.loss, rel=0.02)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=0.1, atol=0.02)
