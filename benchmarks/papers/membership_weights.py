"""Membership scores that read tokens, labels of other documents, or gradients: which join the gate.

Corpora and models are those of `membership_methods`, in three runs that share no documents. The
rule is in `membership_weights.md`, and was fixed before the first number.

    # writes the .json and the tables; trains what is missing
    python -m benchmarks.papers.membership_weights --work FOLDER
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from audit.stats.roc import auc, auc_interval
from benchmarks.papers.membership_methods import (
    SCORED,
    SPLIT_MODELS,
    STRENGTHS,
    Corpus,
    corpus_of,
    halves,
    kept,
    kept_numbers,
    loaded,
    said_by,
    scores_of,
    train_all,
)
from benchmarks.papers.membership_methods_models import KINDS, SEED, SIDE
from benchmarks.papers.membership_methods_verdicts import SIZES, held, resampled
from benchmarks.papers.membership_weights_gradients import (
    along_updates,
    norms_and_products,
    update_between,
)
from benchmarks.papers.membership_weights_scores import (
    SPLIT_STACKS,
    TOKEN_LIRA,
    Fold,
    Known,
    Learner,
    cross_fitted,
    folds_of,
    part_cosines,
    split_stacks,
    stacks_of,
    token_lira,
    token_values,
)

Floats = NDArray[np.float64]
RUNS = 3
AUDITS = {
    "leaks": ("target", "baseline"),
    "clean": ("clean", "baseline"),
    "clean 2": ("baseline", "clean"),
}
"""Targets with their references, by what they show."""
MODELS = ("target", "clean", "baseline")
WITH_GRADIENTS = ("tagger", "receipts", "reader", "writer", "donut")
BASE = ("loss", "calibrated", "lira")
LABEL_FREE = (*TOKEN_LIRA, *SPLIT_STACKS, "gradient norm", "update cosine")
PERMUTATIONS = 20
BOOTSTRAPS = 200


class Audit(NamedTuple):
    """What ranks the documents of one audit.

    Attributes:
        scores: of members, then of held-out documents, by name.
        learners: scores that labels fit, by name.
    """

    scores: dict[str, Floats]
    learners: dict[str, Learner]


# Gradients


def gradients_of(corpus: Corpus) -> dict[str, NDArray[Any]]:
    """Compute norms, inner products, and cosines with updates, of all scored documents."""
    drawn = corpus.documents()
    documents = [document for pool in SCORED for document in drawn[pool]]
    models = {role: loaded(corpus, role) for role in MODELS}
    arrays: dict[str, NDArray[Any]] = {}
    for role, model in models.items():
        for name, values in norms_and_products(corpus.kind, model, documents).items():
            arrays[f"{name}.{role}"] = values
    updates = {
        audit: update_between(models[target], models[reference])
        for audit, (target, reference) in AUDITS.items()
    }
    along = along_updates(corpus.kind, loaded(corpus, "start"), documents, updates)
    return arrays | {f"cosine.{audit}": values for audit, values in along.items()}


# Scores


def audits_of(corpus: Corpus) -> dict[str, Audit]:
    """Give the scores and learners of every audit."""
    by_audit = scores_of(corpus, True)
    said = said_by(corpus, True)
    trained = np.zeros((2 * SIDE, len(SPLIT_MODELS)), bool)
    trained[:SIDE] = halves(corpus.strength)[:SIDE]
    gradients: Mapping[str, NDArray[Any]] = {}
    if corpus.name in WITH_GRADIENTS:
        path = corpus.place / f"{corpus.name}-gradients.npz"
        gradients = kept(path, functools.partial(gradients_of, corpus))
    audits = {}
    for audit, (target, reference) in AUDITS.items():
        scores = dict(by_audit[audit])
        scores |= token_lira(token_values(said, target, SPLIT_MODELS, trained))
        scores |= split_stacks(said, target, reference, SPLIT_MODELS, trained)
        by_start = said.loss("start") - said.loss(target)
        scores["calibrated by start"] = by_start[: 2 * SIDE]
        if gradients:
            norms = gradients[f"norm.{reference}"], gradients[f"norm.{target}"]
            scores["gradient norm"] = np.log(norms[0]) - np.log(norms[1])
            scores["update cosine"] = gradients[f"cosine.{audit}"]
        learners = stacks_of(scores)
        if gradients:
            learners["part cosines"] = part_cosines(gradients[f"products.{target}"])
        audits[audit] = Audit(scores, learners)
    return audits


# Areas


def both_folds(corpus: Corpus) -> tuple[Fold, Fold]:
    """Draw the halves that tables show."""
    rng = np.random.default_rng([SEED, corpus.run, 2])
    return folds_of(np.arange(SIDE), np.arange(SIDE, 2 * SIDE), rng)


def areas_of(audit: Audit, folds: Sequence[Fold]) -> dict[str, list[float]]:
    """Give areas with their 95 % bounds, by score."""
    areas = {}
    for name in (*BASE, *LABEL_FREE):
        if name in audit.scores:
            column = audit.scores[name]
            area = auc_interval(column[:SIDE], column[SIDE:])
            areas[name] = [area.value, area.low, area.high]
    for name, learner in audit.learners.items():
        areas[name] = [*cross_fitted(learner, folds)]
    return areas


def gains_of(audit: Audit, folds: Sequence[Fold], seed: Sequence[int]) -> dict[str, list[float]]:
    """Give each new score's gain in area over the better of the loss and the calibrated loss.

    With its standard error: a paired bootstrap over documents. Scores with labels are compared on
    the ranked half of each fold; their error is the mean of both folds'.
    """
    better = max(BASE[:2], key=lambda name: _area(audit.scores[name]))
    old = audit.scores[better]
    gains = {}
    whole = np.arange(SIDE), np.arange(SIDE, 2 * SIDE)
    for name in LABEL_FREE:
        if name in audit.scores:
            gains[name] = [*_gain(audit.scores[name], old, whole, seed)]
    for name, learner in audit.learners.items():
        parts = [
            _gain(learner(fold.known), old, (fold.members, fold.others), seed) for fold in folds
        ]
        gains[name] = np.mean(parts, axis=0).tolist()
    return gains


def _area(column: Floats) -> float:
    return auc(column[:SIDE], column[SIDE:])


def _gain(
    new: Floats, old: Floats, ranked: tuple[NDArray[np.intp], NDArray[np.intp]], seed: Sequence[int]
) -> tuple[float, float]:
    """Compute a difference of areas and its standard error."""
    rng = np.random.default_rng(seed)
    members, others = ranked
    value = auc(new[members], new[others]) - auc(old[members], old[others])
    draws = []
    for _ in range(BOOTSTRAPS):
        drawn = rng.choice(members, members.size)
        against = rng.choice(others, others.size)
        draws.append(auc(new[drawn], new[against]) - auc(old[drawn], old[against]))
    return value, float(np.std(draws))


# Verdicts


def held_scores(audit: Audit, n: int, times: int) -> dict[str, list[tuple[float, bool]]]:
    """Compare every score of resampled audits with the limits, n documents a side.

    Scores with labels fit on a half, drawn anew, and rank the other.
    """
    names = [name for name in (*BASE, *LABEL_FREE) if name in audit.scores]
    by_score = resampled(audit.scores, names, n, times)
    rng = np.random.default_rng([SEED, n, 1])
    drawn = []
    for _ in range(times):
        fold = folds_of(np.arange(SIDE), np.arange(SIDE, 2 * SIDE), rng)[0]
        labelled = [rng.choice(side, n // 2) for side in fold.known]
        drawn.append(
            Fold(
                Known(*labelled),
                rng.choice(fold.members, n // 2),
                rng.choice(fold.others, n // 2),
            )
        )
    for name, learner in audit.learners.items():
        by_score[name] = [held(learner(fold.known), (fold.members, fold.others)) for fold in drawn]
    return by_score


def permuted(audit: Audit, seed: Sequence[int]) -> dict[str, list[int]]:
    """Permute labels; count the intervals that leave 0.5 out, and all, by score with labels."""
    rng = np.random.default_rng(seed)
    counts = {name: [0, 0] for name in audit.learners}
    for _ in range(PERMUTATIONS):
        order = rng.permutation(2 * SIDE)
        folds = folds_of(order[:SIDE], order[SIDE:], rng)
        for name, learner in audit.learners.items():
            _, low, high = cross_fitted(learner, folds)
            counts[name][0] += not low <= 0.5 <= high
            counts[name][1] += 1
    return counts


def measured(corpus: Corpus, times: int) -> dict[str, Any]:
    """Measure one corpus of one run and strength."""
    began = time.process_time()
    train_all(corpus, True)
    audits = audits_of(corpus)
    folds = both_folds(corpus)
    seed = [SEED, corpus.run, 3]
    numbers = {
        "areas": {audit: areas_of(audits[audit], folds) for audit in AUDITS},
        "gains": gains_of(audits["leaks"], folds, seed),
        "permuted": {
            audit: permuted(audits[audit], [*seed, number])
            for number, audit in enumerate(("clean", "clean 2"))
        },
        "held": {
            audit: {str(n): held_scores(audits[audit], n, times) for n in SIZES} for audit in AUDITS
        },
    }
    return numbers | {"seconds": time.process_time() - began}


def path_of(corpus: Corpus, times: int) -> Path:
    """Name the file that keeps what was measured."""
    return corpus.place / f"{corpus.name}-weights-{times}.json"


def measured_once(corpus: Corpus, times: int) -> dict[str, Any]:
    """Measure a corpus, or load what an earlier call measured."""
    return kept_numbers(path_of(corpus, times), functools.partial(measured, corpus, times))


def main() -> None:
    """Train, score, decide, and write what is found."""
    from benchmarks.papers.membership_weights_report import decided, write_tables

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, required=True, help="keeps models and answers, so that a rerun goes on"
    )
    parser.add_argument("--only", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--ready", action="store_true", help="report what an earlier call measured, and no more"
    )
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    cells: dict[tuple[str, str, int], dict[str, Any]] = {}
    for run in range(options.runs):
        for name in options.only:
            for strength in STRENGTHS:
                corpus = corpus_of(options.work, name, strength, run)
                if options.ready and not path_of(corpus, options.resamples).exists():
                    continue
                cells[name, strength, run] = measured_once(corpus, options.resamples)
                print(name, strength, run, round(cells[name, strength, run]["seconds"]), flush=True)
    numbers = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": "2-core CPU, one thread",
        "resamples": options.resamples,
        **decided(cells),
    }
    options.out.write_text(json.dumps(numbers, separators=(",", ":")) + "\n", encoding="utf-8")
    if (page := options.out.with_suffix(".md")).exists():
        write_tables(page, numbers)


if __name__ == "__main__":
    main()
