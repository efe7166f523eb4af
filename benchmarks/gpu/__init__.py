"""Everything that waits for a GPU, in pieces that fit into a short loan of one: `python -m benchmarks.gpu --help`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

# The builders of the samples are scripts: they import each other by their bare names.
_SAMPLES = str(Path(__file__).parents[2] / "sample_models")
if _SAMPLES not in sys.path:
    sys.path.append(_SAMPLES)
