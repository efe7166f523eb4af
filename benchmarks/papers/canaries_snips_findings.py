"""Where the numbers of `canaries_snips.py` differ from the paper's, in a sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.papers.canaries_snips_models import PATTERN_NAMES, ROWS

ALIKE = 0.1
"""Mean HDTs closer than this are called alike (ours): the intervals of 10 models are wider."""
CHANCE = 0.905
"""The mean HDT of guessing over the three patterns."""
WEIGHT = ("ES", "CE", "D", "none")
"""Of several defences the one whose reason is given."""
LOWER = {
    "none": "our attacker scores every completion, the paper's started its optimiser once, and 3,000 utterances may be "
    "easier to learn by heart than 13,084",
    "D": "our attacker scores every completion, and dropout disturbs an optimiser's way more than the place of the "
    "lowest loss",
    "ES": "copies of the canary stand in the validation part, so that the epoch that is kept may already know it; the "
    "paper does not say which weights it keeps",
    "CE": "our attacker gives unknown words the characters of the candidates, the paper's shows the model words "
    "without any, which it never saw in training",
}
HIGHER = {
    "none": "our models see a quarter of the utterances, for 30 epochs; the paper does not say how long its own learn",
    "D": "the paper does not say where its dropout stands; ours stands before the first and after the last BiLSTM",
    "ES": "the epoch that is kept lies early, when tags are known and single words are not yet told apart",
    "CE": "characters tell the model that a word is a digit, and it needs less of the word's own vector",
}
"""Likely reasons, none of which this benchmark tests by itself."""


def findings(
    lines: Sequence[Mapping[str, Any]], paper: Mapping[int, Mapping[str, Sequence[float]]]
) -> list[str]:
    """One item for each row of defences: ours, the paper's, and why they may differ.

    Args:
        lines: of all models.
        paper: HDT of each pattern, by R and row.
    """
    found = [
        "Means over patterns and R; the reasons are likely ones, which nothing here tests by itself.",
        "",
    ]
    for row in ROWS:
        own = [line for line in lines if line["row"] == row and line["repeat"] in paper]
        if not own:
            continue
        repeats = sorted({line["repeat"] for line in own})
        theirs = float(np.mean([paper[repeat][row] for repeat in repeats]))
        relaxed = _mean_distance(own, "relaxed")
        exact = _mean_distance(own, "exact")
        found.append(
            f"- **{row}**: HDT {relaxed:.2f} (relaxed) and {exact:.2f} (exact), the paper's {theirs:.2f}, guessing "
            f"{CHANCE:.2f}. {_reason(row, exact, theirs)}."
        )
    return [*found, "", _left_over(lines)]


def _mean_distance(lines: Sequence[Mapping[str, Any]], attack: str) -> float:
    """Average HDT over models and patterns."""
    distances: list[float] = []
    for line in lines:
        patterns = line["patterns"]
        distances += [patterns[name][attack]["hdt"] for name in PATTERN_NAMES]
    return float(np.mean(distances))


def _reason(row: str, ours: float, theirs: float) -> str:
    if abs(ours - theirs) < ALIKE:
        return "Alike"
    defence = next(name for name in WEIGHT if name in row.split("+"))
    if ours < theirs:
        return f"Lower: {LOWER[defence]}"
    return f"Higher: {HIGHER[defence]}"


def _left_over(lines: Sequence[Mapping[str, Any]]) -> str:
    """What the exact minimiser finds that the relaxed attack does not."""
    pairs = [
        (line["patterns"][name]["relaxed"], line["patterns"][name]["exact"])
        for line in lines
        for name in PATTERN_NAMES
    ]
    relaxed, exact = (sum(pair[place]["hdt"] == 0 for pair in pairs) for place in (0, 1))
    missed = sum(one["loss"] > best["loss"] + 1e-6 for one, best in pairs)
    return (
        f"Of {len(pairs)} canaries the relaxed attack finds {relaxed} whole, enumeration {exact}; in {missed} the "
        "relaxed attack ends above the lowest loss. A number of the relaxed attack alone mixes what the model "
        "holds with what the optimiser misses."
    )
