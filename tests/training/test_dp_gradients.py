"""Contributions of units: gradients and their clipped sums, for every kind of learner."""

from collections.abc import Sequence

import dp_learners
import numpy as np
import pytest
import torch
from dp_learners import NAMES, Line, learner_of, point
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import TrainingError
from audit.extensions.private.gradients import Tensors, clipped_sum, gradient_of
from audit.extensions.private.units import DrawnUnit, Learner, Parameters

SAMPLES = (((1.0, 2.0), 3.0), ((-1.0, 0.5), 1.0), ((0.5, 0.5), -2.0))


def plain(learner: Learner, parameters: Parameters, unit: DrawnUnit) -> list[torch.Tensor]:
    """The gradient of a unit's weighted mean loss, each sample alone."""
    losses = [learner.losses(learner.collate([sample]))[0] for sample in unit.samples]
    loss = sum(weight * own for weight, own in zip(unit.weights, losses, strict=True))
    return [*torch.autograd.grad(loss, [*parameters.values()], materialize_grads=True)]


def line() -> tuple[Line, Parameters]:
    learner = Line()
    return learner, dict(learner.model.named_parameters())


def summed(
    learner: Learner, parameters: Parameters, units: Sequence[DrawnUnit], max_norm: float
) -> Tensors:
    return clipped_sum(
        parameters, iter(units), lambda unit: gradient_of(learner, parameters, unit, 2), max_norm
    )


def flat(tensors: Tensors) -> np.ndarray:
    return torch.cat([value.flatten().double() for value in tensors.values()]).numpy()


@pytest.mark.parametrize("name", NAMES)
def test_every_learner_has_gradients_whatever_shares_a_batch_and_is_left_as_it_was(name, tmp_path):
    learner, corpus = learner_of(name, tmp_path)
    units = dp_learners.units_of(learner, dp_learners.of_unequal_length(corpus))
    samples = tuple(sample for unit in units for sample in unit.samples)
    unit = DrawnUnit(samples, tuple(0.5 ** (index + 1) for index in range(len(samples))))
    parameters = dp_learners.without_tables(learner.model)
    before = [
        (own.grad, own.detach().clone(), own.requires_grad) for own in learner.model.parameters()
    ]
    found = gradient_of(learner, parameters, unit, 4)
    norm = np.linalg.norm(flat(found))
    for own, true in zip(found.values(), plain(learner, parameters, unit), strict=True):
        assert float((own - true).norm()) <= 1e-4 * norm
    assert norm > 0
    for own, (grad, value, required) in zip(learner.model.parameters(), before, strict=True):
        assert (own.grad, own.requires_grad) == (grad, required)
        assert torch.equal(own, value)


@pytest.mark.parametrize("rows", [1, 2, 64])
def test_a_units_gradient_is_that_of_its_weighted_mean_loss_whatever_the_rows(rows):
    learner, parameters = line()
    for unit in (
        DrawnUnit(SAMPLES, (0.5, 0.25, 0.25)),
        point((2.0, 1.0), 0.0),
        DrawnUnit(SAMPLES[:2], (0.5, 0.5)),
    ):
        found = gradient_of(learner, parameters, unit, rows)
        for own, true in zip(found.values(), plain(learner, parameters, unit), strict=True):
            torch.testing.assert_close(own, true)


def test_only_what_is_trained_has_gradients():
    learner, named = line()
    chosen = {name: named[name] for name in ("1.weight", "0.bias")}
    made = summed(learner, chosen, [point((1.0, 2.0), 0.5)], 1.0)
    assert set(made) == set(chosen)
    assert all(float(value.abs().sum()) > 0 and not value.requires_grad for value in made.values())


def test_rounding_adds_nothing_to_what_one_of_many_units_moves_the_sum_by():
    rng = np.random.default_rng(0)
    _, parameters = line()
    rows = [
        {
            name: torch.from_numpy(rng.normal(3, 1, own.shape)).float()
            for name, own in parameters.items()
        }
        for _ in range(4000)
    ]
    whole, rest = (
        clipped_sum(parameters, iter(own), lambda row: row, 0.7) for own in (rows, rows[1:])
    )
    assert np.linalg.norm(flat(whole) - flat(rest)) == pytest.approx(0.7, rel=1e-12)


numbers = st.floats(-1e4, 1e4, width=32)
points = st.lists(
    st.builds(lambda x, y, z: point((x, y), z), numbers, numbers, numbers), min_size=1, max_size=6
)


@settings(max_examples=15)
@given(units=points, max_norm=st.floats(1e-3, 1e3))
def test_no_unit_moves_the_sum_by_more_than_the_norm(units: Sequence[DrawnUnit], max_norm):
    learner, parameters = line()
    whole = flat(summed(learner, parameters, units, max_norm))
    for left_out in range(len(units)):
        rest = flat(
            summed(learner, parameters, [*units[:left_out], *units[left_out + 1 :]], max_norm)
        )
        assert np.linalg.norm(whole - rest) <= max_norm * (1 + 1e-9)


def test_short_contributions_stay_as_they_are_and_an_infinite_norm_clips_nothing():
    learner, parameters = line()
    units = [point((1.0, 2.0), 30.0), point((-1.0, 0.1), 0.1)]
    gradients = [flat(gradient_of(learner, parameters, unit, 8)) for unit in units]
    norms = [np.linalg.norm(gradient) for gradient in gradients]
    np.testing.assert_allclose(
        flat(summed(learner, parameters, units, float("inf"))), sum(gradients), rtol=1e-6
    )
    bound = min(norms)
    expected = sum(bound / norm * gradient for norm, gradient in zip(norms, gradients, strict=True))
    np.testing.assert_allclose(flat(summed(learner, parameters, units, bound)), expected, rtol=1e-6)


def test_nobody_contributes_nothing():
    learner, parameters = line()
    nothing = summed(learner, parameters, [], 1.0)
    assert {name: value.shape for name, value in nothing.items()} == {
        name: p.shape for name, p in parameters.items()
    }
    assert not flat(nothing).any()


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_contribution_that_is_not_finite_breaks_the_training_off(broken):
    learner, parameters = line()
    with pytest.raises(TrainingError, match="not finite") as caught:
        summed(learner, parameters, [point((1.0, 1.0), 1.0), point((1.0, broken), 1.0)], 1.0)
    assert "learning rate" in caught.value.hint
    assert caught.value.exit_code == 1
