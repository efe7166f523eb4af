"""Fixtures that many tests share. Tiny checkpoints are made once a session; tests must not write into them."""

from __future__ import annotations

import os

# Before anything imports huggingface_hub: a test that would reach for the network fails instead.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# The models are so small that a second thread only waits, for seconds where the machine is busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from collections.abc import Callable
from pathlib import Path

import pytest
import tiny

Checkpoints = Callable[..., Path]


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """`checkpoints(family, head, seed)`: the folder of a tiny checkpoint with its head's labels, made when asked."""
    root = tmp_path_factory.mktemp("checkpoints")

    def folder(family: tiny.FamilyName, head: tiny.HeadName, seed: int = 0) -> Path:
        place = root / f"{family}-{head}-{seed}"
        return place if place.exists() else tiny.checkpoint(place, family, head, seed)

    return folder


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny data set with images; read only."""
    return tiny.corpus(tmp_path_factory.mktemp("corpus") / "data", images=True)
