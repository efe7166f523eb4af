"""First-order estimates of the training loss: what they are, for every family and head that has a loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from short_memory import ShortOfMemory
from test_targets_contract import SPADE_PAIRS, opened, own_inputs, own_tokens, pages_of, queries_of

from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.heads import HEADS, Costs, page_losses, sum_of_losses
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import FirstOrderLoss, TrainingLoss

PAIRS = [*((family, "token-classification") for family in tiny.TAGGING_FAMILIES), *SPADE_PAIRS]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-".join(pair))
def target(request: pytest.FixtureRequest, checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints(*request.param))


@pytest.fixture
def tagger(checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints("layoutlm", "token-classification"))


def masked_pages(target: EncoderTarget) -> list[tuple[Encoding, int]]:
    return [(page.masked([position]), position) for page, position in pages_of(target)]


def embeddings(target: EncoderTarget) -> torch.Tensor:
    return target.model.get_input_embeddings().weight.data


@pytest.fixture
def moved(target: EncoderTarget) -> Iterator[Any]:
    """`moved(token, by)` moves the embedding of a token; all goes back afterwards."""
    table = embeddings(target)
    before = table.clone()

    def move(token: int, by: torch.Tensor) -> None:
        table[token] += by

    yield move
    table.copy_(before)


def test_the_estimate_is_exact_for_the_token_that_stands_there(target: EncoderTarget) -> None:
    for page, position in masked_pages(target)[::3]:
        standing = page.ids[[position]]
        (estimate,) = target.ask([FirstOrderLoss(page, position, standing)])
        (exact,) = target.ask([TrainingLoss(page, position, standing)])
        np.testing.assert_allclose(estimate, exact, rtol=1e-6, atol=1e-6)


def test_the_slope_is_that_of_finite_differences(target: EncoderTarget, moved: Any) -> None:
    """An unused token is put close to [MASK], on either side: the loss must change by what the estimate says."""
    page, position = masked_pages(target)[0]
    unused = int(np.setdiff1d(own_tokens(target), page.ids)[0])
    table = embeddings(target)
    direction = torch.from_numpy(np.random.default_rng(0).normal(0, 1, table.shape[1]).astype(np.float32))
    exact, estimated = [], []
    for step in (-0.01, 0.01):
        moved(unused, table[page.mask_id] + step * direction - table[unused])
        exact.append(target.ask([TrainingLoss(page, position, np.array([unused]))])[0][0])
        estimated.append(target.ask([FirstOrderLoss(page, position, np.array([unused]))])[0][0])
    assert abs(estimated[1] - estimated[0]) > 1e-6
    assert np.diff(exact) == pytest.approx(np.diff(estimated), rel=0.05, abs=5e-6)


def test_the_gradient_is_that_of_autograd_through_input_embeddings(tagger: EncoderTarget) -> None:
    candidates = own_tokens(tagger)
    for page, position in masked_pages(tagger)[::3]:
        inputs = own_inputs(tagger, page)
        embedded = embeddings(tagger)[inputs.pop("input_ids")].clone().requires_grad_()
        loss = tagger.model(**inputs, inputs_embeds=embedded, labels=torch.tensor(page.labels)[None]).loss
        (gradient,) = torch.autograd.grad(loss, embedded)
        away = embeddings(tagger)[candidates] - embeddings(tagger)[page.mask_id]
        own = loss.item() + (away @ gradient[0, position]).double().numpy()
        (estimate,) = tagger.ask([FirstOrderLoss(page, position, candidates)])
        np.testing.assert_allclose(estimate, own, rtol=1e-4, atol=1e-5)


def test_neither_parameters_nor_other_answers_are_left_changed(target: EncoderTarget) -> None:
    """Pictures are looked at once and kept: whichever question comes first, in or out of a graph."""
    first, estimated = queries_of(target, TrainingLoss), queries_of(target, FirstOrderLoss)
    once = target.ask(estimated[:4])
    exact = target.ask(first[:4])
    again = target.ask(estimated[:4])
    for a, b in zip([*once, *exact], [*again, *target.ask(first[:4])], strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(parameter.grad is None for parameter in target.model.parameters())
    assert not target.forward._words._forward_hooks
    assert not any(made.requires_grad for _, made in kept_pictures(target))


def kept_pictures(target: EncoderTarget) -> list[Any]:
    return [] if target.forward._visual is None else [*target.forward._visual._made.values()]


def test_it_can_be_asked_where_gradients_are_switched_off(tagger: EncoderTarget) -> None:
    query = queries_of(tagger, FirstOrderLoss)[0]
    (expected,) = tagger.ask([query])
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            np.testing.assert_array_equal(tagger.ask([query])[0], expected)


def test_a_backward_pass_takes_smaller_batches_and_shrinks_them_when_memory_runs_out(tagger: EncoderTarget) -> None:
    page, position = masked_pages(tagger)[0]
    queries = [FirstOrderLoss(replace(page), position, own_tokens(tagger)[:5])] * 40
    expected = tagger.ask(queries)
    short = ShortOfMemory(tagger.forward._encoder, 700)
    tagger.forward._encoder = short
    for one, other in zip(expected, tagger.ask(queries), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert max(short.sizes) <= 4096 / tagger.model.config.num_hidden_layers
    assert min(short.sizes) <= 700
    assert tagger.forward.lowered > 0


def test_the_loss_of_a_page_is_the_sum_of_the_means_of_its_terms() -> None:
    terms = [
        Costs(torch.tensor([1.0, 3.0, 5.0], requires_grad=True), np.array([2, 1])),
        Costs(torch.tensor([0.5, 0.25, 0.75], requires_grad=True), np.array([1, 2])),
    ]
    assert page_losses(terms).tolist() == [2.5, 5.5]
    assert sum_of_losses(terms).item() == 8.0
    gradients = torch.autograd.grad(sum_of_losses(terms), [term.values for term in terms])
    assert [gradient.tolist() for gradient in gradients] == [[0.5, 0.5, 1.0], [1.0, 0.5, 0.5]]


def test_every_head_with_a_training_loss_can_estimate_it() -> None:
    for head in HEADS.values():
        assert (TrainingLoss in head.answers) == (FirstOrderLoss in head.answers) == (head.costs is not None)


def test_a_page_with_nothing_to_read_has_no_loss_and_spoils_no_other(tagger: EncoderTarget) -> None:
    queries = list(queries_of(tagger, FirstOrderLoss)[:3])
    expected = tagger.ask(queries)
    page = queries[1].page
    queries[1] = replace(queries[1], page=replace(page, labels=np.full(len(page.ids), NOT_READ)))
    with pytest.warns(RuntimeWarning):
        found = tagger.ask(queries)
    assert np.isnan(found[1]).all()
    for place in (0, 2):
        np.testing.assert_allclose(found[place], expected[place], rtol=1e-5, atol=1e-6)
