"""A federated training in one process: every party's own code runs, and the server's gets masked updates only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import torch

from audit.extensions.private.federated.aggregation import pair_secrets
from audit.extensions.private.federated.client import Client, client_message, client_update
from audit.extensions.private.federated.clients import Clients
from audit.extensions.private.federated.parties import RoundSettings, Transcript
from audit.extensions.private.federated.server import SERVER, invite, mean_of, server_round
from audit.extensions.private.interface import Contributions, DrawnUnit, RandomSource, Unit

Sources = Callable[[str, int], RandomSource]
"""Coins and noise of a party ("": the server) in a round."""


class Federation:
    """The rounds of FL-PROVIDER-DP (Tito et al. 2024, Algorithm 1).

    One client alone is a central training: it is the server too, nothing is encoded, and its round is the central
    mechanism's step in every bit. Noise 0 with an infinite norm is plain federated averaging.

    Args:
        clients: in the order of the file; `RoundSettings.n_clients` of them.
        settings: of every round.
        like: the trained parameters, for their names, shapes and devices.
        sources: of coins and noise; the same for all rounds where it draws from the operating system.

    Attributes:
        transcript: all that the server received.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        settings: RoundSettings,
        like: Mapping[str, torch.Tensor],
        sources: Sources,
    ) -> None:
        if len(clients) != settings.n_clients or sum(len(client.units) for client in clients) != settings.n_units:
            raise ValueError("the settings speak of other clients")
        self._clients = {client.name: client for client in clients}
        self._settings = settings
        self._like = dict(like)
        self._sources = sources
        self.transcript = Transcript()

    def noisy_mean(self, round: int) -> dict[str, torch.Tensor]:
        """Take a round, and return what the server learns of it.

        Args:
            round: from 0; no round may be taken twice.

        Returns:
            By parameter, the noisy sum over the constant q N: a mean gradient for an optimizer, or with local steps the
            change to add.

        Raises:
            TrainingError: a contribution is not finite.
        """
        server = self._sources(SERVER, round)
        invitation = invite(tuple(self._clients), self._settings, round, server)
        if len(self._clients) == 1 and invitation.clients:
            (client,) = self._clients.values()
            update = client_update(client, self._settings, invitation, self._sources(client.name, round))
            return mean_of(update, self._settings, self._like)
        secrets = pair_secrets(invitation.clients)
        messages = [
            client_message(self._clients[name], self._settings, invitation, secrets[name], self._sources(name, round))
            for name in invitation.clients
        ]
        return server_round(messages, invitation, self._settings, self._like, server, self.transcript)


def federate(
    clients: Clients,
    units: Sequence[Unit],
    draw: Callable[[Unit, int], DrawnUnit | None],
    contributions: Contributions,
    parameters: Mapping[str, torch.Tensor],
    sources: Sources,
    *,
    client_rate: float,
    provider_rate: float,
    noise_multiplier: float,
    max_norm: float,
    chunk: int = 32,
) -> Federation:
    """Give every client its providers.

    Args:
        clients: of all units, as `read_clients` has them.
        units: providers.
        draw: see `Client.draw`.
        contributions: of all clients: they hold the same model when a round begins.
        parameters: the trained ones.
        sources: of coins and noise.
        client_rate: see `RoundSettings`, as for the next three.
        provider_rate: of a provider whose client takes part.
        noise_multiplier: sigma of a round's sum.
        max_norm: C.
        chunk: see `Client.chunk`.

    Raises:
        UsageError: see `RoundSettings`.
    """
    by_name = {unit.name: unit for unit in units}
    parties = [
        Client(name, tuple(by_name[provider] for provider in own), contributions, draw, parameters, chunk)
        for name, own in clients.providers.items()
    ]
    settings = RoundSettings(client_rate, provider_rate, noise_multiplier, max_norm, len(units), len(parties))
    return Federation(parties, settings, parameters, sources)


def run_federated(
    federation: Federation, n_rounds: int, apply: Callable[[Mapping[str, torch.Tensor]], None]
) -> Transcript:
    """Take rounds and apply each noisy mean to the model that all clients share.

    Args:
        federation: whose clients see the model after every `apply`.
        n_rounds: T.
        apply: adds a noisy mean change, or steps an optimizer along a noisy mean gradient.
    """
    for round in range(n_rounds):
        apply(federation.noisy_mean(round))
    return federation.transcript


def seeded_sources(make: Callable[[int], RandomSource], seed: int) -> Sources:
    """Sources that depend on the seed, the party and the round only: for tests, as they give no guarantee.

    Args:
        make: a source from a seed below 2^63.
        seed: of the training.
    """

    def source(party: str, round: int) -> RandomSource:
        digest = hashlib.sha256(f"{seed}/{round}/{party}".encode()).digest()
        return make(int.from_bytes(digest[:8], "little") >> 1)

    return source
