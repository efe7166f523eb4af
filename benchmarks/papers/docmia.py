"""Score documents by how a model adapts to each (DocMIA), for comparison with scores that the gate has.

DocMIA (Nguyen et al., ICLR 2025, "DocMIA: document-level membership inference attacks against
DocVQA models") trains a layer on one sample until the loss settles. A sample of the training needs
fewer steps and moves the weights less. The trained layer is the last linear one before the scores.
Adam begins anew for every sample; all samples are trained side by side, as what lies under the
layer stays the same. In place of the generated answer we compare its tokens one by one behind the
true ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.papers.membership_methods_models import IGNORED, Row, collated, logits_of

RATE = 1e-3
MAX_STEPS = 200
THRESHOLD = 1e-3
BETAS = (0.9, 0.999)
EPSILON = 1e-8


def parts_of(model: Any) -> tuple[Any, Any, Any, float]:
    """Find the last linear layer, the norm after it, the layer of scores, and a factor between the last two."""
    name = type(model).__name__
    if name == "BertForTokenClassification":
        last = model.bert.encoder.layer[-1].output
        return last.dense, last.LayerNorm, model.classifier, 1.0
    if name == "T5ForConditionalGeneration":
        scale = model.config.d_model**-0.5 if model.config.tie_word_embeddings else 1.0
        return (
            model.decoder.block[-1].layer[-1].DenseReluDense.wo,
            model.decoder.final_layer_norm,
            model.lm_head,
            scale,
        )
    if name == "GPT2LMHeadModel":
        return model.transformer.h[-1].mlp.c_proj, model.transformer.ln_f, model.lm_head, 1.0
    decoder = model.decoder.model.decoder
    return decoder.layers[-1].fc2, decoder.layer_norm, model.decoder.lm_head, 1.0


def features(model: Any, rows: list[Row]) -> NDArray[np.float64]:
    """Adapt the model to each row: (n_rows, 4) distance, steps, share of tokens right before and after."""
    linear, norm, head, scale = parts_of(model)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    inputs = []
    rests = []
    labels = []
    residuals = []
    kept: dict[str, torch.Tensor] = {}
    hooks = [
        linear.register_forward_hook(lambda _, given, made: kept.update(x=given[0], y=made)),
        norm.register_forward_pre_hook(lambda _, given: kept.update(z=given[0])),
    ]
    with torch.no_grad():
        for row in rows:
            batch = collated([row])
            logits_of(model, batch)
            read = batch["labels"][0] != IGNORED
            inputs.append(kept["x"][0][read])
            residuals.append((kept["z"] - kept["y"])[0][read])
            labels.append(batch["labels"][0][read])
            rests.append(int(read.sum()))
    for hook in hooks:
        hook.remove()
    transposed = (
        linear.weight.shape[0] == inputs[0].shape[-1]
        and linear.weight.shape[1] == residuals[0].shape[-1]
    )
    start = (
        linear.weight.detach()
        if transposed and type(linear).__name__ == "Conv1D"
        else linear.weight.detach().T
    )
    bias = None if linear.bias is None else linear.bias.detach()
    found = [
        _adapt(start, bias, lambda hidden: head(norm(hidden) * scale), *one)
        for one in _batches(inputs, residuals, labels, rests)
    ]
    return np.concatenate(found)


def _batches(inputs: Any, residuals: Any, labels: Any, lengths: list[int], size: int = 40) -> Any:
    """Give rows side by side, padded: inputs, residuals, labels."""
    for begin in range(0, len(lengths), size):
        chosen = slice(begin, begin + size)
        pad = torch.nn.utils.rnn.pad_sequence
        yield (
            pad(inputs[chosen], batch_first=True),
            pad(residuals[chosen], batch_first=True),
            pad(labels[chosen], batch_first=True, padding_value=IGNORED),
        )


def _adapt(
    start: Any, bias: Any, tail: Any, inputs: Any, residuals: Any, labels: Any
) -> NDArray[np.float64]:
    """Train a layer a row by Adam until each row's loss settles."""
    count = len(inputs)
    weights = [start.expand(count, -1, -1).clone().requires_grad_(True)]
    if bias is not None:
        weights.append(bias.expand(count, 1, -1).clone().requires_grad_(True))
    first = [one.detach().clone() for one in weights]
    means = [torch.zeros_like(one) for one in weights]
    squares = [torch.zeros_like(one) for one in weights]
    read = labels != IGNORED

    def run() -> tuple[Any, Any]:
        hidden = inputs @ weights[0] + (weights[1] if bias is not None else 0.0) + residuals
        logits = tail(hidden)
        each = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none"
        )
        right = ((logits.argmax(-1) == labels) & read).sum(1) / read.sum(1)
        return each.sum(1) / read.sum(1), right

    losses, before = run()
    steps = torch.zeros(count)
    active = torch.ones(count, dtype=torch.bool)
    for step in range(1, MAX_STEPS + 1):
        gradients = torch.autograd.grad(losses.sum(), weights)
        with torch.no_grad():
            going = active.float()[:, None, None]
            for weight, gradient, mean, square in zip(
                weights, gradients, means, squares, strict=True
            ):
                mean.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
                square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
                size = (square / (1 - BETAS[1] ** step)).sqrt() + EPSILON
                weight.sub_(going * RATE * (mean / (1 - BETAS[0] ** step)) / size)
        previous = losses.detach()
        losses, right = run()
        steps += active.float()
        active = active & ((losses.detach() - previous).abs() >= THRESHOLD)
        if not active.any():
            break
    moved = sum(
        ((one.detach() - old) ** 2).sum((1, 2)) for one, old in zip(weights, first, strict=True)
    )
    columns = [moved.sqrt(), steps, before, right]
    return np.stack([one.detach().double().numpy() for one in columns], axis=1)


def cluster(measured: NDArray[np.float64]) -> NDArray[np.float64]:
    """Score by K-means on the features: how much nearer a document is to the cluster of few steps and short ways."""
    from sklearn.cluster import KMeans

    raw = np.column_stack([measured[:, :2], measured[:, 2:].mean(axis=1)])
    spread = raw.std(axis=0)
    rows = (raw - raw.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if len(np.unique(rows, axis=0)) < 2:
        return np.zeros(len(rows))
    centres = KMeans(2, n_init=10, random_state=0).fit(rows).cluster_centers_
    inside, outside = sorted(centres, key=lambda centre: float(centre[0] + centre[1]))
    score: NDArray[np.float64] = np.linalg.norm(rows - outside, axis=1) - np.linalg.norm(
        rows - inside, axis=1
    )
    return score
