"""Recompute from a record's bounds which limits are exceeded, not tested, or do not apply.

A limit is exceeded where the leak over it is confirmed by Holm's rule over all limits and ways of
choosing, at 5 %. Whether any other limit is met or undecided depends on more than numbers: these
two words are those of the table of limits.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.tools.recount_scan import Scan

LEVEL = 0.05
Limit = dict[str, Any]


class Outcome(NamedTuple):
    """What became of a limit.

    Attributes:
        limit: as the policy has it; `max` is that which applies to what was counted.
        word: as the reports write it.
        about_text: whether it is about the documents' text, whatever the model.
    """

    limit: Limit
    word: str
    about_text: bool


def outcomes_of(scan: Scan) -> list[Outcome]:
    """Return what became of each limit, in the policy's order."""
    policy = tomllib.loads(scan.record["policy"]["toml"])
    limits = [_applied(scan, limit) for limit in policy["limits"]]
    confirmed = _confirmed(scan, limits)
    words = []
    for place, limit in enumerate(limits):
        if place in confirmed:
            words.append("Exceeded")
        else:
            words.append(_word_without_leak(scan, policy, limit))
    printed = iter(scan.limits_table)
    outcomes = []
    for limit, word in zip(limits, words, strict=True):
        if word != "Not applicable":
            row = next(printed, ["", "", "missing"])
            word = word or row[2]
        outcomes.append(Outcome(limit, word, _is_about_text(scan, limit)))
    return outcomes


def _result(scan: Scan, limit: Limit) -> dict[str, Any]:
    """Return what the record holds of a limit's attack."""
    for result in scan.record["attacks"]:
        if result["attack"] == limit["attack"]:
            return dict(result)
    return {"status": "left out", "reason": {"kind": "left out"}, "measurements": [], "methods": {}}


def _estimates(scan: Scan, limit: Limit) -> list[dict[str, Any]]:
    """Return the numbers of all ways of choosing that a limit is held against."""
    result = _result(scan, limit)
    measured = scan.measured(limit["attack"])
    names = result["methods"].get(limit["metric"], [limit["metric"]])
    estimates = [measured[name] for name in names if name in measured]
    if not estimates and limit["metric"] in measured:
        estimates.append(measured[limit["metric"]])
    return estimates


def _applied(scan: Scan, limit: Limit) -> Limit:
    """Return a limit with the maximum that applies to what was counted."""
    estimates = _estimates(scan, limit)
    if "share" not in limit or not estimates:
        return limit
    by_name = {row["name"]: row for row in estimates}
    counted = by_name.get(limit["metric"], estimates[0])
    total = counted["total"] or counted["n"]
    most = min(limit["max"], math.floor(limit["share"] * total))
    return {**limit, "max": max(limit.get("floor", 0.0), most)}


def _confirmed(scan: Scan, limits: Sequence[Limit]) -> set[int]:
    """Return the places of the limits whose leak is confirmed by Holm's step-down rule."""
    tests: list[tuple[float, int]] = []
    for place, limit in enumerate(limits):
        result = _result(scan, limit)
        is_text = limit["metric"] in result.get("about_text", ())
        for p_value in _p_values(scan, limit):
            if result.get("confounded") and not is_text:
                p_value = 1.0
            tests.append((p_value, place))
    confirmed: set[int] = set()
    for rank, (p_value, place) in enumerate(sorted(tests)):
        if p_value * (len(tests) - rank) > LEVEL:
            break
        confirmed.add(place)
    return confirmed


def _p_values(scan: Scan, limit: Limit) -> Iterator[float]:
    """Yield the smallest level at which each number lies over the limit; areas have two sides."""
    for row in _estimates(scan, limit):
        over = [bound["alpha"] for bound in row["bounds"] if bound["lower"] > limit["max"]]
        yield min(over, default=1.0)
        if row["null"] == 0.5 and row["null_kind"] == "chance":
            under = [bound["alpha"] for bound in row["bounds"] if bound["upper"] < 1 - limit["max"]]
            yield min(under, default=1.0)


def _word_without_leak(scan: Scan, policy: dict[str, Any], limit: Limit) -> str:
    """Return the word for a limit over which no leak is confirmed; empty: the table decides."""
    result = _result(scan, limit)
    is_excused = not limit.get("required", True)
    gaps = policy.get("gaps", ())
    is_permitted = any(
        gap["attack"] == limit["attack"] and scan.record["target"]["task"] in gap["tasks"]
        for gap in gaps
    )
    reason = result["reason"]
    if reason is None:
        return _word_of_number(scan, limit, result)
    if reason["kind"] in ("model", "budget") and is_permitted:
        return "Not applicable"
    if reason["kind"] == "data" and (is_excused or is_permitted):
        return "Not tested"
    return ""


def _word_of_number(scan: Scan, limit: Limit, result: dict[str, Any]) -> str:
    """Return the word for a limit on a number that could not be had, or that can exceed nothing."""
    is_excused = not limit.get("required", True)
    for row in result["measurements"]:
        if row["name"] != limit["metric"]:
            continue
        if row["kind"] != "estimate" and row["inapplicable"]:
            return "Not applicable"
        if is_excused and _tests_nothing(scan, limit, result, row):
            return "Not tested"
    return ""


def _tests_nothing(scan: Scan, limit: Limit, result: dict[str, Any], row: dict[str, Any]) -> bool:
    """Tell whether a number counts too few units to exceed its limit, or lacks units."""
    if row["kind"] == "estimate":
        counted = row["total"] or row["n"]
        return bool(counted <= limit["max"])
    if row["needed"] is None or result["ablations"]:
        return False
    share = scan.record["shares"].get(limit["attack"], scan.record["share"])
    smaller = min(scan.n_documents("member"), scan.n_documents("heldout"))
    holds_more_untried = share < 1 and smaller >= row["needed"]
    return not holds_more_untried


def _is_about_text(scan: Scan, limit: Limit) -> bool:
    """Tell whether a limit is about the text of the documents, and was measured."""
    result = _result(scan, limit)
    return limit["metric"] in result.get("about_text", ()) and bool(_estimates(scan, limit))
