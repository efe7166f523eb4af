"""FL-PROVIDER-DP: who takes part, how much noise there is, what the server sees, and what may be claimed."""

from __future__ import annotations

import math
from typing import get_type_hints

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from toy_federation import SHAPES, Pull, Seeded, client, drawn, units, weights

from audit.errors import TrainingError, UsageError
from audit.extensions.private.federated import (
    Client,
    Clients,
    Federation,
    RoundSettings,
    Transcript,
    federate,
    run_federated,
    seeded_sources,
)
from audit.extensions.private.federated import run as run_module
from audit.extensions.private.federated.client import client_message, client_update
from audit.extensions.private.federated.parties import Invitation, MaskedUpdate
from audit.extensions.private.federated.server import SERVER, invite, server_round

GROUPS = {"north": (1, 2, 3), "south": (4, 5), "east": (6,)}
N = 6
N_NUMBERS = sum(math.prod(shape) for shape in SHAPES.values())


def settings(**changes):
    values = {"client_rate": 1.0, "provider_rate": 1.0, "noise_multiplier": 0.0, "max_norm": 1.0}
    return RoundSettings(**{**values, "n_units": N, "n_clients": len(GROUPS), **changes})


def federation(parameters, chosen, sources, groups=GROUPS):
    return Federation([client(name, seeds, parameters) for name, seeds in groups.items()], chosen, parameters, sources)


def add_to(parameters):
    def apply(change):
        for name, value in change.items():
            parameters[name] += value

    return apply


def flat(values):
    return torch.cat([value.flatten() for value in values.values()]).double().numpy()


class Fixed(Seeded):
    """Coins that fall as told, one list after the other."""

    def __init__(self, seed, *falls):
        super().__init__(seed)
        self._falls = list(falls)

    def coins(self, n, probability):
        return np.array(self._falls.pop(0) if self._falls else [True] * n)


# A round


def test_the_round_is_the_clipped_sum_over_the_expected_number():
    parameters = weights()
    mean = federation(parameters, settings(), seeded_sources(Seeded, 0)).noisy_mean(0)
    total = Pull(parameters).clipped_sum([drawn(unit, 0) for unit in units(1, 2, 3, 4, 5, 6)], 1.0).total
    np.testing.assert_allclose(flat(mean), flat(total) / N, atol=1e-6)


def test_the_divisor_is_a_constant_whoever_is_drawn():
    """Algorithm 1 divides by the number of clients drawn: one of three clients would then count three times as much."""
    parameters = weights()
    chosen = settings(client_rate=0.5, provider_rate=0.4)
    assert chosen.expected_units == pytest.approx(0.5 * 0.4 * N)
    sources = {SERVER: Fixed(0, [True, False, False]), "north": Fixed(1, [True, False, False])}
    mean = federation(parameters, chosen, lambda party, round: sources[party]).noisy_mean(0)
    alone = Pull(parameters).clipped_sum([drawn(units(1)[0], 0)], 1.0).total
    np.testing.assert_allclose(flat(mean), flat(alone) / 1.2, atol=1e-6)


@pytest.mark.parametrize(
    "falls", [[True, True, True], [True, False, True], [False, True, False], [False, False, False]]
)
def test_the_noise_of_the_sum_is_the_whole_however_many_clients_take_part(falls):
    """The variances of the clients' shares add up to (sigma C)^2, and the server adds it where nobody takes part."""
    chosen = settings(client_rate=0.5, provider_rate=1e-12, noise_multiplier=2.0, max_norm=3.0)
    sums = []
    for seed in range(300):
        sources = {name: Seeded(10 * seed + i) for i, name in enumerate(GROUPS, 1)}
        sources[SERVER] = Fixed(10 * seed, falls)
        parameters = weights()
        mean = federation(parameters, chosen, lambda party, round: sources[party]).noisy_mean(0)  # noqa: B023
        sums.append(flat(mean) * chosen.expected_units)
        drew = {name: source.n_normal for name, source in sources.items()}
        expected = [N_NUMBERS * taken for taken in falls]
        assert [drew[name] for name in GROUPS] == expected
        assert drew[SERVER] == (0 if any(falls) else N_NUMBERS)
    assert kstest(np.concatenate(sums) / 6.0, "norm").pvalue > 1e-4


def test_a_client_none_of_whose_providers_is_drawn_adds_its_noise_all_the_same():
    source = Fixed(0, [False, False, False])
    update = client_update(
        client("north", (1, 2, 3), weights()), settings(noise_multiplier=1.0), Invitation(0, tuple(GROUPS)), source
    )
    assert source.n_normal == N_NUMBERS
    assert np.abs(flat(update)).min() > 0


def test_a_provider_without_a_sample_contributes_nothing():
    silent = Client("north", units(1, 2, 3), Pull(weights()), lambda unit, round: None, weights())
    update = client_update(silent, settings(), Invitation(0, ("north",)), Seeded(0))
    assert not flat(update).any()


def test_a_provider_moves_the_sum_by_the_norm_at_most():
    parameters = {name: value + 1000 for name, value in weights().items()}
    with_it, without = (
        federation(
            parameters,
            settings(n_units=n, n_clients=2),
            seeded_sources(Seeded, 0),
            {"north": (1, 2, 3)[: n - 2], "south": (4, 5)},
        )
        for n in (5, 4)
    )
    difference = flat(with_it.noisy_mean(0)) * 5 - flat(without.noisy_mean(0)) * 4
    assert np.linalg.norm(difference) == pytest.approx(1.0, abs=1e-4)


def test_inclusions_follow_both_coins():
    chosen = settings(client_rate=0.5, provider_rate=0.4, max_norm=math.inf)
    counts, parameters = np.zeros(N), weights()

    class Counting(Pull):
        def clipped_sum(self, some, max_norm):
            for unit in some:
                counts[unit.samples[0] - 1] += 1
            return super().clipped_sum(some, max_norm)

    clients = [Client(name, units(*seeds), Counting(parameters), drawn, parameters) for name, seeds in GROUPS.items()]
    run_federated(Federation(clients, chosen, parameters, seeded_sources(Seeded, 3)), 400, lambda change: None)
    assert np.all(np.abs(counts - 400 * 0.2) < 4.5 * math.sqrt(400 * 0.2 * 0.8))


def test_every_client_is_invited_by_its_own_coin():
    source = Seeded(0)
    chosen = settings(client_rate=0.2)
    sizes = [len(invite(tuple("abcdefghij"), chosen, t, source).clients) for t in range(500)]
    assert np.mean(sizes) == pytest.approx(2.0, abs=0.25)
    assert np.var(sizes) == pytest.approx(1.6, abs=0.4)
    assert 0 in sizes


# Special cases


def central_step(parameters, source, rate, sigma, max_norm, expected):
    """The central mechanism: coins, clipped sum, noise in float64, a constant divisor."""
    coins = source.coins(N, rate)
    taken = [drawn(unit, 0) for unit, coin in zip(units(1, 2, 3, 4, 5, 6), coins, strict=True) if coin]
    total = Pull(parameters).clipped_sum(taken, max_norm).total
    noise = {name: sigma * max_norm * source.normal(value.shape).double() for name, value in total.items()}
    return {name: ((value.double() + noise[name]) / expected).float() for name, value in total.items()}


def test_one_client_is_the_central_mechanism_bit_for_bit():
    federated, central = weights(), weights()
    clients = Clients({"all": tuple(unit.name for unit in units(1, 2, 3, 4, 5, 6))})
    random = Seeded(7)
    one = federate(
        clients,
        units(1, 2, 3, 4, 5, 6),
        drawn,
        Pull(federated),
        federated,
        lambda party, round: random,
        client_rate=1.0,
        provider_rate=0.5,
        noise_multiplier=0.7,
        max_norm=2.5,
    )
    transcript = run_federated(one, 5, add_to(federated))
    source = Seeded(7)
    for _ in range(5):
        add_to(central)(central_step(central, source, 0.5, 0.7, 2.5, 3.0))
    assert all(torch.equal(federated[name], central[name]) for name in SHAPES)
    assert transcript.messages == []


def test_without_noise_and_norm_all_clients_together_are_plain_central_training():
    federated, central = weights(), weights()
    chosen = settings(max_norm=math.inf)
    run_federated(federation(federated, chosen, seeded_sources(Seeded, 0)), 3, add_to(federated))
    source = Seeded(0)
    for _ in range(3):
        total = Pull(central).clipped_sum([drawn(unit, 0) for unit in units(1, 2, 3, 4, 5, 6)], math.inf).total
        add_to(central)({name: value / N for name, value in total.items()})
    assert source.n_normal == 0
    np.testing.assert_allclose(flat(federated), flat(central), atol=1e-5)


def test_a_federated_training_can_be_repeated_with_a_seed_though_masks_cannot():
    ends = []
    for _ in range(2):
        parameters = weights()
        chosen = settings(client_rate=0.6, provider_rate=0.5, noise_multiplier=1.0)
        run_federated(federation(parameters, chosen, seeded_sources(Seeded, 5)), 6, add_to(parameters))
        ends.append(parameters)
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in SHAPES)


@pytest.mark.parametrize(
    "changes",
    [
        {"client_rate": 0.0},
        {"client_rate": 1.5},
        {"provider_rate": 0.0},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"max_norm": 0.0},
        {"max_norm": math.inf, "noise_multiplier": 1.0},
        {"n_clients": 0},
        {"n_clients": 7},
    ],
)
def test_settings_without_a_meaning_are_refused(changes):
    with pytest.raises(UsageError):
        settings(**changes)


# What the server sees


def test_the_server_receives_masked_updates_only(monkeypatch):
    """Every argument of the server's code is recorded, and none of its arrays opens to a client's update."""
    parameters, updates, seen = weights(), [], []
    chosen = settings(noise_multiplier=0.5)

    def watched_update(*arguments):
        updates.append(client_update(*arguments))
        return updates[-1]

    def watched_server(messages, *others):
        seen.extend(messages)
        return server_round(messages, *others)

    monkeypatch.setattr("audit.extensions.private.federated.client.client_update", watched_update)
    monkeypatch.setattr(run_module, "server_round", watched_server)
    transcript = run_federated(federation(parameters, chosen, seeded_sources(Seeded, 0)), 4, add_to(parameters))
    assert len(updates) == len(seen) == 12
    assert all(type(message) is MaskedUpdate for message in seen)
    opened = [np.concatenate([array.flatten() for array in m.elements]).view(np.int64) / 2.0**63 for m in seen]
    plain = [flat(update) for update in updates]
    assert max(abs(np.corrcoef(a, b)[0, 1]) for a in opened for b in plain) < 0.95
    assert kstest(np.concatenate(opened), "uniform", args=(-1, 2)).pvalue > 1e-6
    assert {message.kind for message in transcript.messages} == {"masked update"}
    assert {message.shapes for message in transcript.messages} == {(SHAPES["bias"], SHAPES["weight"])}
    assert transcript.n_bytes == 12 * 8 * N_NUMBERS


def test_the_server_refuses_a_raw_update():
    raw = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    with pytest.raises(TypeError, match="masked updates only"):
        server_round([raw], Invitation(0, ("north",)), settings(), weights(), Seeded(0), Transcript())
    hints = get_type_hints(server_round)
    assert "MaskedUpdate" in str(hints["messages"])
    assert get_type_hints(client_message)["return"] is MaskedUpdate


def test_a_client_that_drops_out_ends_the_round_instead_of_leaving_garbage():
    parameters = weights()
    invitation = Invitation(2, ("north", "south"))
    message = client_message(
        client("north", (1, 2, 3), parameters), settings(), invitation, {"south": bytes(32)}, Seeded(0)
    )
    with pytest.raises(TrainingError, match="1 of 2 clients answered"):
        server_round([message], invitation, settings(), parameters, Seeded(0), Transcript())


def test_a_client_masks_against_all_that_are_invited_and_nobody_else():
    north = client("north", (1, 2, 3), weights())
    for secrets in ({}, {"east": bytes(32)}, {"south": bytes(32), "east": bytes(32)}):
        with pytest.raises(ValueError, match="every other client"):
            client_message(north, settings(), Invitation(0, ("north", "south")), secrets, Seeded(0))


def test_a_contribution_that_is_not_finite_ends_the_training():
    parameters = {name: value + math.nan for name, value in weights().items()}
    with pytest.raises(TrainingError, match="not finite"):
        federation(parameters, settings(), seeded_sources(Seeded, 0)).noisy_mean(0)
