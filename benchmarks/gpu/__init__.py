"""Everything that waits for a GPU, in pieces that fit into a short loan of one: `python -m benchmarks.gpu --help`."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
