"""Training a model on one sample and putting it back (DocMIA)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from audit.attacks.membership.scores import cluster
from audit.stats.roc import auc
from audit.targets.adaptation import adapt
from audit.targets.encoders.loading import load
from audit.targets.interface import AdaptationRule, PageAdaptation, TagProbabilities

RULE = AdaptationRule(threshold=1e-3, max_steps=12, learning_rate=1e-2)


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_as_it_was(model: torch.nn.Module, before: dict[str, torch.Tensor]) -> None:
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert not model.training


def line(start: float, slope: float = 1.0) -> tuple[torch.nn.Parameter, Callable[[], torch.Tensor]]:
    """A parameter w at `start`, and the loss slope * |w|."""
    parameter = torch.nn.Parameter(torch.tensor([start, 0.0]))
    return parameter, lambda: slope * parameter[:1].abs().sum()


def test_adam_goes_down_by_its_rate_and_the_way_back_is_exact() -> None:
    parameter, loss = line(0.7)
    seen = []

    def similarity() -> float:
        seen.append(float(parameter[0].detach()))
        return len(seen) / 4

    found = adapt([parameter], loss, similarity, AdaptationRule(threshold=1e-3, max_steps=5, learning_rate=0.1))
    # Under a constant gradient each of Adam's steps is as long as its learning rate (Kingma & Ba 2015, section 2.1).
    np.testing.assert_allclose(found.losses, [0.7, 0.6, 0.5, 0.4, 0.3, 0.2], atol=1e-5)
    assert (found.distance, found.similarities) == (pytest.approx(0.5, abs=1e-5), (0.25, 0.5))
    assert (seen, parameter.tolist()) == (pytest.approx([0.7, 0.2]), torch.tensor([0.7, 0.0]).tolist())
    assert parameter.grad is None


def test_it_ends_when_a_step_changes_the_loss_by_less_than_the_threshold() -> None:
    parameter, loss = line(5.0, slope=0.01)
    found = adapt([parameter], loss, lambda: 0.0, AdaptationRule(threshold=0.002, max_steps=50, learning_rate=0.1))
    assert len(found.losses) == 2


def test_it_ends_when_the_loss_is_no_number_and_all_is_put_back() -> None:
    parameter = torch.nn.Parameter(torch.tensor([0.05]))
    found = adapt([parameter], lambda: parameter.sqrt().sum(), lambda: 0.0, AdaptationRule(1e-9, 50, 0.1))
    assert np.isnan(found.losses[-1])
    assert np.isfinite(found.losses[:-1]).all()
    assert parameter.item() == torch.tensor(0.05).item()


def test_an_error_on_the_way_leaves_the_parameters_as_they_were() -> None:
    parameter, loss = line(0.7)
    parameter.requires_grad_(False)
    calls = []

    def breaking() -> torch.Tensor:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("broken")
        return loss()

    with pytest.raises(RuntimeError, match="broken"):
        adapt([parameter], breaking, lambda: 0.0, RULE)
    assert parameter.tolist() == torch.tensor([0.7, 0.0]).tolist()
    assert parameter.grad is None
    assert not parameter.requires_grad


def test_the_similarity_is_the_share_of_tokens_tagged_right(checkpoints: Any) -> None:
    tagger = load(checkpoints("layoutlm", "token-classification"))
    page = tagger.encode(tiny.documents(1, 0, 0)[0])
    (probabilities,) = tagger.ask([TagProbabilities(page)])
    read = page.labels >= 0
    right = float((probabilities.argmax(axis=1) == page.labels)[read].mean())
    (found,) = tagger.ask([PageAdaptation(page, AdaptationRule(1e-3, 100, 1e-2))])
    assert found.similarities[0] == pytest.approx(right)
    assert found.similarities[1] > 0.9


def test_it_is_done_in_float32_whatever_the_encoder_computes_in(checkpoints: Any) -> None:
    tagger = load(checkpoints("bert", "token-classification"))
    page, before = tagger.encode(tiny.documents(1, 0, 0)[0]), state(tagger.model)
    (exact,), (rounded,) = (one.ask([PageAdaptation(page, RULE)]) for one in (tagger, tagger.rounded("bfloat16")))
    np.testing.assert_allclose(rounded.losses[:3], exact.losses[:3], rtol=0.05)
    assert_as_it_was(tagger.model, before)


def test_pages_that_were_learnt_by_heart_take_fewer_steps_and_a_shorter_way(tmp_path: Path) -> None:
    tagger = load(tiny.checkpoint(tmp_path, "bert", "token-classification"))
    pages = [tagger.encode(document) for document in tiny.documents(6, 6, 0)]
    optimizer = torch.optim.Adam(tagger.model.parameters(), lr=3e-3)
    for _ in range(40):
        for page in pages[:6]:
            ids, labels = torch.tensor(page.ids)[None], torch.tensor(page.labels)[None]
            tagger.model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    found = tagger.ask([PageAdaptation(page, AdaptationRule()) for page in pages])
    steps, ways = [len(one.losses) - 1 for one in found], [one.distance for one in found]
    assert max(steps[:6]) < min(steps[6:])
    assert max(ways[:6]) < min(ways[6:])
    scores = cluster(np.array([(one.distance, len(one.losses) - 1, *one.similarities) for one in found]))
    assert auc(scores[:6], scores[6:]) == 1.0
