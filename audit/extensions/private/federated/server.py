"""The server's part of a round (Tito et al. 2024, Algorithm 1, lines of the server); it gets masked updates only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from audit.errors import TrainingError
from audit.extensions.private.federated.aggregation import FixedPoint, ring_sum
from audit.extensions.private.federated.client import with_noise
from audit.extensions.private.federated.parties import Invitation, MaskedUpdate, RoundSettings, Transcript
from audit.extensions.private.interface import RandomSource

SERVER = ""
"""The server's name among the parties; no client has it."""


def invite(clients: Sequence[str], settings: RoundSettings, round: int, source: RandomSource) -> Invitation:
    """Draw the clients of a round, each by its own coin; there may be none. A rate of 1 needs no coin."""
    if settings.client_rate == 1:
        return Invitation(round, tuple(clients))
    coins = source.coins(len(clients), settings.client_rate)
    return Invitation(round, tuple(client for client, taken in zip(clients, coins, strict=True) if taken))


def server_round(
    messages: Sequence[MaskedUpdate],
    invitation: Invitation,
    settings: RoundSettings,
    like: Mapping[str, torch.Tensor],
    source: RandomSource,
    transcript: Transcript,
) -> dict[str, torch.Tensor]:
    """The noisy mean of a round: the sum of all updates over the constant q N.

    Nobody invited leaves the sum at zero, and the server adds the whole noise: else the rounds in which no client took
    part would show.

    Args:
        messages: of the clients invited, one each.
        invitation: to the round.
        settings: of every round.
        like: tensors with the names, shapes and devices of the trained parameters.
        source: the server's own.
        transcript: every message is noted here before it is used.

    Returns:
        By parameter, types and devices as `like`.

    Raises:
        TypeError: a message is anything but a masked update.
        TrainingError: an invited client did not answer, so the masks do not cancel.
    """
    for message in messages:
        transcript.note_update(message)
    senders = sorted(message.client for message in messages if message.round == invitation.round)
    if senders != sorted(invitation.clients) or len(senders) != len(messages):
        raise TrainingError(
            f"round {invitation.round}: {len(senders)} of {len(invitation.clients)} clients answered, and the sum of "
            "some stays masked",
            "the round counts as spent; see that all clients run, and start again",
        )
    if messages:
        total = _opened(messages, FixedPoint(settings.largest, settings.n_clients), like)
    else:
        total = with_noise({name: torch.zeros_like(value) for name, value in like.items()}, settings.noise_std, source)
    return mean_of(total, settings, like)


def mean_of(
    total: Mapping[str, torch.Tensor], settings: RoundSettings, like: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """A noisy sum divided by the constant number of providers of a round on average; types and devices as `like`."""
    return {name: (total[name] / settings.expected_units).to(value) for name, value in like.items()}


def _opened(
    messages: Sequence[MaskedUpdate], code: FixedPoint, like: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    sums = ring_sum([message.elements for message in messages])
    return {name: torch.from_numpy(code.decode(total)) for name, total in zip(sorted(like), sums, strict=True)}
