"""Names of metrics of document membership."""

from __future__ import annotations

from itertools import product

from audit.attacks.measuring import DOCUMENTS
from audit.attacks.score_figures import LOW, RATES

SCORES = ("loss", "calibrated", "ratio", "min_k", "lira", "rmia", "docmia")
POWER = "reference_power"
LIMITED = ("auc", LOW, DOCUMENTS)
"""What policies limit: held against the strongest of the scores."""
METRICS = (
    *LIMITED,
    *(f"tpr_at_fpr_{rate}" for rate in RATES),
    *(f"fpr_at_{rate}" for rate in RATES),
    POWER,
    *(f"{what}.{score}" for what, score in product((*LIMITED, *(f"tpr_at_fpr_{rate}" for rate in RATES)), SCORES)),
)
"""Without a suffix: of the primary score. `fpr_at_...` is what the threshold gave on the evaluated documents."""
