"""Parameters that somebody sets cannot blind an attack: each either strengthens it, or keeps it from passing."""

from dataclasses import replace

import pytest

from audit.attacks.battery import BATTERY
from audit.attacks.budget import SHARES

BLINDING = {
    "reconstruction": {
        "n_candidates": 1,
        "n_attempts": 1,
        "min_tokens": 14,
        "max_tokens": 4,
        "temperature": 1e9,
        "temperature_start": 1e9,
        "target_weight": 0.01,
        "mean": "arithmetic",
        "top_p": 0.99,
    },
    "memorisation": {"contexts": ("exact",)},
    "membership": {"n_masks": 1},
    "provider_membership": {"n_seeds": 1, "share": 0.9},
    "redaction": {"n_folds": 2},
    "canaries": {
        "n_epochs": 1,
        "n_restarts": 1,
        "exhaustive_limit": 1,
        "answers_limit": 1,
        "n_references": 1,
        "n_answers": 1,
        "delta": 0.0,
    },
}
"""A value of every parameter that makes the attacker weaker, by attack."""
KINDS = {kind.name: kind for kind in BATTERY}


@pytest.mark.parametrize(
    ("name", "budget"), [(name, budget) for name in KINDS for budget in SHARES]
)
def test_no_budget_is_weakened(name: str, budget: str) -> None:
    assert KINDS[name].preset(budget).ablations == ()


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for name, values in BLINDING.items() for parameter in values],
)
def test_a_blinding_parameter_is_said(name: str, parameter: str) -> None:
    # temperature = 1e9 in a file let a model pass of which 44 % of the values could be rebuilt.
    attack = replace(KINDS[name].preset("standard"), **{parameter: BLINDING[name][parameter]})  # type: ignore[type-var]
    assert attack.ablations


def test_a_stronger_attacker_is_not_weakened() -> None:
    stronger = replace(KINDS["canaries"].preset("quick"), n_restarts=99, exhaustive_limit=10**6)  # type: ignore[type-var]
    assert stronger.ablations == ()
