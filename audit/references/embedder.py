"""Fine-tuning a sentence embedder on the classes of its texts, as the redaction paper does.

Beltrame et al. 2024, section 4.2: of every class some texts are taken out of the classifier's training set; pairs of
one class are to have the cosine similarity 0.8, pairs of two classes 0.2.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import transformers

from audit.arrays import Floats, Ints
from audit.errors import TargetError
from audit.references.reproducible import reproducible
from audit.targets.embedder import EmbedderTarget, with_model
from audit.targets.interface import Target

SAME_CLASS = 0.8
OTHER_CLASS = 0.2
MOST_OF_A_CLASS = 250
LARGEST_SHARE = 1 / 3
"""Of a class's texts (methods.md#redaction-context): a class of few keeps most of them for the classifier."""
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

    Pairs of one class have every text at most once; of pairs with another class both texts are drawn anew, the other
    class first.

    Args:
        classes: (n,) of the texts that tune the embedder.
        rng: the source of randomness.
    """
    groups = _by_class(classes)
    rows: list[tuple[int, int, float]] = []
    for number, own in enumerate(groups):
        shuffled, count = rng.permutation(own), len(own) // 2
        rows += [(int(a), int(b), SAME_CLASS) for a, b in shuffled[: 2 * count].reshape(-1, 2)]
        others = groups[:number] + groups[number + 1 :]
        if others:
            rows += [
                (int(rng.choice(own)), int(rng.choice(others[rng.integers(len(others))])), OTHER_CLASS)
                for _ in range(count)
            ]
    first, second, similarity = np.array(rows, float).reshape(-1, 3).T
    return Pairs(first.astype(np.int64), second.astype(np.int64), similarity)


def tune(
    embedder: Target,
    texts: Sequence[str],
    classes: Ints,
    *,
    seed: int,
    learning_rate: float = LEARNING_RATE,
    epochs: int = EPOCHS,
    batch_size: int = BATCH_SIZE,
) -> EmbedderTarget:
    """A copy of an embedder, fine-tuned so that texts of one class lie closer together than those of two.

    Mean squared error of cosine similarities; AdamW with warm-up and linear decay, dropout on. The same input and seed
    give the same weights on one machine. The embedder itself stays as it is.

    Args:
        embedder: what `audit.targets.embedder.load_embedder` gives; the copy computes on the same device.
        texts: (n,) that tune it, all of them; see `choose_texts`.
        classes: (n,) of the texts.
        seed: of the pairs, their order, and dropout.
        learning_rate: the peak of AdamW's.
        epochs: passes over the pairs.
        batch_size: pairs a step.

    Raises:
        TargetError: the embedder is of another kind.
        ValueError: there is not one class for each text, no class has two texts, or a setting is out of range.
    """
    if not isinstance(embedder, EmbedderTarget):
        raise TargetError(f"{embedder.card.architecture} cannot be fine-tuned as a sentence embedder")
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
    embedder: EmbedderTarget, texts: Sequence[str], compared: Pairs, batches: Sequence[Ints], learning_rate: float
) -> None:
    """Train the embedder's own weights on these pairs, batch by batch."""
    model = embedder.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY)
    n_steps = len(batches)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(WARMUP_SHARE * n_steps), n_steps)
    wanted = torch.from_numpy(compared.similarity.astype(np.float32)).to(embedder.card.device)
    for batch in batches:
        sides = [texts[row] for row in (*compared.first[batch], *compared.second[batch])]
        one, other = torch.split(embedder.vectors(sides), len(batch))
        similarity = torch.nn.functional.cosine_similarity(one, other)
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.mse_loss(similarity, wanted[torch.from_numpy(batch)]))
        torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        optimizer.step()
        schedule.step()


def _by_class(classes: Ints) -> list[Ints]:
    """The indices of the texts of each class that has any, classes ascending."""
    rows = np.asarray(classes, np.int64)
    return [np.flatnonzero(rows == own) for own in np.unique(rows)]
