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

from audit.arrays import Bools, Floats
from audit.references.training import N_SPLITS, halves_of
from audit.stats.likelihood_ratio import lira_offline, sides
from audit.stats.roc import auc_interval
from benchmarks.papers.membership_methods import (
    STRENGTHS,
    Corpus,
    ask,
    corpus_of,
    kept,
    said_by,
    said_of,
    train_all,
)
from benchmarks.papers.membership_methods_models import KINDS, MORE, SEED, SIDE, train
from benchmarks.papers.membership_methods_verdicts import SIZES, resampled
from benchmarks.papers.membership_weights import AUDITS
from benchmarks.papers.membership_weights_report import (
    Cells,
    interval_text,
    levels,
    mean_area,
    moved,
    right_shares,
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


def halves(strength: str) -> Bools:
    """Draw the training documents of each split model, (n_documents, n_models)."""
    n_documents = SIDE + (MORE if strength == "weak" else 0)
    return halves_of(n_documents, N_SPLITS, 0)


def train_splits(corpus: Corpus) -> None:
    """Train the split models that are missing."""
    pools = corpus.documents()
    members = [*pools["member"]]
    epochs = corpus.kind.epochs
    if corpus.strength == "weak":
        members += pools["more member"]
        epochs = 1
    seed = SEED + 1_000 * corpus.run + 100
    for name, column in zip(SPLIT_NAMES, halves(corpus.strength).T, strict=True):
        half = [members[index] for index in np.flatnonzero(column)]
        place = corpus.place / name
        train(corpus.kind, corpus.folder, place, half, seed + SPLIT_NAMES.index(name), epochs)


def scores_of(corpus: Corpus) -> dict[str, dict[str, Floats]]:
    """Return the scores of members and held-out documents, by audit and score."""
    said = said_by(corpus, False)
    path = corpus.place / f"{corpus.name}-sixteen.npz"
    by_splits = said_of(corpus.kind, kept(path, functools.partial(ask, corpus, SPLIT_NAMES)))
    n = 2 * SIDE
    trained = np.zeros((n, N_SPLITS), bool)
    trained[:SIDE] = halves(corpus.strength)[:SIDE]
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
    train_splits(corpus)
    areas: dict[str, dict[str, list[float]]] = {}
    held: dict[str, dict[str, Any]] = {}
    for audit, scores in scores_of(corpus).items():
        areas[audit] = {}
        for name, column in scores.items():
            area = auc_interval(column[:SIDE], column[SIDE:])
            areas[audit][name] = [area.value, area.low, area.high]
        held[audit] = {}
        for n in SIZES:
            by_score = resampled(scores, scores, n, RESAMPLES)
            held[audit][str(n)] = {
                name: [(float(p), bool(inside)) for p, inside in rows]
                for name, rows in by_score.items()
            }
    return {"areas": areas, "held": held, "seconds": time.process_time() - began}


def measured_once(corpus: Corpus) -> dict[str, Any]:
    """Measure a corpus, or load what an earlier call measured."""
    path = corpus.place / f"{corpus.name}-sixteen.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measured(corpus)), encoding="utf-8")
    numbers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return numbers


def decided(cells: Cells) -> dict[str, Any]:
    """Return what the changes do to right verdicts, the areas, and clean intervals."""
    before = {n: right_shares(cells, BASE, n) for n in SIZES}
    changes: dict[str, Any] = {}
    for name, scores in CHANGES.items():
        after = {n: right_shares(cells, scores, n) for n in SIZES}
        changes[name] = moved(before, after, LEVEL)
    areas: dict[str, dict[str, list[float]]] = {}
    for audit in ("leaks", "clean"):
        for corpus, strength in dict.fromkeys(key[:2] for key in cells):
            runs = [cell for key, cell in cells.items() if key[:2] == (corpus, strength)]
            areas[f"{corpus}, {strength}, {audit}"] = {
                score: mean_area([run["areas"][audit][score] for run in runs])
                for score in runs[0]["areas"][audit]
            }
    return {
        "base": levels(before),
        "changes": changes,
        "areas": areas,
        "clean": clean_intervals(cells),
    }


def clean_intervals(cells: Cells) -> dict[str, list[int]]:
    """Count intervals of clean audits that leave 0.5 out, and all, by score."""
    counts: dict[str, list[int]] = {}
    for cell in cells.values():
        for audit in ("clean", "clean 2"):
            for score, (_, low, high) in cell["areas"][audit].items():
                count = counts.setdefault(score, [0, 0])
                count[0] += not low <= 0.5 <= high
                count[1] += 1
    return counts


def tables_of(numbers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Write the tables of the page."""
    sizes = [f"{n} a side: violated, leaks / passed, clean" for n in SIZES]
    gate = [f"| scores | {' | '.join(sizes)} | sum, {LEVEL:.1%} | runs |", "| --- " * 6 + "|"]
    base = [f"{leaks:.0%} / {clean:.0%}" for leaks, clean in numbers["base"].values()]
    gate.append(f"| {', '.join(BASE)} | {' | '.join(base)} |  |  |")
    for name, change in numbers["changes"].items():
        moves = [f"{100 * up:+.1f} / {100 * down:+.1f}" for up, down in change["moves"].values()]
        total = interval_text([100 * value for value in change["sum"]], "+", 1)
        runs = ", ".join(f"{100 * value:+.1f}" for value in change["runs"])
        gate.append(f"| {name} | {' | '.join(moves)} | {total} | {runs} |")
    first = next(iter(numbers["areas"].values()))
    areas = [f"| corpus, memory, audit | {' | '.join(first)} |", "| --- " * 6 + "|"]
    for name, by_score in numbers["areas"].items():
        cells = [interval_text(values, "", 2) for values in by_score.values()]
        areas.append(f"| {name} | {' | '.join(cells)} |")
    clean = ["| score | intervals of clean audits without 0.5 |", "| --- | --- |"]
    clean += [f"| {name} | {missed} of {n} |" for name, (missed, n) in numbers["clean"].items()]
    minutes = f"{numbers['seconds'] / 60:.0f} minutes of processor time"
    made = f"{numbers['machine']}, {numbers['date']}, {minutes}."
    return {"gate": gate, "areas": areas, "clean": clean, "made": [made]}


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
