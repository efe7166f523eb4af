"""Verdicts and tables of `membership_weights`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.membership_methods_models import SEED
from benchmarks.papers.membership_methods_verdicts import BASES, SIZES, verdicts
from benchmarks.papers.pages import put_tables

JOINING: Mapping[str, tuple[str, ...]] = {
    "without split models": (
        "gradient norm", "update cosine", "part cosines", "stack", "stack, gradients",
    ),
    "with split models": (
        "token lira", "token lira, learned", "token lira, standardised", "gradient norm", "update cosine",
        "part cosines", "stack", "stack, gradients", "stack, splits", "split stack",
        "split stack of losses",
    ),
}  # fmt: skip
INSTEAD: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "without split models": {
        "stack alone": ("stack",),
        "stack, gradients alone": ("stack, gradients",),
        "update cosine for loss": ("update cosine", "calibrated"),
        "loss left out": ("calibrated",),
    },
    "with split models": {
        "update cosine for loss": ("update cosine", "calibrated", "lira"),
        "loss left out": ("calibrated", "lira"),
        "token lira, standardised for lira": ("loss", "calibrated", "token lira, standardised"),
        "split stack for lira": ("loss", "calibrated", "split stack"),
        "split stack of losses for lira": ("loss", "calibrated", "split stack of losses"),
        "split stack alone": ("split stack",),
        "split stack of losses alone": ("split stack of losses",),
        "stack, splits alone": ("stack, splits",),
    },
}
"""Sets of scores in place of the base; the rule decides on those that it names."""
TRIED = 14
LEVEL = 1 - 0.05 / TRIED
DRAWS = 10_000
LISTED = (
    "loss", "calibrated", "lira", "token lira", "token lira, learned", "token lira, standardised",
    "gradient norm", "update cosine", "part cosines", "stack", "stack, gradients", "stack, splits",
    "split stack", "split stack of losses",
)  # fmt: skip
ADDED = {
    "+ token lira, standardised", "token lira, standardised for lira", "+ split stack", "split stack for lira",
    "split stack alone", "+ split stack of losses", "split stack of losses for lira",
    "split stack of losses alone", "update cosine for loss", "loss left out",
}  # fmt: skip
"""Changes that the first run suggested: the other runs alone decide on them."""
RIGHT = {"leaks": 0, "clean": 1}
"""Which count of `verdicts` is right: violated, or passed."""
KIND_OF = {"leaks": "leaks", "clean": "clean", "clean 2": "clean"}
CLEAN_AUDITS = ("clean", "clean 2")
Cells = Mapping[tuple[str, str, int], Mapping[str, Any]]


def changes_of(base: str) -> dict[str, tuple[str, ...]]:
    """List the sets of scores that a base becomes, by the change; the first is the base itself."""
    changes = {"": BASES[base]}
    for name in JOINING[base]:
        changes[f"+ {name}"] = (*BASES[base], name)
    return changes | dict(INSTEAD[base])


def right_shares(cells: Cells, names: Sequence[str], n: int) -> dict[tuple[str, int, str], float]:
    """Give the share of right verdicts, by corpus, run and kind of audit; mean over strengths.

    Corpora that lack one of the scores are left out.
    """
    counts: dict[tuple[str, int, str], list[int]] = {}
    for (corpus, _, run), cell in cells.items():
        for audit, by_size in cell["held"].items():
            by_score = by_size[str(n)]
            if not all(name in by_score for name in names):
                continue
            kind = KIND_OF[audit]
            verdict = verdicts(by_score, names)
            total = counts.setdefault((corpus, run, kind), [0, 0])
            total[0] += verdict[RIGHT[kind]]
            total[1] += verdict[2]
    return {at: right / all_of_them for at, (right, all_of_them) in counts.items()}


def gate(cells: Cells) -> dict[str, Any]:
    """Give what each change does to right verdicts, by base and change."""
    by_base: dict[str, Any] = {}
    later = {at: cell for at, cell in cells.items() if at[2] > 0}
    for base in BASES:
        before = {n: right_shares(cells, BASES[base], n) for n in SIZES}
        by_base[base] = {}
        for change, names in changes_of(base).items():
            deciding = later if change in ADDED else cells
            after = {n: right_shares(deciding, names, n) for n in SIZES}
            by_base[base][change] = moved(before, after) if change else levels(before)
    return by_base


def levels(shares: Mapping[int, Mapping[tuple[str, int, str], float]]) -> dict[str, Any]:
    """Give mean shares of right verdicts, by size: violated leaks, passed clean audits."""
    return {str(n): _by_kind(by_corpus) for n, by_corpus in shares.items()}


def _by_kind(shares: Mapping[tuple[str, int, str], float]) -> list[float]:
    """Give the mean share of leaks, then of clean audits."""
    means = []
    for kind in RIGHT:
        values = [share for at, share in shares.items() if at[2] == kind]
        means.append(round(float(np.mean(values)), 4))
    return means


def moved(
    before: Mapping[int, Mapping[tuple[str, int, str], float]],
    after: Mapping[int, Mapping[tuple[str, int, str], float]],
    level: float = LEVEL,
) -> dict[str, Any]:
    """Give the moves by size, and their sum with its interval and its values by run."""
    moves = {}
    sums: dict[tuple[str, int], float] = {}
    for n, shares in after.items():
        of_size = {at: share - before[n][at] for at, share in shares.items()}
        moves[str(n)] = _by_kind(of_size)
        for (corpus, run, _), move in of_size.items():
            sums[corpus, run] = sums.get((corpus, run), 0.0) + move / len(after)
    values = np.array([*sums.values()])
    runs = np.array([run for _, run in sums])
    rng = np.random.default_rng([SEED, 4])
    drawn = values[rng.integers(0, values.size, (DRAWS, values.size))].mean(axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    by_run = [round(float(values[runs == run].mean()), 4) for run in np.unique(runs)]
    interval = [round(float(value), 4) for value in (values.mean(), low, high)]
    return {"moves": moves, "sum": interval, "runs": by_run}


def mean_area(areas: Sequence[Sequence[float]]) -> list[float]:
    """Give the mean of independent areas, with bounds whose reaches add in squares."""
    value, low, high = np.array(areas).T
    down = np.sqrt(((value - low) ** 2).sum()) / len(areas)
    up = np.sqrt(((high - value) ** 2).sum()) / len(areas)
    return [round(float(x), 3) for x in (value.mean(), value.mean() - down, value.mean() + up)]


def mean_gain(gains: Sequence[Sequence[float]]) -> list[float]:
    """Give the mean of independent gains, with its 95 % bounds."""
    value, error = np.array(gains).T
    reach = 1.96 * np.sqrt((error**2).sum()) / len(gains)
    mean = value.mean()
    return [round(float(x), 3) for x in (mean, mean - reach, mean + reach)]


def over_runs(cells: Cells) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield each corpus and strength with its runs."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for (corpus, strength, _), cell in cells.items():
        grouped.setdefault(f"{corpus}, {strength}", []).append(cell)
    yield from grouped.items()


def mean_areas(runs: Sequence[Mapping[str, Any]], audit: str) -> dict[str, list[float]]:
    """Give the areas of an audit by score, mean over runs."""
    areas: dict[str, list[float]] = {}
    for score in runs[0]["areas"][audit]:
        areas[score] = mean_area([cell["areas"][audit][score] for cell in runs])
    return areas


def corpora_of(cells: Cells) -> dict[str, Any]:
    """Give areas and gains, mean over runs, by corpus and strength."""
    corpora = {}
    for name, runs in over_runs(cells):
        areas = {audit: mean_areas(runs, audit) for audit in runs[0]["areas"]}
        gains = {
            score: mean_gain([cell["gains"][score] for cell in runs]) for score in runs[0]["gains"]
        }
        corpora[name] = {"runs": len(runs), "areas": areas, "gains": gains}
    return corpora


def validity(cells: Cells) -> dict[str, dict[str, list[int]]]:
    """Count intervals that leave 0.5 out, and all: of clean audits, and with labels permuted."""
    permuted: dict[str, list[int]] = {}
    for cell in cells.values():
        for audit in CLEAN_AUDITS:
            for score, (missed, n) in cell["permuted"][audit].items():
                count = permuted.setdefault(score, [0, 0])
                count[0] += missed
                count[1] += n
    return {"clean": clean_intervals(cells), "permuted": permuted}


def clean_intervals(cells: Cells) -> dict[str, list[int]]:
    """Count intervals of clean audits that leave 0.5 out, and all, by score."""
    counts: dict[str, list[int]] = {}
    for cell in cells.values():
        for audit in CLEAN_AUDITS:
            for score, (_, low, high) in cell["areas"][audit].items():
                count = counts.setdefault(score, [0, 0])
                count[0] += not low <= 0.5 <= high
                count[1] += 1
    return counts


def decided(cells: Cells) -> dict[str, Any]:
    """Give all numbers of the page."""
    return {
        "seconds": round(sum(cell["seconds"] for cell in cells.values())),
        "corpora": corpora_of(cells),
        "validity": validity(cells),
        "gate": gate(cells),
    }


# Tables


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Write a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def columns_table(columns: Mapping[str, Mapping[str, Sequence[float]]], sign: str) -> list[str]:
    """Write a row a score and a column a corpus; numbers with their intervals."""
    rows = []
    for score in LISTED:
        cells = []
        for by_score in columns.values():
            values = by_score.get(score)
            cells.append("" if values is None else interval_text(values, sign, 2))
        if any(cells):
            rows.append([score, *cells])
    return table(["score", *columns], rows)


def interval_text(values: Sequence[float], sign: str, digits: int) -> str:
    """Write a number and its interval."""
    value, low, high = (format(number, f"{sign}.{digits}f") for number in values)
    return f"{value} [{low}, {high}]"


def gate_table(by_base: Mapping[str, Any]) -> list[str]:
    """Write moves in percentage points, by base."""
    lines = []
    for base, by_change in by_base.items():
        shares = [
            f"{n} a side: {leaks:.0%} violated, {clean:.0%} passed"
            for n, (leaks, clean) in by_change[""].items()
        ]
        lines += [f"Scores of an audit {base}: {', '.join(BASES[base])}.", ""]
        lines += [f"{'; '.join(shares)}.", ""]
        heads = [f"{n} a side: violated, leaks / passed, clean" for n in by_change[""]]
        level = f"sum, {LEVEL:.1%}"
        rows = [gate_row(change, by_change[change]) for change in by_change if change]
        lines += [*table(["change", *heads, level, "runs"], rows), ""]
    return lines


def gate_row(change: str, numbers: Mapping[str, Any]) -> list[str]:
    """Write the moves of one change."""
    moves = [f"{100 * up:+.1f} / {100 * down:+.1f}" for up, down in numbers["moves"].values()]
    total = [100 * value for value in numbers["sum"]]
    runs = ", ".join(f"{100 * value:+.1f}" for value in numbers["runs"])
    return [change, *moves, interval_text(total, "+", 1), runs]


def validity_table(counts: Mapping[str, Mapping[str, Sequence[int]]]) -> list[str]:
    """Write how many intervals leave 0.5 out."""
    rows = []
    for score in LISTED:
        missed, n = counts["clean"].get(score, (0, 0))
        permuted = counts["permuted"].get(score)
        share = f"{permuted[0] / permuted[1]:.1%} of {permuted[1]:,}" if permuted else ""
        rows.append([score, f"{missed} of {n}", share])
    return table(["score", "clean audits", "permuted labels"], rows)


def write_tables(page: Path, numbers: Mapping[str, Any]) -> None:
    """Put the tables in their places on the page."""
    corpora = numbers["corpora"]
    weak = {name: cell for name, cell in corpora.items() if name.endswith("weak")}
    strong = {name: cell for name, cell in corpora.items() if name.endswith("strong")}
    tables = {
        "gate": gate_table(numbers["gate"]),
        "validity": validity_table(numbers["validity"]),
        "weak": columns_table(_leaks(weak), ""),
        "strong": columns_table(_leaks(strong), ""),
        "clean": columns_table({name: cell["areas"]["clean"] for name, cell in weak.items()}, ""),
        "gains": columns_table({name: cell["gains"] for name, cell in weak.items()}, "+"),
    }
    put_tables(page, tables)


def _leaks(corpora: Mapping[str, Any]) -> dict[str, Any]:
    return {name: cell["areas"]["leaks"] for name, cell in corpora.items()}
