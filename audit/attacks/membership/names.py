"""Names of metrics of document membership."""

from __future__ import annotations

from audit.attacks.measuring import DOCUMENTS
from audit.attacks.score_figures import LOW

SCORES = ("loss", "calibrated", "ratio", "min_k", "lira", "rmia", "docmia")
POWER = "reference_power"
LIMITED = ("auc", LOW, DOCUMENTS)
"""What policies limit: held against the strongest of the scores."""
