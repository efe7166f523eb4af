"""Names of metrics of reconstruction."""

from __future__ import annotations

from itertools import product

from audit.attacks.splits import AUDITED

DEFAULT, LOWEST_LOSS, TUNED = "default", "lowest_loss", "tuned"
METHODS = (DEFAULT, LOWEST_LOSS, TUNED)
SCORES = ("pr", "hd", "ld", "jwd")
PLAYERS = ("attack", "baseline")
GROUPS = ("unique", "repeated", "all")
LENGTHS_APART = ("long", "short")
"""Fields of unusual length with a value of their own: groups beside the paper's, never mixed with them."""
EXCESSES = ("excess_pr", "excess_hamming")
DETECTION = "planted_detection"
POWER = f"{DETECTION}.unique"
GAIN = "heldout_gain.unique"
RECALL = "candidate_recall"
EPSILONS = {"": 0.01, ".e0.001": 0.001, ".e0.1": 0.1}
"""The epsilon of IpF (equation 6) is not in the paper: 0.01, with 0.001 and 0.1 beside it (methods.md)."""
SHARES = {"1": 0.01, "5": 0.05, "100": 1.0}
"""The shares p at which table 5 prints AccAt(p)."""
COLUMNS = {"acc": "pr", "ham": "hd"}
"""What the first part of a quantity of ranked fields is an area or a mean of."""
OTHER_SCORES = ("raw_perplexity", "raw_and_ratio", "likelihood_gap", "likelihood_ratio")
"""Membership scores of section 4.3, beside the primary one."""
QUANTITIES = (*(f"{what}_at_{share}" for what, share in product(COLUMNS, SHARES)), "accauc", "hamaac")
SERIES = (
    *product(AUDITED, PLAYERS, ("",)),
    *product(("member",), ("attack",), (f".{name}" for name in OTHER_SCORES)),
)
"""Split, player, and membership score where it is not the primary one."""
TUNED_SERIES = tuple(product(AUDITED, PLAYERS, (f".{TUNED}",)))
"""The same attempts by the tuned method, by the primary score; only where there is one."""


def named(name: str, method: str) -> str:
    """A player or a metric by a method; the default method's bear the bare name."""
    return name if method == DEFAULT else f"{name}.{method}"
