"""Sums that the server learns without learning a term: pairwise masks modulo 2^64.

Every two clients of a round share a secret; one adds the numbers that follow from it, the other subtracts them, so that
they cancel in the sum (Acs & Castelluccia 2011; Bonawitz et al. 2016; equation A1 of Tito et al. 2024). There are no
shares of secrets for clients that drop out: then the sum stays masked and the round is lost.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.arrays import Floats
from audit.errors import TrainingError
from audit.extensions.private.federated.parties import Elements

SECRET_BYTES = 32
_DOMAIN = b"docaudit pairwise mask 1"


@dataclass(frozen=True)
class FixedPoint:
    """Numbers as integers modulo 2^64, negative ones in two's complement.

    Attributes:
        largest: above every |number| of one update.
        n_terms: updates of a sum at most; 2^64 is above n_terms * largest / step, so that no sum wraps around.
    """

    largest: float
    n_terms: int

    @property
    def step(self) -> float:
        """The distance between two numbers, a power of two; a number is off by half of it at most."""
        return 2.0 ** (math.ceil(math.log2(self.largest * self.n_terms)) - 62)

    def encode(self, values: npt.NDArray[np.floating]) -> Elements:
        """The nearest fixed-point numbers.

        Raises:
            TrainingError: a number is not finite, or above `largest`.
        """
        exact = values.astype(np.float64)
        if not np.all(np.abs(exact) <= self.largest):
            raise TrainingError("an update is not finite, or too large to be encoded", "choose a lower learning rate")
        return np.rint(exact / self.step).astype(np.int64).view(np.uint64)

    def decode(self, elements: Elements) -> Floats:
        """The numbers again."""
        return elements.view(np.int64).astype(np.float64) * self.step


def pair_secrets(clients: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Draw a secret for every two clients of a round from the operating system, as a trusted dealer would.

    It stands for a key agreement where all parties are one process; masks cancel, so no result depends on it.

    Returns:
        By client, the secrets that it shares with the others.
    """
    secrets: dict[str, dict[str, bytes]] = {client: {} for client in clients}
    for index, one in enumerate(clients):
        for other in clients[index + 1 :]:
            secrets[one][other] = secrets[other][one] = os.urandom(SECRET_BYTES)
    return secrets


def masked(elements: Sequence[Elements], client: str, secrets: Mapping[str, bytes], round: int) -> tuple[Elements, ...]:
    """Add a client's masks to its update, element by element.

    Args:
        elements: an array a trained parameter.
        client: whose update it is; of two clients the one whose name sorts first adds their mask.
        secrets: by the other clients of the round, each used in one round only; none: nothing is hidden.
        round: from 0; the same for all clients.
    """
    total = [array.copy() for array in elements]
    for other, secret in secrets.items():
        for index, array in enumerate(total):
            mask = _mask(secret, round, index, array.shape)
            np.add(array, mask, out=array) if client < other else np.subtract(array, mask, out=array)
    return tuple(total)


def ring_sum(messages: Sequence[Sequence[Elements]]) -> tuple[Elements, ...]:
    """The sum of messages modulo 2^64, array by array; at least one message."""
    totals = tuple(array.copy() for array in messages[0])
    for message in messages[1:]:
        for total, array in zip(totals, message, strict=True):
            np.add(total, array, out=total)
    return totals


def _mask(secret: bytes, round: int, index: int, shape: tuple[int, ...]) -> Elements:
    """SHAKE-256 of the secret: uniform for whoever does not have it."""
    seed = _DOMAIN + secret + round.to_bytes(8, "little") + index.to_bytes(8, "little")
    n_bytes = 8 * math.prod(shape)
    return np.frombuffer(hashlib.shake_256(seed).digest(n_bytes), dtype="<u8").astype(np.uint64).reshape(shape)
