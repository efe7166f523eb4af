"""Tables and decision of `people_by_name`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

JOINED = "calibrated, chosen"
"""The candidate that is in the audit."""
CANDIDATES = ("calibrated, mean", JOINED)
LIMIT = 0.65
CHANCE = 0.5
NEAR_CHANCE = 0.05
CLEAN_AROUND_CHANCE = 5
"""Clean models whose interval holds 0.5, at least; six are measured."""
LEAKING = ("leaky", "weak")
REACH = 0.1
"""Smallest lift of leaky decoders that is worth a number in a report."""
CLEAN_DECODERS_AROUND_CHANCE = 2
"""Clean decoders whose interval holds 0.5, at least; three are measured."""
Strengths = Mapping[str, Sequence[Mapping[str, Any]]]
Families = Mapping[str, Strengths]


def conditions(families: Families, candidate: str) -> dict[str, bool]:
    """Tell which conditions of the rule for both families a candidate meets.

    Args:
        families: measured runs, by family and strength.
        candidate: a score with its aggregation.
    """
    leaky = [run for family in families.values() for run in family["leaky"]]
    clean = [run for family in families.values() for run in family["clean"]]
    return {
        "leaks": _leak(leaky, candidate),
        "control": all(_is_blind(family["leaky"], candidate) for family in families.values()),
        "more than the names": _gain(leaky, candidate),
        "clean": _is_clean(clean, candidate, CLEAN_AROUND_CHANCE),
        "more than pages": any(names > pages for names, pages in _lifts(families, candidate)),
    }


def decoder_conditions(by_strength: Strengths, candidate: str) -> dict[str, bool]:
    """Tell which conditions of the rule for decoders a candidate meets.

    Args:
        by_strength: measured runs of decoders, by strength.
        candidate: a score with its aggregation.
    """
    leaky = by_strength["leaky"]
    clean = by_strength["clean"]
    is_clean = _is_clean(clean, candidate, CLEAN_DECODERS_AROUND_CHANCE)
    return {
        "leaks": _leak(leaky, candidate),
        "control": _is_blind(leaky, candidate),
        "more than the names": _gain(leaky, candidate),
        "clean": is_clean and _is_near_chance(clean, candidate),
        "reach": round(lift(leaky, candidate), 3) >= REACH,
    }


def _leak(leaky: Sequence[Mapping[str, Any]], candidate: str) -> bool:
    """Tell whether the area of every leaky model is over chance."""
    return all(run["areas"][candidate][1] > CHANCE for run in leaky)


def _gain(leaky: Sequence[Mapping[str, Any]], candidate: str) -> bool:
    """Tell whether every leaky model is over its pretrained start."""
    return all(run["gains"][candidate][1] > 0 for run in _with("gains", leaky))


def _is_clean(clean: Sequence[Mapping[str, Any]], candidate: str, fewest: int) -> bool:
    """Tell whether no clean model violates the limit, and `fewest` intervals hold chance."""
    areas = [run["areas"][candidate] for run in clean]
    around_chance = [low <= CHANCE <= high for _, low, high in areas]
    violated = [low > LIMIT for _, low, _ in areas]
    return not any(violated) and sum(around_chance) >= fewest


def _is_blind(runs: Sequence[Mapping[str, Any]], candidate: str) -> bool:
    """Tell whether the pretrained start, aggregated alike, has a mean area near chance."""
    return _is_near_chance(runs, "pretrained, " + candidate.partition(", ")[2])


def _is_near_chance(runs: Sequence[Mapping[str, Any]], score: str) -> bool:
    """Tell whether the mean area over runs is near chance."""
    return abs(mean_area(runs, score) - CHANCE) <= NEAR_CHANCE


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
    """Write the tables of the page; that of a decision needs every run of its rule."""
    families = numbers["families"]
    clean = [run for family in families.values() for run in family["clean"]]
    written = {
        "areas": _area_table(families),
        "recognised": _share_table(families),
        "prompts": _prompt_table(families),
    }
    if len(clean) > CLEAN_AROUND_CHANCE:
        met = {candidate: conditions(families, candidate) for candidate in CANDIDATES}
        written["decision"] = _decision_table(met)
    if "decoders" in numbers:
        written |= _decoder_tables(numbers["decoders"])
    if "scans" in numbers:
        written |= scan_tables(numbers["scans"])
    return written


def _decoder_tables(decoders: Families) -> dict[str, list[str]]:
    """Write the tables of the rule for decoders."""
    written = {
        "areas of decoders": _area_table(decoders),
        "recognised by decoders": _share_table(decoders),
        "prompts of decoders": _prompt_table(decoders),
    }
    (by_strength,) = decoders.values()
    if len(by_strength["clean"]) > CLEAN_DECODERS_AROUND_CHANCE:
        met = {candidate: decoder_conditions(by_strength, candidate) for candidate in CANDIDATES}
        written["decision on decoders"] = _decision_table(met)
    return written


def _decision_table(met: Mapping[str, Mapping[str, bool]]) -> list[str]:
    """Write which conditions each candidate meets."""
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


# Scans


def scan_conditions(scans: Strengths) -> dict[str, bool]:
    """Tell which conditions of the rule for decoders the scans of the same writers meet.

    A scan has no interval of the area over that of the pretrained start, so that this condition is
    left out.

    Args:
        scans: by strength, what each run's scan measured.
    """
    by_strength = {name: [_as_run(scan) for scan in runs] for name, runs in scans.items()}
    met = decoder_conditions(by_strength, JOINED)
    del met["more than the names"]
    return met


def _as_run(scan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a scan measured as a run of the benchmark has it."""
    areas = {JOINED: scan["area"], "pretrained, chosen": scan["pretrained"]}
    shares = (scan["member"][0], scan["heldout"][0])
    return {"areas": areas, "recognised": {JOINED: shares}}


def scan_tables(numbers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Write the tables of the scans.

    Args:
        numbers: date, machine, and by strength what each run's scan measured.
    """
    keys = ("area", "pretrained", "answers", "pages", "member", "heldout")
    titles = ("by name", "pretrained", "by answers", "by page", "members' people", "unseen people")
    rows = [f"| writer | run | {' | '.join(titles)} | seconds |", "| --- " * 9 + "|"]
    scans = {name: numbers[name] for name in ("leaky", "weak", "clean")}
    for strength, runs in scans.items():
        for number, run in enumerate(runs, start=1):
            cells = " | ".join(_cell(run[key]) for key in keys)
            rows.append(f"| {strength} | {number} | {cells} | {run['seconds'][0]:.0f} |")
    met = scan_conditions(scans)
    decision = ["| condition | met |", "| --- | --- |"]
    decision += [f"| {condition} | {_yes(is_met)} |" for condition, is_met in met.items()]
    return {
        "scans": rows,
        "decision on scans": decision,
        "made of scans": [f"{numbers['machine']}, {numbers['date']}."],
    }
