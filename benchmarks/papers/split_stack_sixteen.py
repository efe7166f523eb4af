"""Does the split stack of losses replace LiRA with the audit's sixteen split models?

The rule is in `split_stack.md`, and was fixed before the first number.

    # writes split_stack_sixteen.json and its tables; trains what is missing
    python -m benchmarks.papers.split_stack_sixteen --work FOLDER
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.arrays import Floats
from audit.references.training import N_SPLITS
from audit.stats.likelihood_ratio import lira_offline, sides
from audit.stats.roc import auc_interval
from benchmarks.papers.membership_methods import (
    STRENGTHS,
    Corpus,
    ask,
    corpus_of,
    halves,
    kept,
    kept_numbers,
    said_by,
    said_of,
    train_all,
    train_splits,
)
from benchmarks.papers.membership_methods_models import KINDS, SIDE
from benchmarks.papers.membership_methods_verdicts import SIZES, resampled
from benchmarks.papers.membership_weights import AUDITS
from benchmarks.papers.membership_weights_report import (
    Cells,
    clean_intervals,
    gate_row,
    interval_text,
    levels,
    mean_areas,
    moved,
    over_runs,
    right_shares,
    table,
)
from benchmarks.papers.pages import put_tables
from benchmarks.papers.split_stack import mean_unseen, single_unseen, stack_of_losses

RESULT = Path(__file__).with_suffix(".json")
PAGE = RESULT.with_name("split_stack.md")
RUNS = (3, 4)
"""Runs that no other benchmark has looked at."""
NAMES = ("writer", "writer-text", "tagger", "reader", "receipts", "donut")
BASE = ("loss", "calibrated", "lira")
CHANGES = {
    "stack in place of LiRA": ("loss", "calibrated", "stack"),
    "stack with the mean in place of LiRA": ("loss", "calibrated", "stack, mean"),
    "LiRA left out": ("loss", "calibrated"),
}
"""Sets of scores in place of the base, by name; the last is shown beside the candidates."""
LEVEL = 1 - 0.05 / 2
RESAMPLES = 100
SPLIT_NAMES = [f"sixteen-{number}" for number in range(N_SPLITS)]


def scores_of(corpus: Corpus) -> dict[str, dict[str, Floats]]:
    """Return the scores of members and held-out documents, by audit and score."""
    said = said_by(corpus, False)
    path = corpus.place / f"{corpus.name}-sixteen.npz"
    by_splits = said_of(corpus.kind, kept(path, functools.partial(ask, corpus, SPLIT_NAMES)))
    n = 2 * SIDE
    trained = np.zeros((n, N_SPLITS), bool)
    trained[:SIDE] = halves(corpus.strength, N_SPLITS)[:SIDE]
    losses = np.stack([by_splits.loss(name)[:n] for name in SPLIT_NAMES], axis=1)
    logits = np.stack([by_splits.logit(name)[:n] for name in SPLIT_NAMES], axis=1)
    _, outside = sides(logits, trained)
    assert outside is not None
    scores: dict[str, dict[str, Floats]] = {}
    for audit, (target, reference) in AUDITS.items():
        loss = said.loss(target)[:n]
        usual = said.loss(reference)[:n]
        scores[audit] = {
            "loss": -loss,
            "calibrated": usual - loss,
            "lira": lira_offline(said.logit(target)[:n], outside),
            "stack": stack_of_losses(loss, usual, losses, trained, single_unseen),
            "stack, mean": stack_of_losses(loss, usual, losses, trained, mean_unseen),
        }
    return scores


def measured(corpus: Corpus) -> dict[str, Any]:
    """Measure one corpus of one run and strength: areas, and resampled audits."""
    began = time.process_time()
    train_all(corpus, False)
    train_splits(corpus, SPLIT_NAMES, 100)
    areas: dict[str, dict[str, list[float]]] = {}
    held: dict[str, dict[str, Any]] = {}
    for audit, scores in scores_of(corpus).items():
        areas[audit] = {}
        for name, column in scores.items():
            area = auc_interval(column[:SIDE], column[SIDE:])
            areas[audit][name] = [area.value, area.low, area.high]
        held[audit] = {}
        for n in SIZES:
            held[audit][str(n)] = resampled(scores, scores, n, RESAMPLES)
    return {"areas": areas, "held": held, "seconds": time.process_time() - began}


def measured_once(corpus: Corpus) -> dict[str, Any]:
    """Measure a corpus, or load what an earlier call measured."""
    path = corpus.place / f"{corpus.name}-sixteen.json"
    return kept_numbers(path, functools.partial(measured, corpus))


def decided(cells: Cells) -> dict[str, Any]:
    """Return what the changes do to right verdicts, the areas, and clean intervals."""
    before = {n: right_shares(cells, BASE, n) for n in SIZES}
    changes: dict[str, Any] = {}
    for change, scores in CHANGES.items():
        after = {n: right_shares(cells, scores, n) for n in SIZES}
        changes[change] = moved(before, after, LEVEL)
    areas: dict[str, dict[str, list[float]]] = {}
    for audit in ("leaks", "clean"):
        for name, runs in over_runs(cells):
            areas[f"{name}, {audit}"] = mean_areas(runs, audit)
    return {
        "base": levels(before),
        "changes": changes,
        "areas": areas,
        "clean": clean_intervals(cells),
    }


def tables_of(numbers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Write the tables of the page."""
    sizes = [f"{n} a side: violated, leaks / passed, clean" for n in SIZES]
    base = [f"{leaks:.0%} / {clean:.0%}" for leaks, clean in numbers["base"].values()]
    gate = [[", ".join(BASE), *base, "", ""]]
    gate += [gate_row(name, change) for name, change in numbers["changes"].items()]
    areas: list[list[str]] = []
    for name, by_score in numbers["areas"].items():
        areas.append([name, *(interval_text(values, "", 2) for values in by_score.values())])
    scores = next(iter(numbers["areas"].values()))
    clean = [[name, f"{missed} of {n}"] for name, (missed, n) in numbers["clean"].items()]
    minutes = f"{numbers['seconds'] / 60:.0f} minutes of processor time"
    made = f"{numbers['machine']}, {numbers['date']}, {minutes}."
    return {
        "gate": table(["scores", *sizes, f"sum, {LEVEL:.1%}", "runs"], gate),
        "areas": table(["corpus, memory, audit", *scores], areas),
        "clean": table(["score", "intervals of clean audits without 0.5"], clean),
        "made": [made],
    }


def main() -> None:
    """Train, score, decide, and write what is measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=KINDS, default=list(NAMES))
    parser.add_argument("--runs", nargs="*", type=int, default=list(RUNS))
    parser.add_argument("--no-page", action="store_true", help="measure alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cells: dict[tuple[str, str, int], dict[str, Any]] = {}
    for name in options.only:
        for run in options.runs:
            for strength in STRENGTHS:
                cell = measured_once(corpus_of(options.work, name, strength, run))
                cells[name, strength, run] = cell
                print(name, strength, run, round(cell["seconds"]), flush=True)
    if options.no_page:
        return
    numbers = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": "2-core CPU, one thread",
        "seconds": round(sum(cell["seconds"] for cell in cells.values())),
        **decided(cells),
    }
    RESULT.write_text(json.dumps(numbers, separators=(",", ":")) + "\n", encoding="utf-8")
    put_tables(PAGE, tables_of(numbers))


if __name__ == "__main__":
    main()
