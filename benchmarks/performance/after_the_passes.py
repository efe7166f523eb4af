"""Processor time of a scan's steps after its forward passes, each beside the slower way to the same result.

    # prints a table, writes after_the_passes.json
    python -m benchmarks.performance.after_the_passes

Both ways of a step run in turn in one process, several times; the least processor time (user and
system) of each counts, as a busy machine adds to it. Ratios are of that time: how often the faster
way fits into the slower one.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from audit.corpus import features, manifest
from audit.report import figures
from audit.report.files import pdf
from audit.stats import resampling
from audit.targets.opening import instructions, threads

HERE = Path(__file__).parent
RECEIPTS = HERE.parents[1] / "sample_models" / "receipts" / "data"
RESAMPLES = 10_000
ROUNDS = 5
PAGE = '<!DOCTYPE html><html lang="en"><head><title>Figures</title></head><body>{}</body></html>'


def seconds(run: Callable[[], object]) -> float:
    """Measure the processor time of one call, user and system, of all threads."""

    def used() -> float:
        now = resource.getrusage(resource.RUSAGE_SELF)
        return now.ru_utime + now.ru_stime

    began = used()
    run()
    return used() - began


def compare(
    step: str, slower: Callable[[], object], faster: Callable[[], object]
) -> dict[str, Any]:
    """Run both ways in turn and keep the least time of each."""
    times = [(seconds(slower), seconds(faster)) for _ in range(ROUNDS)]
    before, after = (min(way) for way in zip(*times, strict=True))
    return {
        "step": step,
        "before": round(before, 4),
        "after": round(after, 4),
        "ratio": round(before / after, 1),
    }


def compare_draws(n_clusters: int) -> dict[str, Any]:
    """Draw resamples of documents that all differ: as counts of each of them, and one document after the other."""
    ones = np.ones(n_clusters, np.int64)
    return compare(
        f"{RESAMPLES:,} resamples of {n_clusters} documents that all differ",
        lambda: np.random.default_rng(0).multinomial(n_clusters, ones / n_clusters, size=RESAMPLES),
        lambda: resampling._draw(ones, np.random.default_rng(0), RESAMPLES),
    )


def compare_figures() -> dict[str, Any]:
    """Draw and print figures with glyphs as paths, and with text."""
    point = figures.Point(0.5, 0.4, 0.6)
    rows = (
        "people",
        "organisations",
        "places",
        "dates",
        "amounts of money",
        "numbers and codes",
        "contacts",
    )
    series = tuple(
        figures.Series(label, (point,) * len(rows))
        for label in ("with the model", "without the model")
    )

    def page() -> bytes:
        panels = [
            figures.Panel(title, series) for title in ("Recovered word for word", "Never seen")
        ]
        return pdf(
            PAGE.format(
                "".join(figures.by_category(f"figure{number}", rows, panels) for number in range(4))
            )
        )

    def with_paths() -> bytes:
        with patch.dict(figures.RC, {"svg.fonttype": "path"}):
            return page()

    return compare("a page of four figures, drawn and printed", with_paths, page)


def compare_descriptions() -> dict[str, Any]:
    """Describe the receipts for three blind checks: each time from the files, and from the files once."""
    corpus = manifest.load(RECEIPTS)
    audited: Sequence[Any] = corpus.of("member", "heldout")

    def forget() -> None:
        features._known_pages.clear()
        features._terms_of_word.cache_clear()

    def describe_thrice(again: bool) -> None:
        forget()
        for _ in range(3):
            features.describe(corpus, audited)
            if again:
                forget()

    return compare(
        f"{len(audited)} receipts described for three blind checks",
        lambda: describe_thrice(again=True),
        lambda: describe_thrice(again=False),
    )


def main() -> None:
    """Compare every step, print a table and write it."""
    rows = [*map(compare_draws, (40, 160, 500)), compare_figures(), compare_descriptions()]
    for row in rows:
        print(
            f"{row['step']:<60} {row['before']:>8.3f} s {row['after']:>8.3f} s {row['ratio']:>6.1f}"
        )
    machine = f"{os.cpu_count()} CPU cores, {instructions()}, {threads()} threads"
    result = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": machine,
        "rounds": ROUNDS,
        "rows": rows,
    }
    (HERE / "after_the_passes.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
