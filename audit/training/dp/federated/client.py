"""A client's part of a round (Tito et al. 2024, Algorithm 1, lines of the client)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from audit.training.dp.federated.aggregation import FixedPoint, masked
from audit.training.dp.federated.parties import Invitation, MaskedUpdate, RoundSettings
from audit.training.dp.interface import Contributions, DrawnUnit, RandomSource, Unit


@dataclass(frozen=True, eq=False)
class Client:
    """A party and its documents.

    Attributes:
        name: of the file of clients.
        units: its providers.
        contributions: sums what providers contribute to the model that the round began with.
        draw: the samples of a provider in a round (from 0); None: it has none, and contributes nothing.
    """

    name: str
    units: tuple[Unit, ...]
    contributions: Contributions
    draw: Callable[[Unit, int], DrawnUnit | None]


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
    drawn = [client.draw(unit, invitation.round) for unit, taken in zip(client.units, coins, strict=True) if taken]
    total = client.contributions.clipped_sum([unit for unit in drawn if unit], settings.max_norm).total
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
    encoded = [code.encode(value.numpy()) for value in update.values()]
    return MaskedUpdate(invitation.round, client.name, masked(encoded, client.name, secrets, invitation.round))


def with_noise(values: Mapping[str, torch.Tensor], std: float, source: RandomSource) -> dict[str, torch.Tensor]:
    """Add independent normal numbers of this standard deviation to every coordinate; 0: none are drawn.

    Returns:
        On the CPU, as exact as the source's numbers.
    """
    plain = {name: value.detach().cpu() for name, value in values.items()}
    if std == 0:
        return plain
    return {name: value + std * source.normal(value.shape) for name, value in plain.items()}
