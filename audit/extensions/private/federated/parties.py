"""What passes between the parties of a federated training, and a record of all that the server receives.

The server is honest but curious (Tito et al. 2024, section 6.2): it does its part and looks at everything it gets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from audit.errors import UsageError

Elements = npt.NDArray[np.uint64]
"""Integers modulo 2^64."""
Kind = Literal["public key", "masked update"]
UNCLIPPED_RANGE = 2.0**20
"""Above every coordinate of an update that is not clipped (ours); a larger one ends the training."""
NOISE_TAIL = 40.0
"""Standard deviations that no noise passes: a normal number does with probability below 1e-300."""


@dataclass(frozen=True)
class RoundSettings:
    """The settings of a round, agreed upon by all parties beforehand; none depends on a document.

    Attributes:
        client_rate: in (0, 1]: the probability that a client takes part in a round.
        provider_rate: in (0, 1]: the probability that a provider of such a client does.
        noise_multiplier: sigma: the noise of a round's sum has standard deviation sigma * max_norm; 0: no noise.
        max_norm: C; infinite: nothing is clipped, which only a training without noise can have.
        n_units: N, providers of all clients together.
        n_clients: at least 1.
    """

    client_rate: float
    provider_rate: float
    noise_multiplier: float
    max_norm: float
    n_units: int
    n_clients: int

    def __post_init__(self) -> None:
        for name in ("client_rate", "provider_rate"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{name} must be above 0 and at most 1", "choose a probability such as 0.2")
        if not 0 <= self.noise_multiplier < math.inf or not self.max_norm > 0:
            raise UsageError("noise must be at least 0 and the norm above 0", "choose a norm such as 1.0")
        if self.noise_multiplier and math.isinf(self.max_norm):
            raise UsageError("noise needs a norm to which contributions are clipped", "choose a norm such as 1.0")
        if not 1 <= self.n_clients <= self.n_units:
            raise UsageError("there must be a client, and a provider for each", "name the providers of every client")

    @property
    def expected_units(self) -> float:
        """The constant by which a round's sum is divided: providers of a round on average.

        Algorithm 1 divides by the numbers that were drawn, which depend on who takes part; this one does not.
        """
        return self.client_rate * self.provider_rate * self.n_units

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in a round's sum, sigma C."""
        return self.noise_multiplier * self.max_norm if self.noise_multiplier else 0.0

    @property
    def largest(self) -> float:
        """A number above every coordinate of an update."""
        if math.isinf(self.max_norm):
            return UNCLIPPED_RANGE
        return self.max_norm * (self.n_units + NOISE_TAIL * self.noise_multiplier)


@dataclass(frozen=True)
class Invitation:
    """The clients of a round, as the server tells each of them.

    Attributes:
        round: from 0.
        clients: those that take part, at least one, in the order of the settings' clients.
    """

    round: int
    clients: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class MaskedUpdate:
    """What a client sends to the server in a round: nothing else leaves it but a public key.

    Attributes:
        round: of the invitation.
        client: the sender.
        elements: an array a trained parameter, in the order of sorted names: fixed-point numbers plus masks; alone it
            is uniformly random wherever another client takes part in the round.
    """

    round: int
    client: str
    elements: tuple[Elements, ...]

    def __post_init__(self) -> None:
        if any(array.dtype != np.uint64 for array in self.elements):
            raise TypeError("an update leaves its client as integers modulo 2^64 only")


@dataclass(frozen=True)
class Received:
    """A message that the server received, without its content.

    Attributes:
        round: from 0.
        client: the sender.
        kind: of the message.
        shapes: of its arrays.
        n_bytes: of its arrays.
    """

    round: int
    client: str
    kind: Kind
    shapes: tuple[tuple[int, ...], ...]
    n_bytes: int


@dataclass
class Transcript:
    """All that the server receives, in order.

    Attributes:
        messages: one entry each.
    """

    messages: list[Received] = field(default_factory=list)

    def note_update(self, message: MaskedUpdate) -> None:
        """Note a masked update.

        Raises:
            TypeError: it is something else.
        """
        if type(message) is not MaskedUpdate:
            raise TypeError(f"the server receives masked updates only, not {type(message).__name__}")
        shapes = tuple(array.shape for array in message.elements)
        self._note(message.round, message.client, "masked update", shapes, sum(a.nbytes for a in message.elements))

    def note_key(self, round: int, client: str, key: bytes) -> None:
        """Note a public key."""
        self._note(round, client, "public key", ((len(key),),), len(key))

    @property
    def n_bytes(self) -> int:
        """Bytes of all messages to the server."""
        return sum(message.n_bytes for message in self.messages)

    def _note(self, round: int, client: str, kind: Kind, shapes: Sequence[tuple[int, ...]], n_bytes: int) -> None:
        self.messages.append(Received(round, client, kind, tuple(shapes), n_bytes))
