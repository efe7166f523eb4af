"""The reference models that a command trains: baselines and split models."""

from __future__ import annotations

from pathlib import Path

from audit.corpus import manifest
from audit.engine.interface import EngineSettings, Progress
from audit.engine.local import make_engine
from audit.references import baselines, splits
from audit.targets.opening import device_named, threads


def train_baselines(
    data_dir: Path, out: Path, *, start: Path | None, count: int, seed: int | None, device: str, progress: Progress
) -> int:
    """Train baselines on the public documents of a data set, and count them.

    Args:
        data_dir: the data set.
        out: the folder for the models; those that are there are not trained again.
        start: the checkpoint to train from; None: as the manifest says.
        count: of models.
        seed: of the first one; None: the recipe's.
        device: of the training.
        progress: of all of them.

    Raises:
        DocauditError: the data set is broken, or a model cannot be trained.
    """
    corpus = manifest.load(data_dir)
    return len(
        baselines.train_baseline(
            start, corpus, out, count=count, seed=seed, device=device_named(device), progress=progress
        )
    )


def train_splits(
    data_dir: Path,
    out: Path,
    *,
    start: Path | None,
    count: int,
    seed: int,
    device: str,
    engine: str,
    progress: Progress,
) -> int:
    """Train models, each on half of the member documents, and count them; see `train_baselines`.

    Args:
        data_dir: the data set.
        out: the folder for the models.
        start: the checkpoint to train from.
        count: of models.
        seed: of everything random.
        device: of the training.
        engine: see `make_engine`.
        progress: of all of them.

    Raises:
        DocauditError: there is no such engine, the data set is broken, or a model cannot be trained.
    """
    chosen = device_named(device)
    made = make_engine(engine, EngineSettings(width=1, threads=threads(), gpu=chosen == "cuda"))
    corpus = manifest.load(data_dir)
    return len(
        splits.train_splits(start, corpus, out, count=count, seed=seed, device=chosen, engine=made, progress=progress)
    )
