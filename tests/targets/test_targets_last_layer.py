"""States of a few tokens: the same ones, without the rest of the last layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from accelerate import dispatch_model

from audit.targets.batching import padded_rows
from audit.targets.checkpoint.loading import load
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.last_layer import last_layer
from audit.targets.encoders.target import EncoderTarget

LIKE_BERT = ("layoutlm", "bert", "roberta", "xlm-roberta", "docaudit-layoutlm-image")


def opened(folder: Any) -> EncoderTarget:
    return load(folder, images=tiny.page_image)


def pages_and_positions(target: EncoderTarget) -> tuple[list[Encoding], list[tuple[int, ...]]]:
    """Pages of a few lengths, with one position of each, then several, then all."""
    documents = [replace(document, image=f"{document.id}.png") for document in tiny.documents(6, 2, 0)]
    pages = [page for page in map(target.encode, documents) if page is not None]
    positions = [tuple(range(1, 1 + n)) for n in (1, 3, 1, 2)]
    return pages[: len(positions)] + pages[:1], [*positions, tuple(range(len(pages[0].ids)))]


def states_at(target: EncoderTarget, pages: list[Encoding], positions: list[tuple[int, ...]]) -> list[torch.Tensor]:
    found: dict[int, torch.Tensor] = {}
    with torch.inference_mode():
        for rows, states in target.forward.read(pages, positions):
            found |= {row: states[number, : len(positions[row])] for number, row in enumerate(rows)}
    return [found[row] for row in range(len(pages))]


def whole_states(target: EncoderTarget, pages: list[Encoding]) -> list[torch.Tensor]:
    found: dict[int, torch.Tensor] = {}
    with torch.inference_mode():
        for rows, states in target.forward.hidden([len(page.ids) for page in pages], pages.__getitem__):
            found |= {row: states[number] for number, row in enumerate(rows)}
    return [found[row] for row in range(len(pages))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", [*LIKE_BERT, "bros"])
def test_states_that_are_read_alone_are_those_of_the_whole_page(checkpoints: Any, family: Any, dtype: str) -> None:
    target = opened(checkpoints(family, "mlm")).rounded(dtype)
    pages, positions = pages_and_positions(target)
    whole = whole_states(target, pages)
    for own, states, all_states in zip(positions, states_at(target, pages, positions), whole, strict=True):
        np.testing.assert_array_equal(states.numpy(), all_states[list(own)].numpy())


@pytest.mark.parametrize("family", LIKE_BERT)
def test_the_last_layer_computes_what_is_read_and_no_more(checkpoints: Any, family: Any) -> None:
    target = opened(checkpoints(family, "mlm"))
    layer = last_layer(target.forward._encoder)
    seen: list[int] = []
    handle = layer.intermediate.register_forward_hook(lambda _, __, output: seen.append(output.shape[1]))
    pages, positions = pages_and_positions(target)
    states_at(target, pages, positions)
    assert {*seen} == {padded_rows(len(own)) for own in positions}
    seen.clear()
    whole_states(target, pages)  # the layer is as it was
    assert min(seen) > len(pages[0].ids)
    handle.remove()


def test_layers_of_another_build_are_left_as_they_are(checkpoints: Any) -> None:
    assert last_layer(opened(checkpoints("bros", "mlm")).forward._encoder) is None
    assert last_layer(torch.nn.Linear(2, 2)) is None


def test_attention_computed_in_another_way_is_left_as_it_is(checkpoints: Any) -> None:
    encoder = opened(checkpoints("layoutlm", "mlm")).forward._encoder
    encoder.config._attn_implementation = "eager"
    assert last_layer(encoder) is None


def test_a_layer_whose_weights_are_brought_from_elsewhere_is_left_as_it_is(checkpoints: Any) -> None:
    target = opened(checkpoints("layoutlm", "mlm"))
    assert last_layer(target.forward._encoder) is not None
    pages, positions = pages_and_positions(target)
    expected = states_at(target, pages, positions)
    dispatch_model(target.model, {"": "cpu"}, main_device="cpu", force_hooks=True)
    assert last_layer(target.forward._encoder) is None
    for one, other in zip(expected, states_at(target, pages, positions), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
