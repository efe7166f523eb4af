"""Does the split stack of losses beat LiRA with more than four split models? Planted truth says.

    # writes split_stack_planted.json and its table in split_stack.md
    python -m benchmarks.papers.split_stack_planted

A model's logit confidence in a document is the document's difficulty, noise of the model's own, and
a shift if it was trained on the document.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools, Floats
from audit.stats.likelihood_ratio import lira_offline, sides
from audit.stats.roc import auc
from benchmarks.papers.pages import put_tables
from benchmarks.papers.split_stack import OutsideLoss, mean_unseen, single_unseen, stack_of_losses

RESULT = Path(__file__).with_suffix(".json")
PAGE = RESULT.with_name("split_stack.md")
SIDE = 150
SPREAD = 2.0
"""Standard deviation of the documents' difficulty; the noise of a model has 1."""
SHIFTS = (0.0, 0.7, 1.5)
MODELS = (4, 8, 16)
AUDITS = 100


class Planted(NamedTuple):
    """What models make of documents, members first.

    Attributes:
        target: (n_documents,) logit confidence of the target.
        baseline: (n_documents,) of a model that saw none of them.
        splits: (n_documents, n_models) of split models.
        trained: (n_documents, n_models), whether a split model saw a document.
    """

    target: Floats
    baseline: Floats
    splits: Floats
    trained: Bools


def draw(n_models: int, shift: float, rng: Generator) -> Planted:
    """Draw an audit; each member is in half of the split models, no held-out document in any."""
    n = 2 * SIDE
    member = np.arange(n) < SIDE
    difficulty = SPREAD * rng.normal(size=n)
    trained = np.zeros((n, n_models), bool)
    for row in trained[:SIDE]:
        row[rng.permutation(n_models)[: n_models // 2]] = True
    splits = difficulty[:, None] + rng.normal(size=(n, n_models)) + shift * trained
    target = difficulty + rng.normal(size=n) + shift * member
    return Planted(target, difficulty + rng.normal(size=n), splits, trained)


def loss_of(logits: Floats) -> Floats:
    """Return the loss of a logit confidence, nats."""
    return np.asarray(np.logaddexp(0, -logits), np.float64)


def by_lira(audit: Planted) -> Floats:
    """Score as the audit does today."""
    _, outside = sides(audit.splits, audit.trained)
    assert outside is not None
    return lira_offline(audit.target, outside)


def by_stack(audit: Planted, outside_of: OutsideLoss) -> Floats:
    """Score by the split stack of losses."""
    target, baseline, splits = (
        loss_of(logits) for logits in (audit.target, audit.baseline, audit.splits)
    )
    return stack_of_losses(target, baseline, splits, audit.trained, outside_of)


SCORES: dict[str, Callable[[Planted], Floats]] = {
    "LiRA": by_lira,
    "split stack of losses": lambda audit: by_stack(audit, single_unseen),
    "with the mean of unseen models": lambda audit: by_stack(audit, mean_unseen),
}


def main() -> None:
    """Draw the audits, and write the areas and the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default="2-core CPU, one thread")
    options = parser.parse_args()
    rows = [areas_of(n_models, shift) for shift in SHIFTS for n_models in MODELS]
    result = {"machine": options.machine, "date": time.strftime("%Y-%m-%d"), "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    put_tables(PAGE, {"planted": table_of(rows)})


def areas_of(n_models: int, shift: float) -> dict[str, object]:
    """Return the mean area of each score over audits, with its standard error."""
    rng = np.random.default_rng([57, n_models, round(10 * shift)])
    areas: dict[str, list[float]] = {name: [] for name in SCORES}
    for _ in range(AUDITS):
        audit = draw(n_models, shift, rng)
        for name, score in SCORES.items():
            column = score(audit)
            areas[name].append(auc(column[:SIDE], column[SIDE:]))
    means = {
        name: [round(float(np.mean(column)), 4), round(float(np.std(column)) / AUDITS**0.5, 4)]
        for name, column in areas.items()
    }
    return {"models": n_models, "shift": shift, "areas": means}


def table_of(rows: list[dict[str, object]]) -> list[str]:
    """Write a row for each number of split models and shift."""
    lines = [f"| shift | split models | {' | '.join(SCORES)} |", "| --- " * (2 + len(SCORES)) + "|"]
    for row in rows:
        areas = row["areas"]
        assert isinstance(areas, dict)
        cells = " | ".join(f"{value:.3f} ± {error:.3f}" for value, error in areas.values())
        lines.append(f"| {row['shift']} | {row['models']} | {cells} |")
    return lines


if __name__ == "__main__":
    main()
