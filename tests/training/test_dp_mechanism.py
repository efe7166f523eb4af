"""The mechanism, where every number can be computed: plain SGD, pure noise, coins, clipping, local steps."""

from dataclasses import replace

import dp_toy as toy
import example_private
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, kstest

from audit.cards import PrivacyCard
from audit.engine.interface import SILENT
from audit.errors import TrainingError
from audit.extensions.private.gradients import clipped_sum, gradient_of, local_change
from audit.extensions.private.mechanism import (
    SeededRandom,
    SystemRandom,
    noisy_mean,
    run_mechanism,
    sample_units,
)
from audit.extensions.private.units import DrawnUnit, Unit, draw_samples

FALSE_ALARM = 1e-7
LARGE = 1e300
"""A norm to which nothing is clipped."""


def plan(**changes) -> PrivacyCard:
    settings = {"noise_multiplier": 0.0, "max_norm": LARGE, "sample_rate": 1.0, "n_units": 8}
    settings |= {"steps": 4, "learning_rate": 0.125, "optimizer": "sgd"}
    return replace(example_private.card(None), **{**settings, **changes})


def trained_toy():
    learner = toy.ToyLearner()
    learner.model.requires_grad_(False)
    learner.model.line.requires_grad_(True)
    parameters = {f"line.{name}": value for name, value in learner.model.line.named_parameters()}
    return learner, parameters


def run(learner, parameters, units, chosen, random=None, contribute=None, clients=None):
    contribute = contribute or gradients(learner, parameters)
    random = random or SystemRandom()
    run_mechanism(
        parameters,
        clients or [units],
        _draw(learner),
        contribute,
        chosen,
        random,
        toy.NoLedger(),
        SILENT,
    )


def gradients(learner, parameters):
    return lambda unit: gradient_of(learner, parameters, unit, 8)


def changes(learner, parameters, passes=1, rows=8):
    return lambda unit: local_change(learner, parameters, unit, rows, passes, 0.1)


def nothing(parameters):
    return lambda unit: {name: torch.zeros_like(value) for name, value in parameters.items()}


def _draw(learner):
    return lambda unit, step: draw_samples(learner, unit, step, 0)


def _sum(parameters, units, learner, contribute, max_norm):
    return clipped_sum(
        parameters, (draw_samples(learner, unit, 0, 0) for unit in units), contribute, max_norm
    )


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
    assert all(
        torch.equal(parameters[f"line.{name}"], own) for name, own in plain.line.named_parameters()
    )
    assert torch.equal(learner.model.embedding.weight, plain.embedding.weight)


@pytest.mark.parametrize("sample_rate", [0.0001, 0.5])
def test_with_nothing_to_learn_a_step_is_gaussian_noise_even_when_nobody_was_drawn(
    sample_rate: float,
) -> None:
    parameters = {
        "a": torch.nn.Parameter(torch.zeros(40, 50)),
        "b": torch.nn.Parameter(torch.zeros(500)),
    }
    chosen = plan(
        noise_multiplier=2.0,
        max_norm=0.5,
        sample_rate=sample_rate,
        n_units=8,
        steps=1,
        learning_rate=1.0,
    )
    run(toy.ToyLearner(), parameters, toy.units(8), chosen, contribute=nothing(parameters))
    deviation = 2.0 * 0.5 / (sample_rate * 8)
    assert kstest(toy.values(parameters) / deviation, "norm").pvalue > FALSE_ALARM


def test_noise_is_drawn_anew_for_every_step_and_parameter() -> None:
    parameters = {
        "a": torch.nn.Parameter(torch.zeros(300)),
        "b": torch.nn.Parameter(torch.zeros(300)),
    }
    chosen = plan(noise_multiplier=1.0, max_norm=1.0, sample_rate=0.125, steps=2, learning_rate=1.0)
    run(toy.ToyLearner(), parameters, toy.units(8), chosen, contribute=nothing(parameters))
    drawn = toy.values(parameters)
    assert kstest(drawn / np.sqrt(2), "norm").pvalue > FALSE_ALARM  # two independent steps
    assert len(set(drawn.tolist())) == 600


def test_every_unit_is_drawn_by_a_coin_of_its_own() -> None:
    units = toy.units(30)
    rounds = 600
    rate = 0.3
    random = SystemRandom()
    taken = np.zeros(len(units))
    sizes = np.zeros(len(units) + 1)
    index = {unit.name: number for number, unit in enumerate(units)}
    for _ in range(rounds):
        drawn = sample_units([units], plan(sample_rate=rate), random)
        sizes[len(drawn)] += 1
        for unit in drawn:
            taken[index[unit.name]] += 1
    assert min(binomtest(int(count), rounds, rate).pvalue for count in taken) > FALSE_ALARM
    expected = binom.pmf(np.arange(31), 30, rate) * rounds
    assert (
        (sizes - expected) ** 2 / np.maximum(expected, 1)
    ).sum() < 150  # thirty degrees of freedom


def test_the_number_of_units_that_were_drawn_divides_nothing() -> None:
    units = tuple(Unit(f"u{i}", (toy.document(f"u{i}", 1.0, 10.0),)) for i in range(8))
    counts = set()
    for seed in range(5):
        learner, parameters = trained_toy()
        before = toy.values(parameters)
        drawn = int(SeededRandom(seed).coins(8, 0.5).sum())
        run(
            learner,
            parameters,
            units,
            plan(sample_rate=0.5, steps=1, learning_rate=1.0),
            SeededRandom(seed),
        )
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
    for contribute in (gradients(learner, parameters), changes(learner, parameters)):
        sums = [
            toy.values(_sum(parameters, own, learner, contribute, max_norm))
            for own in (units, without)
        ]
        assert np.linalg.norm(sums[0] - sums[1]) <= max_norm * (1 + 1e-9)


@pytest.mark.parametrize("local", [False, True])
def test_sums_of_many_units_are_not_rounded_before_noise(local: bool) -> None:
    learner, parameters = trained_toy()
    units = [Unit(f"u{i}", (toy.document(f"u{i}", 0.1 + i / 7, 3.0 + i / 3),)) for i in range(300)]
    contribute = (changes if local else gradients)(learner, parameters)
    sums = [
        _sum(parameters, own, learner, contribute, 0.1) for own in (units, units[1:], units[:1])
    ]
    whole, rest, alone = (toy.values(each) for each in sums)
    np.testing.assert_allclose(whole - rest, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("local", [False, True])
def test_a_contribution_that_is_not_finite_stops_the_training(local: bool) -> None:
    learner, parameters = trained_toy()
    units = (*toy.units(3), Unit("bad", (toy.document("bad", float("nan"), 1.0),)))
    contribute = (changes if local else gradients)(learner, parameters)
    with pytest.raises(TrainingError, match="not finite"):
        run(learner, parameters, units, plan(n_units=4), contribute=contribute)


def test_local_steps_are_those_of_a_fresh_adamw_from_where_the_round_began() -> None:
    learner, parameters = trained_toy()
    unit = DrawnUnit(((1.0, 2.0), (3.0, 4.0)), (0.25, 0.75))
    before = toy.values(parameters)
    found = local_change(learner, parameters, unit, 1, 3, 0.1)
    assert (toy.values(parameters) == before).all()

    plain = toy.Line()
    optimizer = torch.optim.AdamW(plain.line.parameters(), lr=0.1)
    x = torch.tensor([1.0, 3.0])
    y = torch.tensor([2.0, 4.0])
    weights = torch.tensor(unit.weights)
    for _ in range(3):
        optimizer.zero_grad()
        (((plain(x) - y).square() / 2) * weights).sum().backward()
        optimizer.step()
    change = (
        np.concatenate([own.detach().numpy().ravel() for own in plain.line.parameters()]) - before
    )
    np.testing.assert_allclose(toy.values(found), change, rtol=1e-5)
    clipped = clipped_sum(parameters, iter([unit]), changes(learner, parameters, 3), 0.01)
    assert np.linalg.norm(toy.values(clipped)) == pytest.approx(0.01)


def test_the_server_adds_the_mean_change_of_local_steps() -> None:
    learner, parameters = trained_toy()
    before = toy.values(parameters)
    local = changes(learner, parameters)
    units = toy.units(4)
    expected = sum(toy.values(local(draw_samples(learner, unit, 0, 0))) for unit in units)
    run(learner, parameters, units, plan(optimizer="add", n_units=4, steps=1), contribute=local)
    np.testing.assert_allclose(toy.values(parameters) - before, expected / 4, rtol=1e-5)


# Several clients (FL-PROVIDER-DP).


def test_one_client_is_the_central_mechanism_bit_for_bit() -> None:
    results = []
    for clients in (None, [toy.units(8)]):
        learner, parameters = trained_toy()
        chosen = plan(sample_rate=0.5, noise_multiplier=0.7, max_norm=2.5, clients=clients and 1)
        run(learner, parameters, toy.units(8), chosen, SeededRandom(7), clients=clients)
        results.append(toy.values(parameters))
    assert (results[0] == results[1]).all()


def test_units_are_drawn_by_their_client_s_coin_and_their_own() -> None:
    units = toy.units(6)
    rounds = 3000
    clients = [units[:3], units[3:5], units[5:]]
    chosen = plan(n_units=6, sample_rate=0.2, client_rate=0.5)
    random = SystemRandom()
    taken = dict.fromkeys((unit.name for unit in units), 0)
    of_client = np.zeros(8)
    for _ in range(rounds):
        drawn = {unit.name for unit in sample_units(clients, chosen, random)}
        for name in drawn:
            taken[name] += 1
        of_client[len(drawn & {unit.name for unit in units[:3]})] += 1
    assert min(binomtest(count, rounds, 0.2).pvalue for count in taken.values()) > FALSE_ALARM
    together = 0.5 * binom.pmf(np.arange(4), 3, 0.4)
    together[0] += 0.5
    assert (
        min(binomtest(int(n), rounds, p).pvalue for n, p in zip(of_client, together, strict=False))
        > FALSE_ALARM
    )


def test_the_noise_and_the_divisor_are_the_same_however_many_clients_take_part() -> None:
    parameters = {"a": torch.nn.Parameter(torch.zeros(2000))}
    chosen = plan(
        n_units=6, sample_rate=0.5 * 1e-12, client_rate=0.5, noise_multiplier=2.0, max_norm=3.0
    )
    clients = [toy.units(3), toy.units(2), toy.units(1)]
    mean = noisy_mean(
        parameters, clients, _draw(toy.ToyLearner()), nothing(parameters), chosen, SystemRandom(), 0
    )
    assert chosen.expected_units == pytest.approx(3e-12)
    assert kstest(toy.values(mean) * chosen.expected_units / 6.0, "norm").pvalue > FALSE_ALARM
