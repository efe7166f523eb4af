"""Names of features, methods and metrics of provider membership."""

from __future__ import annotations

from audit.attacks.score_figures import LOW

FEATURES = ("accuracy", "similarity", "loss", "confidence", "loss_change", "confidence_change")
"""What the paper's unsupervised attack (the first two) and its supervised one (all) look at
(methods.md#provider-membership)."""
MEMORY = ("memory_similarity", "memory_change")
"""The paper's two memorisation tests: NLS_mem (M1) and dNLS_mem (M2)."""
METHODS = ("azk", "apk", "azk_ensemble", "apk_ensemble")
"""The paper's four attacks: with zero and with partial knowledge, each alone and in a majority of three with M1, M2."""
POWER = "questions_a_provider"
"""The median number of questions that are compared of a provider: what the paper finds lives where there are five, or
ten, and both sides are cut to match."""
CERTAIN_SCORES = {"user": LOW, "loss": f"{LOW}.loss", "memory_similarity": f"{LOW}.memory_similarity"}
"""The scores that rank providers on their own: user inference, the loss, the first memorisation test (ours). Forests
are left out, which are trained on some of the providers that set the threshold."""
CERTAIN_METRICS = tuple(CERTAIN_SCORES.values())
ABSENT_KEY = "absent_key"
