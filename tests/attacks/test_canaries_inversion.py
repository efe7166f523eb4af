"""The relaxed attack, exhaustive search and descent on losses whose minimum is known."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attacks.canaries import search
from audit.attacks.canaries.pages import Inversion, completion_scorer, invert
from audit.targets.encoded_page import Encoding
from audit.targets.interface import CompletionLoss, Relaxed, RelaxedLoss

IDS = np.array([40, 10, 30, 20])
POSITIONS = (2, 3, 5)
PAGE = Encoding(np.arange(7), np.zeros((7, 4)), np.arange(7), None, 0, 1)


class Analytic:
    """The loss of mixtures is half the squared distance of the whole from `centre`, plus a linear term."""

    answers = frozenset({RelaxedLoss, CompletionLoss})

    def __init__(self, centre, linear=None, broken=()):
        self.centre = np.asarray(centre, float)
        self.linear = np.zeros_like(self.centre) if linear is None else linear
        self.broken = broken
        self.weights = []

    def loss(self, weights):
        return 0.5 * ((weights - self.centre) ** 2).sum((-2, -1)) + (self.linear * weights).sum(
            (-2, -1)
        )

    def ask(self, queries):
        return [self.answer(query) for query in queries]

    def answer(self, query):
        assert query.positions == POSITIONS
        if isinstance(query, RelaxedLoss):
            self.weights.append(query.weights)
            gradient = query.weights - self.centre + self.linear
            broken = len(self.weights) in self.broken
            return Relaxed(
                float(self.loss(query.weights)), np.nan * gradient if broken else gradient
            )
        hot = (query.completions[:, :, None] == IDS).astype(float)
        return self.loss(hot)


def answered(attempt, target):
    """Runs a generator of requests against the target it asks."""
    try:
        request = next(attempt)
        while True:
            assert request.answerer is target
            request = attempt.send(target.ask(request.queries))
    except StopIteration as done:
        return done.value


def inverted(target, inversion=None, seed=0):
    return answered(
        invert(target, PAGE, POSITIONS, IDS, inversion or Inversion(), np.random.default_rng(seed)),
        target,
    )


def scorer(target):
    return completion_scorer(target, PAGE, POSITIONS, IDS)


def planted_at(numbers, depth=1.0):
    centre = np.zeros((3, 4))
    centre[np.arange(3), numbers] = depth
    return centre


@pytest.mark.parametrize("numbers", [(0, 0, 0), (3, 1, 2), (2, 2, 0)])
def test_the_planted_minimum_is_found(numbers):
    target = Analytic(planted_at(numbers))
    found, losses = inverted(target)
    assert found.shape == (4, 3)
    assert (found == numbers).all()
    assert (losses == 0.0).all()
    # Every restart is asked for side by side, and its weights are distributions.
    assert len(target.weights) == 4 * 250
    np.testing.assert_allclose(np.sum(target.weights, axis=2), 1.0)


def test_every_step_is_that_of_adam_in_torch_on_the_same_schedule():
    rng = np.random.default_rng(5)
    centre = rng.random((3, 4))
    linear = rng.normal(size=(3, 4))
    target = Analytic(centre, linear)
    inversion = Inversion(n_epochs=40, n_restarts=1)
    inverted(target, inversion, seed=3)
    start = np.random.default_rng(3).normal(0.0, 0.01, (1, 3, 4))
    logits = torch.tensor(start, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=6.5e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(adam, 0.995)
    for step in range(40):
        weights = torch.softmax(logits / (0.1 * 0.997**step), dim=-1)
        np.testing.assert_allclose(target.weights[step], weights.detach().numpy()[0], rtol=1e-9)
        loss = (
            0.5 * ((weights - torch.tensor(centre)) ** 2).sum()
            + (torch.tensor(linear) * weights).sum()
        )
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()


def test_every_restart_ends_on_its_own_side_with_the_loss_of_its_completion():
    # A linear loss that pulls every restart to its own side needs more than one start: flat but for
    # rounding.
    target = Analytic(np.zeros((3, 4)), linear=-1e-9 * planted_at((1, 1, 1)))
    found, losses = inverted(target, Inversion(n_epochs=0, n_restarts=64))
    assert len({tuple(row) for row in found}) > 20
    hot = (IDS[found][:, :, None] == IDS).astype(float)
    np.testing.assert_allclose(losses, target.loss(hot))


def test_steps_without_a_number_are_not_taken():
    target = Analytic(planted_at((1, 2, 3)), broken=range(1, 1 + 4 * 100))
    assert (inverted(target)[1] == 0.0).all()
    # The first step that counts is as large as ever.
    moved = np.abs(target.weights[404] - target.weights[400]).max()
    assert moved > 1e-3


def test_every_completion_in_lexicographic_order_over_several_requests(monkeypatch):
    monkeypatch.setattr(search, "CHUNK", 7)
    target = Analytic(np.random.default_rng(4).random((3, 4)))
    found = answered(search.losses_of_all(scorer(target), len(IDS), len(POSITIONS)), target)
    expected = [
        target.loss((IDS[[*row]][:, None] == IDS).astype(float))
        for row in itertools.product(range(4), repeat=3)
    ]
    np.testing.assert_allclose(found, expected)


def test_a_loss_that_is_no_number_is_never_the_lowest():
    class Broken(Analytic):
        def answer(self, query):
            return np.where(query.completions[:, 0] == IDS[0], np.nan, super().answer(query))

    target = Broken(planted_at((0, 0, 0)))
    losses = answered(search.losses_of_all(scorer(target), len(IDS), len(POSITIONS)), target)
    assert np.isinf(losses[:16]).all()
    assert np.isfinite(losses[16:]).all()
    numbers, loss = answered(
        search.descend_from(scorer(target), len(IDS), np.array([0, 1, 1])), target
    )
    assert numbers[0] != 0
    assert np.isfinite(loss)


class Table(Analytic):
    """A loss of its own for every completion."""

    def __init__(self, losses):
        self.table = losses

    def answer(self, query):
        return self.table[tuple((query.completions[:, :, None] == IDS).argmax(axis=2).T)]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kinds=st.integers(1, 64))
def test_descent_ends_where_no_single_change_is_lower(seed, kinds):
    rng = np.random.default_rng(seed)
    losses = rng.integers(kinds, size=(4, 4, 4)).astype(float)  # with few kinds, many ties
    start = rng.integers(4, size=3)
    target = Table(losses)
    numbers, loss = answered(search.descend_from(scorer(target), len(IDS), start), target)
    assert loss == losses[tuple(numbers)] <= losses[tuple(start)]
    for place, candidate in itertools.product(range(3), range(4)):
        changed = numbers.copy()
        changed[place] = candidate
        assert losses[tuple(changed)] >= loss


def test_descent_ends_although_losses_waver_from_question_to_question():
    class Wavering(Table):
        def answer(self, query):
            return (
                super().answer(query)
                + np.random.default_rng(len(self.weights)).normal(0, 1e-9, 4)[
                    : len(query.completions)
                ]
            )

        def ask(self, queries):
            self.weights.append(0)
            return super().ask(queries)

    target = Wavering(np.zeros((4, 4, 4)))
    target.weights = []
    answered(search.descend_from(scorer(target), len(IDS), np.zeros(3, int)), target)
    assert len(target.weights) < 300
