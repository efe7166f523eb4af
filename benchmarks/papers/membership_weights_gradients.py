"""Gradients of documents' losses: their norms, their direction, and their inner products by tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.papers.membership_methods_models import (
    IGNORED,
    SEED,
    Kind,
    Row,
    collated,
    logits_of,
)

Floats = NDArray[np.float64]
COORDINATES = 4_096
"""Coordinates of a tensor that inner products read, at most; drawn once for each tensor."""


def drawn_coordinates(model: Any) -> dict[str, torch.Tensor]:
    """Draw the coordinates of each tensor, by its name."""
    chosen = {}
    for number, (name, tensor) in enumerate(model.named_parameters()):
        rng = np.random.default_rng([SEED, number])
        size = tensor.numel()
        chosen[name] = torch.from_numpy(
            rng.choice(size, COORDINATES, replace=False) if size > COORDINATES else np.arange(size)
        )
    return chosen


def gradient_of(model: Any, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    """Give the gradient of a document's mean loss, by tensor; tensors without one are left out."""
    model.zero_grad(set_to_none=True)
    batch = collated(rows)
    wanted = batch["labels"][batch["labels"] != IGNORED]
    loss: Any = torch.nn.functional.cross_entropy(logits_of(model, batch), wanted)
    loss.backward()
    return {
        name: tensor.grad.flatten()
        for name, tensor in model.named_parameters()
        if tensor.grad is not None
    }


def norms_and_products(kind: Kind, model: Any, documents: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Give norms of gradients, and their inner products by tensor.

    Args:
        kind: of the model.
        model: whose gradients.
        documents: to score.

    Returns:
        `norm`, (n_documents,), and `products`, (n_tensors, n_documents, n_documents).
    """
    chosen = drawn_coordinates(model)
    norms = []
    by_tensor: dict[str, list[NDArray[np.float32]]] = {}
    for document in documents:
        gradient = gradient_of(model, kind.asked(document))
        norms.append(float(torch.sqrt(sum_of_squares(gradient))))
        for name, part in gradient.items():
            by_tensor.setdefault(name, []).append(part[chosen[name]].numpy())
    return {"norm": np.array(norms), "products": inner_products(by_tensor)}


def sum_of_squares(gradient: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Add up the squares of all tensors."""
    return torch.stack([part.square().sum() for part in gradient.values()]).sum()


def inner_products(by_tensor: Mapping[str, Sequence[NDArray[np.float32]]]) -> NDArray[np.float32]:
    """Multiply the gradients of all documents, by tensor; tensors that are 0 for one are left out."""
    by_part = []
    for rows in by_tensor.values():
        matrix = np.stack(rows)
        products = matrix @ matrix.T
        if np.diagonal(products).min() > 0:
            by_part.append(products)
    return np.stack(by_part)


def along_updates(
    kind: Kind, start: Any, documents: Sequence[Any], updates: Mapping[str, Mapping[str, Any]]
) -> dict[str, Floats]:
    """Give cosines of minus the gradient at the start with updates of the weights, by update.

    Args:
        kind: of the model.
        start: the model before training.
        documents: to score.
        updates: differences of weights by tensor, by the name of the update.
    """
    lengths = {name: torch.sqrt(sum_of_squares(update)) for name, update in updates.items()}
    cosines: dict[str, list[float]] = {name: [] for name in updates}
    for document in documents:
        gradient = gradient_of(start, kind.asked(document))
        length = torch.sqrt(sum_of_squares(gradient))
        for name, update in updates.items():
            product = torch.stack([(part * update[at]).sum() for at, part in gradient.items()])
            cosines[name].append(-float(product.sum() / (length * lengths[name])))
    return {name: np.array(column) for name, column in cosines.items()}


def update_between(model: Any, reference: Any) -> dict[str, torch.Tensor]:
    """Subtract the weights of a reference, by tensor."""
    theirs = dict(reference.named_parameters())
    return {
        name: (tensor.detach() - theirs[name].detach()).flatten()
        for name, tensor in model.named_parameters()
    }
