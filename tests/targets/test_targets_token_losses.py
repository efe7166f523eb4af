"""Losses of completions and of mixtures of tokens, against the models' own, in batches that fit into memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from short_memory import ShortOfMemory
from test_encoders_contract import loss_inputs, opened, own_tokens, pages_of, queries_of

from audit.arrays import Floats
from audit.errors import EngineError
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.heads import HEADS, Costs, page_losses, sum_of_losses
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import CompletionLoss, RelaxedLoss, TrainingLoss

PAIRS = [
    *(
        (family, "token-classification")
        for family in ("bert", "roberta", "layoutlmv3", "docaudit-bros-image")
    ),
    ("layoutlm", "spade-extraction"),
    ("docaudit-layoutlm-image", "spade-linking"),
]
"""Every way to embed words, and every kind of loss over tokens; that of a page's class is in the
zoo below."""


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-".join(pair))
def target(request, checkpoints):
    return opened(checkpoints(*request.param))


@pytest.fixture
def tagger(checkpoints):
    return opened(checkpoints("layoutlm", "token-classification"))


def asked_pages(target: EncoderTarget) -> list[tuple[Encoding, tuple[int, ...]]]:
    """Two receipts with entities and links, each with three of its positions that lie apart."""
    return [(page, (2, 5, len(page.ids) - 3)) for page, _ in pages_of(target)[:4:2]]


def mixtures(n_positions: int, n_candidates: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).dirichlet(np.ones(n_candidates), n_positions)


def own_loss(target: EncoderTarget, page: Encoding, embedded: torch.Tensor) -> torch.Tensor:
    """The model's own loss of a page whose tokens are given as embeddings, alone and without padding."""
    inputs = loss_inputs(target, page)
    del inputs["input_ids"]
    return target.model(**inputs, inputs_embeds=embedded).loss


def test_the_loss_of_a_mixture_and_its_gradient_are_the_models_own_through_input_embeddings(target):
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


def test_completions_of_one_token_have_the_training_loss(target):
    for page, positions in asked_pages(target):
        ids = own_tokens(target)[:5]
        (expected,) = target.ask([TrainingLoss(page, positions[0], ids)])
        (found,) = target.ask([CompletionLoss(page, positions[:1], ids[:, None])])
        np.testing.assert_array_equal(found, expected)


def test_completions_of_several_tokens_have_the_training_loss_of_the_page_they_make(target):
    for page, positions in asked_pages(target):
        completions = np.random.default_rng(0).choice(own_tokens(target), (3, len(positions)))
        (found,) = target.ask([CompletionLoss(page, positions, completions)])
        for completion, loss in zip(completions, found, strict=True):
            whole = page.with_tokens(positions, completion.tolist())
            (expected,) = target.ask([TrainingLoss(whole, positions[0], completion[:1])])
            assert loss == expected[0]


def test_what_stands_at_the_unknown_positions_and_the_order_of_candidates_do_not_matter(tagger):
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


def test_no_completion_no_position_and_one_candidate_are_taken(tagger):
    page, positions = asked_pages(tagger)[0]
    (none,) = tagger.ask([CompletionLoss(page, positions, np.empty((0, len(positions)), np.int64))])
    assert none.shape == (0,)
    (loss,) = tagger.ask([CompletionLoss(page, (), np.empty((1, 0), np.int64))])
    (same,) = tagger.ask([TrainingLoss(page, 2, page.ids[[2]])])
    np.testing.assert_array_equal(loss, same)
    (relaxed,) = tagger.ask(
        [RelaxedLoss(page, positions, page.ids[[2]], np.ones((len(positions), 1)))]
    )
    assert relaxed.gradient.shape == (len(positions), 1)


def test_relaxed_queries_leave_the_model_and_other_answers_as_they_were(target):
    relaxed = queries_of(target, RelaxedLoss)[:4]
    exact = queries_of(target, CompletionLoss)[:4]
    first = target.ask(exact)
    target.ask(relaxed)
    for a, b in zip(first, target.ask(exact), strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(parameter.grad is None for parameter in target.model.parameters())
    assert not target.forward.words._forward_hooks
    kept = () if target.forward._visual is None else target.forward._visual._made.values()
    assert not any(made.requires_grad for _, made in kept), (
        "pictures are kept, in or out of a graph"
    )


def test_batches_shrink_when_memory_runs_out_and_mixtures_stay_with_their_pages(tagger):
    queries: Sequence[Any] = [*queries_of(tagger, RelaxedLoss)] * 4
    expected = tagger.ask(queries)
    short = ShortOfMemory(tagger.forward._encoder, 300)
    tagger.forward._encoder = short
    for one, other in zip(expected, tagger.ask(queries), strict=True):
        np.testing.assert_allclose(other.gradient, one.gradient, rtol=1e-3, atol=1e-5)
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
    assert tagger.forward.batch.lowered > 0
    assert max(short.sizes) <= 4096 / tagger.model.config.num_hidden_layers, (
        "a backward pass takes smaller batches"
    )


def test_every_head_with_a_training_loss_answers_and_no_other_does():
    for head in HEADS.values():
        own = {TrainingLoss, CompletionLoss, RelaxedLoss} & head.answers
        assert len(own) == (0 if head.costs is None else 3)


def test_a_page_with_nothing_to_read_spoils_no_other(tagger):
    queries: list[Any] = list(queries_of(tagger, RelaxedLoss)[:3])
    expected = tagger.ask(queries)
    page = queries[1].page
    queries[1] = replace(queries[1], page=replace(page, labels=np.full(len(page.ids), -100)))
    with pytest.warns(RuntimeWarning):
        found = tagger.ask(queries)
    assert np.isnan(found[1].loss)
    for place in (0, 2):
        np.testing.assert_allclose(
            found[place].gradient, expected[place].gradient, rtol=1e-3, atol=1e-6
        )


def test_it_can_be_asked_where_gradients_are_switched_off(tagger):
    query = queries_of(tagger, RelaxedLoss)[0]
    (expected,) = tagger.ask([query])
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            (found,) = tagger.ask([query])
            assert found.loss == expected.loss
            np.testing.assert_array_equal(found.gradient, expected.gradient)


def test_the_loss_of_a_page_is_the_sum_of_the_means_of_its_terms():
    terms = [
        Costs(torch.tensor([1.0, 3.0, 5.0], requires_grad=True), np.array([2, 1])),
        Costs(torch.tensor([0.5, 0.25, 0.75], requires_grad=True), np.array([1, 2])),
    ]
    assert (page_losses(terms).tolist(), sum_of_losses(terms).item()) == ([2.5, 5.5], 8.0)
    gradients = torch.autograd.grad(sum_of_losses(terms), [term.values for term in terms])
    assert [gradient.tolist() for gradient in gradients] == [[0.5, 0.5, 1.0], [1.0, 0.5, 0.5]]


def plain_queries(target: EncoderTarget) -> list[TrainingLoss]:
    pages = [target.encode(document) for document in tiny.documents(3, 1, 0)]
    return [TrainingLoss(page, 4, own_tokens(target)[:30]) for page in pages if page is not None]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_batches_shrink_when_memory_runs_out_and_answers_stay_the_same(tagger, error):
    expected = tagger.ask(plain_queries(tagger))
    short = ShortOfMemory(tagger.forward._encoder, 700, error)
    tagger.forward._encoder = short
    for one, other in zip(expected, tagger.ask(plain_queries(tagger)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert 350 <= short.largest <= 700
    assert tagger.forward.batch.lowered == short.failures > 0
    assert tagger.batch_tokens <= 700
    before = short.failures
    tagger.ask(plain_queries(tagger))
    assert short.failures == before  # what was learned is kept


def test_a_page_that_never_fits_is_an_error(tagger):
    tagger.forward._encoder = ShortOfMemory(tagger.forward._encoder, 10)
    with pytest.raises(EngineError, match="not enough memory for a single page"):
        tagger.ask(plain_queries(tagger))


def test_another_error_is_not_taken_for_lack_of_memory(tagger):
    class Broken(torch.nn.Module):
        def forward(self, **_: Any) -> Any:
            raise RuntimeError("shapes do not match")

    tagger.forward._encoder = Broken()
    with pytest.raises(RuntimeError, match="shapes"):
        tagger.ask(plain_queries(tagger))


@pytest.mark.parametrize("family", ["layoutlm", "bros"])
def test_the_encoder_in_bfloat16_rounds_and_its_answers_do_not_depend_on_what_stands_beside_them(
    checkpoints, family, monkeypatch
):
    exact = opened(checkpoints(family, "token-classification"))
    rounded = exact.rounded("bfloat16")
    assert (exact.card.dtype, rounded.card.dtype) == ("float32", "bfloat16")
    asked = plain_queries(rounded)
    alone = [rounded.ask([query])[0] for query in asked]
    for batch_tokens in (300, 2048):
        monkeypatch.setattr(rounded.forward.batch, "size", batch_tokens)
        for one, other in zip(alone, rounded.ask(asked), strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(alone, exact.ask(asked), strict=True):
        assert not np.array_equal(one, other)
        np.testing.assert_allclose(one, other, rtol=0.1)
