"""The CRF against the enumeration of all sequences of tags."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from audit.extensions.papers.utterance_model import LinearChainCrf


def made(n_tags: int, seed: int, size: float = 1.0) -> LinearChainCrf:
    crf = LinearChainCrf(n_tags).double()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(std=size)
    return crf


def by_hand(crf: LinearChainCrf, emissions: np.ndarray) -> dict[tuple[int, ...], float]:
    """The score of every sequence of tags for one sentence."""
    transitions, starts, ends = (value.detach().numpy() for value in (crf.transitions, crf.starts, crf.ends))
    scores = {}
    for tags in itertools.product(range(emissions.shape[1]), repeat=len(emissions)):
        followed = sum(transitions[a, b] for a, b in itertools.pairwise(tags))
        emitted = sum(emissions[place, tag] for place, tag in enumerate(tags))
        scores[tags] = starts[tags[0]] + emitted + followed + ends[tags[-1]]
    return scores


@settings(deadline=None, max_examples=40)
@given(
    n_tags=st.integers(1, 4), n_tokens=st.integers(1, 5), seed=st.integers(0, 99), size=st.sampled_from([0.1, 1.0, 8.0])
)
def test_partition_costs_and_marginals_are_those_of_all_sequences(
    n_tags: int, n_tokens: int, seed: int, size: float
) -> None:
    crf = made(n_tags, seed, size)
    emissions = size * torch.randn(3, n_tokens, n_tags, dtype=torch.float64)
    totals, tables = crf.log_partition(emissions).detach(), crf.marginals(emissions).detach()
    for sentence, total, table in zip(emissions, totals, tables, strict=True):
        scores = by_hand(crf, sentence.numpy())
        expected = logsumexp([*scores.values()])
        assert float(total) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        own = np.zeros((n_tokens, n_tags))
        for tags, score in scores.items():
            own[range(n_tokens), tags] += np.exp(score - expected)
        np.testing.assert_allclose(table.numpy(), own, atol=1e-9)
        tags = max(scores, key=lambda key: scores[key])
        cost = crf.costs(sentence[None], torch.tensor(tags)[None]).detach()
        assert float(cost) == pytest.approx(expected - scores[tags], rel=1e-9, abs=1e-9)


def test_in_single_precision_large_scores_neither_overflow_nor_vanish() -> None:
    crf = made(6, 1, 5.0).float()
    emissions = 200 * torch.randn(4, 20, 6)
    with torch.no_grad():
        single, double = crf.log_partition(emissions), crf.double().log_partition(emissions.double())
    np.testing.assert_allclose(single, double, rtol=1e-5)


def test_the_gradient_of_the_partition_is_the_marginals() -> None:
    crf = made(3, 2)
    emissions = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(crf.log_partition(emissions).sum(), emissions)
    torch.testing.assert_close(gradient, crf.marginals(emissions).detach())
