"""Everything that waits for a GPU, in pieces that fit into a short loan of one: `python -m benchmarks.gpu --help`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

# The scripts that the pieces reuse import each other by their bare names.
for _folder in (Path(__file__).parents[1], Path(__file__).parents[2] / "sample_models"):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))
