"""Measurements of attacks, statistics and speed.

Each script writes what the documentation cites. The builders of the samples are scripts that import
each other by their bare names, so their folder is on the path of every benchmark.
"""

import sys
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "sample_models"
if str(SAMPLES) not in sys.path:
    sys.path.append(str(SAMPLES))
