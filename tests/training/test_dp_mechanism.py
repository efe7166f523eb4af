"""The mechanism, where every number can be computed: plain SGD, pure noise, coins, clipping, local steps."""

from __future__ import annotations

from functools import partial

import dp_toy as toy
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, kstest

from audit.engine.interface import SILENT
from audit.errors import TrainingError, UsageError
from audit.extensions.private.engines.exact import ExactEngine
from audit.extensions.private.interface import DrawnUnit, Unit
from audit.extensions.private.local_steps import LocalSteps
from audit.extensions.private.mechanism import MechanismPlan, run_mechanism, sample_units, sum_contributions
from audit.extensions.private.randomness import SeededRandom, SystemRandom
from audit.extensions.private.units import draw_samples

FALSE_ALARM = 1e-7
INFINITE = float("inf")


def plan(**changes) -> MechanismPlan:
    settings = {
        "noise_multiplier": 0.0,
        "max_norm": INFINITE,
        "sample_rate": 1.0,
        "n_units": 8,
        "steps": 4,
        "learning_rate": 0.125,
        "optimizer": "sgd",
        "chunk": 100,
    }
    return MechanismPlan(**{**settings, **changes})


def trained_toy():
    learner = toy.ToyLearner()
    learner.model.requires_grad_(False)
    learner.model.line.requires_grad_(True)
    parameters = {f"line.{name}": value for name, value in learner.model.line.named_parameters()}
    return learner, parameters


def run(learner, parameters, units, chosen, random=None, contributions=None):
    contributions = contributions or toy.SingleUnits(learner, parameters)
    draw = partial(_draw, learner)
    random = random or SystemRandom()
    run_mechanism(parameters, units, draw, contributions, chosen, random, toy.NoLedger(), SILENT)


def _draw(learner, unit, step):
    return draw_samples(learner, unit, step, 0)


def test_without_noise_and_clipping_it_is_plain_gradient_descent_bit_for_bit() -> None:
    learner, parameters = trained_toy()
    units = toy.units(8)
    run(learner, parameters, units, plan())

    plain = toy.Line()
    optimizer = torch.optim.SGD(plain.line.parameters(), lr=0.125)
    for _ in range(4):
        for unit in units:
            x, y = (torch.tensor([float(word.text)]) for word in unit.documents[0].words)
            ((plain(x) - y).square() / 2).sum().backward()
        for parameter in plain.line.parameters():
            parameter.grad /= 8
        optimizer.step()
        optimizer.zero_grad()
    assert all(torch.equal(parameters[f"line.{name}"], own) for name, own in plain.line.named_parameters())
    assert torch.equal(learner.model.embedding.weight, plain.embedding.weight)


@pytest.mark.parametrize("chunk", [1, 3])
def test_the_size_of_chunks_changes_the_last_bits_only(chunk: int) -> None:
    results = []
    for size in (100, chunk):
        learner, parameters = trained_toy()
        run(learner, parameters, toy.units(8), plan(chunk=size, max_norm=1.0))
        results.append(toy.values(parameters))
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize("sample_rate", [0.0001, 0.5])
def test_with_nothing_to_learn_a_step_is_gaussian_noise_even_when_nobody_was_drawn(sample_rate: float) -> None:
    parameters = {"a": torch.nn.Parameter(torch.zeros(40, 50)), "b": torch.nn.Parameter(torch.zeros(500))}
    chosen = plan(noise_multiplier=2.0, max_norm=0.5, sample_rate=sample_rate, n_units=8, steps=1, learning_rate=1.0)
    nothing = toy.Nothing(parameters)
    run(toy.ToyLearner(), parameters, toy.units(8), chosen, contributions=nothing)
    deviation = 2.0 * 0.5 / (sample_rate * 8)
    assert kstest(toy.values(parameters) / deviation, "norm").pvalue > FALSE_ALARM
    if sample_rate < 0.001:
        assert nothing.asked == [] or nothing.asked == [1]


def test_noise_is_drawn_anew_for_every_step_and_parameter() -> None:
    parameters = {"a": torch.nn.Parameter(torch.zeros(300)), "b": torch.nn.Parameter(torch.zeros(300))}
    chosen = plan(noise_multiplier=1.0, max_norm=1.0, sample_rate=0.125, steps=2, learning_rate=1.0)
    run(toy.ToyLearner(), parameters, toy.units(8), chosen, contributions=toy.Nothing(parameters))
    drawn = toy.values(parameters)
    assert kstest(drawn / np.sqrt(2), "norm").pvalue > FALSE_ALARM  # two independent steps
    assert len(set(drawn.tolist())) == 600


def test_every_unit_is_drawn_by_a_coin_of_its_own() -> None:
    units, rounds, rate = toy.units(30), 600, 0.3
    random = SystemRandom()
    taken = np.zeros(len(units))
    sizes = np.zeros(len(units) + 1)
    index = {unit.name: number for number, unit in enumerate(units)}
    for _ in range(rounds):
        drawn = sample_units(units, rate, random)
        sizes[len(drawn)] += 1
        for unit in drawn:
            taken[index[unit.name]] += 1
    assert min(binomtest(int(count), rounds, rate).pvalue for count in taken) > FALSE_ALARM
    expected = binom.pmf(np.arange(31), 30, rate) * rounds
    assert ((sizes - expected) ** 2 / np.maximum(expected, 1)).sum() < 150  # thirty degrees of freedom


def test_the_number_of_units_that_were_drawn_divides_nothing() -> None:
    units = tuple(Unit(f"u{i}", (toy.document(f"u{i}", 1.0, 10.0),)) for i in range(8))
    counts = set()
    for seed in range(5):
        learner, parameters = trained_toy()
        before = toy.values(parameters)
        drawn = int(SeededRandom(seed).coins(8, 0.5).sum())
        run(learner, parameters, units, plan(sample_rate=0.5, steps=1, learning_rate=1.0), SeededRandom(seed))
        np.testing.assert_allclose(toy.values(parameters) - before, drawn * 9.5 / 4)
        counts.add(drawn)
    assert len(counts) > 1


@given(
    st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)), min_size=1, max_size=5),
    st.floats(0.01, 100),
    st.integers(0, 4),
)
def test_no_unit_moves_a_sum_by_more_than_the_largest_norm(points, max_norm, index) -> None:
    learner, parameters = trained_toy()
    units = [Unit(f"u{i}", (toy.document(f"u{i}", x, y),)) for i, (x, y) in enumerate(points)]
    without = [unit for number, unit in enumerate(units) if number != index % len(units)]
    for contributions in (toy.SingleUnits(learner, parameters), LocalSteps(learner, parameters, 1, 0.1)):
        sums = [
            sum_contributions(parameters, own, partial(_draw_first, learner), contributions, plan(max_norm=max_norm))
            for own in (units, without)
        ]
        moved = np.sqrt(sum(float((sums[0][n] - sums[1][n]).double().square().sum()) for n in parameters))
        assert moved <= max_norm * (1 + 1e-5) + 1e-5


@pytest.mark.parametrize("local", [False, True])
def test_sums_of_many_units_are_not_rounded_before_noise(local: bool) -> None:
    learner, parameters = trained_toy()
    units = [Unit(f"u{i}", (toy.document(f"u{i}", 0.1 + i / 7, 3.0 + i / 3),)) for i in range(300)]
    contributions = LocalSteps(learner, parameters, 1, 0.1) if local else ExactEngine(learner, parameters)
    sums = [
        sum_contributions(parameters, own, partial(_draw_first, learner), contributions, plan(max_norm=0.1, chunk=7))
        for own in (units, units[1:], units[:1])
    ]
    whole, rest, alone = (toy.values(each) for each in sums)
    np.testing.assert_allclose(whole - rest, alone, rtol=0, atol=1e-12)


def _draw_first(learner, unit):
    return draw_samples(learner, unit, 0, 0)


def test_a_contribution_that_is_not_finite_stops_the_training() -> None:
    learner, parameters = trained_toy()
    units = (*toy.units(3), Unit("bad", (toy.document("bad", float("nan"), 1.0),)))
    with pytest.raises(TrainingError, match="not a finite number") as raised:
        run(learner, parameters, units, plan(n_units=4))
    assert raised.value.exit_code == 1
    with pytest.raises(TrainingError, match="no finite number"):
        run(learner, parameters, units, plan(n_units=4), contributions=LocalSteps(learner, parameters, 1, 0.1))


def test_local_steps_are_those_of_a_fresh_adamw_from_where_the_round_began() -> None:
    learner, parameters = trained_toy()
    unit = DrawnUnit(((1.0, 2.0), (3.0, 4.0)), (0.25, 0.75))
    before = toy.values(parameters)
    both = LocalSteps(learner, parameters, 3, 0.1, rows=1).clipped_sum([unit, unit], INFINITE)
    assert (toy.values(parameters) == before).all()

    plain = toy.Line()
    optimizer = torch.optim.AdamW(plain.line.parameters(), lr=0.1)
    x, y, weights = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 4.0]), torch.tensor(unit.weights)
    for _ in range(3):
        optimizer.zero_grad()
        (((plain(x) - y).square() / 2) * weights).sum().backward()
        optimizer.step()
    change = np.concatenate([own.detach().numpy().ravel() for own in plain.line.parameters()]) - before
    np.testing.assert_allclose(toy.values(both.total), 2 * change, rtol=1e-5)
    assert both.norms == pytest.approx(2 * [np.linalg.norm(change)])
    clipped = LocalSteps(learner, parameters, 3, 0.1).clipped_sum([unit], 0.01)
    assert np.linalg.norm(toy.values(clipped.total)) == pytest.approx(0.01)


def test_the_server_adds_the_mean_change_of_local_steps() -> None:
    learner, parameters = trained_toy()
    before = toy.values(parameters)
    local = LocalSteps(learner, parameters, 1, 0.1)
    units = toy.units(4)
    expected = sum(toy.values(local.clipped_sum([draw_samples(learner, unit, 0, 0)], INFINITE).total) for unit in units)
    run(learner, parameters, units, plan(optimizer="add", n_units=4, steps=1), contributions=local)
    np.testing.assert_allclose(toy.values(parameters) - before, expected / 4, rtol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"sample_rate": 0.0},
        {"sample_rate": 1.5},
        {"max_norm": 0.0},
        {"max_norm": float("nan")},
        {"noise_multiplier": 1.0},
    ],
)
def test_numbers_without_sense_are_refused(changes) -> None:
    with pytest.raises(UsageError):
        plan(**changes)
