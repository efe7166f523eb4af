"""Losses of completions and of mixtures of tokens, against the models' own losses and against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from short_memory import ShortOfMemory
from test_targets_contract import SPADE_PAIRS, opened, own_inputs, own_tokens, pages_of, queries_of, spade_inputs

from audit.arrays import Floats
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.heads import HEADS
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import CompletionLoss, RelaxedLoss, TrainingLoss

PAIRS = [*((family, "token-classification") for family in tiny.TAGGING_FAMILIES), *SPADE_PAIRS]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-".join(pair))
def target(request: pytest.FixtureRequest, checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints(*request.param))


@pytest.fixture
def tagger(checkpoints: Any) -> EncoderTarget:
    return opened(checkpoints("layoutlm", "token-classification"))


def asked_pages(target: EncoderTarget) -> list[tuple[Encoding, tuple[int, ...]]]:
    """Two receipts with entities and links, each with three of its positions that lie apart."""
    return [(page, (2, 5, len(page.ids) - 3)) for page, _ in pages_of(target)[:4:2]]


def mixtures(n_positions: int, n_candidates: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).dirichlet(np.ones(n_candidates), n_positions)


def own_loss(target: EncoderTarget, page: Encoding, embedded: torch.Tensor) -> torch.Tensor:
    """The model's own loss of a page whose tokens are given as embeddings, alone and without padding."""
    if target.card.task == "token-classification":
        inputs = {**own_inputs(target, page), "labels": torch.tensor(page.labels)[None]}
    else:
        inputs = spade_inputs(target, page)
    del inputs["input_ids"]
    return target.model(**inputs, inputs_embeds=embedded).loss


def test_the_loss_of_a_mixture_and_its_gradient_are_the_models_own_through_input_embeddings(
    target: EncoderTarget,
) -> None:
    candidates = own_tokens(target)[:7]
    table = target.model.get_input_embeddings().weight.detach()
    for page, positions in asked_pages(target):
        given = mixtures(len(positions), len(candidates))
        weights = torch.tensor(given, dtype=torch.float32, requires_grad=True)
        embedded = table[torch.tensor(page.ids)].clone()
        embedded[list(positions)] = weights @ table[candidates]
        loss = own_loss(target, page, embedded[None])
        (gradient,) = torch.autograd.grad(loss, weights)
        (found,) = target.ask([RelaxedLoss(page, positions, candidates, given)])
        assert found.loss == pytest.approx(float(loss.detach()), rel=1e-5, abs=1e-5)
        np.testing.assert_allclose(found.gradient, gradient.numpy(), rtol=1e-3, atol=2e-5)
        assert np.abs(found.gradient).max() > 1e-4


def test_the_gradient_is_that_of_finite_differences(target: EncoderTarget) -> None:
    candidates, step = own_tokens(target)[:7], 0.02
    page, positions = asked_pages(target)[0]
    weights = mixtures(len(positions), len(candidates))
    (found,) = target.ask([RelaxedLoss(page, positions, candidates, weights)])
    # The steepest direction, so that what is measured is far above rounding.
    direction = found.gradient / np.linalg.norm(found.gradient)
    moved = [RelaxedLoss(page, positions, candidates, weights + sign * step * direction) for sign in (-1, 1)]
    below, above = (answer.loss for answer in target.ask(moved))
    assert (above - below) / (2 * step) == pytest.approx(np.linalg.norm(found.gradient), rel=0.05)


def test_certain_mixtures_have_the_losses_of_their_tokens(target: EncoderTarget) -> None:
    candidates = own_tokens(target)[:7]
    for number, (page, positions) in enumerate(asked_pages(target)):
        chosen = np.random.default_rng(number).integers(0, len(candidates), (4, len(positions)))
        certain = [RelaxedLoss(page, positions, candidates, np.eye(len(candidates))[row]) for row in chosen]
        (exact,) = target.ask([CompletionLoss(page, positions, candidates[chosen])])
        relaxed = [answer.loss for answer in target.ask(certain)]
        np.testing.assert_allclose(relaxed, exact, rtol=1e-5, atol=1e-6)
        assert len(np.unique(exact)) > 1


def test_completions_of_one_token_have_the_training_loss(target: EncoderTarget) -> None:
    for page, positions in asked_pages(target):
        ids = own_tokens(target)[:5]
        (expected,) = target.ask([TrainingLoss(page, positions[0], ids)])
        (found,) = target.ask([CompletionLoss(page, positions[:1], ids[:, None])])
        np.testing.assert_array_equal(found, expected)


def test_completions_of_several_tokens_have_the_training_loss_of_the_page_they_make(target: EncoderTarget) -> None:
    for page, positions in asked_pages(target):
        completions = np.random.default_rng(0).choice(own_tokens(target), (3, len(positions)))
        (found,) = target.ask([CompletionLoss(page, positions, completions)])
        for completion, loss in zip(completions, found, strict=True):
            whole = page.with_tokens(positions, completion.tolist())
            (expected,) = target.ask([TrainingLoss(whole, positions[0], completion[:1])])
            assert loss == expected[0]


def test_what_stands_at_the_unknown_positions_and_the_order_of_candidates_do_not_matter(tagger: EncoderTarget) -> None:
    page, positions = asked_pages(tagger)[0]
    candidates = own_tokens(tagger)[:6]
    weights = mixtures(len(positions), 6)
    queries = [
        RelaxedLoss(page, positions, candidates, weights),
        RelaxedLoss(page.masked(positions), positions, candidates, weights),
        RelaxedLoss(page, positions[::-1], candidates[::-1].copy(), weights[::-1, ::-1]),
    ]
    first, masked, turned = tagger.ask(queries)
    for other, gradient in ((masked, masked.gradient), (turned, turned.gradient[::-1, ::-1])):
        assert other.loss == pytest.approx(first.loss, rel=1e-6)
        np.testing.assert_allclose(gradient, first.gradient, rtol=1e-4, atol=1e-6)


def test_no_completion_no_position_and_one_candidate_are_taken(tagger: EncoderTarget) -> None:
    page, positions = asked_pages(tagger)[0]
    (none,) = tagger.ask([CompletionLoss(page, positions, np.empty((0, len(positions)), np.int64))])
    assert none.shape == (0,)
    (loss,) = tagger.ask([CompletionLoss(page, (), np.empty((1, 0), np.int64))])
    (same,) = tagger.ask([TrainingLoss(page, 2, page.ids[[2]])])
    np.testing.assert_array_equal(loss, same)
    (relaxed,) = tagger.ask([RelaxedLoss(page, positions, page.ids[[2]], np.ones((len(positions), 1)))])
    assert relaxed.gradient.shape == (len(positions), 1)


def test_relaxed_queries_leave_the_model_and_other_answers_as_they_were(target: EncoderTarget) -> None:
    relaxed, exact = queries_of(target, RelaxedLoss)[:4], queries_of(target, CompletionLoss)[:4]
    first = target.ask(exact)
    target.ask(relaxed)
    for a, b in zip(first, target.ask(exact), strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(parameter.grad is None for parameter in target.model.parameters())
    assert not target.forward._words._forward_hooks


def test_batches_shrink_when_memory_runs_out_and_mixtures_stay_with_their_pages(tagger: EncoderTarget) -> None:
    queries: Sequence[Any] = [*queries_of(tagger, RelaxedLoss)] * 4
    expected = tagger.ask(queries)
    short = ShortOfMemory(tagger.forward._encoder, 300)
    tagger.forward._encoder = short
    for one, other in zip(expected, tagger.ask(queries), strict=True):
        np.testing.assert_allclose(other.gradient, one.gradient, rtol=1e-3, atol=1e-5)
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
    assert tagger.forward.lowered > 0


def test_the_encoder_in_bfloat16_answers_too(tagger: EncoderTarget) -> None:
    rounded = tagger.rounded("bfloat16")
    for query in queries_of(tagger, RelaxedLoss)[:2]:
        (exact,), (found,) = tagger.ask([query]), rounded.ask([query])
        assert found.loss != exact.loss
        assert found.loss == pytest.approx(exact.loss, rel=0.1)


def test_every_head_with_a_training_loss_answers_and_no_other_does() -> None:
    for head in HEADS.values():
        assert {CompletionLoss, RelaxedLoss} <= head.answers or head.costs is None
        assert not {CompletionLoss, RelaxedLoss} & head.answers or head.costs is not None


def test_a_page_with_nothing_to_read_spoils_no_other(tagger: EncoderTarget) -> None:
    queries: list[Any] = list(queries_of(tagger, RelaxedLoss)[:3])
    expected = tagger.ask(queries)
    page = queries[1].page
    queries[1] = replace(queries[1], page=replace(page, labels=np.full(len(page.ids), -100)))
    with pytest.warns(RuntimeWarning):
        found = tagger.ask(queries)
    assert np.isnan(found[1].loss)
    for place in (0, 2):
        np.testing.assert_allclose(found[place].gradient, expected[place].gradient, rtol=1e-3, atol=1e-6)
