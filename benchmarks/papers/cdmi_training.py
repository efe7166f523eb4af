"""Training as the CDMI paper does it: the epochs of best validation accuracy and of lowest validation loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import EvalPrediction

from audit.references.encoders import BestLoss, PageTrainer, StateDict, copied_weights
from audit.targets.encoded_page import NOT_READ


class ScoringTrainer(PageTrainer):
    """Computes the accuracy of an epoch beside its loss."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings, compute_metrics=accuracy)

    def prediction_step(
        self,
        model: Any,
        inputs: dict[str, torch.Tensor],
        prediction_loss_only: bool,
        ignore_keys: Any = None,
    ) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """Return the loss, the best class of each token and the labels.

        The classes are (n_pages, n_tokens).

        SPADE linking has positions in place of classes, SPADE extraction classes and then positions
        of predecessors: (n_pages, 2 n_tokens).
        """
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad():
            loss = self.compute_loss(model, inputs)
            output = model(**inputs)
        if "subsequent_token_labels" in inputs:
            best = [
                output.initial_token_logits.argmax(-1),
                output.subsequent_token_logits.argmax(-1),
            ]
            labels = [inputs["initial_token_labels"], inputs["subsequent_token_labels"]]
            return loss, torch.cat(best, dim=1), torch.cat(labels, dim=1)
        return loss, output.logits.argmax(-1), inputs["labels"]


@dataclass
class BestEpochs(BestLoss):
    """Keeps also the accuracies, and the weights of the epoch of best accuracy, the first of equals."""

    precision: StateDict | None = None
    accuracies: list[float] = field(default_factory=list)

    def on_evaluate(self, *_: Any, metrics: dict[str, float], model: Any, **more: Any) -> None:
        """Keep the weights where the accuracy is the highest so far."""
        super().on_evaluate(metrics=metrics, model=model)
        if metrics["eval_accuracy"] > max(self.accuracies, default=-1.0):
            self.precision = copied_weights(model)
        self.accuracies.append(metrics["eval_accuracy"])


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    """Compute the share of read labels that are right.

    Masked tokens of a masked language model, tags of a tagger, classes of pages, parents of first
    tokens of words (SPADE linking), or classes of first tokens of words and predecessors of all
    tokens together (SPADE extraction).
    """
    labels = np.asarray(prediction.label_ids)
    read = labels != NOT_READ
    return {
        "accuracy": float((np.asarray(prediction.predictions)[read] == labels[read]).mean())
        if read.any()
        else 0.0
    }
