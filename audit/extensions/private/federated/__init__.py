"""Training by several parties that keep their documents (Tito et al. 2024, Algorithm 1; docs/federated.md)."""

from __future__ import annotations

from audit.extensions.private.federated.client import Client
from audit.extensions.private.federated.clients import Clients, read_clients
from audit.extensions.private.federated.parties import RoundSettings, Transcript
from audit.extensions.private.federated.run import Federation, Sources, federate, run_federated, seeded_sources

__all__ = [
    "Client",
    "Clients",
    "Federation",
    "RoundSettings",
    "Sources",
    "Transcript",
    "federate",
    "read_clients",
    "run_federated",
    "seeded_sources",
]
