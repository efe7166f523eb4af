"""What an attacker on redacted text fits: a sentence embedder on the classes of its texts, and classifiers.

Beltrame et al. 2024, section 4.2: of every class some texts are taken out of the classifier's
training set; pairs of one class are to have the cosine similarity 0.8, pairs of two classes 0.2.
Section 4.3 and methods/redaction-context.md: a multilayer perceptron ("five fully connected
layers") and a convolutional network ("two layers are convolutional").
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import transformers
from torch import nn

from audit.arrays import Floats, Ints
from audit.references.recipes import reproducible
from benchmarks.papers.redaction_tab_embedder import EmbedderTarget, with_model

SAME_CLASS = 0.8
OTHER_CLASS = 0.2
MOST_OF_A_CLASS = 250
LARGEST_SHARE = 1 / 3
"""Of a class's texts (methods/redaction-context.md): a class of few keeps most of them for the
classifier."""
LEARNING_RATE = 2e-5
EPOCHS = 1
BATCH_SIZE = 16
WEIGHT_DECAY = 0.01
LARGEST_GRADIENT = 1.0
"""These five are sentence-transformers' defaults; the paper gives none."""
WARMUP_SHARE = 0.1
"""Of the steps (ours)."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which texts are compared, and how similar they are to be.

    Attributes:
        first, second: (n_pairs,) indices of texts.
        similarity: (n_pairs,) cosine similarity to be learnt.
    """

    first: Ints
    second: Ints
    similarity: Floats


def choose_texts(classes: Ints, rng: np.random.Generator) -> Ints:
    """Choose the texts that tune the embedder: of each class `MOST_OF_A_CLASS`, or `LARGEST_SHARE` where that is less.

    They must be left out of what the classifier is trained on.

    Args:
        classes: (n,) of the training texts.
        rng: the source of randomness.

    Returns:
        Their indices, ascending; none of a class of fewer than three texts.
    """
    kept = [np.empty(0, np.int64)]
    for own in _by_class(classes):
        count = min(MOST_OF_A_CLASS, int(len(own) * LARGEST_SHARE))
        kept.append(rng.permutation(own)[:count])
    return np.sort(np.concatenate(kept))


def pairs(classes: Ints, rng: np.random.Generator) -> Pairs:
    """The pairs of the paper: a class of m texts gives m // 2 of its own, and as many with other classes.

    Pairs of one class have every text at most once; of pairs with another class both texts are
    drawn anew, the other class first.

    Args:
        classes: (n,) of the texts that tune the embedder.
        rng: the source of randomness.
    """
    groups = _by_class(classes)
    rows: list[tuple[int, int, float]] = []
    for number, own in enumerate(groups):
        shuffled = rng.permutation(own)
        count = len(own) // 2
        rows += [(int(a), int(b), SAME_CLASS) for a, b in shuffled[: 2 * count].reshape(-1, 2)]
        others = groups[:number] + groups[number + 1 :]
        if others:
            rows += [
                (
                    int(rng.choice(own)),
                    int(rng.choice(others[rng.integers(len(others))])),
                    OTHER_CLASS,
                )
                for _ in range(count)
            ]
    first, second, similarity = np.array(rows, float).reshape(-1, 3).T
    return Pairs(first.astype(np.int64), second.astype(np.int64), similarity)


def tune(
    embedder: EmbedderTarget,
    texts: Sequence[str],
    classes: Ints,
    *,
    seed: int,
    learning_rate: float = LEARNING_RATE,
    epochs: int = EPOCHS,
    batch_size: int = BATCH_SIZE,
) -> EmbedderTarget:
    """A copy of an embedder, fine-tuned so that texts of one class lie closer together than those of two.

    Mean squared error of cosine similarities; AdamW with warm-up and linear decay, dropout on. The
    same input and seed give the same weights on one machine. The embedder itself stays as it is.

    Args:
        embedder: what `load_embedder` gives; the copy computes on the same device.
        texts: (n,) that tune it, all of them; see `choose_texts`.
        classes: (n,) of the texts.
        seed: of the pairs, their order, and dropout.
        learning_rate: the peak of AdamW's.
        epochs: passes over the pairs.
        batch_size: pairs a step.

    Raises:
        ValueError: there is not one class for each text, no class has two texts, or a setting is
            out of range.
    """
    classes = np.asarray(classes, np.int64)
    if classes.shape != (len(texts),):
        raise ValueError("give one class for each text")
    if epochs < 1 or batch_size < 1 or not learning_rate > 0:
        raise ValueError("epochs, batch size and learning rate must be above zero")
    rng = np.random.default_rng(seed)
    compared = pairs(classes, rng)
    n_pairs = len(compared.first)
    if not n_pairs:
        raise ValueError("no class has two texts to be compared")
    starts = range(batch_size, n_pairs, batch_size)
    batches = [batch for _ in range(epochs) for batch in np.split(rng.permutation(n_pairs), starts)]
    copied = with_model(embedder, copy.deepcopy(embedder.model), embedder.card.name)
    with reproducible(embedder.card.device):
        torch.manual_seed(seed)
        _fit(copied, texts, compared, batches, learning_rate)
    return with_model(embedder, copied.model, f"{embedder.card.name}, fine-tuned")


def _fit(
    embedder: EmbedderTarget,
    texts: Sequence[str],
    compared: Pairs,
    batches: Sequence[Ints],
    learning_rate: float,
) -> None:
    """Train the embedder's own weights on these pairs, batch by batch."""
    model = embedder.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY)
    n_steps = len(batches)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, round(WARMUP_SHARE * n_steps), n_steps
    )
    wanted = torch.from_numpy(compared.similarity.astype(np.float32)).to(embedder.card.device)
    for batch in batches:
        sides = [texts[row] for row in (*compared.first[batch], *compared.second[batch])]
        one, other = torch.split(embedder.vectors(sides), len(batch))
        similarity = torch.nn.functional.cosine_similarity(one, other)
        optimizer.zero_grad()
        torch.autograd.backward(
            torch.nn.functional.mse_loss(similarity, wanted[torch.from_numpy(batch)])
        )
        torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        optimizer.step()
        schedule.step()


def _by_class(classes: Ints) -> list[Ints]:
    """The indices of the texts of each class that has any, classes ascending."""
    rows = np.asarray(classes, np.int64)
    return [np.flatnonzero(rows == own) for own in np.unique(rows)]


NetworkKind = Literal["mlp", "cnn"]
LEARNING_RATES: dict[NetworkKind, float] = {"mlp": 5e-5, "cnn": 1e-4}
"""Adam's, as in the paper."""
NETWORK_EPOCHS = 200
NETWORK_BATCH_SIZE = 100
MLP_WIDTHS = (512, 256, 128, 64)
N_FILTERS = 16
FILTER_SIZE = 16
SECOND_STRIDE = 2
POOL_SIZE = 8
POOL_STRIDE = 2
_ROWS_AT_ONCE = 1000
"""Of a prediction; memory depends on it (ours)."""
_PASSES_OF_A_STATE = 50
"""Passes between two states of an unfinished fit (ours)."""


class Network:
    """A fitted classifier.

    Args:
        layers: takes (n, n_dimensions), gives logits (n, n_classes).
        n_dimensions: of the embeddings it was fitted on.
    """

    def __init__(self, layers: nn.Module, n_dimensions: int) -> None:
        self._layers = layers.eval()
        self._n_dimensions = n_dimensions

    def predict(self, features: Floats) -> Ints:
        """The most likely class of each row of `features` (n, n_dimensions): shape (n,), ties to the lower class.

        Raises:
            ValueError: `features` has another shape than what was fitted, or holds numbers that are
                not finite.
        """
        rows = _checked_features(features)
        if rows.shape[1] != self._n_dimensions:
            raise ValueError(
                f"{rows.shape[1]} dimensions, the network was fitted on {self._n_dimensions}"
            )
        parts = torch.split(torch.from_numpy(rows), _ROWS_AT_ONCE)
        with torch.inference_mode():
            logits = torch.cat([self._layers(part) for part in parts])
        classes: Ints = logits.numpy().argmax(axis=1)
        return classes


def _check_labels(classes: Ints, n_rows: int, n_classes: int) -> Ints:
    """Return the classes as integers.

    Raises:
        ValueError: there is not one for each sample, there is no sample, or one is out of range.
    """
    labels: Ints = np.asarray(classes, np.int64)
    if labels.shape != (n_rows,) or not n_rows:
        raise ValueError("give one class for each sample, and at least one sample")
    if n_classes < 1 or labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"classes must lie in [0, {n_classes})")
    return labels


def fit_network(
    kind: NetworkKind,
    features: Floats,
    classes: Ints,
    *,
    n_classes: int,
    seed: int,
    epochs: int = NETWORK_EPOCHS,
    steps: int | None = None,
    batch_size: int = NETWORK_BATCH_SIZE,
    state: Path | None = None,
) -> Network:
    """Fit a classifier of embeddings with Adam and cross-entropy, as in the redaction paper.

    Samples count in inverse proportion to how often their class occurs (ours; the paper
    oversamples). The same input and seed give the same weights on one machine; the process's random
    state stays as it is. ReLU follows convolutions and dense layers (the paper says so of the
    perceptron alone).

    Args:
        kind: "mlp": 512-256-128-64; "cnn": two convolutions and four dense layers, see
            `flattened_size`.
        features: (n, n_dimensions) embeddings; computed with in float32.
        classes: (n,) in [0, n_classes).
        n_classes: how many classes there are; those without a sample are never learnt.
        seed: of the starting weights and of the order of samples.
        epochs: passes over the samples.
        steps: batches in all, in place of `epochs`; the last pass may end early.
        batch_size: samples a step; the last step of an epoch takes what is left.
        state: a file of an unfinished fit, which goes on from there. It must be of the same kind,
            samples and seed. None: nothing is kept.

    Raises:
        ValueError: shapes do not fit, there is no sample, a class is out of range, a number is not
            finite, a setting is out of range, or embeddings are too short to be convolved.
    """
    rows = _checked_features(features)
    labels = _check_labels(classes, len(rows), n_classes)
    if epochs < 1 or batch_size < 1:
        raise ValueError("epochs and batch size must be above zero")
    if steps is None:
        steps = steps_of(len(rows), epochs, batch_size)
    if steps < 1:
        raise ValueError("steps must be above zero")
    with reproducible("cpu"):
        torch.manual_seed(seed)
        layers = (_mlp if kind == "mlp" else _cnn)(rows.shape[1], n_classes)
        optimizer = torch.optim.Adam(layers.parameters(), lr=LEARNING_RATES[kind], fused=True)
        cost = nn.CrossEntropyLoss(_balance(labels, n_classes))
        fit = _Fit(layers, optimizer, cost, state)
        _take_steps(fit, rows, labels, steps, batch_size)
    return Network(layers, rows.shape[1])


@dataclass
class _Fit:
    """A fit that goes on where its file ends.

    Attributes:
        layers: the network.
        optimizer: of the layers.
        cost: of logits and classes.
        state: its file; None: nothing is kept.
        step: batches taken.
    """

    layers: nn.Module
    optimizer: torch.optim.Optimizer
    cost: nn.Module
    state: Path | None
    step: int = 0

    def load(self, most: int) -> None:
        """Go on from the file, if it has at most so many steps."""
        if self.state is None or not self.state.exists():
            return
        content = torch.load(self.state, weights_only=True)
        if content["step"] > most:
            return
        self.step = content["step"]
        self.layers.load_state_dict(content["layers"])
        self.optimizer.load_state_dict(content["optimizer"])
        torch.set_rng_state(content["random"])

    def save(self) -> None:
        """Write the file, whole or not at all; only after whole passes."""
        if self.state is None:
            return
        content = {
            "step": self.step,
            "layers": self.layers.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
        }
        self.state.parent.mkdir(parents=True, exist_ok=True)
        draft = self.state.with_name(f".{self.state.name}.tmp")
        torch.save(content, draft)
        draft.replace(self.state)


def _take_steps(
    fit: _Fit,
    rows: np.ndarray[tuple[int, int], np.dtype[np.float32]],
    labels: Ints,
    steps: int,
    batch_size: int,
) -> None:
    """Take batches in passes over the samples, each in a new order, until there are `steps`."""
    samples = torch.from_numpy(rows)
    wanted = torch.from_numpy(labels)
    fit.load(steps)
    passes = 0
    while fit.step < steps:
        batches = torch.split(torch.randperm(len(rows)), batch_size)
        for batch in batches[: steps - fit.step]:
            fit.optimizer.zero_grad()
            fit.cost(fit.layers(samples[batch]), wanted[batch]).backward()
            fit.optimizer.step()
            fit.step += 1
        passes += 1
        if passes % _PASSES_OF_A_STATE == 0 and fit.step < steps:
            fit.save()


def steps_of(n_samples: int, epochs: int, batch_size: int = NETWORK_BATCH_SIZE) -> int:
    """Count the batches of so many passes over the samples."""
    return epochs * -(-n_samples // batch_size)


def flattened_size(n_dimensions: int) -> int:
    """Count the numbers the "cnn" convolves an embedding to: 1376 of 768 dimensions, 608 of 384, 0 of one too short.

    They are 16 filters of 16, max pooling 8/2, 16 filters of 16 with stride 2, max pooling 8/2,
    none of them padded.
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
    """Return an untrained network of dense layers."""
    return nn.Sequential(*_dense((n_dimensions, *MLP_WIDTHS)), nn.Linear(MLP_WIDTHS[-1], n_classes))


def _cnn(n_dimensions: int, n_classes: int) -> nn.Module:
    """Return an untrained convolutional network; refuse embeddings that are too short."""
    width = flattened_size(n_dimensions)
    if not width:
        raise ValueError(
            f"embeddings of {n_dimensions} dimensions are too short for the convolutional network"
        )
    # Convolutions and pooling take a third less time over images of one row with channels last.
    # ReLU after pooling gives what ReLU before it gives, from half as many numbers.
    layers = nn.Sequential(
        nn.Unflatten(1, (1, 1, n_dimensions)),
        nn.Conv2d(1, N_FILTERS, (1, FILTER_SIZE)),
        nn.MaxPool2d((1, POOL_SIZE), (1, POOL_STRIDE)),
        nn.ReLU(),
        nn.Conv2d(N_FILTERS, N_FILTERS, (1, FILTER_SIZE), (1, SECOND_STRIDE)),
        nn.MaxPool2d((1, POOL_SIZE), (1, POOL_STRIDE)),
        nn.ReLU(),
        nn.Flatten(),
        *_dense((width, width, width // 2, width // 4, width // 8)),
        nn.Linear(width // 8, n_classes),
    )
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            last = layer.weight.data.contiguous(memory_format=torch.channels_last)
            layer.weight.data = last
    return layers


def _dense(widths: tuple[int, ...]) -> list[nn.Module]:
    """Return dense layers of these widths, each followed by ReLU."""
    return [
        layer
        for before, after in pairwise(widths)
        for layer in (nn.Linear(before, after), nn.ReLU())
    ]


def _balance(labels: Ints, n_classes: int) -> torch.Tensor:
    """A weight for each class, so that all classes with samples count alike and the mean weight of a sample is 1."""
    counts = np.bincount(labels, minlength=n_classes)
    weights = len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return torch.from_numpy(weights.astype(np.float32))


def _checked_features(features: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return features as a table of float32; refuse other shapes and numbers not finite."""
    rows = np.asarray(features, np.float32)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError("features must be a table: one row a sample, one column a dimension")
    if not np.isfinite(rows).all():
        raise ValueError("features must be finite numbers")
    return rows
