"""Tables and decision of `people_by_name`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

CANDIDATES = ("calibrated, mean", "calibrated, chosen")
LIMIT = 0.65
CHANCE = 0.5
NEAR_CHANCE = 0.05
CLEAN_AROUND_CHANCE = 5
"""Clean models whose interval holds 0.5, at least; six are measured."""
LEAKING = ("leaky", "weak")
Families = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def conditions(families: Families, candidate: str) -> dict[str, bool]:
    """Tell which conditions of the rule a candidate meets.

    Args:
        families: measured runs, by family and strength.
        candidate: a score with its aggregation.
    """
    leaky = [run for family in families.values() for run in family["leaky"]]
    return {
        "leaks": all(run["areas"][candidate][1] > CHANCE for run in leaky),
        "control": all(_is_blind(family["leaky"], candidate) for family in families.values()),
        "more than the names": all(run["gains"][candidate][1] > 0 for run in _with("gains", leaky)),
        "clean": _is_clean(families, candidate),
        "more than pages": any(names > pages for names, pages in _lifts(families, candidate)),
    }


def _is_clean(families: Families, candidate: str) -> bool:
    """Tell whether no clean model violates the limit, and nearly all intervals hold chance."""
    clean = [run for family in families.values() for run in family["clean"]]
    areas = [run["areas"][candidate] for run in clean]
    around_chance = [low <= CHANCE <= high for _, low, high in areas]
    violated = [low > LIMIT for _, low, _ in areas]
    return not any(violated) and sum(around_chance) >= CLEAN_AROUND_CHANCE


def _is_blind(runs: Sequence[Mapping[str, Any]], candidate: str) -> bool:
    """Tell whether the pretrained start, aggregated alike, has a mean area near chance."""
    control = "pretrained, " + candidate.partition(", ")[2]
    return abs(mean_area(runs, control) - CHANCE) <= NEAR_CHANCE


def mean_area(runs: Sequence[Mapping[str, Any]], score: str) -> float:
    """Return the mean area over runs."""
    return float(np.mean([run["areas"][score][0] for run in runs]))


def _lifts(families: Families, candidate: str) -> Iterator[tuple[float, float]]:
    """Give the lifts by name and by the better page score, by family and strength."""
    for family in families.values():
        for strength in LEAKING:
            runs = _with("recognised", family[strength])
            if runs:
                yield lift(runs, candidate), page_lift(runs)


def _with(key: str, runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the runs that were measured in full; of others the areas alone are there."""
    return [run for run in runs if key in run]


def lift(runs: Sequence[Mapping[str, Any]], score: str) -> float:
    """Return how many more of the members' people are recognised, as a share, mean over runs."""
    shares = [run["recognised"][score] for run in runs]
    return float(np.mean([inside - outside for inside, outside in shares]))


def page_lift(runs: Sequence[Mapping[str, Any]]) -> float:
    """Return the lift of the better page score."""
    pages = [run["pages"] for run in runs]
    return max(lift(pages, score) for score in pages[0]["recognised"])


def tables(numbers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Write the tables of the page; that of the decision needs every run of both families."""
    families = numbers["families"]
    clean = [run for family in families.values() for run in family["clean"]]
    decision: dict[str, list[str]] = {}
    if len(clean) > CLEAN_AROUND_CHANCE:
        decision["decision"] = _decision_table(families)
    return {
        **decision,
        "areas": _area_table(families),
        "recognised": _share_table(families),
        "prompts": _prompt_table(families),
    }


def _decision_table(families: Families) -> list[str]:
    """Write which conditions each candidate meets."""
    met = {candidate: conditions(families, candidate) for candidate in CANDIDATES}
    lines = ["| condition | " + " | ".join(met) + " |", "| --- | --- | --- |"]
    for condition in met[CANDIDATES[0]]:
        marks = [_yes(met[candidate][condition]) for candidate in CANDIDATES]
        lines.append(f"| {condition} | " + " | ".join(marks) + " |")
    return lines


def _yes(met: bool) -> str:
    """Write whether a condition is met."""
    if met:
        return "yes"
    return "no"


def _area_table(families: Families) -> list[str]:
    """Write the areas of all runs, by score and model."""
    lines = ["| model | score | areas by run |", "| --- | --- | --- |"]
    for name, strength, runs in _models(families):
        model = f"{name}, {strength}"
        lines += _area_rows(f"{model} | ", runs)
        lines += _area_rows(f"{model} | by page: ", [run["pages"] for run in _with("pages", runs)])
    return lines


def _area_rows(head: str, runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Write a row for each score; none without runs."""
    if not runs:
        return
    for score in runs[0]["areas"]:
        cells = [_cell(run["areas"][score]) for run in runs]
        yield f"| {head}{score} | " + "; ".join(cells) + " |"


def _share_table(families: Families) -> list[str]:
    """Write the shares of recognised people, mean over runs."""
    lines = ["| model | by | members' people | unseen people | lift |", "| --- " * 5 + "|"]
    for name, strength, measured in _models(families):
        model = f"{name}, {strength}"
        runs = _with("pages", measured)
        if not runs:
            continue
        pages = [run["pages"] for run in runs]
        lines += [_share_row(model, f"name: {score}", runs, score) for score in CANDIDATES]
        page_scores = pages[0]["recognised"]
        lines += [_share_row(model, f"page: {score}", pages, score) for score in page_scores]
    return lines


def _share_row(model: str, by: str, runs: Sequence[Mapping[str, Any]], score: str) -> str:
    """Write one row of shares."""
    inside, outside = np.mean([run["recognised"][score] for run in runs], axis=0)
    return f"| {model} | {by} | {inside:.2f} | {outside:.2f} | {lift(runs, score):+.2f} |"


def _prompt_table(families: Families) -> list[str]:
    """Write the areas of each prompt, mean over runs, with their range."""
    lines = ["| family | prompt | leaky | weak | clean |", "| --- " * 5 + "|"]
    for name, family in families.items():
        areas: dict[str, dict[str, float]] = {}
        for strength, runs in family.items():
            areas[strength] = _prompt_areas(_with("prompts", runs))
        for prompt in areas["leaky"]:
            cells = [f"{areas[strength][prompt]:.2f}" for strength in family]
            lines.append(f"| {name} | `{prompt}` | " + " | ".join(cells) + " |")
        if not areas["leaky"]:
            continue
        gaps = [f"{np.ptp([*areas[strength].values()]):.2f}" for strength in family]
        lines.append(f"| {name} | best less worst | " + " | ".join(gaps) + " |")
    return lines


def _prompt_areas(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean area over runs by prompt."""
    areas: dict[str, float] = {}
    if not runs:
        return areas
    for prompt in runs[0]["prompts"]:
        areas[prompt] = float(np.mean([run["prompts"][prompt][0] for run in runs]))
    return areas


def _models(families: Families) -> Iterator[tuple[str, str, Sequence[Mapping[str, Any]]]]:
    """Give families and strengths with their runs."""
    for name, family in families.items():
        for strength, runs in family.items():
            yield name, strength, runs


def _cell(area: Sequence[float]) -> str:
    """Write an area with its interval."""
    return "{:.2f} [{:.2f}, {:.2f}]".format(*area)
