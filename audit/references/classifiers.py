"""The two neural classifiers of embeddings in the redaction paper: a multilayer perceptron and a convolutional network.

From Beltrame et al. 2024, section 4.3 ("five fully connected layers" and "two layers are convolutional"), and
methods.md#redaction-context. Numpy in and out; what an attack fits is the attacker's own model, not a checkpoint.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import nn

from audit.arrays import Floats, Ints
from audit.references.reproducible import reproducible

NetworkKind = Literal["mlp", "cnn"]
LEARNING_RATES: dict[NetworkKind, float] = {"mlp": 5e-5, "cnn": 1e-4}
"""Adam's, as in the paper."""
EPOCHS = 200
BATCH_SIZE = 100
MLP_WIDTHS = (512, 256, 128, 64)
N_FILTERS = 16
FILTER_SIZE = 16
SECOND_STRIDE = 2
POOL_SIZE = 8
POOL_STRIDE = 2
_ROWS_AT_ONCE = 1000
"""Of a prediction; memory depends on it (ours)."""


class Network:
    """A fitted classifier.

    Args:
        layers: takes (n, n_dimensions), gives logits (n, n_classes).
        n_dimensions: of the embeddings it was fitted on.
        device: where it computes.
    """

    def __init__(self, layers: nn.Module, n_dimensions: int, device: str) -> None:
        self._layers = layers.eval()
        self._n_dimensions = n_dimensions
        self._device = device

    def predict(self, features: Floats) -> Ints:
        """The most likely class of each row of `features` (n, n_dimensions): shape (n,), ties to the lower class.

        Raises:
            ValueError: `features` has another shape than what was fitted, or holds numbers that are not finite.
        """
        rows = _check(features)
        if rows.shape[1] != self._n_dimensions:
            raise ValueError(f"{rows.shape[1]} dimensions, the network was fitted on {self._n_dimensions}")
        parts = torch.split(torch.from_numpy(rows), _ROWS_AT_ONCE)
        with torch.inference_mode():
            logits = torch.cat([self._layers(part.to(self._device)) for part in parts])
        classes: Ints = logits.cpu().numpy().argmax(axis=1)
        return classes


def fit_network(
    kind: NetworkKind,
    features: Floats,
    classes: Ints,
    *,
    n_classes: int,
    seed: int,
    epochs: int = EPOCHS,
    batch_size: int = BATCH_SIZE,
    learning_rate: float | None = None,
    weighted: bool = True,
    device: str = "cpu",
) -> Network:
    """Fit a classifier of embeddings with Adam and cross-entropy, as in the redaction paper.

    The same input and seed give the same weights on one machine; the process's random state stays as it is. ReLU
    follows convolutions and dense layers (the paper says so of the perceptron alone).

    Args:
        kind: "mlp": 512-256-128-64; "cnn": two convolutions and four dense layers, see `flattened_size`.
        features: (n, n_dimensions) embeddings; computed with in float32.
        classes: (n,) in [0, n_classes).
        n_classes: how many classes there are; those without a sample are never learnt.
        seed: of the starting weights and of the order of samples.
        epochs: passes over the samples.
        batch_size: samples a step; the last step of an epoch takes what is left.
        learning_rate: Adam's; None: the paper's for this kind.
        weighted: samples count in inverse proportion to how often their class occurs (ours; the paper oversamples).
        device: "cpu", "cuda" or "mps".

    Raises:
        ValueError: shapes do not fit, there is no sample, a class is out of range, a number is not finite, a setting is
            out of range, or embeddings are too short to be convolved.
    """
    rows = _check(features)
    labels = np.asarray(classes, np.int64)
    if labels.shape != (len(rows),) or not len(rows):
        raise ValueError("give one class for each sample, and at least one sample")
    if n_classes < 1 or labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"classes must lie in [0, {n_classes})")
    rate = LEARNING_RATES[kind] if learning_rate is None else learning_rate
    if epochs < 1 or batch_size < 1 or not rate > 0:
        raise ValueError("epochs, batch size and learning rate must be above zero")
    with reproducible(device):
        torch.manual_seed(seed)
        layers = (_mlp if kind == "mlp" else _cnn)(rows.shape[1], n_classes).to(device)
        cost = nn.CrossEntropyLoss(_balance(labels, n_classes).to(device) if weighted else None)
        samples, wanted = torch.from_numpy(rows).to(device), torch.from_numpy(labels).to(device)
        optimizer = torch.optim.Adam(layers.parameters(), lr=rate)
        for _ in range(epochs):
            for batch in torch.split(torch.randperm(len(rows)).to(device), batch_size):
                optimizer.zero_grad()
                cost(layers(samples[batch]), wanted[batch]).backward()
                optimizer.step()
    return Network(layers, rows.shape[1], device)


def flattened_size(n_dimensions: int) -> int:
    """Count the numbers the "cnn" convolves an embedding to: 1376 of 768 dimensions, 608 of 384, 0 of one too short.

    They are 16 filters of 16, max pooling 8/2, 16 filters of 16 with stride 2, max pooling 8/2, none of them padded.
    """
    length = n_dimensions
    for size, stride in (
        (FILTER_SIZE, 1),
        (POOL_SIZE, POOL_STRIDE),
        (FILTER_SIZE, SECOND_STRIDE),
        (POOL_SIZE, POOL_STRIDE),
    ):
        length = max(0, (length - size) // stride + 1)
    return length * N_FILTERS


def _mlp(n_dimensions: int, n_classes: int) -> nn.Module:
    return nn.Sequential(*_dense((n_dimensions, *MLP_WIDTHS)), nn.Linear(MLP_WIDTHS[-1], n_classes))


def _cnn(n_dimensions: int, n_classes: int) -> nn.Module:
    width = flattened_size(n_dimensions)
    if not width:
        raise ValueError(f"embeddings of {n_dimensions} dimensions are too short for the convolutional network")
    return nn.Sequential(
        nn.Unflatten(1, (1, n_dimensions)),
        nn.Conv1d(1, N_FILTERS, FILTER_SIZE),
        nn.ReLU(),
        nn.MaxPool1d(POOL_SIZE, POOL_STRIDE),
        nn.Conv1d(N_FILTERS, N_FILTERS, FILTER_SIZE, SECOND_STRIDE),
        nn.ReLU(),
        nn.MaxPool1d(POOL_SIZE, POOL_STRIDE),
        nn.Flatten(),
        *_dense((width, width, width // 2, width // 4, width // 8)),
        nn.Linear(width // 8, n_classes),
    )


def _dense(widths: tuple[int, ...]) -> list[nn.Module]:
    return [layer for before, after in pairwise(widths) for layer in (nn.Linear(before, after), nn.ReLU())]


def _balance(labels: Ints, n_classes: int) -> torch.Tensor:
    """A weight for each class, so that all classes with samples count alike and the mean weight of a sample is 1."""
    counts = np.bincount(labels, minlength=n_classes)
    weights = len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return torch.from_numpy(weights.astype(np.float32))


def _check(features: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    rows = np.asarray(features, np.float32)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError("features must be a table: one row a sample, one column a dimension")
    if not np.isfinite(rows).all():
        raise ValueError("features must be finite numbers")
    return rows
