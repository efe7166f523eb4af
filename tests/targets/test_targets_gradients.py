"""Gradients of the training loss with respect to mixtures of tokens, for every family and head that has a loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from short_memory import ShortOfMemory
from test_targets_contract import SPADE_PAIRS, opened, own_inputs, own_tokens, pages_of, queries_of

from audit.arrays import Ints
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.heads import HEADS, Costs, page_losses, sum_of_losses
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import Relaxed, RelaxedLoss, TrainingLoss

PAIRS = [*((family, "token-classification") for family in tiny.TAGGING_FAMILIES), *SPADE_PAIRS]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-".join(pair))
def target(request: pytest.FixtureRequest, checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints(*request.param))


@pytest.fixture
def tagger(checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints("layoutlm", "token-classification"))


def same(found: Relaxed, expected: Relaxed, rtol: float, atol: float) -> None:
    np.testing.assert_allclose(found.loss, expected.loss, rtol, atol)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol, atol)


def masked_pages(target: EncoderTarget) -> list[tuple[Encoding, int]]:
    return [(page.masked([position]), position) for page, position in pages_of(target)]


def embeddings(target: EncoderTarget) -> torch.Tensor:
    return target.model.get_input_embeddings().weight.data


def alone(page: Encoding, position: int, candidates: Ints) -> RelaxedLoss:
    """The loss of the first candidate, as a mixture of one."""
    return RelaxedLoss(page, (position,), candidates, np.eye(len(candidates))[:1])


def test_the_gradient_is_that_of_autograd_through_input_embeddings(tagger: EncoderTarget) -> None:
    candidates = own_tokens(tagger)
    for page, position in masked_pages(tagger)[::3]:
        inputs = own_inputs(tagger, page)
        embedded = embeddings(tagger)[inputs.pop("input_ids")].clone().requires_grad_()
        loss = tagger.model(**inputs, inputs_embeds=embedded, labels=torch.tensor(page.labels)[None]).loss
        (gradient,) = torch.autograd.grad(loss, embedded)
        away = embeddings(tagger)[candidates] - embeddings(tagger)[page.mask_id]
        slopes = (away @ gradient[0, position]).double().numpy()
        (found,) = tagger.ask([alone(page, position, np.concatenate([[page.mask_id], candidates]))])
        assert found.loss == pytest.approx(loss.item(), rel=1e-5)
        np.testing.assert_allclose(found.gradient[0, 1:] - found.gradient[0, 0], slopes, rtol=1e-4, atol=1e-5)


def test_neither_parameters_nor_other_answers_are_left_changed(target: EncoderTarget) -> None:
    """Pictures are looked at once and kept: whichever question comes first, in or out of a graph."""
    first, mixed = queries_of(target, TrainingLoss), queries_of(target, RelaxedLoss)
    once = target.ask(mixed[:4])
    exact = target.ask(first[:4])
    again = target.ask(mixed[:4])
    for a, b in zip(once, again, strict=True):
        same(a, b, rtol=0, atol=0)
    for c, d in zip(exact, target.ask(first[:4]), strict=True):
        np.testing.assert_array_equal(c, d)
    assert all(parameter.grad is None for parameter in target.model.parameters())
    assert not target.forward._words._forward_hooks
    assert not any(made.requires_grad for _, made in kept_pictures(target))


def kept_pictures(target: EncoderTarget) -> list[Any]:
    return [] if target.forward._visual is None else [*target.forward._visual._made.values()]


def test_it_can_be_asked_where_gradients_are_switched_off(tagger: EncoderTarget) -> None:
    query = queries_of(tagger, RelaxedLoss)[0]
    (expected,) = tagger.ask([query])
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            same(tagger.ask([query])[0], expected, rtol=0, atol=0)


def test_a_backward_pass_takes_smaller_batches_and_shrinks_them_when_memory_runs_out(tagger: EncoderTarget) -> None:
    page, position = masked_pages(tagger)[0]
    queries = [alone(replace(page), position, own_tokens(tagger)[:5])] * 40
    expected = tagger.ask(queries)
    short = ShortOfMemory(tagger.forward._encoder, 700)
    tagger.forward._encoder = short
    for one, other in zip(expected, tagger.ask(queries), strict=True):
        same(one, other, rtol=1e-5, atol=1e-6)
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


def test_every_head_with_a_training_loss_has_its_gradient() -> None:
    for head in HEADS.values():
        assert (TrainingLoss in head.answers) == (RelaxedLoss in head.answers) == (head.costs is not None)


def test_a_page_with_nothing_to_read_has_no_loss_and_spoils_no_other(tagger: EncoderTarget) -> None:
    queries = list(queries_of(tagger, RelaxedLoss)[:3])
    expected = tagger.ask(queries)
    page = queries[1].page
    queries[1] = replace(queries[1], page=replace(page, labels=np.full(len(page.ids), NOT_READ)))
    with pytest.warns(RuntimeWarning):
        found = tagger.ask(queries)
    assert np.isnan(found[1].loss)
    for place in (0, 2):
        same(found[place], expected[place], rtol=1e-5, atol=1e-6)
