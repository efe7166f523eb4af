"""A client's part of a round (Tito et al. 2024, Algorithm 1, lines of the client)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from audit.extensions.private.federated.aggregation import FixedPoint, masked
from audit.extensions.private.federated.parties import Invitation, MaskedUpdate, RoundSettings
from audit.extensions.private.interface import Contributions, DrawnUnit, RandomSource, Unit


@dataclass(frozen=True, eq=False)
class Client:
    """A party and its documents.

    Attributes:
        name: of the file of clients.
        units: its providers.
        contributions: sums what providers contribute to the model that the round began with.
        draw: the samples of a provider in a round (from 0); None: it has none, and contributes nothing.
        parameters: the trained ones, for the names and shapes of a sum of nothing.
        chunk: providers whose contributions are summed at once; no result depends on it but in the last bits.
    """

    name: str
    units: tuple[Unit, ...]
    contributions: Contributions
    draw: Callable[[Unit, int], DrawnUnit | None]
    parameters: Mapping[str, torch.Tensor]
    chunk: int = 32


def client_update(
    client: Client, settings: RoundSettings, invitation: Invitation, source: RandomSource
) -> dict[str, torch.Tensor]:
    """The clipped contributions of the providers drawn, plus the client's share of the noise; it stays with the client.

    With K clients invited the noise has variance (sigma C)^2 / K, so that the sum over them has (sigma C)^2 whatever K
    is; it is added also where no provider was drawn.

    Args:
        client: one of the invitation.
        settings: of every round.
        invitation: to the round.
        source: the client's own.

    Returns:
        By parameter, on the CPU.

    Raises:
        TrainingError: a contribution is not finite.
    """
    coins = source.coins(len(client.units), settings.provider_rate)
    drawn = [unit for unit, taken in zip(client.units, coins, strict=True) if taken]
    total = _sum_of(client, drawn, invitation.round, settings.max_norm)
    return with_noise(total, settings.noise_std / math.sqrt(len(invitation.clients)), source)


def client_message(
    client: Client,
    settings: RoundSettings,
    invitation: Invitation,
    secrets: Mapping[str, bytes],
    source: RandomSource,
) -> MaskedUpdate:
    """The client's update as it leaves the client.

    Args:
        client: one of the invitation.
        settings: of every round.
        invitation: to the round.
        secrets: one a client invited beside this one, for this round only.
        source: the client's own.

    Raises:
        ValueError: the secrets are not those of the other clients invited.
        TrainingError: the update is not finite.
    """
    if secrets.keys() | {client.name} != set(invitation.clients) or client.name in secrets:
        raise ValueError("a client masks its update against every other client of the round, and nobody else")
    update = client_update(client, settings, invitation, source)
    code = FixedPoint(settings.largest, settings.n_clients)
    encoded = [code.encode(update[name].numpy()) for name in sorted(update)]
    return MaskedUpdate(invitation.round, client.name, masked(encoded, client.name, secrets, invitation.round))


def with_noise(values: Mapping[str, torch.Tensor], std: float, source: RandomSource) -> dict[str, torch.Tensor]:
    """Add independent normal numbers of this standard deviation to every coordinate; 0: none are drawn.

    Returns:
        On the CPU; with noise in float64, so that nothing is rounded before it is added.
    """
    plain = {name: value.detach().cpu() for name, value in values.items()}
    if std == 0:
        return plain
    return {name: value.double() + std * source.normal(value.shape).double() for name, value in plain.items()}


def _sum_of(client: Client, drawn: Sequence[Unit], round: int, max_norm: float) -> dict[str, torch.Tensor]:
    """The clipped contributions, a chunk of providers after the other."""
    total: dict[str, torch.Tensor] | None = None
    for start in range(0, len(drawn), client.chunk):
        chunk = (client.draw(unit, round) for unit in drawn[start : start + client.chunk])
        samples = [found for found in chunk if found is not None]
        if samples:
            part = client.contributions.clipped_sum(samples, max_norm).total
            total = dict(part) if total is None else {name: total[name] + part[name] for name in total}
    return {name: torch.zeros_like(value) for name, value in client.parameters.items()} if total is None else total
