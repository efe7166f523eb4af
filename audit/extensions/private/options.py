"""The options of a training with differential privacy; apart, because the command line reads them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from audit.stats.dp_bounds import Guarantee

TRAINED = ("lora:RANK", "head", "full")
"""What can be trained."""
ENGINES = ("auto", "exact", "vmap", "hooks")
"""What can compute the gradients of units; "auto": the fastest that a preflight finds equal to "exact"."""

Proves = Callable[[Literal["document", "provider"], Guarantee], bool]
"""Tells whether a guarantee to such a unit proves the limits of a policy."""


@dataclass(frozen=True)
class DpOptions:
    """What the owner chooses; None: docaudit chooses, by a rule that reads no document.

    Attributes:
        unit: whoever is protected; None: the provider where the manifest names one for every member, else the document.
        epsilon: above 0; infinite: no noise, and no guarantee; None: as `to_policy` needs.
        to_policy: a policy: the noise is such that the guarantee proves every limit on membership and providers.
        delta: None: 1 / N^1.1 of N units; refused above 1 / N.
        per_unit: documents of a unit at most, drawn once; None: all.
        trained: "lora:RANK", "head" or "full".
        embeddings: whether embeddings are trained too.
        engine: one of `ENGINES`.
        steps: of the server; None: by rule.
        expected_units: units of a step on average, q N; None: by rule.
        max_norm: C, to which a unit's contribution is clipped.
        optimizer: of the noisy mean gradient; local steps have AdamW and the server plain addition.
        learning_rate: of the optimizer; None: by what is trained.
        local_steps: 0: a unit contributes its gradient; k: the change after k passes of AdamW over its documents.
        clients: a file that names the client of every provider (FL-PROVIDER-DP); None: central.
        client_rate: the probability that a client takes part in a round.
        rows: samples of one forward pass at most.
        reproducible: seeded coins and noise: for tests; no guarantee, and no epsilon is printed.
        seed: of fresh weights, masks, and of coins and noise where `reproducible`.
    """

    unit: Literal["document", "provider"] | None = None
    epsilon: float | None = None
    to_policy: str | None = None
    delta: float | None = None
    per_unit: int | None = None
    trained: str = "lora:16"
    embeddings: bool = False
    engine: str = "auto"
    steps: int | None = None
    expected_units: float | None = None
    max_norm: float = 1.0
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float | None = None
    local_steps: int = 0
    clients: Path | None = None
    client_rate: float = 1.0
    rows: int = 8
    reproducible: bool = False
    seed: int = 0
