"""Parties on machines of their own, connected by Flower (docs/federated.md#flower)."""

from __future__ import annotations

import os

# Before anything imports flwr: it reports its use and looks for updates otherwise.
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"
